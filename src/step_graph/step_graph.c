/*
 * step_graph.c: a program's step as a graph. It decides which runs are ordinary and why; all ranks
 * of the mesh agree on whether the captured step has a use, for a collective in it has to be in the
 * graph of every one of them.
 */
#include <weft/extend/step_graph.h>

#include <stdio.h>
#include <string.h>

#include <weft/autograd.h>
#include <weft/ops.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/observers.h"
#include "comm/comm.h"
#include "device/capture.h"
#include "device/device.h"
#include "mesh/mesh.h"
#include "ops/captured_draws.h"
#include "ops/op_plan.h"
#include "redistribute/in_flight.h"
#include "tensor/tensor.h"

enum { REASON_BYTES = 320, MOST_INPUTS = 8, TENSOR_BYTES = 128 };

struct weft_step_graph {
    weft_mesh *mesh; /* one reference */
    weft_step_function *function;
    void *payload;
    struct wf_graph *graph;       /* NULL: not captured */
    struct wf_step_draws *draws;  /* the graph's */
    weft_tensor *in[MOST_INPUTS]; /* the captured step's own */
    int n_in;
    weft_tensor *result; /* one reference */
    bool ran, never;     /* an ordinary run has been; it will never be a graph */
    int64_t launches;
    char reason[REASON_BYTES]; /* empty: the last run was a launch */
    char told[REASON_BYTES];   /* the reason that the log had last */
};

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

static void drop_graph(weft_step_graph *graph)
{
    wf_graph_free(graph->graph);
    graph->graph = NULL;
    graph->draws = NULL;
    while (graph->n_in) weft_release(graph->in[--graph->n_in]);
}

void weft_step_graph_release(weft_step_graph *graph)
{
    if (!graph) return;
    weft_release(graph->result);
    drop_graph(graph);
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

/* Each once, until there is another. */
static void log_reason(weft_step_graph *graph)
{
    if (strcmp(graph->reason, graph->told) == 0) return;
    memcpy(graph->told, graph->reason, sizeof graph->told);
    if (wf_log_rank() <= 0)
        WF_LOG(weft_mesh_device(graph->mesh) == WEFT_CUDA ? WF_LOG_WARN : WF_LOG_INFO, "graph",
               "a step is not launched as a graph: %s", graph->reason);
}

/* What holds for any step now; NULL: nothing. */
static const char *reason_of_surroundings(const weft_step_graph *graph)
{
    if (weft_mesh_device(graph->mesh) != WEFT_CUDA) return "the mesh is not on a GPU";
    if (!weft_mesh_is_member(graph->mesh)) return "this rank is not in the mesh";
    if (wf_capture_of_thread) return "it is part of another step that is being captured";
    if (wf_observed_events) return "a ledger, a trace or a forecast watches it";
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
 * The last result goes before a step that makes another. Inside another step's capture nothing of
 * before may go, and results are the step's.
 */

static weft_tensor *call_function(weft_step_graph *graph, weft_tensor *const *in, int n)
{
    weft_scope *scope = weft_scope_open();

    graph->result = weft_retain(graph->function(in, n, graph->payload));
    if (graph->result) wf_wait_ready(graph->result);
    weft_scope_close(scope);
    return graph->result;
}

static weft_tensor *run_ordinary(weft_step_graph *graph, weft_tensor *const *in, int n)
{
    log_reason(graph);
    if (wf_capture_of_thread) return graph->function(in, n, graph->payload);
    weft_release(graph->result);
    graph->result = NULL;
    return call_function(graph, in, n);
}

/* ---- capturing ---- */

/* An op that computes on the CPU would not be in the graph. */
static void look_for_cpu_ops(const struct wf_event *event, void *payload)
{
    const struct wf_op_plan *plan = event->subject;

    (void)payload;
    if (plan && plan->way == WF_EXECUTE_KERNEL) wf_capture_forbid("%s runs on the CPU", plan->name);
}

static weft_status copy_inputs(weft_step_graph *graph, weft_tensor *const *in, int n)
{
    weft_status status = WEFT_OK;

    weft_no_grad_open();
    for (int i = 0; i < n && status == WEFT_OK; i++) status = weft_copy_(graph->in[i], in[i]);
    weft_no_grad_close();
    return status;
}

static weft_status make_inputs(weft_step_graph *graph, weft_tensor *const *in, int n)
{
    weft_scope *scope = weft_scope_open();

    while (graph->n_in < n) {
        weft_tensor *own = weft_retain(weft_empty_like(in[graph->n_in], WEFT_CUDA));

        if (!own) break;
        graph->in[graph->n_in++] = own;
    }
    weft_scope_close(scope);
    return graph->n_in == n ? copy_inputs(graph, in, n) : weft_error_status();
}

/* Every rank's graph has a use, or none has. */
static void agree_on_use(weft_step_graph *graph)
{
    struct wf_comm *comm = wf_mesh_axes_comm(graph->mesh, (1u << weft_mesh_ndim(graph->mesh)) - 1);
    int mine = graph->graph != NULL, *all;
    bool every = true;

    if (wf_comm_size(comm) == 1) return;
    all = wf_calloc((size_t)wf_comm_size(comm), sizeof *all);
    wf_comm_allgather_bytes(comm, &mine, all, sizeof mine);
    for (int r = 0; r < wf_comm_size(comm); r++) every &= all[r];
    wf_free(all);
    if (every || !mine) return;
    snprintf(graph->reason, sizeof graph->reason, "another rank has no graph of it");
    wf_graph_free(graph->graph);
    graph->graph = NULL;
}

static weft_tensor *capture(weft_step_graph *graph)
{
    int observer = wf_observer_add(WF_EVENT_OP, look_for_cpu_ops, NULL);
    weft_tensor *result;

    graph->draws = wf_captured_draws_begin();
    result = call_function(graph, graph->in, graph->n_in);
    wf_redist_wait_all();
    if (!result) wf_capture_forbid("it failed");
    wf_captured_draws_end(graph->draws);
    graph->graph = wf_capture_end(graph->reason, sizeof graph->reason);
    wf_observer_remove(observer);
    agree_on_use(graph);
    if (graph->graph) {
        snprintf(graph->reason, sizeof graph->reason, "this run was captured");
        return result;
    }
    graph->never = true;
    drop_graph(graph);
    log_reason(graph);
    return result;
}

static weft_tensor *run_captured(weft_step_graph *graph, weft_tensor *const *in, int n)
{
    const char *why;

    weft_release(graph->result);
    graph->result = NULL;
    WF_TRY_PTR(make_inputs(graph, in, n));
    wf_redist_wait_all(); /* what began before the step does not end in it */
    why = wf_capture_begin();
    if (!why) return capture(graph);
    drop_graph(graph);
    graph->never = true;
    snprintf(graph->reason, sizeof graph->reason, "%s", why);
    return run_ordinary(graph, in, n);
}

/* ---- runs ---- */

static weft_tensor *run_launch(weft_step_graph *graph, weft_tensor *const *in, int n)
{
    const char *why = wf_captured_draws_differ(graph->draws);

    if (why) {
        snprintf(graph->reason, sizeof graph->reason, "%s", why);
        return run_ordinary(graph, in, n);
    }
    wf_redist_wait_all();
    WF_TRY_PTR(copy_inputs(graph, in, n));
    if (!wf_graph_launch(graph->graph)) {
        snprintf(graph->reason, sizeof graph->reason,
                 "an optimizer or a draw takes other kernels than when it was captured");
        graph->never = true;
        drop_graph(graph);
        return run_ordinary(graph, in, n);
    }
    graph->reason[0] = 0;
    graph->launches++;
    wf_block_record_write(graph->result->block, "a step graph");
    return graph->result;
}

weft_tensor *weft_step_graph_run(weft_step_graph *graph, weft_tensor *const *in, int n)
{
    const char *why;
    bool first;

    if (!graph) return NULL;
    WF_NEED_PTR(n == 0 || (n > 0 && n <= MOST_INPUTS && in), WEFT_ERR_ARG,
                "step graph: %d inputs, or no list of them; at most %d", n, MOST_INPUTS);
    for (int i = 0; i < n; i++)
        if (!in[i]) return NULL;
    why = reason_of_surroundings(graph);
    first = !graph->ran;
    if (why) {
        snprintf(graph->reason, sizeof graph->reason, "%s", why);
        return run_ordinary(graph, in, n);
    }
    graph->ran = true;
    if (graph->never) return run_ordinary(graph, in, n);
    if (inputs_are_elsewhere(graph, in, n)) return run_ordinary(graph, in, n);
    if (graph->graph)
        return inputs_differ(graph, in, n) ? run_ordinary(graph, in, n) : run_launch(graph, in, n);
    if (!first) return run_captured(graph, in, n);
    snprintf(graph->reason, sizeof graph->reason, "the first run is an ordinary one");
    memcpy(graph->told, graph->reason, sizeof graph->told); /* that is no matter for the log */
    return run_ordinary(graph, in, n);
}
