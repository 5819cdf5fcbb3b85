/* compare_f64.c: how far the result of each node is from that of its op in f64. */
#include "compile/tools/compare_f64.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include <weft/ops.h>

static bool is_short_float(const struct wf_layout *layout)
{
    weft_dtype dtype = (weft_dtype)layout->desc.dtype;

    return dtype == WEFT_F32 || dtype == WEFT_BF16 || dtype == WEFT_F16;
}

/* Where it is given no other: f32 adds up some hundred roundings, 16 bits few. */
static double tolerance_of(weft_dtype dtype, const weft_compile_check *check)
{
    if (check->f64_relative > 0) return check->f64_relative;
    return dtype == WEFT_F32 ? 1e-4 : 0.03;
}

weft_tensor *wf_call_run_f64(const struct wf_call_list *list, int i, weft_tensor **of)
{
    const struct wf_call *call = &list->calls[i];
    struct wf_op_args args = {
        .attr_words = call->attr_words, .attrs = &call->attrs, .scalars = call->scalars};
    weft_tensor *in[WF_MAX_IN], *more[WF_MAX_OUT], *result;
    int floats = 0;

    if (call->kind != WF_CALL_OP || call->out[0] < 0 || !wf_op_has_kernel(&wf_ops[call->op]) ||
        wf_ops[call->op].linear & WF_CONVERTS || !is_short_float(list->slots[call->out[0]].layout))
        return NULL;
    for (int k = 0; k < call->n_in; k++) {
        in[k] = call->in[k] >= 0 ? of[call->in[k]] : NULL;
        if (!in[k] || !is_short_float(in[k]->layout)) continue;
        in[k] = weft_cast(in[k], WEFT_F64);
        if (!in[k]) { /* terms of a plain sum, which no op takes but few */
            weft_error_clear();
            return NULL;
        }
        floats++;
    }
    if (!floats) return NULL;
    if (call->want) /* some ops take the shape of their result from it */
        args.want = is_short_float(call->want) ? wf_layout_with_dtype(call->want, WEFT_F64)
                                               : wf_layout_retain(call->want);
    result = wf_dispatch_op(call->op, in, call->n_in, &args, more);
    if (args.want) wf_layout_release(args.want);
    if (!result) weft_error_clear(); /* it has none */
    if (!result || result->layout->desc.dtype != WEFT_F64) return NULL;
    return result;
}

weft_status wf_f64_report_add(struct wf_f64_report *report, const weft_compile_check *check,
                              int node, const weft_tensor *got, const weft_tensor *want)
{
    int64_t n = weft_local_numel(got);
    double *a, *b, largest = 0, off = 0;
    weft_status status;

    if (got->layout->mesh != want->layout->mesh || weft_local_numel(want) != n ||
        memcmp(got->layout->placements, want->layout->placements, sizeof got->layout->placements) !=
            0)
        return WEFT_OK;
    a = wf_malloc(((size_t)n + 1) * sizeof *a);
    b = wf_malloc(((size_t)n + 1) * sizeof *b);
    status = weft_read_f64(got, a, n);
    if (status == WEFT_OK) status = weft_read_f64(want, b, n);
    for (int64_t k = 0; k < n && status == WEFT_OK; k++) {
        if (isfinite(b[k])) largest = fmax(largest, fabs(b[k]));
        if (isnan(a[k]) != isnan(b[k])) off = INFINITY;
        if (isfinite(b[k])) off = fmax(off, fabs(a[k] - b[k]));
    }
    wf_free(a);
    wf_free(b);
    if (off > 0) off /= largest > 0 ? largest : 1;
    report->compared++;
    if (off > report->worst) {
        report->worst = off;
        report->worst_node = node;
    }
    if (report->node < 0 && off > tolerance_of((weft_dtype)got->layout->desc.dtype, check)) {
        report->node = node;
        report->off = off;
    }
    return status;
}

void wf_f64_report_print(const struct wf_f64_report *report, const struct wf_call_list *list,
                         FILE *out)
{
    char name[200];

    if (report->node >= 0)
        fprintf(
            out,
            "against f64 the first beyond tolerance is %s: off by %.3g of its largest element\n",
            wf_call_name(list, report->node, name, sizeof name), report->off);
    else if (report->compared)
        fprintf(out, "against f64: %d nodes within tolerance, the farthest %s: %.3g\n",
                report->compared, wf_call_name(list, report->worst_node, name, sizeof name),
                report->worst);
    else
        fprintf(out, "against f64: no node has a kernel for it\n");
}
