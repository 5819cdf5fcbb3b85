/*
 * operand.h: a strided operand as the matrix [rows, cols] that a product wants.
 *
 * It is read in place where it is a matrix as it lies (matrix_view.h), transposed or not; otherwise
 * it is copied into scratch first.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"

struct wf_operand {
    int64_t rows, cols;
    int64_t ld;
    bool transposed; /* element (i,j) at i + j ld instead of i ld + j */
    size_t scratch;  /* bytes for the copy, 0: read in place */
    struct wf_kernel_call copy;
    struct wf_tensor_desc dense; /* what copy writes */
};

/** View d with dims [0, split) as rows. o stays where it is: the copy points into it. */
void wf_operand_prepare_matrix(struct wf_operand *o, const struct wf_tensor_desc *d, int split);

/** The same, but rows are always dense: never transposed. */
void wf_operand_prepare_rows(struct wf_operand *o, const struct wf_tensor_desc *d, int split);

/** View d as one row-major array: rows = numel, a single column. */
void wf_operand_prepare_dense(struct wf_operand *o, const struct wf_tensor_desc *d);

/** The matrix's first element: x itself, or its copy made in scratch. */
const void *wf_operand_copy_if_needed(const struct wf_operand *o, const void *x, void *scratch);

void wf_operand_free(struct wf_operand *o);
