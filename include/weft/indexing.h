/*
 * indexing.h: elements or rows of a tensor chosen by integers.
 *
 * What weft/ops.h says of every op holds here.
 * ranks: every rank of the inputs' mesh, unless said otherwise
 */
#pragma once

#include <weft/tensor.h>

/** table [V,D], index [*] of i32 or i64 -> [*,D]. An index outside [0,V) ends the job. grad: to the
 * table */
WEFT_API weft_tensor *weft_embedding(weft_tensor *table, weft_tensor *index);

/** A padding_idx of 0, since 0 in a structure stands for none. */
#define WEFT_PADDING_ZERO INT64_MIN

/** Options of weft_embedding_with. */
typedef struct weft_embedding_options {
    int64_t padding_idx; /* lookups of this row give it no gradient; negative: counted from the end;
                            0: there is none; WEFT_PADDING_ZERO: row 0 */
} weft_embedding_options;

/** weft_embedding with options (PyTorch's F.embedding). What else uses the table, a head that
 *  shares it, gives the row its gradient as ever. fails: also WEFT_ERR_ARG for a row that the table
 *  does not have */
WEFT_API weft_tensor *weft_embedding_with(weft_tensor *table, weft_tensor *index,
                                          weft_embedding_options options);

/** A table per item: tables [B,V,D], index [B,*] -> [B,*,D]. Otherwise as weft_embedding. */
WEFT_API weft_tensor *weft_embedding_batch(weft_tensor *tables, weft_tensor *index);
