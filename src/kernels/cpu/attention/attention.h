/* attention.h: the table between cpu/attention/attention.c and its loops in cpu/isa/; one head at a
 * time. */
#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/operands/attention_operands.h"

/** One head's [T, D] within a strided tensor. Strides in elements. */
struct wf_attention_head {
    void *data;
    int64_t row, col;
};

struct wf_attention {
    int64_t tq, tk, d; /* queries, keys, head size */
    bool causal;       /* query i sees keys up to i + tk - tq */
    bool first, last;  /* of the query heads that share keys and values: these are packed by the
                          first, and their gradients written by the last */
    bool mask_bool;    /* the mask says which keys are seen; otherwise it is added to the scores */
    double scale;
    const void *mask; /* [tq, tk] of bytes or of the element type; NULL: none */
    int64_t mask_row, mask_col;
    const void *bias; /* [tq, tk] of the element type, added to the scores; NULL: none */
    int64_t bias_row, bias_col;
    void *bias_sum; /* backward adds the bias' gradient, in the type that is computed in; NULL:
                       it is not wanted */
    int64_t bias_sum_row; /* tk, or 0 for one row for all queries */
    const struct wf_attention_head
        *next; /* what comes after this head, NULL where it is the last; only asked
        for in advance, so a head that need not be has data = NULL */
};

struct wf_attention_loops {
    /** Bytes that the two functions below need. */
    size_t (*scratch)(const struct wf_attention *p);
    size_t (*grad_scratch)(const struct wf_attention *p);
    /** O and lse[tq] from Q, K, V. */
    void (*forward)(const struct wf_attention *p, const struct wf_attention_head *heads, void *lse,
                    void *scratch);
    /** DQ, DK, DV from the other heads and lse. */
    void (*backward)(const struct wf_attention *p, const struct wf_attention_head *heads,
                     const void *lse, void *scratch);
    /** n elements of bias_sum as the element type. */
    void (*write_bias)(const void *sum, int64_t n, void *gradient);
};

WF_ISA_TABLE(struct wf_attention_loops, wf_attention_f32)
WF_ISA_TABLE(struct wf_attention_loops, wf_attention_f64)
WF_ISA_TABLE(struct wf_attention_loops, wf_attention_bf16)
WF_ISA_TABLE(struct wf_attention_loops, wf_attention_f16)
