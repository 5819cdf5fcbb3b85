/*
 * linear.c: y = x w^T + bias and its two gradients, dx = d w and dw = d^T x.
 *
 *   x [*,K...]  w [N...,K...]  bias [N...] or NULL  y, d [*,N...]
 *
 * attr: contracted dims, and of y and dx WF_LINEAR_*; dw of a transposed w is dw of x and d
 * exchanged.
 *
 * Each is one product of two operands seen as matrices.
 */
#include "base/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/lines.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/scratch.h"

struct product {
    struct wf_operand left, right, bias;
    bool has_bias;
    struct wf_gemm gemm;
};

/* What a kernel multiplies: op(in[0]) op(in[1]), each a matrix split after so many dims. */
struct form {
    int left_split, right_split;
    bool turn_left, turn_right;
    const struct wf_desc *bias;
};

static void product_drop(void *prep)
{
    struct product *p = prep;

    wf_operand_drop(&p->left);
    wf_operand_drop(&p->right);
    if (p->has_bias) wf_operand_drop(&p->bias);
    wf_gemm_drop(&p->gemm);
    wf_scratch_release();
    wf_free(p);
}

static void product_run(const struct wf_kcall *k, void *const *out, const void *const *in,
                        const struct wf_scalars *scalars)
{
    const struct product *p = k->prep;
    char *left = wf_scratch(), *right = left + p->left.scratch, *bias = right + p->right.scratch;
    const void *a = wf_operand_ready(&p->left, in[0], left);
    const void *b = wf_operand_ready(&p->right, in[1], right), *added = NULL;

    (void)scalars;
    if (p->has_bias && in[2]) added = wf_operand_ready(&p->bias, in[2], bias);
    wf_gemm_run(&p->gemm, a, b, added, out[0], bias + p->bias.scratch);
}

static void product_gemm(struct product *p, const struct form *f, int dtype, bool wide)
{
    const struct wf_operand *a = &p->left, *b = &p->right;
    int64_t n = f->turn_right ? b->rows : b->cols;

    p->gemm = (struct wf_gemm){
        .dtype = (uint8_t)dtype,
        .ta = a->transposed != f->turn_left,
        .tb = b->transposed != f->turn_right,
        .wide = wide,
        .bias = p->has_bias,
        .m = f->turn_left ? a->cols : a->rows,
        .n = n,
        .k = f->turn_left ? a->rows : a->cols,
        .lda = a->ld,
        .ldb = b->ld,
        .ldc = n > 1 ? n : 1,
    };
    wf_gemm_prepare(&p->gemm);
}

static weft_status product_prepare(struct wf_kcall *k, struct form f)
{
    int dtype = k->in[0]->dtype;
    struct product *p;

    if (!wf_dtypes[dtype].is_float) return wf_no_kernel(k, (uint8_t)dtype);
    WF_TRY(wf_need_dtype(k, 0, (uint8_t)dtype));
    k->run = wf_run_nothing;
    if (k->out[0]->numel == 0) return WEFT_OK;
    p = WF_NEW(struct product);
    k->prep = p;
    k->drop = product_drop;
    k->run = product_run;
    wf_operand_prepare(&p->left, k->in[0], f.left_split);
    wf_operand_prepare(&p->right, k->in[1], f.right_split);
    p->has_bias = f.bias != NULL;
    if (f.bias) wf_operand_prepare_dense(&p->bias, f.bias);
    product_gemm(p, &f, dtype, k->out[0]->dtype != dtype);
    wf_scratch_reserve(p->left.scratch + p->right.scratch + p->bias.scratch + p->gemm.scratch);
    return WEFT_OK;
}

weft_status wf_cpu_linear(struct wf_kcall *k)
{
    int k_dims = (int)k->attr[0];
    bool transposed = (k->attr[1] & WF_LINEAR_TRANSPOSED) != 0;

    return product_prepare(k, (struct form){
                                  .left_split = k->in[0]->ndim - k_dims,
                                  .right_split = transposed ? k_dims : k->in[1]->ndim - k_dims,
                                  .turn_right = !transposed,
                                  .bias = k->n_in > 2 ? k->in[2] : NULL,
                              });
}

weft_status wf_cpu_linear_dx(struct wf_kcall *k)
{
    int n_dims = k->in[1]->ndim - (int)k->attr[0];
    bool transposed = (k->attr[1] & WF_LINEAR_TRANSPOSED) != 0;

    return product_prepare(k, (struct form){
                                  .left_split = k->in[0]->ndim - n_dims,
                                  .right_split = transposed ? (int)k->attr[0] : n_dims,
                                  .turn_right = transposed,
                              });
}

weft_status wf_cpu_linear_dw(struct wf_kcall *k)
{
    return product_prepare(k, (struct form){
                                  .left_split = k->in[0]->ndim - (int)k->attr[1],
                                  .right_split = k->in[1]->ndim - (int)k->attr[0],
                                  .turn_left = true,
                              });
}
