/*
 * captured_run.c: the step of a graph: captured, and launched. All ranks of the mesh agree on
 * whether the captured step has a use, for a collective in it has to be in the graph of every one
 * of them.
 */
#include "step_graph/step_graph.h"

#include <stdio.h>

#include <weft/autograd.h>
#include <weft/ops.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/observers.h"
#include "comm/comm.h"
#include "device/capture.h"
#include "device/pool.h"
#include "mesh/mesh.h"
#include "ops/fills/captured_draws.h"
#include "ops/op_plan.h"
#include "redistribute/in_flight.h"
#include "tensor/tensor.h"

void wf_step_graph_drop(weft_step_graph *graph)
{
    wf_graph_free(graph->graph);
    graph->graph = NULL;
    graph->draws = NULL;
    weft_release(graph->captured);
    graph->captured = NULL;
    while (graph->n_in) weft_release(graph->in[--graph->n_in]);
}

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
static void keep_if_all_ranks_have_graph(weft_step_graph *graph)
{
    struct wf_comm *comm = wf_mesh_all_axes_comm(graph->mesh);
    bool mine = graph->graph != NULL;

    if (wf_comm_size(comm) == 1 || wf_comm_least(comm, mine) || !mine) return;
    wf_step_graph_set_reason(graph, "another rank has no graph of it");
    wf_graph_free(graph->graph);
    graph->graph = NULL;
}

static weft_tensor *capture(weft_step_graph *graph)
{
    int observer = wf_observer_add(WF_EVENT_OP, look_for_cpu_ops, NULL);
    weft_tensor *result;

    graph->draws = wf_captured_draws_begin();
    result = wf_step_graph_call(graph, graph->in, graph->n_in);
    wf_redist_wait_all();
    if (!result) wf_capture_forbid("it failed");
    wf_captured_draws_end(graph->draws);
    graph->graph = wf_capture_end(graph->reason, sizeof graph->reason);
    wf_observer_remove(observer);
    keep_if_all_ranks_have_graph(graph);
    if (graph->graph) {
        graph->captured = weft_retain(result);
        wf_step_graph_set_reason(graph, "this run was captured");
        return result;
    }
    graph->never = true;
    wf_step_graph_drop(graph);
    wf_step_graph_log_reason(graph);
    return result;
}

weft_tensor *wf_step_graph_capture(weft_step_graph *graph, weft_tensor *const *in, int n)
{
    const char *why;

    weft_release(graph->result);
    graph->result = NULL;
    WF_TRY_PTR(make_inputs(graph, in, n));
    wf_redist_wait_all(); /* what began before the step does not end in it */
    wf_comm_order_in_flight();
    wf_pool_trim_device(); /* a capture that lacks memory cannot be left on one rank */
    why = wf_capture_begin(true);
    if (!why) return capture(graph);
    wf_step_graph_drop(graph);
    graph->never = true;
    wf_step_graph_set_reason(graph, why);
    return wf_step_graph_run_ordinary(graph, in, n);
}

/* ---- launching ---- */

weft_tensor *wf_step_graph_launch(weft_step_graph *graph, weft_tensor *const *in, int n)
{
    const char *why = wf_captured_draws_differ(graph->draws);

    if (why) {
        wf_step_graph_set_reason(graph, why);
        return wf_step_graph_run_ordinary(graph, in, n);
    }
    wf_redist_wait_all();
    WF_TRY_PTR(copy_inputs(graph, in, n));
    if (!wf_graph_launch(graph->graph)) {
        wf_step_graph_set_reason(
            graph, "an optimizer or a draw takes other kernels than when it was captured");
        graph->never = true;
        wf_step_graph_drop(graph);
        return wf_step_graph_run_ordinary(graph, in, n);
    }
    graph->reason[0] = 0;
    graph->launches++;
    weft_release(graph->result); /* perhaps of an ordinary run since */
    graph->result = weft_retain(graph->captured);
    wf_block_record_write(graph->result->block, "a step graph");
    return graph->result;
}
