/*
 * run.c: carries out the actions of a plan. All decisions were made before: this
 * file only takes blocks, copies, and hands collectives to comm.
 */
#include "redistribute/run.h"

#include "base/elements/dtype.h"
#include "base/error.h"
#include "device/device.h"
#include "mesh/mesh.h"

static size_t element_size(const struct wf_redist_plan *plan)
{
    return wf_dtypes[plan->from->desc.dtype].size;
}

static size_t count_elements(const struct wf_redist_run *run, const struct wf_block *block)
{
    return (size_t)block->bytes / element_size(run->plan);
}

/* Peers may wait for this rank already: without memory the job ends. */
void wf_redist_alloc_action_block(struct wf_redist_run *run, const struct wf_redist_action *action)
{
    const struct wf_redist_buffer *b = &run->plan->program->buffers[action->dst];
    struct wf_block *block;

    if (!action->makes) return;
    block =
        wf_block_new_on(run->device, (size_t)b->elements * element_size(run->plan), b->category);
    if (!block) WF_DIE("redistribute: %s", weft_error_message());
    run->blocks[action->dst] = block;
}

static const void *source_of_action(const struct wf_redist_run *run,
                                    const struct wf_redist_action *action)
{
    return action->src == 0 ? run->src : run->blocks[action->src]->data;
}

static void run_copy_action(const struct wf_redist_run *run, const struct wf_redist_action *action)
{
    const void *src = source_of_action(run, action);
    void *dst = run->blocks[action->dst]->data;

    for (int i = 0; i < action->n_copies; i++)
        wf_device_strided_copy(run->device, &action->copies[i], dst, src);
}

static void run_fill_action(const struct wf_redist_run *run, const struct wf_redist_action *action)
{
    const struct wf_block *block = run->blocks[action->dst];

    wf_device_fill(run->device, block->data, action->element, element_size(run->plan),
                   count_elements(run, block));
}

struct wf_coll wf_redist_action_collective(const struct wf_redist_run *run,
                                           const struct wf_redist_action *action)
{
    return (struct wf_coll){
        .kind = action->coll,
        .comm = wf_mesh_axes_comm(run->plan->from->mesh, action->axes),
        .device = run->device,
        .dtype = (weft_dtype)run->plan->from->desc.dtype,
        .reduce = action->reduce,
        .count = action->count,
        .send_counts = action->send_counts,
        .recv_counts = action->recv_counts,
        .send = (const char *)source_of_action(run, action) + action->src_offset,
        .recv = run->blocks[action->dst]->data,
    };
}

static void run_collective_action(const struct wf_redist_run *run,
                                  const struct wf_redist_action *action)
{
    struct wf_coll coll = wf_redist_action_collective(run, action);

    wf_comm_run(&coll);
}

static void run_divide_action(const struct wf_redist_run *run,
                              const struct wf_redist_action *action)
{
    const struct wf_block *block = run->blocks[action->dst];

    wf_device_divide(run->device, (weft_dtype)run->plan->from->desc.dtype,
                     count_elements(run, block), block->data, action->divisor);
}

static void run_power_action(const struct wf_redist_run *run, const struct wf_redist_action *action)
{
    const struct wf_block *block = run->blocks[action->dst];

    wf_device_power(run->device, (weft_dtype)run->plan->from->desc.dtype,
                    count_elements(run, block), block->data, action->power);
}

/* ---- one action, all actions ---- */

void wf_redist_run_action(const struct wf_redist_run *run, const struct wf_redist_action *action)
{
    static void (*const acts[])(const struct wf_redist_run *, const struct wf_redist_action *) = {
        [WF_ACT_COPY] = run_copy_action,
        [WF_ACT_FILL] = run_fill_action,
        [WF_ACT_COLL] = run_collective_action,
        [WF_ACT_DIVIDE] = run_divide_action,
        [WF_ACT_POWER] = run_power_action};

    acts[action->act](run, action);
}

void wf_redist_release_dead_blocks(struct wf_redist_run *run, const struct wf_redist_action *action)
{
    if (action->drops_src) wf_block_release(run->blocks[action->src]);
    if (action->drops_dst) wf_block_release(run->blocks[action->dst]);
}

struct wf_block *wf_redist_run_result(const struct wf_redist_run *run)
{
    struct wf_block *result = run->blocks[run->plan->program->result];

    if (result->category == WF_MEM_COMM && !run->plan->to->partial)
        wf_block_recategorize(result, WF_MEM_ACTIVATIONS);
    return result;
}

struct wf_block *wf_redist_run(const struct wf_redist_plan *plan, const void *src)
{
    const struct wf_redist_program *program = plan->program;
    struct wf_redist_run run;

    run.plan = plan;
    run.device = (weft_device)plan->from->desc.device;
    run.src = src;
    for (int i = 0; i < program->n_actions; i++) {
        const struct wf_redist_action *action = &program->actions[i];

        wf_redist_alloc_action_block(&run, action);
        wf_redist_run_action(&run, action);
        wf_redist_release_dead_blocks(&run, action);
    }
    return wf_redist_run_result(&run);
}
