/*
 * norm.c: layer_norm, rms_norm and their gradients over the last dim.
 *
 * Sums for the weight and the bias meet in the computing type over WF_NORM_BLOCK rows, and the
 * blocks in f64. A weight or bias that is left out is an array of ones or zeros in the plan.
 */
#include "kernels/cpu/reductions/norm.h"

#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/reductions/row_plan.h"

/* Where an operand stands among the kernel's inputs and outputs; -1: not at all. */
struct places {
    int d, x, weight, bias, mean, rstd; /* inputs (mean, rstd: outputs of the forward) */
    int dweight, dbias;                 /* outputs */
};

static const struct places layer_places = {-1, 0, 1, 2, 1, 2, -1, -1};
static const struct places rms_places = {-1, 0, 1, -1, -1, 1, -1, -1};
static const struct places layer_grad_places = {0, 1, 2, -1, 3, 4, 1, 2};
static const struct places rms_grad_places = {0, 1, 2, -1, -1, 3, 1, -1};

struct norm {
    const struct places *at;
    void (*loop)(const struct wf_norm_rows *rows);
    void (*flush)(int64_t n, void *partial, double *totals);
    void (*store)(int64_t n, const double *totals, void *to);
    struct wf_row_plan rows;
    int64_t real_bytes; /* of the computing type */
    struct parameter {
        int place; /* among the inputs; -1: left out */
        int64_t stride;
        char *room; /* the default, or room for a strided one */
    } weight, bias;
    char *partial; /* NULL unless a parameter's gradient is wanted */
    double *totals;
};

static void free_norm(void *prep)
{
    struct norm *p = prep;

    wf_free(p->rows.scratch);
    wf_free(p->weight.room);
    wf_free(p->bias.room);
    wf_free(p->partial);
    wf_free(p->totals);
    wf_free(p);
}

/* The parameter without gaps. */
static const void *dense_parameter(const struct norm *p, const struct parameter *w,
                                   const void *const *in)
{
    if (w->place < 0) return w->room;
    if (w->stride == 1) return in[w->place];
    wf_gather_strided(w->room, in[w->place], p->rows.n, w->stride, p->rows.bytes);
    return w->room;
}

static struct wf_norm_rows loop_arguments(const struct norm *p, void *const *out,
                                          const void *const *in)
{
    struct wf_norm_rows a = {.n = p->rows.n, .y = out[0], .x = in[p->at->x], .partial = p->partial};

    a.weight = dense_parameter(p, &p->weight, in);
    a.bias = dense_parameter(p, &p->bias, in);
    return a;
}

/* One call of the loop for rows that are not dense. `a` holds the first row's statistics. */
static void run_strided_row(const struct norm *p, const struct wf_loop_walk *walk,
                            struct wf_norm_rows *a, void *y)
{
    a->rows = 1;
    a->y = (char *)y + (walk->at[0] - (char *)y);
    if (p->at->d >= 0) a->d = wf_row_load(&p->rows, p->at->d + 1, walk->at[p->at->d + 1]);
    a->x = wf_row_load(&p->rows, p->at->x + 1, walk->at[p->at->x + 1]);
    p->loop(a);
    if (a->mean) a->mean = (char *)a->mean + p->real_bytes;
    if (a->rstd) a->rstd = (char *)a->rstd + p->real_bytes;
}

static bool output_is_wanted(const struct wf_kernel_call *k, int place)
{
    return place >= 0 && place < k->n_out && k->out[place];
}

static void run_forward(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                        const struct wf_scalars *scalars)
{
    const struct norm *p = k->prep;
    struct wf_norm_rows a = loop_arguments(p, out, in);
    struct wf_loop_walk walk = {.at = {out[0], in[0]}};

    a.mean = output_is_wanted(k, p->at->mean) ? out[p->at->mean] : NULL;
    a.rstd = output_is_wanted(k, p->at->rstd) ? out[p->at->rstd] : NULL;
    a.eps = scalars->s[0];
    a.rows = p->rows.count;
    if (p->rows.dense) {
        p->loop(&a);
        return;
    }
    if (p->rows.count == 0) return;
    do run_strided_row(p, &walk, &a, out[0]);
    while (wf_loop_walk_next(&p->rows.outer, &walk));
}

static void run_dense_blocks(const struct norm *p, struct wf_norm_rows *a)
{
    const int64_t step = WF_NORM_BLOCK * p->rows.n * p->rows.bytes;

    for (int64_t r = 0; r < p->rows.count; r += WF_NORM_BLOCK) {
        a->rows = p->rows.count - r < WF_NORM_BLOCK ? p->rows.count - r : WF_NORM_BLOCK;
        p->loop(a);
        if (p->partial) p->flush(2 * p->rows.n, p->partial, p->totals);
        a->d = (const char *)a->d + step;
        a->x = (const char *)a->x + step;
        a->y = (char *)a->y + step;
        if (a->mean) a->mean = (char *)a->mean + WF_NORM_BLOCK * p->real_bytes;
        a->rstd = (char *)a->rstd + WF_NORM_BLOCK * p->real_bytes;
    }
}

static void run_strided_blocks(const struct norm *p, struct wf_norm_rows *a, void *dx,
                               const void *const *in)
{
    struct wf_loop_walk walk = {.at = {dx, in[0], in[1]}};
    int64_t r = 0;
    bool more = p->rows.count > 0;

    while (more) {
        run_strided_row(p, &walk, a, dx);
        more = wf_loop_walk_next(&p->rows.outer, &walk);
        if (p->partial && (++r % WF_NORM_BLOCK == 0 || !more))
            p->flush(2 * p->rows.n, p->partial, p->totals);
    }
}

/* Statistics are only read here, though the loops' arguments say void *. */
static void *cast_away_const(const void *p)
{
    void *q;

    memcpy(&q, &p, sizeof q);
    return q;
}

static void run_grad(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                     const struct wf_scalars *scalars)
{
    const struct norm *p = k->prep;
    struct wf_norm_rows a = loop_arguments(p, out, in);

    (void)scalars;
    a.d = in[p->at->d];
    a.mean = p->at->mean >= 0 ? cast_away_const(in[p->at->mean]) : NULL;
    a.rstd = cast_away_const(in[p->at->rstd]);
    if (p->totals) memset(p->totals, 0, (size_t)(2 * p->rows.n) * sizeof *p->totals);
    if (p->rows.dense)
        run_dense_blocks(p, &a);
    else
        run_strided_blocks(p, &a, out[0], in);
    if (output_is_wanted(k, p->at->dweight)) p->store(p->rows.n, p->totals, out[p->at->dweight]);
    if (output_is_wanted(k, p->at->dbias))
        p->store(p->rows.n, p->totals + p->rows.n, out[p->at->dbias]);
}

static struct parameter make_parameter(const struct wf_kernel_call *k, const struct norm *p,
                                       int place, double standard)
{
    struct parameter w = {.place = -1, .stride = 1};
    const struct wf_tensor_desc *desc = place >= 0 && place < k->n_in ? k->in[place] : NULL;

    if (desc) w.place = place;
    if (desc && p->rows.n > 1) w.stride = desc->stride[0];
    if (desc && w.stride == 1) return w;
    w.room = wf_malloc((size_t)((p->rows.n + 1) * p->rows.bytes));
    for (int64_t j = 0; j < p->rows.n; j++)
        wf_dtypes[k->out[0]->dtype].store(w.room + j * p->rows.bytes, standard);
    return w;
}

static weft_status check_dtypes(const struct wf_kernel_call *k, const struct places *at)
{
    uint8_t dtype = k->out[0]->dtype, real = dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;

    if (!wf_dtype_is_float(dtype)) return wf_fail_no_kernel(k, dtype);
    for (int i = 0; i < k->n_in; i++) {
        bool statistic = at->d >= 0 && (i == at->mean || i == at->rstd);

        WF_NEED(!k->in[i] || k->in[i]->dtype == (statistic ? real : dtype), WEFT_ERR_DTYPE,
                "%s: input %d is %s beside %s", k->op, i, wf_dtypes[k->in[i]->dtype].name,
                wf_dtypes[dtype].name);
    }
    WF_NEED(k->out[0]->ndim > 0, WEFT_ERR_SHAPE, "%s: a scalar has no dim to normalise", k->op);
    return WEFT_OK;
}

static weft_status prepare_norm(struct wf_kernel_call *k, const struct places *at,
                                const struct wf_norms *table, const struct wf_norm_loops *loops)
{
    uint8_t dtype = k->out[0]->dtype;
    struct norm *p;

    WF_TRY(check_dtypes(k, at));
    k->prep = p = WF_NEW(struct norm);
    k->drop = free_norm;
    p->at = at;
    p->loop = at->d >= 0 ? loops[dtype].grad : loops[dtype].forward;
    p->flush = table->flush[dtype];
    p->store = table->store[dtype];
    p->real_bytes = dtype == WEFT_F64 ? 8 : 4;
    wf_row_plan_make(&p->rows, k, at->d >= 0 ? 2 : 1, k->out[0]->ndim - 1);
    p->weight = make_parameter(k, p, at->weight, 1);
    p->bias = make_parameter(k, p, at->bias, 0);
    if (output_is_wanted(k, at->dweight) || output_is_wanted(k, at->dbias)) {
        p->partial = wf_calloc((size_t)(2 * p->rows.n + 1), (size_t)p->real_bytes);
        p->totals = wf_calloc((size_t)(2 * p->rows.n + 1), sizeof *p->totals);
    }
    k->run = at->d >= 0 ? run_grad : run_forward;
    return WEFT_OK;
}

weft_status wf_cpu_layer_norm(struct wf_kernel_call *k)
{
    const struct wf_norms *table = WF_ISA_PICK(wf_norms);

    return prepare_norm(k, &layer_places, table, table->layer);
}

weft_status wf_cpu_rms_norm(struct wf_kernel_call *k)
{
    const struct wf_norms *table = WF_ISA_PICK(wf_norms);

    return prepare_norm(k, &rms_places, table, table->rms);
}

weft_status wf_cpu_layer_norm_grad(struct wf_kernel_call *k)
{
    const struct wf_norms *table = WF_ISA_PICK(wf_norms);

    return prepare_norm(k, &layer_grad_places, table, table->layer);
}

weft_status wf_cpu_rms_norm_grad(struct wf_kernel_call *k)
{
    const struct wf_norms *table = WF_ISA_PICK(wf_norms);

    return prepare_norm(k, &rms_grad_places, table, table->rms);
}
