/*
 * gpt.h: the state of the GPT step: sizes, parameters, activations, and what lies in the window.
 *
 * Shapes: N = batch * context tokens, D width, d = D / ranks, f = 4 D / ranks, V / ranks vocabulary
 * rows. Weights lie [out][in]; activations [N][..]; `own` tokens are this rank's share of N.
 */
#pragma once

#include "attention.h"
#include "hand.h"

enum { MAX_RANKS = 8, CHUNK = 1536 };

/* Parameters that every rank needs: rows of one array in the window. */
enum small { NORM1_W, NORM1_B, PROJ_B, NORM2_W, NORM2_B, DOWN_B, SMALL };

struct layer {
    struct hand_param qkv, qkv_b, proj, up, up_b, down;
    float *qkv_n, *probs, *out; /* attention's input, probabilities and output */
    float *h, *slope;           /* gelu and its derivative */
};

/* One norm: what its gradient needs, for own tokens; its result for all, in the window. */
struct norm {
    float *unit, *rstd, *result;
};

/* One chunk of this rank's vocabulary. */
struct chunk {
    long first, width, ld; /* first: global row of the head */
    float *p;              /* [N][ld] exp(logit - top), later the gradient of the logits */
    float *top;            /* [N] */
};

extern long L, D, H, T, B, V, N, d, f, vocab, own, first; /* own tokens are [first, first + own) */
extern long ld, l3, ldo, lf;                              /* strides of rows of D, 3 d, d, f */
extern struct layer *layers;
extern struct norm *norms; /* two per layer and the final one */
extern struct chunk *chunks;
extern long n_chunks;
extern struct hand_param wte, head;
extern struct hand_param small, wpe; /* [6 L + 2][D] and [T][D], in the window */
extern float *x;                     /* residual stream of own tokens */
extern float *dh, *dout, *dqkv, *gradient, *lse;
extern int *token, *target, *row_head, *row_next; /* tokens of a vocabulary row as a list */
extern struct attention shape;

/* in the window */
extern float *part[MAX_RANKS];       /* [N][ld] terms of a row-parallel product */
extern float *small_part[MAX_RANKS]; /* terms of the gradient of `small` */
extern float *stream;                /* [N][ld] embedded tokens, later the stream's gradient */
extern float *softmax[MAX_RANKS];    /* [3][N]: top, sum of exponentials, logit of the target */

static inline float *small_w(long layer, enum small which)
{
    return small.w + (layer * SMALL + which) * D;
}

static inline float *small_g(long layer, enum small which)
{
    return small_part[hand_rank] + (layer * SMALL + which) * D;
}

double gpt_step(void);
