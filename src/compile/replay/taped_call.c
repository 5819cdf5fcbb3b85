/* taped_call.c: the tape node of a compiled call, and its backward as a replay. */
#include "compile/replay/taped_call.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
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

static void release_blocks(struct wf_instance *instance)
{
    const struct wf_op_list *backward = instance->variant->backward;

    for (int s = 0; instance->blocks && s < backward->n_storages; s++) {
        if (instance->blocks[s]) wf_block_release(instance->blocks[s]);
        instance->blocks[s] = NULL;
    }
}

static void release_grads(struct wf_instance *instance)
{
    for (int i = 0; i < instance->variant->forward->n_results; i++) {
        weft_release(instance->grads[i]);
        instance->grads[i] = NULL;
    }
}

void wf_instance_free(struct wf_instance *instance)
{
    struct wf_instance *next;

    for (; instance; instance = next) {
        next = instance->next;
        wf_free(instance->grads);
        wf_free(instance->base);
        wf_free(instance->blocks);
        wf_free(instance->versions);
        wf_free(instance->starts);
        wf_free(instance);
    }
}

static struct wf_instance *new_instance(struct wf_variant *variant)
{
    struct wf_instance *instance = variant->idle;

    if (instance) {
        variant->idle = instance->next;
    } else {
        instance = WF_NEW(struct wf_instance);
        instance->grads =
            wf_calloc((size_t)variant->forward->n_results + 1, sizeof *instance->grads);
        instance->starts = wf_calloc((size_t)wf_step_draws_generator_count(variant->forward->draws),
                                     sizeof *instance->starts);
    }
    instance->variant = variant;
    instance->refs = 0;
    wf_step_draws_save(variant->forward->draws, instance->starts);
    variant->refs++;
    return instance;
}

static void release_instance(void *context)
{
    struct wf_instance *instance = context;
    struct wf_variant *variant = instance->variant;

    if (--instance->refs > 0) return;
    wf_taped_call_stop_awaiting(instance);
    release_grads(instance);
    if (instance->is_capture) wf_captured_forward_free(&instance->captured);
    instance->is_capture = false;
    instance->undo = NULL;
    release_blocks(instance);
    instance->next = variant->idle;
    variant->idle = instance;
    wf_variant_release(variant);
}

/* ---- gradients of the results ---- */

static weft_tensor *new_zeros(struct wf_layout *layout)
{
    weft_tensor *zeros = wf_tensor_new_empty(layout, WF_MEM_GRADIENTS, "compiled");

    if (zeros) memset(zeros->data, 0, (size_t)zeros->block->bytes);
    return zeros;
}

/* Of results that backward did not come from: so one backward list serves every case. */
static weft_status add_missing_gradients(struct wf_instance *instance)
{
    const struct wf_variant *variant = instance->variant;

    for (int i = 0; i < variant->forward->n_results; i++) {
        weft_tensor *zeros;

        if (!variant->forward->results[i].requires_grad || instance->grads[i]) continue;
        zeros = instance->is_capture ? wf_zero_gradient_like(instance->captured.out[i])
                                     : new_zeros(variant->gradient_layouts[i]);
        if (!zeros) return weft_error_status();
        instance->grads[i] = weft_retain(zeros);
    }
    return WEFT_OK;
}

/* The list reads them in the layouts that they had when it was recorded. */
static weft_status bring_gradients_to_layouts(struct wf_instance *instance)
{
    const struct wf_variant *variant = instance->variant;

    for (int i = 0; i < variant->forward->n_results; i++) {
        struct wf_layout *want = variant->gradient_layouts[i];
        weft_tensor *grad = instance->grads[i];
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
        weft_release(instance->grads[i]);
        instance->grads[i] = grad;
    }
    return WEFT_OK;
}

/* A handle of the open scope to the same bytes. */
weft_tensor *wf_taped_call_handle_of(const weft_tensor *t)
{
    return wf_tensor_new(t->layout, wf_block_retain(t->block), t->data, t->origin);
}

void wf_taped_call_make_room_for_blocks(struct wf_instance *instance)
{
    size_t n = (size_t)instance->variant->backward->n_storages + 1;

    if (instance->blocks) return;
    instance->blocks = wf_calloc(n, sizeof *instance->blocks);
    instance->versions = wf_calloc(n, sizeof *instance->versions);
    instance->base = wf_calloc(n, sizeof *instance->base);
}

/* ---- later ones: replayed ---- */

static weft_status check_unmodified(const struct wf_instance *instance)
{
    const struct wf_op_list *backward = instance->variant->backward;

    for (int s = 0; s < backward->n_storages; s++)
        WF_NEED(!instance->blocks[s] || instance->blocks[s]->version == instance->versions[s],
                WEFT_ERR_STATE,
                "backward: a tensor that the compiled function %s has read was written in place "
                "since, by %s",
                instance->variant->name,
                instance->blocks[s]->writer ? instance->blocks[s]->writer : "the program");
    return WEFT_OK;
}

static void set_bases(const struct wf_instance *instance, const struct wf_program_run *run)
{
    const struct wf_op_list *backward = instance->variant->backward;

    for (int s = 0; s < backward->n_storages; s++) {
        const struct wf_storage *storage = &backward->storages[s];

        if (storage->kind == WF_STORAGE_FORWARD) run->base[s] = instance->base[s];
        if (storage->kind == WF_STORAGE_INPUT) run->base[s] = instance->grads[storage->index]->data;
    }
}

static struct wf_block *block_of(const struct wf_instance *instance,
                                 const struct wf_program_run *run, int s)
{
    const struct wf_storage *storage = &instance->variant->backward->storages[s];

    switch ((enum wf_storage_kind)storage->kind) {
    case WF_STORAGE_INPUT:
        return instance->grads[storage->index]->block;
    case WF_STORAGE_EXTERNAL:
        return storage->block;
    case WF_STORAGE_FORWARD:
        return instance->blocks[s];
    case WF_STORAGE_MADE:
        return run->kept[s];
    case WF_STORAGE_GRADIENT:
        return NULL;
    }
    return NULL;
}

static weft_tensor *result_handle(const struct wf_instance *instance,
                                  const struct wf_program_run *run, int i)
{
    const struct wf_operand *at = &instance->variant->backward->results[i].at;
    struct wf_block *block = block_of(instance, run, at->storage);

    return wf_tensor_new(at->layout, wf_block_retain(block), run->base[at->storage] + at->offset,
                         "compiled");
}

weft_status wf_taped_call_deliver(const struct wf_instance *instance,
                                  const struct wf_gradient_target *target, weft_tensor *grad,
                                  const struct wf_tape_node *node, weft_tensor **in_grads)
{
    int place = 0;

    if (target->leaf) return wf_leaf_accumulate_grad(target->leaf, grad);
    WF_ASSERT(instance->variant->reaches[target->input]);
    for (int i = 0; i < target->input; i++) place += instance->variant->reaches[i];
    if (in_grads[place])
        WF_TRY(wf_tape_node_add_term((struct wf_tape_node *)node, place, in_grads[place]));
    in_grads[place] = grad;
    return WEFT_OK;
}

static weft_status replay_backward(struct wf_instance *instance, const struct wf_tape_node *node,
                                   weft_tensor **in_grads)
{
    struct wf_variant *variant = instance->variant;
    struct wf_program_run run;
    weft_status status = WEFT_OK;
    double began = wf_monotonic_seconds();
    const char *why;

    WF_TRY(bring_gradients_to_layouts(instance));
    WF_TRY(check_unmodified(instance));
    why = wf_step_draws_begin_again(variant->backward->draws);
    WF_NEED(!why, WEFT_ERR_STATE, "compiled %s: backward: %s", variant->name, why);
    wf_step_draws_restore(variant->forward->draws, instance->starts);
    WF_TRY(wf_program_begin_run(variant->backward_program, &run));
    set_bases(instance, &run);
    wf_program_run_all(variant->backward_program, &run);
    wf_step_draws_advance(variant->backward->draws);
    for (int i = 0; i < variant->n_targets && status == WEFT_OK; i++)
        status = wf_taped_call_deliver(instance, &variant->targets[i],
                                       result_handle(instance, &run, i), node, in_grads);
    wf_program_end_run(variant->backward_program, &run);
    variant->backward_replays++;
    wf_compile_times_add(&variant->times, WF_COMPILE_RUN_BACKWARD, began);
    return status;
}

/* ---- nodes ---- */

static void vjp_compiled_call(const struct wf_tape_node *node, weft_tensor *grad,
                              weft_tensor **in_grads)
{
    struct wf_instance *instance = node->context;
    const struct wf_guards *guards = instance->variant->guards;
    weft_status status = add_missing_gradients(instance);
    int n = 0;

    (void)grad;
    if (status == WEFT_OK)
        status = instance->is_capture ? wf_taped_call_capture_backward(instance, node, in_grads)
                                      : replay_backward(instance, node, in_grads);
    if (status == WEFT_OK) status = wf_taped_call_notify_leaves(instance);
    release_grads(instance);
    if (status != WEFT_OK) return;
    for (int i = 0; i < guards->n_in; i++) {
        struct wf_layout *layout;

        if (!instance->variant->reaches[i] || in_grads[n++]) continue;
        layout = wf_layout_with_placements(guards->in[i].layout, guards->in[i].layout->placements);
        in_grads[n - 1] = new_zeros(layout);
        wf_layout_release(layout);
    }
}

/* One result's gradient has come; the call runs when all have. */
static void vjp_result(const struct wf_tape_node *node, weft_tensor *grad, weft_tensor **in_grads)
{
    struct wf_instance *instance = node->context;

    (void)in_grads;
    weft_release(instance->grads[node->v[0]]);
    instance->grads[node->v[0]] = weft_retain(grad);
}

/* The call's node has the inputs that require gradients; each result has a node behind it. */
static void record_nodes(struct wf_instance *instance, weft_tensor *const *in, weft_tensor **out)
{
    const struct wf_variant *variant = instance->variant;
    weft_tensor *wanted[WF_NODE_INPUTS], *hidden = NULL;
    struct wf_tape_node *call = NULL;
    int n = 0;

    for (int i = 0; i < variant->guards->n_in; i++)
        if (variant->reaches[i]) wanted[n++] = in[i];
    for (int i = 0; i < variant->forward->n_results; i++) {
        struct wf_tape_node *node;

        if (!variant->forward->results[i].requires_grad) continue;
        if (!call) {
            hidden =
                wf_taped_call_handle_of(out[i]); /* which keeps the node until the scope closes */
            call = wf_tape_record(hidden, vjp_compiled_call, "compiled", wanted, n);
            call->context = instance;
            call->release_context = release_instance;
            instance->refs++;
        }
        node = wf_tape_record(out[i], vjp_result, "compiled result", NULL, 0);
        node->context = instance;
        node->release_context = release_instance;
        node->v[0] = i;
        instance->refs++;
        wf_tape_node_add_order_edge(node, call);
    }
    wf_taped_call_begin_awaiting(instance);
}

weft_status wf_taped_call_record(struct wf_variant *variant, const struct wf_program_run *run,
                                 weft_tensor *const *in, weft_tensor **out)
{
    struct wf_instance *instance = new_instance(variant);
    const struct wf_op_list *backward = variant->backward;

    wf_taped_call_make_room_for_blocks(instance);
    for (int s = 0; s < backward->n_storages; s++) {
        int of = backward->storages[s].index;
        struct wf_block *block;

        if (!backward->storages[s].kept_by_calls) continue;
        block = wf_variant_block(variant, run, of, in);
        instance->blocks[s] = wf_block_retain(block);
        instance->versions[s] = instance->blocks[s]->version;
        instance->base[s] = run->base[of];
    }
    record_nodes(instance, in, out);
    return WEFT_OK;
}

static void note_reached(const weft_tensor *leaf, void *payload)
{
    struct wf_instance *instance = payload;

    const weft_tensor *alias;

    for (int i = 0; i < instance->captured.n_in; i++) {
        alias = instance->captured.aliases[i];
        if (alias && alias->requires_grad && (!leaf || leaf == alias))
            instance->variant->reaches[i] = true;
    }
}

void wf_taped_call_record_captured(struct wf_variant *variant, struct wf_captured_forward *captured,
                                   weft_tensor *const *in, weft_tensor **out, struct wf_undo *undo)
{
    struct wf_instance *instance = new_instance(variant);

    instance->captured = *captured;
    instance->undo = undo;
    instance->is_capture = true;
    for (int i = 0; i < captured->n_out; i++)
        if (variant->forward->results[i].requires_grad)
            out[i] = wf_taped_call_handle_of(captured->out[i]);
    for (int i = 0; i < captured->n_out; i++)
        if (variant->forward->results[i].requires_grad)
            wf_tape_visit_leaves(captured->out[i], note_reached, instance);
    record_nodes(instance, in, out);
}

weft_status wf_taped_call_warm_up(const weft_tensor *result)
{
    weft_tensor *in_grads[WF_NODE_INPUTS] = {0};
    struct wf_instance *instance;
    weft_scope *scope;
    weft_status status;

    if (!result || !result->node || result->node->vjp != vjp_result) return WEFT_OK;
    instance = result->node->context;
    scope = weft_scope_open();
    weft_no_grad_open();
    status = add_missing_gradients(instance);
    if (status == WEFT_OK) status = wf_taped_call_capture_backward(instance, NULL, in_grads);
    (void)weft_no_grad_close();
    weft_scope_close(scope);
    release_grads(instance);
    return status;
}
