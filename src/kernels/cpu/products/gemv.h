/* gemv.h: the product of a few rows with a large matrix, and of two vectors; gemm.c decides when
 * they serve. */
#pragma once

#include <stdbool.h>

#include "kernels/cpu/isa.h"

enum { WF_GEMV_COLUMNS = 4 };

/** y[m,n] = x[m,k] w[n,k]^T, all row-major; n is at least WF_GEMV_COLUMNS. */
struct wf_gemv {
    int64_t m, n, k;
    int64_t ldx, ldw, ldy;
    bool wide; /* of 16-bit floats: y is f32 */
};

/** The scalar product of two vectors of k elements, so many elements apart. */
struct wf_dot {
    int64_t k, x_step, w_step;
    bool wide; /* of 16-bit floats: the result is f32 */
};

struct wf_gemv_table {
    /** Bytes of scratch that product needs. */
    size_t (*scratch_bytes)(const struct wf_gemv *p);
    /** y = x w^T + bias[n] (NULL: none); w is read once, in the order in which it lies. */
    void (*product)(const struct wf_gemv *p, const void *x, const void *w, const void *bias,
                    void *y, void *scratch);
    /** *y = x w + *bias (NULL: none). */
    void (*dot)(const struct wf_dot *p, const void *x, const void *w, const void *bias, void *y);
};

WF_ISA_TABLE(struct wf_gemv_table, wf_gemv_f32)
WF_ISA_TABLE(struct wf_gemv_table, wf_gemv_f64)
WF_ISA_TABLE(struct wf_gemv_table, wf_gemv_bf16)
WF_ISA_TABLE(struct wf_gemv_table, wf_gemv_f16)
