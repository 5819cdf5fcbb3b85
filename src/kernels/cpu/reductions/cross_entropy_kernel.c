/*
 * cross_entropy_kernel.c: cross-entropy with logits, in three steps that a sharded vocabulary can
 * reduce between.
 *
 *   sum    s = sum_j e^(z_j - m), p = sum_j w_j q_j (z_j - m)
 *   loss   W log s - p + zeta (m + log s)^2
 *   grad   dz_j = g ((W + 2 zeta (m + log s)) e^(z_j - m) / s - w_j q_j)
 *
 * with class weights w (1 unless given), the target's distribution q_j = (1 - eps) [j = target] +
 * eps / V under smoothing eps over all V classes, W = sum_j w_j q_j and zeta the z-loss. z may be
 * some columns of the global vocabulary: s and p are then this rank's terms, and W needs no
 * exchange, since every rank has all weights. Rows whose target is ignored give p = 0, loss 0 and
 * gradient 0; those whose target is no class are counted, and their loss is NaN.
 */
#include "kernels/cpu/reductions/cross_entropy_kernel.h"

#include <math.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/scratch.h"
#include "kernels/operands/operand_checks.h"

enum { MAX_OPERANDS = 6 };

struct xent {
    const struct wf_xent_loops *loops;
    struct wf_operand in[MAX_OPERANDS];
    int n_in;
    int target, weight; /* which inputs they are */
    bool sums_are_f64;
};

/* The terms of a loss that all rows of a call share. */
struct terms {
    const struct xent *p;
    const void *targets, *weights; /* weights: NULL where all are 1 */
    double target_share;           /* 1 - eps */
    double class_share;            /* eps / V */
    double all_weights;            /* sum over all classes; read under smoothing only */
    int64_t classes, ignored;
};

static void xent_free(void *prep)
{
    struct xent *p = prep;

    for (int i = 0; i < p->n_in; i++) wf_operand_free(&p->in[i]);
    wf_scratch_release();
    wf_free(p);
}

/* Every operand as dense rows, copied behind each other into scratch where it is not. */
static void make_operands_dense(const struct wf_kernel_call *k, const void *const *in,
                                const void **ready)
{
    const struct xent *p = k->prep;
    char *scratch = wf_scratch_buffer();

    for (int i = 0; i < p->n_in; i++) {
        ready[i] = k->in[i] ? wf_operand_copy_if_needed(&p->in[i], in[i], scratch) : NULL;
        scratch += p->in[i].scratch;
    }
}

static double load_real(const struct xent *p, const void *x, int64_t i)
{
    return p->sums_are_f64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static void store_real(const struct xent *p, void *x, int64_t i, double value)
{
    if (p->sums_are_f64)
        ((double *)x)[i] = value;
    else
        ((float *)x)[i] = (float)value;
}

static struct terms make_terms(const struct wf_kernel_call *k, const void *const *ready,
                               int64_t classes, const struct wf_scalars *scalars)
{
    const struct xent *p = k->prep;
    struct terms t = {.p = p,
                      .targets = ready[p->target],
                      .weights = p->weight < p->n_in ? ready[p->weight] : NULL,
                      .target_share = 1 - scalars->s[0],
                      .class_share = scalars->s[0] / (double)classes,
                      .all_weights = (double)classes,
                      .classes = classes,
                      .ignored = scalars->v[0]};

    if (scalars->s[0] != 0 && t.weights) {
        t.all_weights = 0;
        for (int64_t j = 0; j < classes; j++) t.all_weights += load_real(p, t.weights, j);
    }
    return t;
}

enum { IGNORED = -1, NO_CLASS = -2 };

/* The class that row i is to have. */
static int64_t target_class(const struct wf_kernel_call *k, const struct terms *t, int64_t i)
{
    int64_t target = k->in[t->p->target]->dtype == WEFT_I64 ? ((const int64_t *)t->targets)[i]
                                                            : ((const int32_t *)t->targets)[i];

    if (target == t->ignored) return IGNORED;
    return target >= 0 && target < t->classes ? target : NO_CLASS;
}

static double class_weight(const struct terms *t, int64_t class)
{
    return t->weights ? load_real(t->p, t->weights, class) : 1;
}

/* W of a row: what its terms weigh together. */
static double total_weight(const struct terms *t, int64_t class)
{
    double all = t->class_share != 0 ? t->class_share * t->all_weights : 0;

    return t->target_share * class_weight(t, class) + all;
}

/* The weights of this rank's columns, which begin at `first`. */
static const void *weights_of_columns(const struct terms *t, int64_t first)
{
    size_t bytes = t->p->sums_are_f64 ? sizeof(double) : sizeof(float);

    return t->weights ? (const char *)t->weights + (size_t)first * bytes : NULL;
}

static void sum_run(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                    const struct wf_scalars *scalars)
{
    const struct xent *p = k->prep;
    const struct wf_operand *z = &p->in[0];
    const struct wf_dtype_info *type = &wf_dtypes[k->in[0]->dtype];
    int64_t rows = p->in[1].rows, first = k->in[0]->offset[k->in[0]->ndim - 1];
    const void *ready[MAX_OPERANDS], *weights;
    struct terms t;

    make_operands_dense(k, in, ready);
    t = make_terms(k, ready, k->in[0]->global[k->in[0]->ndim - 1], scalars);
    weights = weights_of_columns(&t, first);
    for (int64_t i = 0; i < rows; i++) {
        const char *row = (const char *)ready[0] + i * z->ld * type->size;
        int64_t class = target_class(k, &t, i), column = class - first;
        double m = load_real(p, ready[1], i), picked = 0, sum;

        if (class >= 0 && t.class_share != 0) {
            sum = p->loops->sums(z->cols, row, m, weights, &picked);
            picked *= t.class_share;
        } else {
            sum = p->loops->sum(z->cols, row, m);
        }
        if (class >= 0 && column >= 0 && column < z->cols)
            picked += t.target_share * class_weight(&t, class) *
                      (type->load(row + column * type->size) - m);
        store_real(p, out[0], i, sum);
        store_real(p, out[0], rows + i, picked);
    }
}

static void loss_run(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                     const struct wf_scalars *scalars)
{
    const struct xent *p = k->prep;
    double total = 0, weights = 0, zeta = scalars->s[1];
    int64_t rows = p->in[1].rows, bad = 0;
    const void *ready[MAX_OPERANDS];
    struct terms t;

    make_operands_dense(k, in, ready);
    t = make_terms(k, ready, scalars->v[1], scalars);
    p->loops->log(rows, ready[0], out[0]);
    for (int64_t i = 0; i < rows; i++) {
        int64_t class = target_class(k, &t, i);
        double log_s = load_real(p, out[0], i), lse = load_real(p, ready[1], i) + log_s, loss = 0;

        if (class >= 0) {
            loss = total_weight(&t, class) * log_s - load_real(p, ready[0], rows + i);
            if (zeta != 0) loss += zeta * lse * lse;
            weights += class_weight(&t, class);
        } else if (class == NO_CLASS) {
            loss = (double)NAN;
            bad++;
        }
        store_real(p, out[0], i, loss);
        total += loss;
    }
    store_real(p, out[1], 0, total);
    store_real(p, out[1], 1, weights);
    store_real(p, out[1], 2, (double)bad);
}

static void grad_run(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                     const struct wf_scalars *scalars)
{
    const struct xent *p = k->prep;
    const struct wf_operand *z = &p->in[0];
    const struct wf_dtype_info *type = &wf_dtypes[k->in[0]->dtype];
    int64_t first = k->in[0]->offset[k->in[0]->ndim - 1];
    const void *ready[MAX_OPERANDS], *weights;
    struct terms t;

    make_operands_dense(k, in, ready);
    t = make_terms(k, ready, k->in[0]->global[k->in[0]->ndim - 1], scalars);
    weights = weights_of_columns(&t, first);
    for (int64_t i = 0; i < p->in[1].rows; i++) {
        const char *row = (const char *)ready[0] + i * z->ld * type->size;
        char *dz = (char *)out[0] + i * z->cols * type->size;
        int64_t class = target_class(k, &t, i), column = class - first;
        double m = load_real(p, ready[1], i), s = load_real(p, ready[2], i);
        double g = load_real(p, ready[4], i), share, z_target;

        if (class < 0) {
            memset(dz, 0, (size_t)(z->cols * type->size));
            continue;
        }
        share = total_weight(&t, class);
        if (scalars->s[1] != 0) share += 2 * scalars->s[1] * (m + log(s));
        p->loops->grad(z->cols, row, m, g * share / s, g * t.class_share, weights, dz);
        if (column < 0 || column >= z->cols) continue;
        /* From the logit itself, since dz holds a rounded value. */
        z_target = type->load(row + column * type->size);
        share *= exp(z_target - m) / s;
        share -= (t.target_share + t.class_share) * class_weight(&t, class);
        type->store(dz + column * type->size, g * share);
    }
}

/* The first `logits` inputs (0 or 1) have rows of their own; the others are one number per row,
 * or, the last, per class. */
static weft_status prepare_xent(struct wf_kernel_call *k, int logits, int target, int weight,
                                wf_kernel_run *run)
{
    struct xent *p;
    size_t scratch = 0;

    if (!wf_dtypes[k->in[0]->dtype].is_float) return wf_fail_no_kernel(k, k->in[0]->dtype);
    WF_TRY(wf_check_cross_entropy_inputs(k, logits, target));
    p = WF_NEW(struct xent);
    p->loops = &WF_ISA_PICK(wf_xents)->of[k->in[0]->dtype];
    p->n_in = k->n_in;
    p->target = target;
    p->weight = weight;
    p->sums_are_f64 = k->in[0]->dtype == WEFT_F64;
    for (int i = 0; i < k->n_in; i++) {
        if (!k->in[i]) continue;
        if (i < logits)
            wf_operand_prepare_rows(&p->in[i], k->in[i], k->in[i]->ndim - 1);
        else
            wf_operand_prepare_dense(&p->in[i], k->in[i]);
        scratch += p->in[i].scratch;
    }
    wf_scratch_reserve(scratch);
    k->prep = p;
    k->drop = xent_free;
    k->run =
        k->out[0]->numel || k->n_out > 1 ? run : wf_kernel_run_noop; /* totals are always written */
    return WEFT_OK;
}

weft_status wf_cpu_xent_sum(struct wf_kernel_call *k) { return prepare_xent(k, 1, 2, 3, sum_run); }
weft_status wf_cpu_xent_loss(struct wf_kernel_call *k)
{
    return prepare_xent(k, 0, 2, 3, loss_run);
}
weft_status wf_cpu_xent_grad(struct wf_kernel_call *k)
{
    return prepare_xent(k, 1, 3, 5, grad_run);
}
