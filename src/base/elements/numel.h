/* numel.h: how many elements a shape has. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/**
 * Number of elements; -1 for a negative size, and when the bytes or strides of that many elements
 * would overflow int64_t for some dtype.
 */
static inline int64_t wf_shape_numel(const int64_t *shape, int ndim)
{
    int64_t counted = 1; /* strides of empty tensors are made of the other sizes */
    bool empty = false;

    for (int d = 0; d < ndim; d++) {
        if (shape[d] < 0) return -1;
        if (shape[d] == 0) {
            empty = true;
            continue;
        }
        if (counted > INT64_MAX / 16 / shape[d]) return -1;
        counted *= shape[d];
    }
    return empty ? 0 : counted;
}
