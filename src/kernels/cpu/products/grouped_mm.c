/*
 * grouped_mm.c: runs of rows, each times a matrix of its own, and the matrices' gradients.
 *
 *   x [T,K]  w [G,K,N]  ends [G]  ->  y [T,N]      y_g = x_g w_g, rows behind the last end are 0
 *   x [T,K]  d [T,N]    ends [G]  ->  dw [G,K,N]   dw_g = x_g^T d_g
 *
 * Group g are the global rows from the end of the one before to its own; this rank may have a run
 * of them. How many rows a group has is known in each run only, so the products are those of
 * wf_gemm_prepare_up_to.
 */
#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/products/gemm.h"
#include "kernels/cpu/scratch.h"
#include "kernels/operands/operand_checks.h"

struct grouped {
    struct wf_tensor_desc matrix; /* of w, without the groups */
    struct wf_operand left, right;
    struct wf_gemm gemm;
    struct wf_index_range rows; /* this rank's */
    int64_t groups, all_rows;
    size_t size; /* of an element */
    int64_t left_row,
        right_step;              /* elements from row to row of x; of d, or from matrix to matrix */
    int64_t out_step, out_bytes; /* elements from row to row of y, from matrix to matrix of dw */
    struct wf_operand ends;
    bool wide_ends; /* i64 */
};

static void grouped_free(void *prep)
{
    struct grouped *p = prep;

    wf_operand_free(&p->left);
    wf_operand_free(&p->right);
    wf_operand_free(&p->ends);
    wf_gemm_free(&p->gemm);
    wf_scratch_release();
    wf_free(p);
}

/* The rank's rows of group g, counted from its first; `from`: the end of the one before. */
static struct wf_index_range rows_of_group(const struct wf_kernel_call *k, const struct grouped *p,
                                           const void *ends, int64_t g, int64_t *from)
{
    int64_t end = p->wide_ends ? ((const int64_t *)ends)[g] : ((const int32_t *)ends)[g];
    struct wf_index_range rows;

    if (end < *from || end > p->all_rows)
        WF_DIE("%s: group %lld ends at row %lld, the one before at %lld, and there are %lld rows",
               k->op, (long long)g, (long long)end, (long long)*from, (long long)p->all_rows);
    rows = wf_index_range_intersect((struct wf_index_range){*from, end - *from}, p->rows);
    rows.offset -= p->rows.offset;
    *from = end;
    return rows;
}

struct run {
    const char *left, *right, *ends;
    char *out, *scratch;
};

static struct run begin_run(const struct grouped *p, void *out, const void *const *in)
{
    char *left = wf_scratch_buffer(), *right = left + p->left.scratch,
         *ends = right + p->right.scratch;

    return (struct run){wf_operand_copy_if_needed(&p->left, in[0], left),
                        wf_operand_copy_if_needed(&p->right, in[1], right),
                        wf_operand_copy_if_needed(&p->ends, in[2], ends), out,
                        ends + p->ends.scratch};
}

static void rows_run(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                     const struct wf_scalars *scalars)
{
    const struct grouped *p = k->prep;
    struct run r = begin_run(p, out[0], in);
    int64_t size = (int64_t)p->size, from = 0, done = 0;

    (void)scalars;
    for (int64_t g = 0; g < p->groups; g++) {
        struct wf_index_range rows = rows_of_group(k, p, r.ends, g, &from);
        struct wf_gemm gemm = p->gemm;

        if (rows.size == 0) continue;
        gemm.m = rows.size;
        wf_gemm_run(&gemm, r.left + rows.offset * p->left_row * size,
                    r.right + g * p->right_step * size, NULL,
                    r.out + rows.offset * p->out_step * size, r.scratch);
        done = rows.offset + rows.size;
    }
    memset(r.out + done * p->out_step * size, 0,
           (size_t)(p->out_bytes - done * p->out_step * size));
}

static void matrices_run(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                         const struct wf_scalars *scalars)
{
    const struct grouped *p = k->prep;
    struct run r = begin_run(p, out[0], in);
    int64_t size = (int64_t)p->size, from = 0;

    (void)scalars;
    for (int64_t g = 0; g < p->groups; g++) {
        struct wf_index_range rows = rows_of_group(k, p, r.ends, g, &from);
        struct wf_gemm gemm = p->gemm;

        gemm.k = rows.size;
        if (rows.size > 0)
            wf_gemm_run(&gemm, r.left + rows.offset * p->left_row * size,
                        r.right + rows.offset * p->right_step * size, NULL,
                        r.out + g * p->out_step * size, r.scratch);
        else
            memset(r.out + g * p->out_step * size, 0, (size_t)(p->out_step * size));
    }
}

static weft_status check_operands(const struct wf_kernel_call *k)
{
    uint8_t dtype = k->in[0]->dtype;

    if (!wf_dtypes[dtype].is_float) return wf_fail_no_kernel(k, dtype);
    if (k->in[1]->dtype != dtype) return wf_fail_no_kernel(k, k->in[1]->dtype);
    if (k->in[2]->dtype != WEFT_I32 && k->in[2]->dtype != WEFT_I64)
        return wf_fail_no_kernel(k, k->in[2]->dtype);
    return WEFT_OK;
}

static struct grouped *grouped_new(struct wf_kernel_call *k, wf_kernel_run *run)
{
    const struct wf_tensor_desc *x = k->in[0], *y = k->out[0];
    struct grouped *p = WF_NEW(struct grouped);

    p->rows = (struct wf_index_range){x->offset[0], x->shape[0]};
    p->all_rows = x->global[0];
    p->groups = k->in[2]->numel;
    p->size = wf_dtypes[x->dtype].size;
    p->wide_ends = k->in[2]->dtype == WEFT_I64;
    p->out_bytes = y->numel * (int64_t)p->size;
    wf_operand_prepare_dense(&p->ends, k->in[2]);
    k->prep = p;
    k->drop = grouped_free;
    k->run = run;
    return p;
}

static void end_prepare(struct grouped *p)
{
    wf_gemm_prepare_up_to(&p->gemm);
    wf_scratch_reserve(p->left.scratch + p->right.scratch + p->ends.scratch + p->gemm.scratch);
}

/* A matrix of every group has the same strides, so one that can be read in place says so of all;
 * a copy is one of all of them. */
static void prepare_weight(struct grouped *p, const struct wf_tensor_desc *w)
{
    p->matrix = *w;
    p->matrix.ndim = 2;
    p->matrix.contiguous = false;
    p->matrix.numel = w->shape[1] * w->shape[2];
    for (int d = 0; d < 2; d++) {
        p->matrix.shape[d] = w->shape[d + 1];
        p->matrix.stride[d] = w->stride[d + 1];
    }
    wf_operand_prepare_matrix(&p->right, &p->matrix, 1);
    p->right_step = w->stride[0];
    if (!p->right.scratch) return;
    wf_operand_free(&p->right);
    wf_operand_prepare_dense(&p->right, w);
    p->right.rows = w->shape[1];
    p->right.cols = p->right.ld = w->shape[2];
    p->right_step = p->matrix.numel;
}

weft_status wf_cpu_grouped_mm(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *y = k->out[0];
    struct grouped *p;

    WF_TRY(check_operands(k));
    k->run = wf_kernel_run_noop;
    if (y->numel == 0) return WEFT_OK;
    p = grouped_new(k, rows_run);
    wf_operand_prepare_rows(&p->left, k->in[0], 1);
    prepare_weight(p, k->in[1]);
    p->left_row = p->left.ld;
    p->out_step = y->shape[1];
    p->gemm = (struct wf_gemm){.dtype = y->dtype,
                               .tb = p->right.transposed,
                               .m = y->shape[0],
                               .n = y->shape[1],
                               .k = k->in[0]->shape[1],
                               .lda = p->left.ld,
                               .ldb = p->right.ld,
                               .ldc = y->shape[1]};
    if (p->gemm.k == 0) p->groups = 0; /* all rows are 0 */
    end_prepare(p);
    return WEFT_OK;
}

weft_status wf_cpu_grouped_mm_dw(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *y = k->out[0];
    struct grouped *p;

    WF_TRY(check_operands(k));
    k->run = wf_kernel_run_noop;
    if (y->numel == 0) return WEFT_OK;
    p = grouped_new(k, matrices_run);
    wf_operand_prepare_rows(&p->left, k->in[0], 1);
    wf_operand_prepare_rows(&p->right, k->in[1], 1);
    p->left_row = p->left.ld;
    p->right_step = p->right.ld;
    p->out_step = y->shape[1] * y->shape[2];
    p->gemm = (struct wf_gemm){.dtype = y->dtype,
                               .ta = true,
                               .m = y->shape[1],
                               .n = y->shape[2],
                               .k = k->in[0]->shape[0],
                               .lda = p->left.ld,
                               .ldb = p->right.ld,
                               .ldc = y->shape[2]};
    end_prepare(p);
    return WEFT_OK;
}
