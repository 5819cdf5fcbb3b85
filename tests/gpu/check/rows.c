/*
 * rows.c: every sample of the op table (tests/cases), on the CPU and on the GPU, in every dtype
 * that it may have.
 *
 * The bound is a part of the largest element: some of the dtype's precision, since sums are added
 * in another order; nothing for integers, for what only moves, and for random numbers.
 */
#include <math.h>
#include <stdlib.h>

#include "base/elements/dtype.h"
#include "cases/op_cases.h"
#include "gpu/check/check.h"
#include "gpu/check/report.h"
#include "ops/fills/fill_ops.h"
#include "ops/op_functions.h"

struct operands {
    struct wt_operand is[WF_MAX_IN];
    weft_tensor *in[WF_MAX_IN];
    int n;
};

static weft_tensor *new_operand(const struct wt_op_case *sample, int i, const struct wt_operand *o,
                                weft_device device)
{
    weft_tensor *t = weft_to_device(weft_empty(o->dtype, o->shape, o->ndim), WEFT_CPU);

    for (int64_t e = 0; t && e < o->numel; e++)
        wf_dtypes[o->dtype].store((char *)weft_data(t) + (size_t)e * wf_dtypes[o->dtype].size,
                                  wt_operand_value(sample, i, o, e));
    return t ? weft_to_device(t, device) : NULL;
}

/* The first output; NULL: the op has failed. */
static weft_tensor *call_on(const struct wt_op_case *sample, weft_dtype dtype, weft_device device)
{
    struct wf_op_args args = wt_op_case_args(sample);
    struct operands operands = {.n = wt_operands(operands.is, sample, dtype)};

    for (int i = 0; i < operands.n; i++)
        if (operands.is[i].present) {
            operands.in[i] = new_operand(sample, i, &operands.is[i], device);
            if (!operands.in[i]) return NULL;
        }
    if (wf_ops[sample->op].n_in == 0)
        return wf_fill_with_op(sample->op, operands.in[0], args) == WEFT_OK ? operands.in[0] : NULL;
    return wf_dispatch_op_one_output(sample->op, operands.in, operands.n, &args);
}

static double *read_all(weft_tensor *t)
{
    int64_t n = weft_numel(t);
    double *values = malloc(((size_t)n + 1) * sizeof *values);

    if (!values || weft_read_f64(t, values, n) != WEFT_OK) abort();
    return values;
}

/* The largest difference beside the largest element; infinite where one alone is a NaN. */
static double relative_error(weft_tensor *got, weft_tensor *want)
{
    bool complex = weft_tensor_dtype(want) == WEFT_C64;
    double *g, *w, worst = 0, largest = 0;

    if (complex) got = weft_view_as_real(got);
    if (complex) want = weft_view_as_real(want);
    g = read_all(got);
    w = read_all(want);
    for (int64_t i = 0; i < weft_numel(want); i++) {
        if (isnan(g[i]) && isnan(w[i])) continue;
        if (g[i] != w[i])
            worst = fmax(worst, isnan(g[i]) || isnan(w[i]) ? INFINITY : fabs(g[i] - w[i]));
        if (isfinite(w[i])) largest = fmax(largest, fabs(w[i]));
    }
    free(g);
    free(w);
    return worst > 0 ? worst / fmax(largest, 1e-300) : 0;
}

static double bound_of(weft_dtype dtype)
{
    static const double bounds[WEFT_DTYPE_COUNT] = {[WEFT_F32] = 2e-5,
                                                    [WEFT_F64] = 1e-12,
                                                    [WEFT_BF16] = 1.6e-2,
                                                    [WEFT_F16] = 2e-3,
                                                    [WEFT_C64] = 2e-5};

    return bounds[dtype];
}

static void check_sample(const struct wt_op_case *sample, weft_dtype dtype)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *want = call_on(sample, dtype, WEFT_CPU), *got;

    if (want) { /* not what the CPU has no kernel for */
        got = call_on(sample, dtype, WEFT_CUDA);
        if (got)
            report_add((struct report_line){.group = "rows",
                                            .figure = "of the largest element",
                                            .bound = REPORT_AT_MOST,
                                            .value = relative_error(got, want),
                                            .limit = bound_of(weft_tensor_dtype(want)),
                                            .claim = "every op gives the CPU's values"},
                       "%s", wt_op_case_text(sample, dtype));
        else
            report_failure("rows", "every op gives the CPU's values", "%s",
                           wt_op_case_text(sample, dtype));
    }
    weft_scope_close(scope);
}

void check_rows(void)
{
    for (int i = 0; i < wt_op_case_count; i++)
        for (int d = 0; d < WEFT_DTYPE_COUNT; d++)
            if (wt_op_cases[i].dtypes >> d & 1) check_sample(&wt_op_cases[i], (weft_dtype)d);
}

/* ---- random numbers ---- */

typedef weft_status fill(weft_tensor *t, weft_generator *g);

static weft_status fill_uniform(weft_tensor *t, weft_generator *g)
{
    return weft_uniform_(t, -1, 2, g);
}

static weft_status fill_normal(weft_tensor *t, weft_generator *g)
{
    return weft_normal_(t, 0.5, 2, g);
}

static weft_status fill_randint(weft_tensor *t, weft_generator *g)
{
    return weft_randint_(t, -7, 90, g);
}

static weft_status fill_trunc_normal(weft_tensor *t, weft_generator *g)
{
    return weft_trunc_normal_(t, 0.5, 2, -1, 1.5, g);
}

static weft_status fill_geometric(weft_tensor *t, weft_generator *g)
{
    return weft_geometric_(t, 0.3, g);
}

static weft_status fill_dropped(weft_tensor *t, weft_generator *g)
{
    weft_status status = weft_fill_(t, 1);

    return status == WEFT_OK ? weft_copy_(t, weft_dropout(t, 0.3, g)) : status;
}

static int64_t count_different(fill *draw, weft_dtype dtype)
{
    enum { N = 100003 };
    weft_scope *scope = weft_scope_open();
    int64_t shape[] = {N}, different = 0;
    weft_tensor *on[2] = {weft_to_device(weft_empty(dtype, shape, 1), WEFT_CPU),
                          weft_to_device(weft_empty(dtype, shape, 1), WEFT_CUDA)};
    double *values[2];

    for (int i = 0; i < 2; i++) {
        weft_manual_seed(7);
        if (draw(on[i], NULL) != WEFT_OK) abort();
        values[i] = read_all(on[i]);
    }
    for (int i = 0; i < N; i++) different += values[0][i] != values[1][i];
    free(values[0]);
    free(values[1]);
    weft_scope_close(scope);
    return different;
}

void check_random(void)
{
    static const struct {
        const char *name;
        fill *draw;
    } draws[] = {{"uniform", fill_uniform},     {"normal", fill_normal},
                 {"randint", fill_randint},     {"trunc_normal", fill_trunc_normal},
                 {"geometric", fill_geometric}, {"dropout", fill_dropped}};
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_F16};

    for (size_t i = 0; i < sizeof draws / sizeof *draws; i++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
            report_add(
                (struct report_line){.group = "random",
                                     .figure = "elements of 100003 that differ",
                                     .bound = REPORT_AT_MOST,
                                     .value = (double)count_different(draws[i].draw, dtypes[d]),
                                     .claim = "random numbers have the CPU's bits"},
                "%s %s", draws[i].name, weft_dtype_name(dtypes[d]));
}
