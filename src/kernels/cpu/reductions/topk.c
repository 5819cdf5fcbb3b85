/*
 * topk.c: the k largest elements of each row, and the gradient that puts theirs back.
 *
 *   x [*,n]  labels [*,n] of i64 or NULL  ->  values [*,k], indices [*,k] of i64
 *
 * Indices are labels, or positions counted from v[0].
 *
 *   d [*,k]  indices [*,k] of i64  ->  dx [*,n]: d where it belongs, 0 elsewhere
 *
 * n counts the whole row; this rank may have a run of it. The indices of a row differ.
 */
#include "kernels/cpu/reductions/topk.h"

#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/scratch.h"

struct topk {
    struct wf_topk_loops loops;
    struct wf_operand x, labels;
    int64_t bytes;
};

static void topk_free(void *prep)
{
    struct topk *p = prep;

    wf_operand_free(&p->x);
    wf_operand_free(&p->labels);
    wf_scratch_release();
    wf_free(p);
}

static void topk_run(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                     const struct wf_scalars *scalars)
{
    const struct topk *p = k->prep;
    char *scratch = wf_scratch_buffer(), *copied = scratch + p->x.scratch;
    const char *x = wf_operand_copy_if_needed(&p->x, in[0], scratch);
    const int64_t *labels =
        k->n_in > 1 && in[1] ? wf_operand_copy_if_needed(&p->labels, in[1], copied) : NULL;
    int64_t n = k->attrs->topk.k;

    for (int64_t i = 0; i < p->x.rows; i++) {
        struct wf_topk_row row = {.n = p->x.cols,
                                  .first = scalars ? scalars->v[0] : 0,
                                  .x = x + i * p->x.ld * p->bytes,
                                  .labels = labels ? labels + i * p->labels.ld : NULL};

        p->loops.row(&row, n, (char *)out[0] + i * n * p->bytes, (int64_t *)out[1] + i * n,
                     copied + p->labels.scratch);
    }
}

weft_status wf_cpu_topk(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *x = k->in[0];
    struct topk *p;

    if (!WF_ISA_PICK(wf_topks)->of[x->dtype].row) return wf_fail_no_kernel(k, x->dtype);
    p = WF_NEW(struct topk);
    p->loops = WF_ISA_PICK(wf_topks)->of[x->dtype];
    p->bytes = wf_dtypes[x->dtype].size;
    wf_operand_prepare_rows(&p->x, x, x->ndim - 1);
    if (k->n_in > 1 && k->in[1]) wf_operand_prepare_rows(&p->labels, k->in[1], x->ndim - 1);
    wf_scratch_reserve(p->x.scratch + p->labels.scratch + p->loops.scratch_bytes(k->attrs->topk.k));
    k->prep = p;
    k->drop = topk_free;
    k->run = topk_run;
    return WEFT_OK;
}

struct put {
    struct wf_operand d, indices;
    int64_t bytes;
};

static void topk_grad_free(void *prep)
{
    struct put *p = prep;

    wf_operand_free(&p->d);
    wf_operand_free(&p->indices);
    wf_scratch_release();
    wf_free(p);
}

static void topk_grad_run(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                          const struct wf_scalars *scalars)
{
    const struct put *p = k->prep;
    const struct wf_tensor_desc *dx = k->out[0];
    int64_t n = dx->shape[dx->ndim - 1], first = dx->offset[dx->ndim - 1];
    char *scratch = wf_scratch_buffer();
    const char *d = wf_operand_copy_if_needed(&p->d, in[0], scratch);
    const int64_t *indices = wf_operand_copy_if_needed(&p->indices, in[1], scratch + p->d.scratch);

    (void)scalars;
    memset(out[0], 0, (size_t)(dx->numel * p->bytes));
    for (int64_t i = 0; i < p->d.rows; i++)
        for (int64_t j = 0; j < p->d.cols; j++) {
            int64_t at = indices[i * p->indices.ld + j] - first;

            if (at >= 0 && at < n)
                memcpy((char *)out[0] + (i * n + at) * p->bytes, d + (i * p->d.ld + j) * p->bytes,
                       (size_t)p->bytes);
        }
}

weft_status wf_cpu_topk_grad(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *d = k->in[0];
    struct put *p;

    if (k->in[1]->dtype != WEFT_I64) return wf_fail_no_kernel(k, k->in[1]->dtype);
    p = WF_NEW(struct put);
    p->bytes = wf_dtypes[d->dtype].size;
    wf_operand_prepare_rows(&p->d, d, d->ndim - 1);
    wf_operand_prepare_rows(&p->indices, k->in[1], d->ndim - 1);
    wf_scratch_reserve(p->d.scratch + p->indices.scratch);
    k->prep = p;
    k->drop = topk_grad_free;
    k->run = topk_grad_run;
    return WEFT_OK;
}
