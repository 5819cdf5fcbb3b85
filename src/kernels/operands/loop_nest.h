/*
 * loop_nest.h: the loops over strided operands, worked out once per plan.
 *
 * Dims of size 1 vanish and dims that lie in memory like one dim become one, so a row-major call of
 * any rank is a single loop, and a bias added to a matrix is two.
 */
#pragma once

#include "base/elements/tensor_desc.h"

enum { WF_MAX_OPERANDS = 5 };

struct wf_loop_dim {
    int64_t size;
    int64_t step[WF_MAX_OPERANDS]; /* bytes to the next index */
};

struct wf_loop_nest {
    int n_dims, n_operands;
    int64_t count;                         /* product of the sizes */
    struct wf_loop_dim dim[WEFT_MAX_DIMS]; /* outermost first, none of size 1 */
};

/** One operand of a nest before its dims are merged. */
struct wf_operand_strides {
    int64_t bytes; /* of an element */
    int64_t stride[WEFT_MAX_DIMS];
};

/** `in` seen as having the dims of `shape` by NumPy's rules: repeated dims get stride 0. */
struct wf_operand_strides wf_strides_broadcast(const struct wf_tensor_desc *in,
                                               const int64_t *shape, int ndim);

/** Row-major strides of `shape`. */
struct wf_operand_strides wf_strides_row_major(int64_t bytes, const int64_t *shape, int ndim);

void wf_loop_nest_make(struct wf_loop_nest *nest, const int64_t *shape, int ndim,
                       const struct wf_operand_strides *operands, int n_operands);

/** The dims of x whose bit in `dims` equals `in_set`, as a nest of x (operand 0) and a row-major
 * array of these dims (operand 1): a reduction keeps the one set and adds up over the other. */
void wf_loop_nest_of_dims(struct wf_loop_nest *nest, const struct wf_tensor_desc *x, int64_t dims,
                          bool in_set);

/** Take dim d out of the nest, so that a loop of its own can run over it; the remaining dims are
 *  walked. d = n_dims - 1 is the innermost; d < 0 gives a dim of one element. */
struct wf_loop_dim wf_loop_nest_remove_dim(struct wf_loop_nest *nest, int d);

/** Where a walk over the indices of a nest is. Start: {.at = {pointers}}. */
struct wf_loop_walk {
    const char *at[WF_MAX_OPERANDS];
    int64_t index[WEFT_MAX_DIMS];
};

/** Go to the next index; false after the last, when `at` is back at the start. Not for nests whose
 *  count is 0: they have no first index. */
static inline bool wf_loop_walk_next(const struct wf_loop_nest *nest, struct wf_loop_walk *walk)
{
    for (int d = nest->n_dims - 1; d >= 0; d--) {
        int64_t back = 0;

        if (++walk->index[d] == nest->dim[d].size) back = nest->dim[d].size, walk->index[d] = 0;
        for (int i = 0; i < nest->n_operands; i++) walk->at[i] += nest->dim[d].step[i] * (1 - back);
        if (!back) return true;
    }
    return false;
}
