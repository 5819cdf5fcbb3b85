/*
 * matrix_view.h: strided operands of products as matrices, for kernels of every device: which of
 * their dims are rows and columns, and whether they can be read where they lie.
 */
#pragma once

#include "kernels/kernels.h"

struct wf_matrix_view {
    int64_t rows, cols;
    int64_t ld;      /* element (i,j) at i ld + j, */
    bool transposed; /* or at i + j ld */
    bool in_place;   /* false: it has to be copied first, row-major; ld is the copy's */
};

/** One size and one stride for dims [first, last) of d; false where no single stride spans them. */
bool wf_dims_to_one_stride(const struct wf_tensor_desc *d, int first, int last, int64_t *size,
                           int64_t *stride);

/** d with dims [0, split) as rows and the others as columns. In place where one stride spans each
 * group and one of the two is 1. */
struct wf_matrix_view wf_matrix_view_of(const struct wf_tensor_desc *d, int split);

/* ---- matmul ---- */

/** The last two dims of d, and those before them. */
struct wf_tensor_desc wf_last_two_dims(const struct wf_tensor_desc *d);
struct wf_tensor_desc wf_leading_dims(const struct wf_tensor_desc *d);

/** True for one b under many rows of a: then all leading dims of a are rows of one product. */
bool wf_matmul_shares_b(const struct wf_kernel_call *k);
