/* compare_f64.h: nodes against themselves in f64. */
#pragma once

#include "compile/tools/call_list.h"

struct wf_f64_report {
    int node;          /* the first beyond the tolerance; -1: none */
    int worst_node;    /* and the worst of all */
    int compared;      /* nodes that have a kernel for f64 */
    double off, worst; /* of the largest element of the result */
};

/** What the call gives first, computed in f64 from its inputs as they are; NULL: it has no floats,
 * or no kernel for f64. Before the call itself, which may change them. */
weft_tensor *wf_call_run_f64(const struct wf_call_list *list, int i, weft_tensor **of);

weft_status wf_f64_report_add(struct wf_f64_report *report, const weft_compile_check *check,
                              int node, const weft_tensor *got, const weft_tensor *want);
void wf_f64_report_print(const struct wf_f64_report *report, const struct wf_call_list *list,
                         FILE *out);
