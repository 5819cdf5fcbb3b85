/*
 * along_dim.h: ops of one or two operands and a result, all of one shape and dtype, that run along
 * a dim (softmax, scans): the engine, and the form of their loops in cpu/isa/.
 *
 * Dense operands go in one call, as rows for the last dim and as columns for another; strided ones
 * row by row through scratch.
 */
#pragma once

#include "kernels/cpu/isa.h"

/** Rows of n elements without gaps. */
typedef void wf_along_dim_rows(int64_t rows, int64_t n, void *out, const void *const *in);

/** Columns beside each other: element i of column j lies at [i * stride + j]. */
typedef void wf_along_dim_columns(int64_t n, int64_t stride, int64_t columns, void *out,
                                  const void *const *in);

struct wf_along_dim_loops {
    wf_along_dim_rows *rows; /* NULL: no kernel of this dtype */
    wf_along_dim_columns *columns;
};

/** Choose k->run for the dim of the attributes, which begin as wf_dim_attrs does. `loops` has
 *  WEFT_DTYPE_COUNT entries. */
weft_status wf_prepare_along_dim(struct wf_kernel_call *k, const struct wf_along_dim_loops *loops);
