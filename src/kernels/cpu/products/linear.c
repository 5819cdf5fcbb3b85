/*
 * linear.c: y = x w^T + bias and its two gradients, dx = d w and dw = d^T x.
 *
 *   x [*,K...]  w [N...,K...]  bias [N...] or NULL  y, d [*,N...]
 *
 * dw of a transposed w is dw of x and d exchanged.
 *
 * Each is one product of two operands seen as matrices. The sum beside dw is the kernel of its op,
 * and has the same bits.
 */
#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/products/epilogue.h"
#include "kernels/cpu/products/gemm.h"
#include "kernels/cpu/scratch.h"
#include "kernels/operands/operand_checks.h"

struct product {
    struct wf_operand left, right, bias;
    bool has_bias;
    struct wf_gemm gemm;
    struct wf_cpu_epilogue epilogue;
    /* beside dw, of one operand; run NULL: there is none */
    struct wf_kernel_call sum;
    union wf_op_attrs sum_attrs;
    int summed_in; /* its operand */
};

/* What a kernel multiplies: op(in[0]) op(in[1]), each a matrix split after so many dims. */
struct matrix_operands {
    int left_split, right_split;
    bool turn_left, turn_right;
    const struct wf_tensor_desc *bias;
    enum wf_epilogue epilogue;
    enum wf_summed_operand summed;
    uint32_t row_dims; /* of that operand, bits */
};

static void linear_free(void *prep)
{
    struct product *p = prep;

    wf_operand_free(&p->left);
    wf_operand_free(&p->right);
    if (p->has_bias) wf_operand_free(&p->bias);
    wf_gemm_free(&p->gemm);
    wf_kernel_call_drop(&p->epilogue.kernel);
    wf_kernel_call_drop(&p->sum);
    wf_scratch_release();
    wf_free(p);
}

static void linear_run(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                       const struct wf_scalars *scalars)
{
    const struct product *p = k->prep;
    char *left = wf_scratch_buffer(), *right = left + p->left.scratch,
         *bias = right + p->right.scratch;
    const void *a = wf_operand_copy_if_needed(&p->left, in[0], left);
    const void *b = wf_operand_copy_if_needed(&p->right, in[1], right), *added = NULL;
    static const struct wf_scalars factor_one = {.s = {1}}; /* of a sum */
    void *product = p->epilogue.kernel.run && k->n_out > 1 ? out[1] : out[0];

    if (p->has_bias && in[2]) added = wf_operand_copy_if_needed(&p->bias, in[2], bias);
    wf_gemm_run(&p->gemm, a, b, added, product, bias + p->bias.scratch);
    if (p->epilogue.kernel.run) wf_cpu_epilogue_run(&p->epilogue, out[0], product, in, scalars);
    if (p->sum.run) p->sum.run(&p->sum, &out[1], &in[p->summed_in], &factor_one);
}

/* The sum over the rows of what dw is computed from. */
static weft_status prepare_sum(const struct wf_kernel_call *k, struct product *p,
                               const struct matrix_operands *f)
{
    if (f->summed == WF_SUMMED_NONE) return WEFT_OK;
    p->summed_in = f->summed == WF_SUMMED_RIGHT;
    p->sum_attrs.reduce = (struct wf_reduce_attrs){.dims = f->row_dims};
    p->sum = (struct wf_kernel_call){.op = k->op,
                                     .n_in = 1,
                                     .n_out = 1,
                                     .in = {k->in[p->summed_in]},
                                     .out = {k->out[1]},
                                     .attrs = &p->sum_attrs};
    return wf_cpu_sum(&p->sum);
}

static void prepare_gemm(struct product *p, const struct matrix_operands *f, int dtype, bool wide)
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

static weft_status linear_prepare(struct wf_kernel_call *k, struct matrix_operands f)
{
    int dtype = k->in[0]->dtype;
    struct product *p;

    if (!wf_dtypes[dtype].is_float) return wf_fail_no_kernel(k, (uint8_t)dtype);
    WF_TRY(wf_check_input_dtypes(k, 0, (uint8_t)dtype));
    k->run = wf_kernel_run_noop;
    if (k->out[0]->numel == 0) return WEFT_OK;
    p = WF_NEW(struct product);
    k->prep = p;
    k->drop = linear_free;
    k->run = linear_run;
    wf_operand_prepare_matrix(&p->left, k->in[0], f.left_split);
    wf_operand_prepare_matrix(&p->right, k->in[1], f.right_split);
    p->has_bias = f.bias != NULL;
    if (f.bias) wf_operand_prepare_dense(&p->bias, f.bias);
    prepare_gemm(p, &f, dtype, k->out[0]->dtype != dtype);
    wf_scratch_reserve(p->left.scratch + p->right.scratch + p->bias.scratch + p->gemm.scratch);
    WF_TRY(wf_cpu_epilogue_prepare(&p->epilogue, k, f.epilogue));
    return prepare_sum(k, p, &f);
}

weft_status wf_cpu_linear(struct wf_kernel_call *k)
{
    int k_dims = k->attrs->linear.k_dims;
    bool transposed = k->attrs->linear.transposed;

    return linear_prepare(k, (struct matrix_operands){
                                 .left_split = k->in[0]->ndim - k_dims,
                                 .right_split = transposed ? k_dims : k->in[1]->ndim - k_dims,
                                 .turn_right = !transposed,
                                 .bias = k->n_in > 2 ? k->in[2] : NULL,
                                 .epilogue = (enum wf_epilogue)k->attrs->linear.epilogue,
                             });
}

weft_status wf_cpu_linear_dx(struct wf_kernel_call *k)
{
    int k_dims = k->attrs->linear.k_dims, n_dims = k->in[1]->ndim - k_dims;
    bool transposed = k->attrs->linear.transposed;

    return linear_prepare(k, (struct matrix_operands){
                                 .left_split = k->in[0]->ndim - n_dims,
                                 .right_split = transposed ? k_dims : n_dims,
                                 .turn_right = transposed,
                                 .epilogue = (enum wf_epilogue)k->attrs->linear.epilogue,
                             });
}

weft_status wf_cpu_linear_dw(struct wf_kernel_call *k)
{
    int rows = k->in[0]->ndim - k->attrs->linear_dw.n_dims;

    return linear_prepare(k, (struct matrix_operands){
                                 .left_split = rows,
                                 .right_split = k->in[1]->ndim - k->attrs->linear_dw.k_dims,
                                 .turn_left = true,
                                 .summed = (enum wf_summed_operand)k->attrs->linear_dw.summed,
                                 .row_dims = (1u << rows) - 1,
                             });
}
