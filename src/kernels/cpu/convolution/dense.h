/*
 * dense.h: an operand as a row-major array of the type that is computed in: read where it lies, or
 * copied, or widened from a 16-bit float, into scratch; and a result on its way back.
 */
#pragma once

#include <stddef.h>

#include "kernels/kernels.h"

struct wf_dense {
    size_t scratch; /* bytes, 0: read, or written, in place */
    struct wf_kernel_call move;
    struct wf_tensor_desc desc; /* of the array in scratch */
};

/** The type that products and sums of a float are computed in: f32 for 16-bit floats. */
uint8_t wf_compute_dtype(uint8_t dtype);

/** d stays where it is: the operand points into it. */
void wf_dense_prepare_input(struct wf_dense *o, const struct wf_tensor_desc *d, uint8_t dtype);
void wf_dense_prepare_output(struct wf_dense *o, const struct wf_tensor_desc *d, uint8_t dtype);
void wf_dense_free(struct wf_dense *o);

/** The input's elements: x itself, or what was made of it in scratch. */
const void *wf_dense_read(const struct wf_dense *o, const void *x, void *scratch);

/** Where to compute the output: out itself or scratch, from which wf_dense_write brings it. */
static inline void *wf_dense_place(const struct wf_dense *o, void *out, void *scratch)
{
    return o->scratch ? scratch : out;
}
void wf_dense_write(const struct wf_dense *o, void *out, const void *scratch);
