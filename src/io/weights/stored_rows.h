/* stored_rows.h: how the elements of a parameter lie in a file that has it transposed, split or in
 * another shape. */
#pragma once

#include <stdbool.h>

#include <weft/tensor.h>

#include "io/file_slices.h"

/** Indices `first` .. of a parameter's dim `join`, as one tensor of a file has them. */
struct wf_stored_rows {
    int64_t first, count;
    int64_t stride[WEFT_MAX_DIMS]; /* in the file, per dim of the parameter */
};

/**
 * Shape and strides of a file's tensor that has some rows of a parameter: dims of the
 * parameter may be merged in it, and swapped as a whole where it is transposed.
 * gives: false when shapes do not fit
 */
bool wf_stored_rows_match(struct wf_stored_rows *rows, int join, int64_t first,
                          const int64_t *shape, int ndim, bool transposed,
                          const int64_t *file_shape, int file_ndim);

/** The strides and shape that a file gets for rows [first, first + count): a matrix, the dims from
 *  `split` on being its second; a vector for a parameter of one dim. */
void wf_stored_rows_make(struct wf_stored_rows *rows, int64_t *file_shape, int *file_ndim, int join,
                         int64_t first, int64_t count, const int64_t *shape, int ndim, int split,
                         bool transposed);
