/*
 * simulate.c: walks through a plan's actions without elements: blocks are only
 * counted, collectives only announced. What would run is in run.c.
 */
#include "base/elements/dtype.h"
#include "comm/comm.h"
#include "mesh/mesh.h"
#include "redistribute/program.h"

/* The line of several axes is numbered as its communicator would be, the last axis fastest. */
static void announce_collective(const struct wf_redist_plan *plan,
                                const struct wf_redist_action *action)
{
    const weft_mesh *mesh = plan->from->mesh;
    struct wf_coll coll = {.kind = action->coll,
                           .dtype = (weft_dtype)plan->from->desc.dtype,
                           .reduce = action->reduce,
                           .count = action->count,
                           .send_counts = action->send_counts,
                           .recv_counts = action->recv_counts};
    int ranks = 1, rank = 0;

    for (unsigned left = action->axes; left; left &= left - 1) {
        int a = __builtin_ctz(left), size = weft_mesh_axis_size(mesh, a);

        ranks *= size;
        rank = rank * size + weft_mesh_coordinate(mesh, a);
    }
    wf_comm_report_simulated(&coll, wf_mesh_axes_label(mesh, action->axes), ranks, rank);
}

struct wf_block *wf_redist_simulate(const struct wf_redist_plan *plan)
{
    const struct wf_redist_program *program = plan->program;
    struct wf_block *blocks[WF_REDIST_MAX_BUFFERS], *result;
    size_t element = wf_dtypes[plan->from->desc.dtype].size;

    for (int i = 0; i < program->n_actions; i++) {
        const struct wf_redist_action *action = &program->actions[i];
        const struct wf_redist_buffer *dst = &program->buffers[action->dst];

        if (action->makes)
            blocks[action->dst] =
                wf_block_new_simulated((size_t)dst->elements * element, dst->category);
        if (action->act == WF_ACT_COLL) announce_collective(plan, action);
        if (action->drops_src) wf_block_release(blocks[action->src]);
        if (action->drops_dst) wf_block_release(blocks[action->dst]);
    }
    result = blocks[program->result];
    if (result->category == WF_MEM_COMM && !plan->to->partial)
        wf_block_recategorize(result, WF_MEM_ACTIVATIONS);
    return result;
}
