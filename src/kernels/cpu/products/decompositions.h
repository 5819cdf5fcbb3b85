/* decompositions.h: the table between cpu/products/decompositions.c and its loops in cpu/isa/. All
 * is computed in f64, on row-major matrices. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kernels/cpu/isa.h"

struct wf_decomposition_loops {
    /** Numbers of scratch for n x n, or for `rows` x `cols` with rows <= cols. */
    int64_t (*eigh_scratch)(int64_t n);
    int64_t (*svd_scratch)(int64_t rows, int64_t cols);

    /**
     * Eigenvalues, ascending, and in the rows of `vectors` what belongs to each, its largest
     * element positive, of the symmetric matrix a. gives: false where a is not finite
     */
    bool (*eigh)(int64_t n, const double *a, double *values, double *vectors, double *scratch);

    /**
     * a = left^T diag(values) right, values descending, rows of left [rows, rows] and right [rows,
     * cols] orthonormal; rows <= cols. The largest element of a row of left is positive, or, with
     * `signs_of_right`, of right. gives: false where a is not finite
     */
    bool (*svd)(int64_t rows, int64_t cols, const double *a, double *left, double *values,
                double *right, bool signs_of_right, double *scratch);
};

WF_ISA_TABLE(struct wf_decomposition_loops, wf_decompositions)
