/*
 * step_graph.c: a program's step as a graph. It decides which runs are ordinary and why.
 */
#include "step_graph/step_graph.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/observers.h"
#include "base/recorder.h"
#include "device/capture.h"
#include "tensor/tensor.h"

weft_step_graph *weft_step_graph_new(weft_mesh *mesh, weft_step_function *function, void *payload)
{
    weft_step_graph *graph;

    if (!mesh) return NULL;
    WF_NEED_PTR(function, WEFT_ERR_ARG, "step graph: no function");
    graph = WF_NEW(weft_step_graph);
    graph->mesh = weft_mesh_retain(mesh);
    graph->function = function;
    graph->payload = payload;
    return graph;
}

void weft_step_graph_release(weft_step_graph *graph)
{
    if (!graph) return;
    weft_release(graph->result);
    wf_step_graph_drop(graph);
    weft_mesh_release(graph->mesh);
    wf_free(graph);
}

const char *weft_step_graph_reason(const weft_step_graph *graph)
{
    return WF_HANDLE(graph)->reason[0] ? graph->reason : NULL;
}

int64_t weft_step_graph_launch_count(const weft_step_graph *graph)
{
    return WF_HANDLE(graph)->launches;
}

/* ---- reasons ---- */

void wf_step_graph_set_reason(weft_step_graph *graph, const char *why)
{
    snprintf(graph->reason, sizeof graph->reason, "%s", why);
}

void wf_step_graph_log_reason(weft_step_graph *graph)
{
    if (strcmp(graph->reason, graph->told) == 0) return;
    memcpy(graph->told, graph->reason, sizeof graph->told);
    if (wf_log_rank() <= 0)
        WF_LOG(weft_mesh_device(graph->mesh) == WEFT_CUDA ? WF_LOG_WARN : WF_LOG_INFO, "graph",
               "a step is not launched as a graph: %s", graph->reason);
}

/* What holds for any step now; NULL: nothing. What watches may do so on this rank alone: with
 * collectives in the graphs of others, this one's is launched all the same. */
static const char *reason_why_no_step_can_be_launched(const weft_step_graph *graph)
{
    if (weft_mesh_device(graph->mesh) != WEFT_CUDA) return "the mesh is not on a GPU";
    if (!weft_mesh_is_member(graph->mesh)) return "this rank is not in the mesh";
    if (wf_capture_of_thread) return "it is part of another step that is being captured";
    if (wf_recorder) return "it is part of a compiled function";
    if (wf_observed_events && !(graph->graph && wf_graph_has_collectives(graph->graph)))
        return "a ledger, a trace or a forecast watches it";
    return NULL;
}

/* The inputs are not as the graph has them: true, and why. */
static bool inputs_differ(weft_step_graph *graph, weft_tensor *const *in, int n)
{
    char now[TENSOR_BYTES], then[TENSOR_BYTES];

    if (n != graph->n_in) {
        snprintf(graph->reason, sizeof graph->reason, "%d inputs, captured with %d", n,
                 graph->n_in);
        return true;
    }
    for (int i = 0; i < n; i++) {
        if (in[i]->layout == graph->in[i]->layout) continue;
        weft_tensor_format(in[i], now, sizeof now);
        weft_tensor_format(graph->in[i], then, sizeof then);
        snprintf(graph->reason, sizeof graph->reason, "input %d is %s, captured was %s", i, now,
                 then);
        return true;
    }
    return false;
}

/* Inputs that a graph cannot have: true, and why. */
static bool inputs_are_elsewhere(weft_step_graph *graph, weft_tensor *const *in, int n)
{
    for (int i = 0; i < n; i++) {
        if (wf_device_of(in[i]) == WEFT_CUDA) continue;
        snprintf(graph->reason, sizeof graph->reason, "input %d is not on the GPU", i);
        return true;
    }
    return false;
}

/* ---- ordinary runs ----
 *
 * The last result goes before a step that makes another. Inside another step's capture, or a
 * compiled function, nothing of before may go, and results are the step's.
 */

weft_tensor *wf_step_graph_call(weft_step_graph *graph, weft_tensor *const *in, int n)
{
    weft_scope *scope = weft_scope_open();

    graph->result = weft_retain(graph->function(in, n, graph->payload));
    if (graph->result) wf_wait_ready(graph->result);
    weft_scope_close(scope);
    return graph->result;
}

weft_tensor *wf_step_graph_run_ordinary(weft_step_graph *graph, weft_tensor *const *in, int n)
{
    wf_step_graph_log_reason(graph);
    if (wf_capture_of_thread || wf_recorder) return graph->function(in, n, graph->payload);
    weft_release(graph->result);
    graph->result = NULL;
    return wf_step_graph_call(graph, in, n);
}

/* ---- runs ---- */

weft_tensor *weft_step_graph_run(weft_step_graph *graph, weft_tensor *const *in, int n)
{
    const char *why;
    bool first;

    if (!graph) return NULL;
    WF_NEED_PTR(n == 0 || (n > 0 && n <= MOST_INPUTS && in), WEFT_ERR_ARG,
                "step graph: %d inputs, or no list of them; at most %d", n, MOST_INPUTS);
    for (int i = 0; i < n; i++)
        if (!in[i]) return NULL;
    WF_NEED_PTR(!graph->graph || !wf_graph_is_closed(graph->graph), WEFT_ERR_STATE,
                "step graph: it was captured before weft_finalize, and cannot be launched after");
    why = reason_why_no_step_can_be_launched(graph);
    first = !graph->ran;
    graph->ran = true; /* also of a run that somebody watches on this rank alone */
    if (why) {
        wf_step_graph_set_reason(graph, why);
        return wf_step_graph_run_ordinary(graph, in, n);
    }
    if (graph->never) return wf_step_graph_run_ordinary(graph, in, n);
    if (inputs_are_elsewhere(graph, in, n)) return wf_step_graph_run_ordinary(graph, in, n);
    if (graph->graph)
        return inputs_differ(graph, in, n) ? wf_step_graph_run_ordinary(graph, in, n)
                                           : wf_step_graph_launch(graph, in, n);
    if (!first) return wf_step_graph_capture(graph, in, n);
    wf_step_graph_set_reason(graph, "the first run is an ordinary one");
    memcpy(graph->told, graph->reason, sizeof graph->told); /* that is no matter for the log */
    return wf_step_graph_run_ordinary(graph, in, n);
}
