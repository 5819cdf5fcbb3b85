/* product_operands.cu: operands as matrices, their copies, and the run function of all products. */
#include "kernels/cuda/products/product_operands.h"

namespace
{

/* Scratch of each operand begins where 256 divides the offset. */
size_t round_up_scratch(size_t bytes) { return (bytes + 255) / 256 * 256; }

/* A row-major copy of d is made first. */
void read_copy(matrix_operand *o, const wf_tensor_desc *d)
{
    size_t bytes = wf_dtypes[d->dtype].size;

    wf_row_major_strides(o->lies.stride, d->shape, d->ndim);
    wf_strided_copy_init(&o->copy, d->shape, d->stride, o->lies.stride, d->ndim, bytes);
    o->scratch = round_up_scratch((size_t)d->numel * bytes);
}

void run_matrix_product(const wf_kernel_call *k, void *const *out, const void *const *in,
                        const wf_scalars *scalars)
{
    const product_of_operands *p = (const product_of_operands *)k->prep;
    size_t copies = p->left.scratch + p->right.scratch, bytes = copies + p->product.scratch;
    char *scratch = bytes ? (char *)wf_cuda_scratch(bytes) : NULL;
    const void *a = wf_cuda_copy_operand_if_needed(&p->left, in[0], scratch);
    const void *b = wf_cuda_copy_operand_if_needed(&p->right, in[1], scratch + p->left.scratch);
    product_data data = {};

    data.a = a;
    data.b = b;
    data.bias = p->product.shape.has_bias ? in[2] : NULL;
    data.c = out[0];
    data.scale = p->product.shape.epilogue == WF_EPILOGUE_SCALE ? scalars->s[0] : 1;
    if (p->read >= 0) data.read = in[p->read];
    if (p->product.shape.keeps_product) data.kept_product = out[1];
    if (p->product.shape.summed) data.sum = out[1];
    data.scratch = scratch + copies;
    wf_cuda_product_run(k, &p->product, data);
}

void free_product(void *prep)
{
    wf_cuda_product_free(&((product_of_operands *)prep)->product);
    wf_free(prep);
}

} // namespace

void wf_cuda_describe_operand(matrix_operand *o, const wf_tensor_desc *d, const matrix_dims &dims)
{
    wf_tensor_desc matrix = *d;

    matrix.ndim = (int8_t)(d->ndim - dims.first);
    for (int i = dims.first; i < d->ndim; i++) {
        matrix.shape[i - dims.first] = d->shape[i];
        matrix.stride[i - dims.first] = d->stride[i];
    }
    o->lies = *d;
    o->view = wf_matrix_view_of(&matrix, dims.split - dims.first);
    if (!o->view.in_place) read_copy(o, d);
}

void wf_cuda_describe_rows(matrix_operand *o, const wf_tensor_desc *d)
{
    wf_cuda_describe_operand(o, d, {0, 1, false});
    if (!o->view.transposed) return;
    o->view.transposed = false;
    o->view.ld = d->shape[1];
    read_copy(o, d);
}

const void *wf_cuda_copy_operand_if_needed(const matrix_operand *o, const void *x, void *scratch)
{
    if (!o->scratch) return x;
    wf_cuda_strided_copy(&o->copy, scratch, x);
    return scratch;
}

product_of_operands *wf_cuda_product_of_operands(wf_kernel_call *k, const matrix_dims &left,
                                                 const matrix_dims &right)
{
    product_of_operands *p = WF_NEW(product_of_operands);
    const wf_matrix_view &a = p->left.view, &b = p->right.view;
    product_shape *s = &p->product.shape;

    wf_cuda_describe_operand(&p->left, k->in[0], left);
    wf_cuda_describe_operand(&p->right, k->in[1], right);
    s->dtype = k->in[0]->dtype;
    s->wide = k->out[0]->dtype != s->dtype;
    s->m = left.turn ? a.cols : a.rows;
    s->n = right.turn ? b.rows : b.cols;
    s->k = left.turn ? a.rows : a.cols;
    s->batches = 1;
    s->a.ld = a.ld;
    s->a.turned = a.transposed != left.turn;
    s->b.ld = b.ld;
    s->b.turned = b.transposed != right.turn;
    p->read = -1;
    k->prep = p;
    k->drop = free_product;
    k->run = run_matrix_product;
    return p;
}
