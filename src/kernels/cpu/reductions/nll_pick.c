/*
 * nll_pick.c: the element of each row that its target names, times the class's weight.
 *
 *   x [*,V]  target [*]  w [V] or NULL (all 1)  ->  w_t x_t [*]  and w_t [*]
 *   d [*]    target [*]  w [V] or NULL          ->  dx [*,V]: w_t d at the target, 0 elsewhere
 *
 * This rank may have a run of the columns of x, or of dx: other targets give 0.
 */
#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/scratch.h"

struct pick {
    struct wf_operand x, target, weight; /* x: the first operand, x or d */
    struct wf_index_range columns;
    int64_t rows, classes;
    bool wide, has_weight; /* i64 targets */
    size_t size;
    double (*load)(const void *element);
    void (*store)(void *element, double value);
};

static void pick_free(void *prep)
{
    struct pick *p = prep;

    wf_operand_free(&p->x);
    wf_operand_free(&p->target);
    if (p->has_weight) wf_operand_free(&p->weight);
    wf_scratch_release();
    wf_free(p);
}

struct pick_run {
    const char *x, *weight;
    const void *target;
};

static struct pick_run begin_run(const struct pick *p, const struct wf_kernel_call *k,
                                 const void *const *in)
{
    char *x = wf_scratch_buffer(), *target = x + p->x.scratch, *weight = target + p->target.scratch;
    struct pick_run r = {.x = wf_operand_copy_if_needed(&p->x, in[0], x),
                         .target = wf_operand_copy_if_needed(&p->target, in[1], target)};

    if (p->has_weight && k->n_in > 2)
        r.weight = wf_operand_copy_if_needed(&p->weight, in[2], weight);
    return r;
}

/* The column of row i's target among those of this rank, -1: it is ignored, or another rank's. */
static int64_t column_of(const struct pick *p, const struct wf_kernel_call *k, const void *targets,
                         int64_t i, int64_t ignored)
{
    int64_t t = p->wide ? ((const int64_t *)targets)[i] : ((const int32_t *)targets)[i];

    if (t == ignored) return -1;
    if (t < 0 || t >= p->classes)
        WF_DIE("%s: target %lld is none of %lld classes, and is not ignored", k->op, (long long)t,
               (long long)p->classes);
    t -= p->columns.offset;
    return t >= 0 && t < p->columns.size ? t : -1;
}

static double weight_of(const struct pick *p, const char *weight, int64_t column)
{
    return weight ? p->load(weight + (size_t)(p->columns.offset + column) * p->size) : 1;
}

static void pick_run(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                     const struct wf_scalars *scalars)
{
    const struct pick *p = k->prep;
    struct pick_run r = begin_run(p, k, in);
    char *picked = out[0], *weights = out[1];

    for (int64_t i = 0; i < p->rows; i++, picked += p->size) {
        int64_t column = column_of(p, k, r.target, i, scalars->v[0]);
        double w = column >= 0 ? weight_of(p, r.weight, column) : 0;
        const char *x = r.x + (size_t)(i * p->x.ld + (column < 0 ? 0 : column)) * p->size;

        p->store(picked, column >= 0 ? w * p->load(x) : 0);
        if (!weights) continue;
        p->store(weights, w);
        weights += p->size;
    }
}

static void pick_grad_run(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                          const struct wf_scalars *scalars)
{
    const struct pick *p = k->prep;
    struct pick_run r = begin_run(p, k, in);
    char *dx = out[0];

    memset(dx, 0, (size_t)(p->rows * p->columns.size) * p->size);
    for (int64_t i = 0; i < p->rows; i++) {
        int64_t column = column_of(p, k, r.target, i, scalars->v[0]);

        if (column < 0) continue;
        p->store(dx + (size_t)(i * p->columns.size + column) * p->size,
                 weight_of(p, r.weight, column) * p->load(r.x + (size_t)i * p->size));
    }
}

/* `whole`: the operand with the columns. */
static weft_status prepare(struct wf_kernel_call *k, const struct wf_tensor_desc *whole,
                           wf_kernel_run *run)
{
    const struct wf_tensor_desc *target = k->in[1], *weight = k->n_in > 2 ? k->in[2] : NULL;
    uint8_t dtype = k->in[0]->dtype;
    int last = whole->ndim - 1;
    struct pick *p;

    if (!wf_dtypes[dtype].is_float) return wf_fail_no_kernel(k, dtype);
    if (weight && weight->dtype != dtype) return wf_fail_no_kernel(k, weight->dtype);
    if (target->dtype != WEFT_I32 && target->dtype != WEFT_I64)
        return wf_fail_no_kernel(k, target->dtype);
    k->run = wf_kernel_run_noop;
    if (k->out[0]->numel == 0) return WEFT_OK;
    k->prep = p = WF_NEW(struct pick);
    k->drop = pick_free;
    k->run = run;
    p->columns = (struct wf_index_range){whole->offset[last], whole->shape[last]};
    p->rows = target->numel;
    p->classes = whole->global[last];
    p->wide = target->dtype == WEFT_I64;
    p->has_weight = weight != NULL;
    p->size = wf_dtypes[dtype].size;
    p->load = wf_dtypes[dtype].load;
    p->store = wf_dtypes[dtype].store;
    if (whole == k->in[0])
        wf_operand_prepare_rows(&p->x, whole, last);
    else
        wf_operand_prepare_dense(&p->x, k->in[0]);
    wf_operand_prepare_dense(&p->target, target);
    if (weight) wf_operand_prepare_dense(&p->weight, weight);
    wf_scratch_reserve(p->x.scratch + p->target.scratch + p->weight.scratch);
    return WEFT_OK;
}

weft_status wf_cpu_nll_pick(struct wf_kernel_call *k) { return prepare(k, k->in[0], pick_run); }

weft_status wf_cpu_nll_pick_grad(struct wf_kernel_call *k)
{
    return prepare(k, k->out[0], pick_grad_run);
}
