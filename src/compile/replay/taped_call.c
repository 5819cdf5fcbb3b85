/* taped_call.c: the tape node of a compiled call, and its backward as a replay. */
#include "compile/replay/taped_call.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "device/device.h"
#include "dtensor/dispatch/redistribute_gradient.h"
#include "ops/dispatch_op.h"
#include <weft/ops.h>

void wf_captured_forward_drop_tape(struct wf_captured_forward *captured)
{
    for (int i = 0; i < captured->n_in; i++) weft_release(captured->aliases[i]);
    for (int i = 0; i < captured->n_out; i++) weft_release(captured->out[i]);
    captured->n_in = captured->n_out = 0;
}

void wf_captured_forward_free(struct wf_captured_forward *captured)
{
    wf_captured_forward_drop_tape(captured);
    for (int i = 0; i < captured->n_blocks; i++) wf_block_release(captured->blocks[i].block);
    wf_free(captured->aliases);
    wf_free(captured->out);
    wf_free(captured->blocks);
    *captured = (struct wf_captured_forward){0};
}

static void release_blocks(struct wf_taped_call *call)
{
    const struct wf_op_list *backward = call->variant->backward;

    for (int s = 0; call->blocks && s < backward->n_storages; s++) {
        if (call->blocks[s]) wf_block_release(call->blocks[s]);
        call->blocks[s] = NULL;
    }
}

static void release_grads(struct wf_taped_call *call)
{
    for (int i = 0; i < call->variant->forward->n_results; i++) {
        weft_release(call->grads[i]);
        call->grads[i] = NULL;
    }
}

void wf_taped_calls_free(struct wf_taped_call *call)
{
    struct wf_taped_call *next;

    for (; call; call = next) {
        next = call->next;
        wf_free(call->grads);
        wf_free(call->base);
        wf_free(call->blocks);
        wf_free(call->versions);
        wf_free(call->starts);
        wf_free(call);
    }
}

static struct wf_taped_call *new_call(struct wf_variant *variant)
{
    struct wf_taped_call *call = variant->idle;

    if (call) {
        variant->idle = call->next;
    } else {
        call = WF_NEW(struct wf_taped_call);
        call->grads = wf_calloc((size_t)variant->forward->n_results + 1, sizeof *call->grads);
        call->starts = wf_calloc((size_t)wf_step_draws_generator_count(variant->forward->draws),
                                 sizeof *call->starts);
    }
    call->variant = variant;
    call->refs = 0;
    wf_step_draws_save(variant->forward->draws, call->starts);
    variant->refs++;
    return call;
}

static void release_call(void *context)
{
    struct wf_taped_call *call = context;
    struct wf_variant *variant = call->variant;

    if (--call->refs > 0) return;
    wf_taped_call_stop_awaiting(call);
    release_grads(call);
    if (call->is_capture) wf_captured_forward_free(&call->captured);
    call->is_capture = false;
    call->undo = NULL;
    release_blocks(call);
    call->next = variant->idle;
    variant->idle = call;
    wf_variant_release(variant);
}

/* ---- gradients of the results ---- */

static weft_tensor *new_zeros(struct wf_layout *layout)
{
    weft_tensor *zeros = wf_tensor_new_empty(layout, WF_MEM_GRADIENTS, "compiled");

    if (zeros) wf_device_zero(wf_device_of(zeros), zeros->data, (size_t)zeros->block->bytes);
    return zeros;
}

/* Of results that backward did not come from: so one backward list serves every case. */
static weft_status add_missing_gradients(struct wf_taped_call *call)
{
    const struct wf_variant *variant = call->variant;

    for (int i = 0; i < variant->forward->n_results; i++) {
        weft_tensor *zeros;

        if (!variant->forward->results[i].requires_grad || call->grads[i]) continue;
        zeros = call->is_capture ? wf_zero_gradient_like(call->captured.out[i])
                                 : new_zeros(variant->gradient_layouts[i]);
        if (!zeros) return weft_error_status();
        call->grads[i] = weft_retain(zeros);
    }
    return WEFT_OK;
}

/* The list reads them in the layouts that they had when it was recorded. */
static weft_status bring_gradients_to_layouts(struct wf_taped_call *call)
{
    const struct wf_variant *variant = call->variant;

    for (int i = 0; i < variant->forward->n_results; i++) {
        struct wf_layout *want = variant->gradient_layouts[i];
        weft_tensor *grad = call->grads[i];
        char now[200], then[200];

        if (!grad || grad->layout == want) continue;
        if (want->mesh && !want->partial) grad = wf_redistribute_gradient(grad, want);
        if (grad && grad->layout != want && !grad->layout->desc.contiguous)
            grad = wf_copy_row_major_for_view(grad);
        if (!grad) return weft_error_status();
        wf_layout_print(grad->layout, now, sizeof now);
        wf_layout_print(want, then, sizeof then);
        WF_NEED(grad->layout == want, WEFT_ERR_STATE,
                "compiled %s: backward: the gradient of result %d is %s, its list was made for %s",
                variant->name, i, now, then);
        weft_retain(grad);
        weft_release(call->grads[i]);
        call->grads[i] = grad;
    }
    return WEFT_OK;
}

/* A handle of the open scope to the same bytes. */
weft_tensor *wf_taped_call_handle_of(const weft_tensor *t)
{
    return wf_tensor_new(t->layout, wf_block_retain(t->block), t->data, t->origin);
}

void wf_taped_call_make_room_for_blocks(struct wf_taped_call *call)
{
    size_t n = (size_t)call->variant->backward->n_storages + 1;

    if (call->blocks) return;
    call->blocks = wf_calloc(n, sizeof *call->blocks);
    call->versions = wf_calloc(n, sizeof *call->versions);
    call->base = wf_calloc(n, sizeof *call->base);
}

/* ---- later ones: replayed ---- */

static weft_status check_unmodified(const struct wf_taped_call *call)
{
    const struct wf_op_list *backward = call->variant->backward;

    for (int s = 0; s < backward->n_storages; s++)
        WF_NEED(!call->blocks[s] || call->blocks[s]->version == call->versions[s], WEFT_ERR_STATE,
                "backward: a tensor that the compiled function %s has read was written in place "
                "since, by %s",
                call->variant->name,
                call->blocks[s]->writer ? call->blocks[s]->writer : "the program");
    return WEFT_OK;
}

static void set_bases(const struct wf_taped_call *call, const struct wf_program_run *run)
{
    const struct wf_op_list *backward = call->variant->backward;

    for (int s = 0; s < backward->n_storages; s++) {
        const struct wf_storage *storage = &backward->storages[s];

        if (storage->kind == WF_STORAGE_FORWARD) run->base[s] = call->base[s];
        if (storage->kind == WF_STORAGE_INPUT) run->base[s] = call->grads[storage->index]->data;
    }
}

static struct wf_block *block_of(const struct wf_taped_call *call, const struct wf_program_run *run,
                                 int s)
{
    const struct wf_storage *storage = &call->variant->backward->storages[s];

    switch ((enum wf_storage_kind)storage->kind) {
    case WF_STORAGE_INPUT:
        return call->grads[storage->index]->block;
    case WF_STORAGE_EXTERNAL:
        return storage->block;
    case WF_STORAGE_FORWARD:
        return call->blocks[s];
    case WF_STORAGE_MADE:
        return run->kept[s];
    case WF_STORAGE_GRADIENT:
        return NULL;
    }
    return NULL;
}

static weft_tensor *result_handle(const struct wf_taped_call *call,
                                  const struct wf_program_run *run, int i)
{
    const struct wf_operand *at = &call->variant->backward->results[i].at;
    struct wf_block *block = block_of(call, run, at->storage);

    return wf_tensor_new(at->layout, wf_block_retain(block), run->base[at->storage] + at->offset,
                         "compiled");
}

weft_status wf_taped_call_deliver(const struct wf_taped_call *call,
                                  const struct wf_gradient_target *target, weft_tensor *grad,
                                  const struct wf_tape_node *node, weft_tensor **in_grads)
{
    int place = 0;

    if (target->leaf) return wf_leaf_accumulate_grad(target->leaf, grad);
    WF_ASSERT(call->variant->reaches[target->input]);
    for (int i = 0; i < target->input; i++) place += call->variant->reaches[i];
    if (in_grads[place])
        WF_TRY(wf_tape_node_add_term((struct wf_tape_node *)node, place, in_grads[place]));
    in_grads[place] = grad;
    return WEFT_OK;
}

static weft_status replay_backward(struct wf_taped_call *call, const struct wf_tape_node *node,
                                   weft_tensor **in_grads)
{
    struct wf_variant *variant = call->variant;
    struct wf_program_run run;
    weft_status status = WEFT_OK;
    double began = wf_monotonic_seconds();
    const char *why;

    WF_TRY(bring_gradients_to_layouts(call));
    WF_TRY(check_unmodified(call));
    why = wf_step_draws_begin_again(variant->backward->draws);
    WF_NEED(!why, WEFT_ERR_STATE, "compiled %s: backward: %s", variant->name, why);
    wf_step_draws_restore(variant->forward->draws, call->starts);
    WF_TRY(wf_program_begin_run(variant->backward_program, &run));
    set_bases(call, &run);
    wf_program_run_all(variant->backward_program, &run);
    wf_step_draws_advance(variant->backward->draws);
    for (int i = 0; i < variant->n_targets && status == WEFT_OK; i++)
        status = wf_taped_call_deliver(call, &variant->targets[i], result_handle(call, &run, i),
                                       node, in_grads);
    wf_program_end_run(variant->backward_program, &run);
    variant->backward_replays++;
    wf_compile_times_add(&variant->times, WF_COMPILE_RUN_BACKWARD, began);
    return status;
}

/* ---- nodes ---- */

static void vjp_compiled_call(const struct wf_tape_node *node, weft_tensor *grad,
                              weft_tensor **in_grads)
{
    struct wf_taped_call *call = node->context;
    const struct wf_guards *guards = call->variant->guards;
    weft_status status = add_missing_gradients(call);
    int n = 0;

    (void)grad;
    if (status == WEFT_OK)
        status = call->is_capture ? wf_taped_call_capture_backward(call, node, in_grads)
                                  : replay_backward(call, node, in_grads);
    if (status == WEFT_OK) status = wf_taped_call_notify_leaves(call);
    release_grads(call);
    if (status != WEFT_OK) return;
    for (int i = 0; i < guards->n_in; i++) {
        struct wf_layout *layout;

        if (!call->variant->reaches[i] || in_grads[n++]) continue;
        layout = wf_layout_with_placements(guards->in[i].layout, guards->in[i].layout->placements);
        in_grads[n - 1] = new_zeros(layout);
        wf_layout_release(layout);
    }
}

/* One result's gradient has come; the call runs when all have. */
static void vjp_result(const struct wf_tape_node *node, weft_tensor *grad, weft_tensor **in_grads)
{
    struct wf_taped_call *call = node->context;

    (void)in_grads;
    weft_release(call->grads[node->v[0]]);
    call->grads[node->v[0]] = weft_retain(grad);
}

/* The call's node has the inputs that require gradients; each result has a node behind it. */
static void record_nodes(struct wf_taped_call *call, weft_tensor *const *in, weft_tensor **out)
{
    const struct wf_variant *variant = call->variant;
    weft_tensor *wanted[WF_NODE_INPUTS], *hidden = NULL;
    struct wf_tape_node *node_of_call = NULL;
    int n = 0;

    for (int i = 0; i < variant->guards->n_in; i++)
        if (variant->reaches[i]) wanted[n++] = in[i];
    for (int i = 0; i < variant->forward->n_results; i++) {
        struct wf_tape_node *node;

        if (!variant->forward->results[i].requires_grad) continue;
        if (!node_of_call) {
            hidden =
                wf_taped_call_handle_of(out[i]); /* which keeps the node until the scope closes */
            node_of_call = wf_tape_record(hidden, vjp_compiled_call, "compiled", wanted, n);
            node_of_call->context = call;
            node_of_call->release_context = release_call;
            call->refs++;
        }
        node = wf_tape_record(out[i], vjp_result, "compiled result", NULL, 0);
        node->context = call;
        node->release_context = release_call;
        node->v[0] = i;
        call->refs++;
        wf_tape_node_add_order_edge(node, node_of_call);
    }
    wf_taped_call_begin_awaiting(call);
}

weft_status wf_taped_call_record(struct wf_variant *variant, const struct wf_program_run *run,
                                 weft_tensor *const *in, weft_tensor **out)
{
    struct wf_taped_call *call = new_call(variant);
    const struct wf_op_list *backward = variant->backward;

    wf_taped_call_make_room_for_blocks(call);
    for (int s = 0; s < backward->n_storages; s++) {
        int of = backward->storages[s].index;
        struct wf_block *block;

        if (!backward->storages[s].kept_by_calls) continue;
        block = wf_variant_block(variant, run, of, in);
        call->blocks[s] = wf_block_retain(block);
        call->versions[s] = call->blocks[s]->version;
        call->base[s] = run->base[of];
    }
    record_nodes(call, in, out);
    return WEFT_OK;
}

static void note_reached(const weft_tensor *leaf, void *payload)
{
    struct wf_taped_call *call = payload;

    const weft_tensor *alias;

    for (int i = 0; i < call->captured.n_in; i++) {
        alias = call->captured.aliases[i];
        if (alias && alias->requires_grad && (!leaf || leaf == alias))
            call->variant->reaches[i] = true;
    }
}

void wf_taped_call_record_captured(struct wf_variant *variant, struct wf_captured_forward *captured,
                                   weft_tensor *const *in, weft_tensor **out, struct wf_undo *undo)
{
    struct wf_taped_call *call = new_call(variant);

    call->captured = *captured;
    call->undo = undo;
    call->is_capture = true;
    for (int i = 0; i < captured->n_out; i++)
        if (variant->forward->results[i].requires_grad)
            out[i] = wf_taped_call_handle_of(captured->out[i]);
    for (int i = 0; i < captured->n_out; i++)
        if (variant->forward->results[i].requires_grad)
            wf_tape_visit_leaves(captured->out[i], note_reached, call);
    record_nodes(call, in, out);
}

weft_status wf_taped_call_warm_up(const weft_tensor *result)
{
    weft_tensor *in_grads[WF_NODE_INPUTS] = {0};
    struct wf_taped_call *call;
    weft_scope *scope;
    weft_status status;

    if (!result || !result->node || result->node->vjp != vjp_result) return WEFT_OK;
    call = result->node->context;
    scope = weft_scope_open();
    weft_no_grad_open();
    status = add_missing_gradients(call);
    if (status == WEFT_OK) status = wf_taped_call_capture_backward(call, NULL, in_grads);
    (void)weft_no_grad_close();
    weft_scope_close(scope);
    release_grads(call);
    return status;
}
