/*
 * xent.c: cross-entropy with logits, in three steps that a sharded vocabulary can reduce between.
 *
 *   sum    s = sum_j e^(z_j - m), p = z_target - m
 *   loss   log s - p
 *   grad   dz_j = g (e^(z_j - m) / s - [j = target])
 *
 * z may be some columns of the global vocabulary: s and p are then this rank's part. Rows whose
 * target is ignored give p = 0, loss 0 and gradient 0.
 */
#include "kernels/cpu/xent.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/lines.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/scratch.h"

enum { MAX_OPERANDS = 5 };

struct xent {
    const struct wf_xent_loops *loops;
    struct wf_operand in[MAX_OPERANDS];
    int n_in;
    int target; /* which input it is */
    bool sums_are_f64;
};

static void xent_drop(void *prep)
{
    struct xent *p = prep;

    for (int i = 0; i < p->n_in; i++) wf_operand_drop(&p->in[i]);
    wf_scratch_release();
    wf_free(p);
}

/* Every operand as dense rows, copied behind each other into scratch where it is not. */
static void operands_ready(const struct xent *p, const void *const *in, const void **ready)
{
    char *scratch = wf_scratch();

    for (int i = 0; i < p->n_in; i++) {
        ready[i] = wf_operand_ready(&p->in[i], in[i], scratch);
        scratch += p->in[i].scratch;
    }
}

static double real_at(const struct xent *p, const void *x, int64_t i)
{
    return p->sums_are_f64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static void real_put(const struct xent *p, void *x, int64_t i, double value)
{
    if (p->sums_are_f64)
        ((double *)x)[i] = value;
    else
        ((float *)x)[i] = (float)value;
}

static int64_t target_at(const struct wf_kcall *k, const struct xent *p, const void *targets,
                         int64_t i)
{
    if (k->in[p->target]->dtype == WEFT_I64) return ((const int64_t *)targets)[i];
    return ((const int32_t *)targets)[i];
}

/** The target's column of this rank's box, -1 where another rank has it. */
static int64_t column_of(const struct wf_kcall *k, int64_t target, int64_t row)
{
    const struct wf_desc *z = k->in[0];
    int last = z->ndim - 1;

    if (target < 0 || target >= z->global[last])
        WF_DIE("%s: target %lld at position %lld is outside the %lld classes", k->op,
               (long long)target, (long long)row, (long long)z->global[last]);
    target -= z->offset[last];
    return target >= 0 && target < z->shape[last] ? target : -1;
}

static void sum_run(const struct wf_kcall *k, void *const *out, const void *const *in,
                    const struct wf_scalars *scalars)
{
    const struct xent *p = k->prep;
    const struct wf_operand *z = &p->in[0];
    int64_t bytes = wf_dtypes[k->in[0]->dtype].size, rows = p->in[1].rows;
    const void *ready[MAX_OPERANDS];

    operands_ready(p, in, ready);
    for (int64_t i = 0; i < rows; i++) {
        const char *row = (const char *)ready[0] + i * z->ld * bytes;
        int64_t target = target_at(k, p, ready[2], i);
        int64_t column = target == scalars->v[0] ? -1 : column_of(k, target, i);
        double m = real_at(p, ready[1], i), picked = 0;

        if (column >= 0) picked = wf_dtypes[k->in[0]->dtype].load(row + column * bytes) - m;
        real_put(p, out[0], i, p->loops->sum(z->cols, row, m));
        real_put(p, out[0], rows + i, picked);
    }
}

static void loss_run(const struct wf_kcall *k, void *const *out, const void *const *in,
                     const struct wf_scalars *scalars)
{
    const struct xent *p = k->prep;
    int64_t rows = p->in[1].rows,
            bytes = p->sums_are_f64 ? (int64_t)sizeof(double) : (int64_t)sizeof(float);
    const void *ready[MAX_OPERANDS];

    operands_ready(p, in, ready);
    p->loops->loss(rows, ready[0], (const char *)ready[0] + rows * bytes, out[0]);
    for (int64_t i = 0; i < rows; i++)
        if (target_at(k, p, ready[1], i) == scalars->v[0]) real_put(p, out[0], i, 0);
}

static void grad_run(const struct wf_kcall *k, void *const *out, const void *const *in,
                     const struct wf_scalars *scalars)
{
    const struct xent *p = k->prep;
    const struct wf_operand *z = &p->in[0];
    const struct wf_dtype_info *type = &wf_dtypes[k->in[0]->dtype];
    const void *ready[MAX_OPERANDS];

    operands_ready(p, in, ready);
    for (int64_t i = 0; i < p->in[1].rows; i++) {
        const char *row = (const char *)ready[0] + i * z->ld * type->size;
        char *dz = (char *)out[0] + i * z->cols * type->size;
        int64_t target = target_at(k, p, ready[3], i), column;
        double m = real_at(p, ready[1], i), g = real_at(p, ready[4], i);
        double s = real_at(p, ready[2], i), z_target;

        if (target == scalars->v[0]) {
            memset(dz, 0, (size_t)(z->cols * type->size));
            continue;
        }
        p->loops->grad(z->cols, row, m, g / s, dz);
        column = column_of(k, target, i);
        if (column < 0) continue;
        /* From the logit itself, since dz holds a rounded value. */
        z_target = type->load(row + column * type->size);
        type->store(dz + column * type->size, g * (exp(z_target - m) / s - 1));
    }
}

static weft_status need_dtypes(const struct wf_kcall *k, int logits, int target)
{
    bool wide = k->in[0]->dtype == WEFT_F64;
    uint8_t sums = wide ? WEFT_F64 : WEFT_F32, t = k->in[target]->dtype;

    if (!wf_dtypes[k->in[0]->dtype].is_float) return wf_no_kernel(k, k->in[0]->dtype);
    WF_NEED(t == WEFT_I32 || t == WEFT_I64, WEFT_ERR_DTYPE, "%s: targets are i32 or i64, not %s",
            k->op, wf_dtypes[t].name);
    for (int i = logits; i < k->n_in; i++)
        WF_NEED(i == target || k->in[i]->dtype == sums, WEFT_ERR_DTYPE, "%s: %s beside %s", k->op,
                wf_dtypes[k->in[i]->dtype].name, wf_dtypes[k->in[0]->dtype].name);
    return WEFT_OK;
}

/* The first `logits` inputs (0 or 1) have rows of their own; the others are one number per row. */
static weft_status prepare(struct wf_kcall *k, int logits, int target, wf_kernel_run *run)
{
    struct xent *p;
    size_t scratch = 0;

    WF_TRY(need_dtypes(k, logits, target));
    p = WF_NEW(struct xent);
    p->loops = &WF_ISA_PICK(wf_xents)->of[k->in[0]->dtype];
    p->n_in = k->n_in;
    p->target = target;
    p->sums_are_f64 = k->in[0]->dtype == WEFT_F64;
    for (int i = 0; i < k->n_in; i++) {
        if (i < logits)
            wf_operand_prepare_rows(&p->in[i], k->in[i], k->in[i]->ndim - 1);
        else
            wf_operand_prepare_dense(&p->in[i], k->in[i]);
        scratch += p->in[i].scratch;
    }
    wf_scratch_reserve(scratch);
    k->prep = p;
    k->drop = xent_drop;
    k->run = k->out[0]->numel ? run : wf_run_nothing;
    return WEFT_OK;
}

weft_status wf_cpu_xent_sum(struct wf_kcall *k) { return prepare(k, 1, 2, sum_run); }
weft_status wf_cpu_xent_loss(struct wf_kcall *k) { return prepare(k, 0, 1, loss_run); }
weft_status wf_cpu_xent_grad(struct wf_kcall *k) { return prepare(k, 1, 3, grad_run); }
