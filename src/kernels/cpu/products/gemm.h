/*
 * gemm.h: the one matrix product that every kernel of this folder uses.
 *
 * C[m,n] = op(A) op(B) (+ bias[n] on every row), all row-major, C dense or not (ldc). Which of
 * oneDNN, the library's own loops or a turned form does it is decided once, from shape and dtype
 * alone: ranks must choose alike, or replicated results would differ in their last bits.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wf_gemm;
typedef void wf_gemm_run_fn(const struct wf_gemm *g, const void *a, const void *b, const void *bias,
                            void *c, char *scratch);

struct wf_gemm {
    /* asked */
    uint8_t dtype; /* a float */
    bool ta, tb;   /* A is stored [k,m], B is stored [n,k] */
    bool wide;     /* of 16-bit floats: C is f32 */
    bool bias;     /* a bias may come */
    int64_t m, n, k;
    int64_t lda, ldb, ldc; /* elements; at least 1 and at least the stored row */
    /* decided by wf_gemm_prepare */
    wf_gemm_run_fn *run;
    size_t scratch;               /* bytes that run needs, 64-byte aligned */
    const void *loops;            /* table of the own loops in force */
    struct wf_dnnl_product *dnnl; /* of 16-bit floats */
};

void wf_gemm_prepare(struct wf_gemm *g);
/** For copies of g with fewer rows m, or a smaller k > 0, as the data say in each run. */
void wf_gemm_prepare_up_to(struct wf_gemm *g);
void wf_gemm_free(struct wf_gemm *g);

/** bias may be NULL even when one was announced. */
static inline void wf_gemm_run(const struct wf_gemm *g, const void *a, const void *b,
                               const void *bias, void *c, void *scratch)
{
    g->run(g, a, b, bias, c, scratch);
}
