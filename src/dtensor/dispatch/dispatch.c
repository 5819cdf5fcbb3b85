/*
 * dispatch.c: how an op is called (docs/concepts/dispatch.md). Every op comes through
 * wf_dispatch_op, in this order: refuse NULL, find the plan, redistribute inputs that need it, run
 * the kernel, wrap, record on the tape, tell observers. What is decided is decided in plan_make.c;
 * here it is only carried out.
 */
#include <string.h>

#include "base/call_context.h"
#include "base/error.h"
#include "base/observers.h"
#include "base/recorder.h"
#include "base/sys.h"
#include "device/timeline.h"
#include "dtensor/dispatch/captured_call.h"
#include "dtensor/dispatch/in_place.h"
#include "dtensor/dispatch/plan_cache.h"
#include "dtensor/dispatch/slow_path.h"
#include "ops/op_functions.h"
#include "redistribute/redistribute.h"

static const struct wf_op_args no_args;

/* Whether ops of this plan are handed over: those without elements only to one who wants them. */
static inline bool is_recorded(const struct wf_op_plan *plan)
{
    return wf_recorder && (!plan->meta || wf_recorder->hears_meta);
}

static weft_tensor *redistribute_input(struct wf_op_plan *plan, int i, weft_tensor *t)
{
    const struct wf_redist_plan *move = plan->move[i];
    weft_tensor *moved;
    struct wf_block *block;

    if (move->n_steps == 0) {
        weft_tensor *same =
            wf_tensor_new(plan->used[i], wf_block_retain(t->block), t->data, "redistribute");

        same->in_flight = t->in_flight;
        if (is_recorded(plan)) wf_recorder->view(wf_recorder, plan, t, same);
        return same;
    }
    if (is_recorded(plan)) {
        block = wf_recorder->move(wf_recorder, plan, move, t);
    } else {
        wf_wait_ready(t);
        block = plan->meta ? wf_redist_simulate(move) : wf_redist_run(move, t->data);
    }
    if (!block) return NULL;
    moved = wf_tensor_new(plan->used[i], block, block->data, "redistribute");
    moved->in_flight = !plan->meta && wf_recorder_puts_off();
    return moved;
}

/* Inputs in the layouts that the plan wants; false when memory is short. */
static bool redistribute_inputs(struct wf_op_plan *plan, weft_tensor *const *in, weft_tensor **used)
{
    for (int i = 0; i < plan->n_in; i++) {
        used[i] = plan->move[i] ? redistribute_input(plan, i, in[i]) : in[i];
        if (in[i] && !used[i]) return false;
    }
    if (!(plan->slow_path & WF_SLOW_ROW_MAJOR_COPY)) return true;
    used[0] = wf_copy_row_major_for_view(used[0]);
    return used[0] != NULL;
}

/* A node that held its own output would keep itself alive: it holds another handle to the bytes. */
static weft_tensor *handle_without_node(weft_tensor *t)
{
    weft_tensor *other;

    if (!t->node) return t;
    other = wf_tensor_new(t->layout, wf_block_retain(t->block), t->data, t->origin);
    other->in_flight = t->in_flight;
    return other;
}

__attribute__((noinline)) static void
record_tape_node(struct wf_op_plan *plan, weft_tensor *const *in, weft_tensor *const *used,
                 weft_tensor *const *out, const struct wf_op_args *args)
{
    const struct wf_op_row *row = &wf_ops[plan->op];
    struct wf_tape_node *node = wf_tape_record(out[0], row->vjp, plan->name, in, plan->n_in);

    plan->refs++;
    node->context = plan;
    node->release_context = wf_op_plan_release_context;
    memcpy(node->s, args->scalars.s, sizeof node->s);
    memcpy(node->v, args->scalars.v, sizeof node->v);
    for (uint32_t left = row->saves; left; left &= left - 1) {
        int slot = __builtin_ctz(left);

        if (slot < plan->n_in)
            wf_tape_node_save(node, slot, used[slot]);
        else if (slot >= WF_MAX_IN && slot - WF_MAX_IN < plan->n_out)
            wf_tape_node_save(node, slot, handle_without_node(out[slot - WF_MAX_IN]));
    }
    wf_tape_node_shard_saved(node);
}

static weft_tensor *make_output_view(const struct wf_op_plan *plan, weft_tensor *const *used,
                                     weft_tensor **out, const struct wf_op_args *args)
{
    int64_t at = plan->view_offset + plan->view_step * args->scalars.v[0];

    out[0] = wf_tensor_new(plan->out[0], wf_block_retain(used[0]->block),
                           (char *)used[0]->data + at, plan->name);
    out[0]->in_flight = used[0]->in_flight;
    if (wf_recorder) wf_recorder->view(wf_recorder, (struct wf_op_plan *)plan, used[0], out[0]);
    return out[0];
}

/* False when memory is short. */
static inline bool alloc_output(const struct wf_op_plan *plan, int j, weft_tensor **out, void **to)
{
    struct wf_block *block = wf_block_new(plan->out_bytes[j], plan->out_category[j]);

    if (!block) return false;
    out[j] = wf_tensor_new(plan->out[j], block, block->data, plan->name);
    to[j] = block->data;
    return true;
}

/* Few ops have them: out of line, they take no registers from the others. */
__attribute__((noinline)) static bool alloc_other_outputs(const struct wf_op_plan *plan,
                                                          weft_tensor **out, void **to)
{
    for (int j = 1; j < plan->n_out; j++) {
        out[j] = NULL;
        to[j] = NULL;
        if (plan->out[j] && !alloc_output(plan, j, out, to)) return false;
    }
    return true;
}

__attribute__((noinline)) static void
hand_kernel_to_recorder(const struct wf_op_plan *plan, weft_tensor *const *used,
                        weft_tensor *const *out, void *const *to, const struct wf_op_args *args)
{
    struct wf_block *blocks[WF_MAX_OUT];

    for (int j = 0; j < plan->n_out; j++) blocks[j] = out[j] ? out[j]->block : NULL;
    wf_recorder->kernel(wf_recorder,
                        &(struct wf_kernel_run_request){.plan = (struct wf_op_plan *)plan,
                                                        .args = args,
                                                        .in = used,
                                                        .blocks = blocks,
                                                        .to = to});
    for (int j = 0; j < plan->n_out; j++)
        if (out[j]) out[j]->in_flight = wf_recorder_puts_off();
}

/* Make the outputs, the first always, and run the kernel on them. */
static weft_tensor *run_kernel_on_new_outputs(const struct wf_op_plan *plan,
                                              weft_tensor *const *used, weft_tensor **out,
                                              const struct wf_op_args *args)
{
    const void *from[WF_MAX_IN];
    void *to[WF_MAX_OUT];

    for (int i = 0; i < plan->n_in; i++)
        from[i] = used[i] && !plan->absent[i] ? used[i]->data : NULL;
    if (!alloc_output(plan, 0, out, to)) return NULL;
    if (plan->n_out > 1 && !alloc_other_outputs(plan, out, to)) return NULL;
    if (wf_recorder)
        hand_kernel_to_recorder(plan, used, out, to, args);
    else
        plan->kernel.run(&plan->kernel, to, from, &args->scalars);
    return out[0];
}

/* The same on this rank's device, whose blocks come from other lists. */
static weft_tensor *run_kernel_on_device(const struct wf_op_plan *plan, weft_tensor *const *used,
                                         weft_tensor **out, const struct wf_op_args *args)
{
    const void *from[WF_MAX_IN];
    void *to[WF_MAX_OUT] = {0};
    int span;

    for (int i = 0; i < plan->n_in; i++)
        from[i] = used[i] && !plan->absent[i] ? used[i]->data : NULL;
    for (int j = 0; j < plan->n_out; j++) {
        struct wf_block *block;

        out[j] = NULL;
        if (!plan->out[j]) continue;
        block =
            wf_block_new_on((weft_device)plan->device, plan->out_bytes[j], plan->out_category[j]);
        if (!block) return NULL;
        out[j] = wf_tensor_new(plan->out[j], block, block->data, plan->name);
        to[j] = block->data;
    }
    if (wf_recorder) {
        hand_kernel_to_recorder(plan, used, out, to, args);
        return out[0];
    }
    span = wf_span_open(WF_STREAM_COMPUTE, plan->name);
    if (wf_capture_of_thread)
        wf_run_kernel_in_capture(plan, to, from, args);
    else
        plan->kernel.run(&plan->kernel, to, from, &args->scalars);
    wf_span_close(span);
    return out[0];
}

/* Tensors without elements: handles and counted bytes, and nothing to compute. */
static weft_tensor *run_on_meta_device(const struct wf_op_plan *plan, weft_tensor *const *used,
                                       weft_tensor **out, const struct wf_op_args *args)
{
    void *no_addresses[WF_MAX_OUT] = {0};

    for (int j = 0; j < plan->n_out; j++) {
        struct wf_block *block;

        out[j] = NULL;
        if (!plan->out[j]) continue;
        block = wf_op_has_kernel(&wf_ops[plan->op])
                    ? wf_block_new_simulated(plan->out_bytes[j], plan->out_category[j])
                    : wf_block_retain(used[0]->block);
        out[j] = wf_tensor_new(plan->out[j], block, NULL, plan->name);
    }
    if (!is_recorded(plan)) return out[0];
    if (wf_op_has_kernel(&wf_ops[plan->op]))
        hand_kernel_to_recorder(plan, used, out, no_addresses, args);
    else
        wf_recorder->view(wf_recorder, (struct wf_op_plan *)plan, used[0], out[0]);
    return out[0];
}

/* All ways but that of a kernel on the CPU. */
static weft_tensor *run_other_way(const struct wf_op_plan *plan, weft_tensor *const *used,
                                  weft_tensor **out, const struct wf_op_args *args)
{
    if (plan->way == WF_EXECUTE_VIEW) return make_output_view(plan, used, out, args);
    if (plan->way == WF_EXECUTE_ON_DEVICE) return run_kernel_on_device(plan, used, out, args);
    if (plan->way == WF_EXECUTE_REDISTRIBUTION) return out[0] = used[0];
    return run_on_meta_device(plan, used, out, args);
}

void wf_op_plan_observe(const struct wf_op_plan *plan, double began, const weft_tensor *result)
{
    struct wf_event event = {.kind = WF_EVENT_OP,
                             .name = plan->name,
                             .subject = plan,
                             .result = result,
                             .axis = "",
                             .began = began,
                             .seconds = wf_monotonic_seconds() - began,
                             .where = wf_current_context};

    wf_notify_observers(&event);
}

static void wait_inputs_ready(weft_tensor *const *used, int n)
{
    for (int i = 0; i < n; i++)
        if (used[i]) wf_wait_ready(used[i]);
}

/* Somebody listens. gives: the time */
static double observe_inputs(weft_tensor *const *in, int n)
{
    if (wf_observed_events & WF_EVENT_INPUTS)
        wf_notify_observers(&(struct wf_event){.kind = WF_EVENT_INPUTS,
                                               .axis = "",
                                               .inputs = in,
                                               .n_inputs = n,
                                               .where = wf_current_context});
    return wf_monotonic_seconds();
}

/* For a plan that is not simply carried out: true when it goes on with the inputs in `used`, false
 * when `result` is all there is. */
__attribute__((noinline)) static bool run_slow_path(struct wf_op_plan *plan, weft_tensor *const *in,
                                                    const struct wf_op_args *args,
                                                    weft_tensor **more, bool recorded,
                                                    weft_tensor **used, weft_tensor **result)
{
    enum wf_dispatch_verdict verdict = wf_dispatch_slow(plan, in, recorded);

    if (verdict == WF_DISPATCH_PROMOTE) *result = wf_call_promoted(plan, in, args, more);
    if (verdict == WF_DISPATCH_CAST) *result = wf_call_in_one_dtype(plan, in, args, more);
    if (verdict == WF_DISPATCH_COMPLEX)
        *result = wf_call_complex((enum wf_op)plan->op, in, plan->n_in, args, more);
    return verdict == WF_DISPATCH_CONTINUE && redistribute_inputs(plan, in, used);
}

static weft_tensor *execute_plan(struct wf_op_plan *plan, weft_tensor *const *in,
                                 const struct wf_op_args *args, weft_tensor **more, bool recorded)
{
    weft_tensor *moved_in[WF_MAX_IN], *out[WF_MAX_OUT], *result = NULL;
    weft_tensor *const *used = in;
    double began = wf_observed_events ? observe_inputs(in, plan->n_in) : 0;

    if (plan->slow_path) {
        if (!run_slow_path(plan, in, args, more, recorded, moved_in, &result)) return result;
        used = moved_in;
    }
    if (args->into)
        result = wf_run_into(plan, used, args);
    else if (plan->way == WF_EXECUTE_KERNEL)
        result = run_kernel_on_new_outputs(plan, used, out, args);
    else
        result = run_other_way(plan, used, out, args);
    if (result && !args->into) {
        if (recorded) record_tape_node(plan, in, used, out, args);
        for (int j = 1; more && j < plan->n_out; j++) more[j - 1] = out[j];
    }
    if (wf_observed_events & WF_EVENT_OP) wf_op_plan_observe(plan, began, result);
    return result;
}

weft_tensor *wf_dispatch_op(unsigned op, weft_tensor *const *in, int n,
                            const struct wf_op_args *args, weft_tensor **more)
{
    const struct wf_op_row *row = &wf_ops[op];
    const char *outer; /* gradients and the slow path call ops themselves */
    weft_tensor *result;
    struct wf_op_plan *plan;
    bool recorded = false;  /* some input requires a gradient, and the tape is on */
    bool in_flight = false; /* some input's elements are still to come */

    for (int i = 0; i < n; i++) {
        if (in[i]) {
            recorded |= in[i]->requires_grad;
            in_flight |= in[i]->in_flight;
        } else if (i < row->n_required) {
            return NULL;
        }
    }
    recorded = recorded && wf_grad_is_enabled() && row->vjp;
    if (!args) args = &no_args;
    plan = wf_op_plan_lookup(op, in, n, args);
    if (!plan) return NULL;
    plan->refs++; /* a nested call may evict it */
    outer = wf_current_context.op;
    wf_current_context.op = plan->name;
    if (in_flight && plan->way <= WF_EXECUTE_ON_DEVICE && !wf_recorder) wait_inputs_ready(in, n);
    result = execute_plan(plan, in, args, more, recorded);
    wf_current_context.op = outer;
    wf_op_plan_release(plan);
    return result;
}
