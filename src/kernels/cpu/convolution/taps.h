/* taps.h: which elements make an element of a resized or averaged dim, with which weights. */
#pragma once

#include "kernels/cpu/convolution/windows.h"

/** Dim d of the attributes. `narrow`: places are computed in f32, as of tensors of f32 and
 * narrower. The tables are freed by wf_taps_free. */
void wf_taps_make(struct wf_taps *taps, const struct wf_resample_attrs *a, int d, bool narrow);
/** A dim of one element that stays as it is. */
void wf_taps_make_identity(struct wf_taps *taps);
void wf_taps_free(struct wf_taps *taps);
