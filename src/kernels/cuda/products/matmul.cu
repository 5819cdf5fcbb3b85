/*
 * matmul.cu: y = op(a) op(b) over the last two dims, leading dims broadcast.
 *
 *   a [*,m,k]  b [*,k,n]  y [*,m,n]; transposed, a is stored [*,k,m], b [*,n,k]
 *
 * A batch is one launch; a single b shared by the whole batch makes one tall product of it.
 */
#include "kernels/cuda/products/product_operands.h"

namespace
{

/* Where the matrices of each entry of the batch begin. */
void set_batch_offset_maps(product_of_operands *p, const wf_tensor_desc *y)
{
    wf_tensor_desc a = wf_leading_dims(&p->left.lies), b = wf_leading_dims(&p->right.lies);
    int dims = y->ndim - 2;
    wf_operand_strides strides[] = {wf_strides_broadcast(&a, y->shape, dims),
                                    wf_strides_broadcast(&b, y->shape, dims)};
    wf_loop_nest nest;

    wf_loop_nest_make(&nest, y->shape, dims, strides, 2);
    p->product.shape.batches = nest.count;
    p->product.shape.a.batch = offset_map_of(&nest, 0, strides[0].bytes);
    p->product.shape.b.batch = offset_map_of(&nest, 1, strides[1].bytes);
}

} // namespace

extern "C" weft_status wf_cuda_matmul(struct wf_kernel_call *k)
{
    const wf_tensor_desc *a = k->in[0], *b = k->in[1];
    uint8_t dtype = k->out[0]->dtype;
    product_of_operands *p;
    bool tall;

    if (dtype >= WF_CUDA_FLOAT_DTYPES) return wf_cuda_fail_no_kernel(k, dtype);
    WF_TRY(wf_check_input_dtypes(k, 0, dtype));
    k->run = wf_cuda_run_nothing;
    if (k->out[0]->numel == 0) return WEFT_OK;
    tall = wf_matmul_shares_b(k);
    p = wf_cuda_product_of_operands(
        k, {tall ? 0 : a->ndim - 2, a->ndim - 1, k->attrs->matmul.transpose_a},
        {b->ndim - 2, b->ndim - 1, k->attrs->matmul.transpose_b});
    if (!tall) set_batch_offset_maps(p, k->out[0]);
    p->product.shape.epilogue = k->attrs->matmul.epilogue;
    wf_cuda_product_prepare(&p->product, k->op);
    return WEFT_OK;
}
