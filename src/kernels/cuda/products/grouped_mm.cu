/*
 * grouped_mm.cu: runs of rows, each times a matrix of its own, and the matrices' gradients.
 *
 *   x [T,K]  w [G,K,N]  ends [G]  ->  y [T,N]      y_g = x_g w_g, rows behind the last end are 0
 *   x [T,K]  d [T,N]    ends [G]  ->  dw [G,K,N]   dw_g = x_g^T d_g
 *
 * One launch has the tiles of all groups (grouped_mm.h). The host does not know the ends, so it
 * launches as many blocks as there can be tiles; those that find none return. Tile sizes follow
 * from shapes alone.
 */
#include "kernels/cuda/products/grouped_mm.h"

#include "kernels/cuda/index_map.h"
#include "kernels/cuda/products/product_operands.h"

namespace
{

struct grouped_plan {
    matrix_operand left, right;
    product_plan product; /* one that launches nothing: shape and tiles */
    grouped_kernel kernel;
    grouped_arguments arguments; /* but for what is known in each run */
    int64_t tiles_m, tiles;
};

template <class Arguments>
void launch(const wf_kernel_call *k, const grouped_plan *p, void (*run)(Arguments),
            const grouped_arguments &of_run)
{
    Arguments args;

    (grouped_arguments &)args = of_run;
    for (; args.first_tile < p->tiles; args.first_tile += wf_cuda_index_limit) {
        int64_t left = p->tiles - args.first_tile;
        dim3 grid((unsigned)(left < wf_cuda_index_limit ? left : wf_cuda_index_limit));

        WF_CUDA_LAUNCH(k, run, grid, p->kernel.threads, p->kernel.shared, args);
    }
}

void run_grouped(const wf_kernel_call *k, void *const *out, const void *const *in,
                 const wf_scalars *)
{
    const grouped_plan *p = (const grouped_plan *)k->prep;
    size_t bytes = p->left.scratch + p->right.scratch;
    char *scratch = bytes ? (char *)wf_cuda_scratch(bytes) : NULL;
    const void *a = wf_cuda_copy_operand_if_needed(&p->left, in[0], scratch);
    const void *b = wf_cuda_copy_operand_if_needed(&p->right, in[1], scratch + p->left.scratch);
    grouped_arguments args = p->arguments;

    (product_arguments &)args = wf_cuda_product_arguments(&p->product, a, b, out[0]);
    args.tiles_m = (unsigned)p->tiles_m;
    args.ends = in[2];
    args.fault = wf_cuda_fault_memory();
    if (p->kernel.run_rows)
        launch(k, p, p->kernel.run_rows, args);
    else
        launch(k, p, p->kernel.run_matrices, args);
}

weft_status check_operands(const wf_kernel_call *k)
{
    uint8_t dtype = k->in[0]->dtype, ends = k->in[2]->dtype;

    if (dtype >= WF_CUDA_FLOAT_DTYPES) return wf_cuda_fail_no_kernel(k, dtype);
    WF_NEED_LOCAL(k->in[0]->shape[0] <= INT32_MAX && k->in[0]->shape[1] <= INT32_MAX,
                  WEFT_ERR_SHAPE, "%s: more than %d rows or columns of x", k->op, INT32_MAX);
    if (k->in[1]->dtype != dtype) return wf_cuda_fail_no_kernel(k, k->in[1]->dtype);
    if (ends != WEFT_I32 && ends != WEFT_I64) return wf_cuda_fail_no_kernel(k, ends);
    return WEFT_OK;
}

grouped_plan *grouped_plan_new(wf_kernel_call *k)
{
    const wf_tensor_desc *x = k->in[0], *ends = k->in[2];
    grouped_plan *p = WF_NEW(grouped_plan);

    wf_cuda_describe_rows(&p->left, x);
    p->product.splits = 1;
    p->product.shape.dtype = x->dtype;
    p->product.shape.batches = 1;
    p->product.shape.a.ld = p->left.view.ld;
    p->arguments.groups = ends->numel;
    p->arguments.ends_step = ends->stride[0];
    p->arguments.wide_ends = ends->dtype == WEFT_I64;
    p->arguments.first_row = x->offset[0];
    p->arguments.rows = x->shape[0];
    p->arguments.all_rows = x->global[0];
    k->prep = p;
    k->drop = wf_free;
    k->run = run_grouped;
    return p;
}

void choose_kernel(grouped_plan *p, grouped_form form, bool large, const char *op)
{
    uint8_t dtype = p->product.shape.dtype;

    p->product.side = large ? 128 : 64;
    p->kernel = dtype == WEFT_BF16 || dtype == WEFT_F16
                    ? wf_cuda_tensor_grouped_product(dtype, form, large)
                    : wf_cuda_plain_grouped_product(dtype, form, large);
    wf_cuda_check_launch(p->kernel.run_rows
                             ? gpu_allow_shared(p->kernel.run_rows, p->kernel.shared)
                             : gpu_allow_shared(p->kernel.run_matrices, p->kernel.shared),
                         op);
}

int64_t tiles_along(int64_t n, int64_t side) { return (n + side - 1) / side; }

/* Tiles of rows, of any ends: each group, and the rows behind the last, may have one that is not
 * full. */
int64_t most_row_tiles(int64_t rows, int64_t groups, int64_t side)
{
    int64_t most = (rows + (groups + 1) * (side - 1)) / side;

    return most < rows ? most : rows;
}

} // namespace

extern "C" weft_status wf_cuda_grouped_mm(struct wf_kernel_call *k)
{
    const wf_tensor_desc *w = k->in[1], *y = k->out[0];
    grouped_plan *p;
    product_shape *s;
    bool large;

    WF_TRY(check_operands(k));
    k->run = wf_cuda_run_nothing;
    if (y->numel == 0) return WEFT_OK;
    p = grouped_plan_new(k);
    s = &p->product.shape;
    wf_cuda_describe_operand(&p->right, w, {1, 2, false});
    s->m = y->shape[0];
    s->n = y->shape[1];
    s->k = w->shape[1];
    s->b.ld = p->right.view.ld;
    s->b.turned = p->right.view.transposed;
    s->b.batch.n_dims = 1;
    s->b.batch.step[0] = p->right.lies.stride[0];
    if (s->k == 0) p->arguments.groups = 0; /* all rows are 0 */
    large = wf_cuda_product_has_large_tiles(*s) && s->m / 128 >= p->arguments.groups;
    choose_kernel(p, s->b.turned ? GROUPED_ROWS_TURNED : GROUPED_ROWS, large, k->op);
    p->tiles_m = most_row_tiles(s->m, p->arguments.groups, p->product.side);
    p->tiles = p->tiles_m * tiles_along(s->n, p->product.side);
    return WEFT_OK;
}

extern "C" weft_status wf_cuda_grouped_mm_dw(struct wf_kernel_call *k)
{
    const wf_tensor_desc *dw = k->out[0];
    grouped_plan *p;
    product_shape *s;

    WF_TRY(check_operands(k));
    k->run = wf_cuda_run_nothing;
    if (dw->numel == 0) return WEFT_OK;
    p = grouped_plan_new(k);
    s = &p->product.shape;
    wf_cuda_describe_rows(&p->right, k->in[1]);
    s->m = dw->shape[1];
    s->n = dw->shape[2];
    s->k = p->arguments.rows;
    s->batches = p->arguments.groups;
    s->a.turned = true;
    s->b.ld = p->right.view.ld;
    choose_kernel(p, GROUPED_MATRICES, wf_cuda_product_has_large_tiles(*s), k->op);
    p->tiles_m = tiles_along(s->m, p->product.side);
    p->tiles = s->batches * p->tiles_m * tiles_along(s->n, p->product.side);
    return WEFT_OK;
}
