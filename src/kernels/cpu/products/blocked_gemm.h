/* blocked_gemm.h: the library's own matrix product; gemm.c decides when it serves. */
#pragma once

#include "kernels/cpu/isa.h"

/** C[m,n], row-major: a(i,k) at a[i a_m + k a_k], b(k,j) at b[k b_k + j b_n]. Products of 16-bit
 * floats are rounded once. */
struct wf_blocked {
    int64_t m, n, k;
    int64_t a_m, a_k, b_k, b_n, ldc;
    bool wide; /* of 16-bit floats: C is f32 */
};

struct wf_blocked_table {
    /** Elements of scratch that product needs, of the type it sums in. */
    int64_t (*scratch_elements)(const struct wf_blocked *p);
    /** c = a b + bias[n] (NULL: none); k = 0 writes the bias or zeros. */
    void (*product)(const struct wf_blocked *p, const void *a, const void *b, const void *bias,
                    void *c, void *scratch);
    /** to[m,n] = from[n,m] turned (+ bias[n]), both dense and as sums are. */
    void (*turn)(int64_t m, int64_t n, const void *from, const void *bias, void *to);
};

WF_ISA_TABLE(struct wf_blocked_table, wf_blocked_f32)
WF_ISA_TABLE(struct wf_blocked_table, wf_blocked_f64)
WF_ISA_TABLE(struct wf_blocked_table, wf_blocked_bf16)
WF_ISA_TABLE(struct wf_blocked_table, wf_blocked_f16)
