/* gemm_dnnl.h: what products use of oneDNN, whose header gemm_dnnl.c includes (and, for
 * convolutions,
 * ../convolution/convolution_dnnl.c) and no other file. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kernels/cpu/products/gemm.h"

/** Before any other use of oneDNN: keep it from instructions that this machine only seems to have,
 *  and from those above this level (wf_kernels_isa_level's; 0: any). */
void wf_dnnl_limit_isa(int level);

/** C = op(A) op(B) + beta C in f32. */
void wf_dnnl_sgemm(const struct wf_gemm *g, const float *a, const float *b, float beta, float *c);

/** oneDNN's product of 16-bit floats for g, NULL where this machine has only its slow reference for
 * it. */
struct wf_dnnl_product *wf_dnnl_product_new(const struct wf_gemm *g);
/** Bytes of scratch that a run needs, 64-byte aligned. */
size_t wf_dnnl_product_scratch(const struct wf_dnnl_product *p);
void wf_dnnl_product_run(struct wf_dnnl_product *p, const void *a, const void *b, const void *bias,
                         void *c, char *scratch);
void wf_dnnl_product_free(struct wf_dnnl_product *p);
