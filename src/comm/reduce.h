/*
 * reduce.h: the one way host memory is reduced over ranks.
 *
 * Tree: n terms are split at the largest power of two below n, both halves are reduced, and the two
 * results are combined, so that 5 terms are ((r0+r1)+(r2+r3))+r4. The order is that of the ranks in
 * the communicator, never that of arrival.
 */
#pragma once

#include <stddef.h>

#include <weft/dtype.h>
#include <weft/types.h>

/** The number of terms in the left half of n > 1. */
static inline int wf_tree_split(int n)
{
    int split = 1;

    while (split * 2 < n) split *= 2;
    return split;
}

/**
 * Reduce ins[0..n) of `count` elements by the tree and write the result to every one of outs. An
 * output may be one of the inputs, but may not overlap one otherwise. 16-bit floats are added in
 * f32 and rounded once.
 */
void wf_reduce_tree(void *const *outs, int n_outs, const void *const *ins, int n, size_t count,
                    weft_dtype dtype, weft_reduce reduce);

/** The same where `wide` says that a 16-bit float travels as f32 between two parts of one tree. */
enum wf_reduce_wide {
    WF_NARROW,   /* inputs and outputs are of the dtype */
    WF_WIDE_OUT, /* 16-bit inputs, f32 result: a subtree */
    WF_WIDE_IN   /* f32 inputs, 16-bit result: the rest of the tree */
};
void wf_reduce_tree_wide(void *const *outs, int n_outs, const void *const *ins, int n, size_t count,
                         weft_dtype dtype, weft_reduce reduce, enum wf_reduce_wide wide);
