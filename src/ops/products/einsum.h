/*
 * einsum.h: the equation of an einsum: which letter is which dim, and what kind of dim it is for a
 * product: a batch, contracted, of the left or of the right operand alone.
 */
#pragma once

#include <weft/error.h>
#include <weft/export.h>

enum { WF_EINSUM_OPERANDS = 2 };

/** Letters, one per dim; the dims of an ellipsis are digits, 0 for the last. */
typedef char wf_letters[WEFT_MAX_DIMS + 1];

struct wf_einsum {
    int n_in;
    wf_letters in[WF_EINSUM_OPERANDS], out;
};

/** Read an equation for operands of so many dims. fails: WEFT_ERR_ARG, WEFT_ERR_SHAPE */
weft_status wf_einsum_parse(struct wf_einsum *e, const char *equation, const int *ndims, int n);

/** The letters of two operands by kind, in the order of the first that has them. */
struct wf_einsum_dims {
    wf_letters batch;                      /* in both and in the result */
    wf_letters contracting;                /* in both, not in the result */
    wf_letters left, right;                /* in one and in the result */
    wf_letters summed[WF_EINSUM_OPERANDS]; /* in one and not in the result */
};

void wf_einsum_classify(struct wf_einsum_dims *dims, const struct wf_einsum *e);
