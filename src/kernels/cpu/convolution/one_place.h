/*
 * one_place.h: convolutions whose kernel is one place wide, in f32: products of matrices on images
 * as they lie, y [O,P] = w [O,C] x [C,P] with P places, or on several small images side by side,
 * where oneDNN's convolution would first put its operands in another order.
 */
#pragma once

#include "kernels/cpu/convolution/convolution.h"

struct wf_one_place_conv;

/** NULL where it is none of these: another kernel, stride, padding or type, or the gradient of w
 * for images of many places. `scratch`: bytes that a run needs. */
struct wf_one_place_conv *wf_one_place_conv_new(const struct wf_conv *c, size_t *scratch);
void wf_one_place_conv_run(const struct wf_one_place_conv *p, const struct wf_conv_operands *o,
                           void *scratch);
void wf_one_place_conv_free(struct wf_one_place_conv *p);
