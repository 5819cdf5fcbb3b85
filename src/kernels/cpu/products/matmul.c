/*
 * matmul.c: y = op(a) op(b) over the last two dims, leading dims broadcast.
 *
 *   a [*,m,k]  b [*,k,n]  y [*,m,n]; transposed, a is stored [*,k,m], b [*,n,k]
 *
 * A batch is a walk over its leading dims with one product each; a single b shared by the whole
 * batch makes one tall product of it. A scale is the kernel of mul_scalar, run behind the products.
 */
#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/products/epilogue.h"
#include "kernels/cpu/products/gemm.h"
#include "kernels/cpu/products/integer_matmul.h"
#include "kernels/cpu/scratch.h"
#include "kernels/operands/loop_nest.h"
#include "kernels/operands/matrix_view.h"
#include "kernels/operands/operand_checks.h"

enum { A, B, Y, OPERANDS };

struct matmul {
    struct wf_tensor_desc matrix[2]; /* a and b without the dims that the batch walks over */
    struct wf_operand lies[2];
    struct wf_gemm gemm;
    struct wf_loop_nest batch;
    struct wf_cpu_epilogue epilogue;
};

static void matmul_free(void *prep)
{
    struct matmul *p = prep;

    wf_operand_free(&p->lies[A]);
    wf_operand_free(&p->lies[B]);
    wf_gemm_free(&p->gemm);
    wf_kernel_call_drop(&p->epilogue.kernel);
    wf_scratch_release();
    wf_free(p);
}

static void matmul_run(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                       const struct wf_scalars *scalars)
{
    const struct matmul *p = k->prep;
    struct wf_loop_walk walk = {.at = {in[A], in[B], out[0]}};
    char *copy_a = wf_scratch_buffer(), *copy_b = copy_a + p->lies[A].scratch;

    do {
        /* a walk's pointers are const, y's memory is not */
        void *y = (void *)(uintptr_t)walk.at[Y];

        wf_gemm_run(&p->gemm, wf_operand_copy_if_needed(&p->lies[A], walk.at[A], copy_a),
                    wf_operand_copy_if_needed(&p->lies[B], walk.at[B], copy_b), NULL, y,
                    copy_b + p->lies[B].scratch);
    } while (wf_loop_walk_next(&p->batch, &walk));
    if (p->epilogue.kernel.run) wf_cpu_epilogue_run(&p->epilogue, out[0], out[0], in, scalars);
}

static void prepare_batch_loop(struct matmul *p, const struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *y = k->out[0];
    struct wf_tensor_desc a = wf_leading_dims(k->in[A]), b = wf_leading_dims(k->in[B]),
                          c = wf_leading_dims(y);
    struct wf_operand_strides strided[OPERANDS] = {
        wf_strides_broadcast(&a, y->shape, c.ndim),
        wf_strides_broadcast(&b, y->shape, c.ndim),
        wf_strides_broadcast(&c, y->shape, c.ndim),
    };

    wf_loop_nest_make(&p->batch, y->shape, c.ndim, strided, OPERANDS);
}

static void prepare_matrices(struct matmul *p, const struct wf_kernel_call *k)
{
    bool tall = wf_matmul_shares_b(k);

    p->matrix[A] = tall ? *k->in[A] : wf_last_two_dims(k->in[A]);
    p->matrix[B] = wf_last_two_dims(k->in[B]);
    wf_operand_prepare_matrix(&p->lies[A], &p->matrix[A], p->matrix[A].ndim - 1);
    wf_operand_prepare_matrix(&p->lies[B], &p->matrix[B], 1);
    if (tall)
        wf_loop_nest_make(&p->batch, NULL, 0, (struct wf_operand_strides[OPERANDS]){0}, OPERANDS);
    else
        prepare_batch_loop(p, k);
}

static void prepare_gemm(struct matmul *p, const struct wf_kernel_call *k)
{
    const struct wf_operand *a = &p->lies[A], *b = &p->lies[B];
    bool turn_a = k->attrs->matmul.transpose_a, turn_b = k->attrs->matmul.transpose_b;
    int64_t n = turn_b ? b->rows : b->cols;

    p->gemm = (struct wf_gemm){
        .dtype = k->out[0]->dtype,
        .ta = a->transposed != turn_a,
        .tb = b->transposed != turn_b,
        .m = turn_a ? a->cols : a->rows,
        .n = n,
        .k = turn_a ? a->rows : a->cols,
        .lda = a->ld,
        .ldb = b->ld,
        .ldc = n > 1 ? n : 1,
    };
    wf_gemm_prepare(&p->gemm);
}

weft_status wf_cpu_matmul(struct wf_kernel_call *k)
{
    int dtype = k->out[0]->dtype;
    bool whole = dtype == WEFT_I32 || dtype == WEFT_I64;
    struct matmul *p;

    if (!wf_dtypes[dtype].is_float && !whole) return wf_fail_no_kernel(k, (uint8_t)dtype);
    WF_TRY(wf_check_input_dtypes(k, 0, (uint8_t)dtype));
    k->run = wf_kernel_run_noop;
    if (k->out[0]->numel == 0) return WEFT_OK;
    if (whole) return wf_integer_matmul_prepare(k);
    p = WF_NEW(struct matmul);
    prepare_matrices(p, k);
    prepare_gemm(p, k);
    wf_scratch_reserve(p->lies[A].scratch + p->lies[B].scratch + p->gemm.scratch);
    k->prep = p;
    k->drop = matmul_free;
    k->run = matmul_run;
    return wf_cpu_epilogue_prepare(&p->epilogue, k, (enum wf_epilogue)k->attrs->matmul.epilogue);
}
