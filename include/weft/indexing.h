/*
 * indexing.h: elements or rows of a tensor chosen by integers, and put where integers say.
 *
 * What weft/ops.h says of every op holds here.
 * ranks: every rank of the inputs' mesh, unless said otherwise
 */
#pragma once

#include <weft/tensor.h>

/** table [V,D], index [*] of i32 or i64 -> [*,D]. An index outside [0,V) ends the job.
 *  grad:  to the table */
WEFT_API weft_tensor *weft_embedding(weft_tensor *table, weft_tensor *index);

/** A padding_idx of 0, since 0 in a structure stands for none. */
#define WEFT_PADDING_ZERO INT64_MIN

/** Options of weft_embedding_with. */
typedef struct weft_embedding_options {
    int64_t padding_idx; /* lookups of this row give it no gradient; negative: counted from the end;
                            0: there is none; WEFT_PADDING_ZERO: row 0 */
    double max_norm;     /* 0; a bound on the rows' norm, which would be kept by writing to the
                            table in a lookup, is refused */
} weft_embedding_options;

/** weft_embedding with options (PyTorch's F.embedding). What else uses the table, a head that
 *  shares it, gives the row its gradient as ever.
 *  fails: also WEFT_ERR_ARG for a row that the table does not have */
WEFT_API weft_tensor *weft_embedding_with(weft_tensor *table, weft_tensor *index,
                                          weft_embedding_options options);

/** A table per item: tables [B,V,D], index [B,*] -> [B,*,D]. Otherwise as weft_embedding. */
WEFT_API weft_tensor *weft_embedding_batch(weft_tensor *tables, weft_tensor *index);

/*
 * Elements by index tensors of i32 or i64. An index outside its dim ends the job. Index tensors are
 * sharded as a batch is, and so is the result; of a dim that is indexed and sharded each rank gives
 * the elements it has, and the result is a masked partial sum, unless bringing the dim together is
 * cheaper. The gradient adds up in the order of the indices.
 */

/** x[.., index, ..]: the elements of one dim that a list of indices [n] names. Negative indices are
 *  refused, as in PyTorch. */
WEFT_API weft_tensor *weft_index_select(weft_tensor *x, int dim, weft_tensor *index);
/**
 * x[i, :, j]: index[d] counts dim d, NULL leaves a dim as it is; n <= the number of dims. The index
 * tensors broadcast; their dims stand where the counted ones did, or come first where counted dims
 * have others between them. Negative indices count from the end.
 * fails: WEFT_ERR_ARG for none or more than 7, WEFT_ERR_DTYPE, WEFT_ERR_SHAPE
 */
WEFT_API weft_tensor *weft_index(weft_tensor *x, weft_tensor *const *index, int n);
/**
 * x with `values` put, or added, where weft_index would look; they are expanded to its result. At
 * most 6 index tensors. Of several values for one place the last in the order of the index tensors'
 * elements stays, in every layout, and alone has a gradient.
 */
WEFT_API weft_tensor *weft_index_put(weft_tensor *x, weft_tensor *const *index, int n,
                                     weft_tensor *values, bool accumulate);
/** The same along one dim with a list of indices [n]: added / put / one value put. */
WEFT_API weft_tensor *weft_index_add(weft_tensor *x, int dim, weft_tensor *index,
                                     weft_tensor *values);
WEFT_API weft_tensor *weft_index_copy(weft_tensor *x, int dim, weft_tensor *index,
                                      weft_tensor *values);
WEFT_API weft_tensor *weft_index_fill(weft_tensor *x, int dim, weft_tensor *index, double value);

/** y[i,j] = x[i,index[i,j]] for dim 1: the index has x's dims and is nowhere larger but in `dim`.
 *  weft_take_along_dim broadcasts the other dims. */
WEFT_API weft_tensor *weft_gather(weft_tensor *x, int dim, weft_tensor *index);
WEFT_API weft_tensor *weft_take_along_dim(weft_tensor *x, weft_tensor *index, int dim);
/**
 * x with y[i,index[i,j]] = values[i,j] for dim 1: put, in their order, so that of several for one
 * place the last stays; one value put; added.
 */
WEFT_API weft_tensor *weft_scatter(weft_tensor *x, int dim, weft_tensor *index,
                                   weft_tensor *values);
WEFT_API weft_tensor *weft_scatter_value(weft_tensor *x, int dim, weft_tensor *index, double value);
WEFT_API weft_tensor *weft_scatter_add(weft_tensor *x, int dim, weft_tensor *index,
                                       weft_tensor *values);
/** The same by WEFT_SUM, WEFT_AVG (floats), WEFT_PRODUCT, WEFT_MAX or WEFT_MIN, with what x has
 *  there, or without. Equal largest or smallest elements share the gradient. */
WEFT_API weft_tensor *weft_scatter_reduce(weft_tensor *x, int dim, weft_tensor *index,
                                          weft_tensor *values, weft_reduce reduce,
                                          bool include_self);

/** index [*] -> [*,classes] of i64: 1 at the index, else 0. classes = -1: one more than the largest
 *  index of the whole tensor, which the host waits for; it fails on ranks outside the mesh.
 *  grad: none */
WEFT_API weft_tensor *weft_one_hot(weft_tensor *index, int64_t classes);
/** How many elements of a sorted row come before each value, or with `right` are equal too, as i64:
 *  where the value belongs. One row [n] for all values, or [*,n] for values [*,m].
 *  grad:  none */
WEFT_API weft_tensor *weft_search_sorted(weft_tensor *sorted, weft_tensor *values, bool right);
WEFT_API weft_tensor *weft_bucketize(weft_tensor *x, weft_tensor *boundaries, bool right);
