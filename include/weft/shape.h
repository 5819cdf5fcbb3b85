/*
 * shape.h: the same elements in another shape, cut or joined.
 *
 * What weft/ops.h says of every op holds here.
 * ranks: every rank of the inputs' mesh, unless said otherwise
 */
#pragma once

#include <weft/tensor.h>

/* ---- shape; views share storage where strides allow ---- */
/** The same elements in another shape, one of whose sizes may be -1: a view, or a copy where this
 * rank's strides allow none. */
WEFT_API weft_tensor *weft_reshape(weft_tensor *x, const int64_t *shape, int ndim);
WEFT_API weft_tensor *weft_permute(weft_tensor *x, const int *order);
WEFT_API weft_tensor *weft_transpose(weft_tensor *x, int dim0, int dim1);
/**
 * Elements [start, end) of a dim; negative bounds count from the end.
 *
 * ranks: every rank of x's mesh. Of a dim that is sharded a small slice is sent alone, by one
 *        all-reduce, and is replicated along its axes then; for a longer one the dim is brought
 *        together
 * fails: WEFT_ERR_ARG for bounds outside the dim
 * grad:  zeros elsewhere; nothing is sent for the gradient of a small slice
 */
WEFT_API weft_tensor *weft_slice(weft_tensor *x, int dim, int64_t start, int64_t end);
/** One element of a dim, which disappears; otherwise as weft_slice. */
WEFT_API weft_tensor *weft_select(weft_tensor *x, int dim, int64_t index);
/** `n` pieces by sizes[] (NULL: equal ones); pieces are written to out[]. fails: WEFT_ERR_SHAPE
 *  unless sizes add up, or `n` divides the dim */
WEFT_API weft_status weft_split(weft_tensor **out, weft_tensor *x, int dim, const int64_t *sizes,
                                int n);
WEFT_API weft_tensor *weft_cat(weft_tensor *const *x, int n, int dim);
/** Repeat dims of size 1 (and new leading dims) without copying. */
WEFT_API weft_tensor *weft_expand(weft_tensor *x, const int64_t *shape, int ndim);
/**
 * A row-major copy, or x itself where it is row-major already. As with weft_reshape that may differ
 * between ranks, whose shards differ: backward takes a write in place to one for a write to both.
 */
WEFT_API weft_tensor *weft_contiguous(weft_tensor *x);
/**
 * Write x over the elements of `into`, which may be a view of a larger tensor with any strides; x
 * may be another view of it, and counts as it was before. x is cast, broadcast and redistributed
 * to `into`, so that a result of any op goes into a tensor that there is (torch's `out=`).
 *
 * ranks: every rank of the tensors' mesh. grad: none; a backward that saved the old elements is
 * refused
 * fails: WEFT_ERR_SHAPE when x does not broadcast to `into`, or one of them alone is distributed
 * and x no number, WEFT_ERR_STATE when `into` is the
 * result of a recorded op, or several of its elements lie at one place (weft_expand)
 */
WEFT_API weft_status weft_copy_(weft_tensor *into, weft_tensor *x);
/** The same values outside the tape. grad: none */
WEFT_API weft_tensor *weft_detach(weft_tensor *x);
