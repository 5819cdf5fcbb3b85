/*
 * transposed.c: transposed convolutions: the gradient of a convolution's input as an op of its own.
 *
 * Channels go in as the convolution's come out, so the weight is [in,out/groups,..].
 */
#include <weft/ops.h>

#include <string.h>

#include "base/error.h"
#include "ops/convolution/operands.h"
#include "ops/op_functions.h"
#include "tensor/scope.h"

static weft_status read_sizes(struct wf_conv_attrs *a, const char *name, int dims,
                              const weft_tensor *x, const weft_tensor *w,
                              const weft_conv_transpose_options *o)
{
    for (int d = 0; d < dims; d++) {
        int64_t more = o->output_padding[d], stride = a->stride[d], dilation = a->dilation[d], size;

        WF_NEED(more >= 0 && more < stride, WEFT_ERR_ARG,
                "%s: output_padding %lld is not below the stride in dim %d", name, (long long)more,
                d);
        size = (weft_size(x, 2 + d) - 1) * stride - 2 * (int64_t)a->before[d] +
               dilation * (weft_size(w, 2 + d) - 1) + more + 1;
        WF_NEED(size > 0 && size <= INT32_MAX / 2 && weft_size(x, 2 + d) > 0, WEFT_ERR_SHAPE,
                "%s: a result of %lld places in dim %d", name, (long long)size, d);
        a->size[d] = (int32_t)size;
    }
    return WEFT_OK;
}

static weft_tensor *add_bias(const char *name, weft_tensor *y, weft_tensor *bias, int dims)
{
    int64_t shape[WEFT_MAX_DIMS] = {1, 1, 1, 1};

    if (!y || !bias) return y;
    if (weft_ndim(bias) != 1 || weft_size(bias, 0) != weft_size(y, 1))
        return (void)wf_conv_shape_error(name, "the bias has the output channels", y, bias), NULL;
    shape[0] = weft_size(bias, 0);
    return weft_add(y, wf_reshape_to(bias, shape, 1 + dims, NULL));
}

static weft_tensor *dispatch(const char *name, weft_tensor *x, weft_tensor *w,
                             const struct wf_conv_attrs *a, int64_t groups)
{
    struct wf_op_args args = {.attr_words = (int)(sizeof *a / sizeof(uint64_t)), .attrs = a};

    if (weft_size(x, 1) != weft_size(w, 0) || (a->grouped && weft_size(w, 0) % groups != 0))
        return (void)wf_conv_shape_error(name, "x is [N,C,..], the weight [C,O/groups,..]", x, w),
               NULL;
    if (!a->grouped)
        return wf_dispatch_op_one_output(WF_OP_conv_dx, (weft_tensor *[]){x, w}, 2, &args);
    x = wf_split_dim(x, 1, groups);
    w = wf_split_dim(w, 0, groups);
    if (!x || !w) return NULL;
    return wf_join_dims(wf_dispatch_op_one_output(WF_OP_conv_dx, (weft_tensor *[]){x, w}, 2, &args),
                        1);
}

static weft_tensor *transposed(const char *name, int dims, weft_tensor *x, weft_tensor *w,
                               weft_tensor *bias, const weft_conv_transpose_options *o)
{
    weft_conv_options options = {.groups = o->groups};
    struct wf_conv_attrs a = {0};
    weft_scope *scope;

    if (!x || !w) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, name));
    WF_TRY_PTR(wf_tensor_need_alive(w, name));
    if (bias) WF_TRY_PTR(wf_tensor_need_alive(bias, name));
    memcpy(options.stride, o->stride, sizeof options.stride);
    memcpy(options.padding, o->padding, sizeof options.padding);
    memcpy(options.dilation, o->dilation, sizeof options.dilation);
    WF_TRY_PTR(wf_conv_read_options(&a, name, dims, &options));
    WF_TRY_PTR(wf_conv_check_dims(name, x, w, dims, false));
    WF_TRY_PTR(read_sizes(&a, name, dims, x, w, o));
    scope = weft_scope_open();
    return weft_scope_return(scope,
                             add_bias(name, dispatch(name, x, w, &a, o->groups), bias, dims));
}

weft_tensor *weft_conv_transpose1d(weft_tensor *x, weft_tensor *w, weft_tensor *bias,
                                   weft_conv_transpose_options o)
{
    return transposed("conv_transpose1d", 1, x, w, bias, &o);
}

weft_tensor *weft_conv_transpose2d(weft_tensor *x, weft_tensor *w, weft_tensor *bias,
                                   weft_conv_transpose_options o)
{
    return transposed("conv_transpose2d", 2, x, w, bias, &o);
}
