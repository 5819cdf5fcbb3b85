/* attention.h: causal attention over one sequence, heads of 64, probabilities kept for the
 * gradient. */
#pragma once

enum { HEAD = 64 };

struct attention {
    long heads, context; /* context: a multiple of 32 */
    long qkv_ld,
        out_ld;    /* rows of q, k, v (each heads * HEAD wide, one after another) and of out */
    long probs_ld; /* rows of probabilities */
};

/* Once; for sequences of up to `context`. */
void attention_start(long context);
/* probs [heads][context][probs_ld]; out [context][out_ld] */
void attention(const struct attention *a, const float *qkv, float *probs, float *out);
void attention_grad(const struct attention *a, const float *qkv, const float *probs,
                    const float *out, const float *dout, float *dqkv);
