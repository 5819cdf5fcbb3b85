/*
 * run.c: carries out the actions of a plan. All decisions were made before: this
 * file only takes blocks, copies, and hands collectives to comm.
 */
#include "redistribute/run.h"

#include <math.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "mesh/mesh.h"

static size_t element_size(const struct wf_redist_plan *plan)
{
    return wf_dtypes[plan->from->desc.dtype].size;
}

/* Peers may wait for this rank already: without memory the job ends. */
void wf_redist_alloc_action_block(struct wf_redist_run *run, const struct wf_redist_action *action)
{
    const struct wf_redist_buffer *b = &run->plan->program->buffers[action->dst];
    struct wf_block *block;

    if (!action->makes) return;
    block = wf_block_new((size_t)b->elements * element_size(run->plan), b->category);
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

    for (int i = 0; i < action->n_copies; i++) wf_strided_copy_run(&action->copies[i], dst, src);
}

/* What is filled already is copied behind itself: twice as much each time. */
static void run_fill_action(const struct wf_redist_run *run, const struct wf_redist_action *action)
{
    size_t bytes = (size_t)run->blocks[action->dst]->bytes, filled = element_size(run->plan);
    char *data = run->blocks[action->dst]->data;

    if (bytes == 0) return;
    memcpy(data, action->element, filled);
    while (filled < bytes) {
        size_t more = filled < bytes - filled ? filled : bytes - filled;

        memcpy(data + filled, data, more);
        filled += more;
    }
}

struct wf_coll wf_redist_action_collective(const struct wf_redist_run *run,
                                           const struct wf_redist_action *action)
{
    return (struct wf_coll){
        .kind = action->coll,
        .comm = wf_mesh_axes_comm(run->plan->from->mesh, action->axes),
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

static void divide_elements_f32(float *data, size_t count, float divisor)
{
    for (size_t i = 0; i < count; i++) data[i] /= divisor;
}

static void run_divide_action(const struct wf_redist_run *run,
                              const struct wf_redist_action *action)
{
    weft_dtype type = (weft_dtype)run->plan->from->desc.dtype;
    const struct wf_dtype_info *dtype = &wf_dtypes[type];
    size_t bytes = (size_t)run->blocks[action->dst]->bytes;
    char *data = run->blocks[action->dst]->data;

    if (type == WEFT_F32) {
        divide_elements_f32(run->blocks[action->dst]->data, bytes / sizeof(float),
                            (float)action->divisor);
        return;
    }
    for (size_t at = 0; at < bytes; at += dtype->size)
        dtype->store(data + at, dtype->load(data + at) / action->divisor);
}

static void power_elements_f32(float *data, size_t count, double power)
{
    if (power == 0.5)
        for (size_t i = 0; i < count; i++) data[i] = sqrtf(data[i]);
    else if (power == 2)
        for (size_t i = 0; i < count; i++) data[i] *= data[i];
    else
        for (size_t i = 0; i < count; i++) data[i] = (float)pow(fabs((double)data[i]), power);
}

static void run_power_action(const struct wf_redist_run *run, const struct wf_redist_action *action)
{
    weft_dtype type = (weft_dtype)run->plan->from->desc.dtype;
    const struct wf_dtype_info *dtype = &wf_dtypes[type];
    size_t bytes = (size_t)run->blocks[action->dst]->bytes;
    char *data = run->blocks[action->dst]->data;

    if (type == WEFT_F32) {
        power_elements_f32(run->blocks[action->dst]->data, bytes / sizeof(float), action->power);
        return;
    }
    for (size_t at = 0; at < bytes; at += dtype->size)
        dtype->store(data + at, pow(fabs(dtype->load(data + at)), action->power));
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
    run.src = src;
    for (int i = 0; i < program->n_actions; i++) {
        const struct wf_redist_action *action = &program->actions[i];

        wf_redist_alloc_action_block(&run, action);
        wf_redist_run_action(&run, action);
        wf_redist_release_dead_blocks(&run, action);
    }
    return wf_redist_run_result(&run);
}
