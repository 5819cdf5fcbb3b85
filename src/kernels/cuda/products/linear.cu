/*
 * linear.cu: y = x w^T + bias and its two gradients, dx = d w and dw = d^T x.
 *
 *   x [*,K...]  w [N...,K...]  bias [N...] or NULL  y, d [*,N...]
 *
 * dw of a transposed w is dw of x and d exchanged. Each is one product of two operands seen as
 * matrices, perhaps with an epilogue, or with the sum over the rows of an operand beside it.
 */
#include "kernels/cuda/products/product_operands.h"

namespace
{

/* What a product has beside its operands. */
struct beside_product {
    const wf_tensor_desc *bias;
    uint8_t epilogue, summed;
};

weft_status prepare_linear(wf_kernel_call *k, const matrix_dims &left, const matrix_dims &right,
                           const beside_product &beside)
{
    const wf_tensor_desc *bias = beside.bias;
    uint8_t dtype = k->in[0]->dtype;
    product_of_operands *p;

    if (dtype >= WF_CUDA_FLOAT_DTYPES) return wf_cuda_fail_no_kernel(k, dtype);
    WF_TRY(wf_check_input_dtypes(k, 0, dtype));
    k->run = wf_cuda_run_nothing;
    if (k->out[0]->numel == 0) return WEFT_OK;
    p = wf_cuda_product_of_operands(k, left, right);
    p->product.shape.has_bias = bias != NULL;
    if (bias) p->product.shape.bias = offset_map_of_elements(bias);
    p->product.shape.epilogue = beside.epilogue;
    p->product.shape.summed = beside.summed;
    p->product.shape.keeps_product = beside.epilogue && k->n_out > 1;
    if (beside.epilogue == WF_EPILOGUE_ADD || beside.epilogue == WF_EPILOGUE_GELU_TANH_GRAD)
        p->read = k->n_in - 1;
    wf_cuda_product_prepare(&p->product, k->op);
    return WEFT_OK;
}

} // namespace

extern "C" weft_status wf_cuda_linear(struct wf_kernel_call *k)
{
    int k_dims = k->attrs->linear.k_dims;
    bool transposed = k->attrs->linear.transposed;

    return prepare_linear(k, {0, k->in[0]->ndim - k_dims, false},
                          {0, transposed ? k_dims : k->in[1]->ndim - k_dims, !transposed},
                          {k->n_in > 2 ? k->in[2] : NULL, k->attrs->linear.epilogue, 0});
}

extern "C" weft_status wf_cuda_linear_dx(struct wf_kernel_call *k)
{
    int k_dims = k->attrs->linear.k_dims, n_dims = k->in[1]->ndim - k_dims;
    bool transposed = k->attrs->linear.transposed;

    return prepare_linear(k, {0, k->in[0]->ndim - n_dims, false},
                          {0, transposed ? k_dims : n_dims, transposed},
                          {NULL, k->attrs->linear.epilogue, 0});
}

extern "C" weft_status wf_cuda_linear_dw(struct wf_kernel_call *k)
{
    return prepare_linear(k, {0, k->in[0]->ndim - k->attrs->linear_dw.n_dims, true},
                          {0, k->in[1]->ndim - k->attrs->linear_dw.k_dims, false},
                          {NULL, WF_EPILOGUE_NONE, k->attrs->linear_dw.summed});
}
