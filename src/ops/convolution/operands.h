/* operands.h: what convolutions and transposed ones ask of their operands, and dims that are seen
 * as two. */
#pragma once

#include <weft/convolution.h>

#include "kernels/op_attrs.h"

/** Fails: what a convolution needs, and the two tensors that are not so. */
weft_status wf_conv_shape_error(const char *name, const char *what, const weft_tensor *x,
                                const weft_tensor *w);
weft_status wf_conv_read_options(struct wf_conv_attrs *a, const char *name, int dims,
                                 const weft_conv_options *o);
/** `single`: x has no batch. */
weft_status wf_conv_check_dims(const char *name, const weft_tensor *x, const weft_tensor *w,
                               int dims, bool single);

/** Dim d as two, the first of this size; the other way round they are joined. */
weft_tensor *wf_split_dim(weft_tensor *t, int d, int64_t first);
weft_tensor *wf_join_dims(weft_tensor *t, int d);
