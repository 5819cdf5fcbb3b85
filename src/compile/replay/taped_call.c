/* taped_call.c: the tape node of a compiled call, and its backward as a replay. */
#include "compile/replay/taped_call.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "device/device.h"
#include "dtensor/dispatch/redistribute_gradient.h"
#include "ops/dispatch_op.h"
#include <weft/ops.h>

/* The scope in which the call was made has the handle until it closes, but not the tape behind it,
 * which a backward may have retained. */
static void drop_tape_of_result(weft_tensor *result, uint64_t tape_start)
{
    if (result && result->node && !result->node->used && result->node->number > tape_start) {
        wf_tape_node_release(result->node);
        result->node = NULL;
    }
    weft_release(result);
}

void wf_captured_forward_drop_tape(struct wf_captured_forward *captured)
{
    for (int i = 0; i < captured->n_in; i++) weft_release(captured->aliases[i]);
    for (int i = 0; i < captured->n_out; i++)
        drop_tape_of_result(captured->out[i], captured->tape_start);
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

static void release_input_grads(struct wf_taped_call *call)
{
    for (int i = 0; i < WF_COMPILED_INPUTS; i++) {
        weft_release(call->input_grads[i]);
        call->input_grads[i] = NULL;
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
        wf_free(call->leaves);
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
    wf_taped_call_clear_outstanding(call);
    release_grads(call);
    release_input_grads(call);
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

weft_status wf_taped_call_add_missing_gradients(struct wf_taped_call *call)
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

weft_tensor *wf_taped_call_backward_result(const struct wf_taped_call *call,
                                           const struct wf_program_run *run, int i)
{
    const struct wf_operand *at = &call->variant->backward->results[i].at;
    struct wf_block *block = block_of(call, run, at->storage);

    return wf_tensor_new(at->layout, wf_block_retain(block), run->base[at->storage] + at->offset,
                         "compiled");
}

/* ---- gradients of the inputs ---- */

static int count_reached_inputs(const struct wf_variant *variant, int end)
{
    int n = 0;

    for (int i = 0; i < end; i++) n += variant->reaches[i];
    return n;
}

/* Then the call's node has no inputs but nodes that have them, WF_NODE_INPUTS each. */
static bool has_input_nodes(const struct wf_variant *variant)
{
    return count_reached_inputs(variant, variant->guards->n_in) > WF_NODE_INPUTS;
}

weft_status wf_taped_call_add_term(struct wf_taped_call *call,
                                   const struct wf_gradient_target *target, weft_tensor *grad,
                                   const struct wf_tape_node *node, weft_tensor **in_grads)
{
    int place;

    if (target->leaf) return wf_leaf_accumulate_grad(target->leaf, grad);
    WF_ASSERT(call->variant->reaches[target->input]);
    place = count_reached_inputs(call->variant, target->input);
    if (!has_input_nodes(call->variant)) {
        if (in_grads[place])
            WF_TRY(wf_tape_node_add_term((struct wf_tape_node *)node, place, in_grads[place]));
        in_grads[place] = grad;
        return WEFT_OK;
    }
    if (call->input_grads[place])
        WF_TRY(wf_tape_node_add_term(node->producers[place / WF_NODE_INPUTS],
                                     place % WF_NODE_INPUTS, call->input_grads[place]));
    weft_release(call->input_grads[place]);
    call->input_grads[place] = weft_retain(grad);
    return WEFT_OK;
}

static weft_tensor *zero_gradient_of_input(const struct wf_variant *variant, int i)
{
    const struct wf_layout *of = variant->guards->in[i].layout;
    struct wf_layout *layout = wf_layout_with_placements(of, of->placements);
    weft_tensor *zeros = new_zeros(layout);

    wf_layout_release(layout);
    return zeros;
}

/* Of inputs that are reached from other results than those that backward came from. */
static void add_missing_input_gradients(struct wf_taped_call *call, weft_tensor **in_grads)
{
    const struct wf_variant *variant = call->variant;
    bool apart = has_input_nodes(variant);
    weft_tensor **of = apart ? call->input_grads : in_grads;

    for (int i = 0, place = 0; i < variant->guards->n_in; i++) {
        weft_tensor *zeros;

        if (!variant->reaches[i] || of[place++]) continue;
        zeros = zero_gradient_of_input(variant, i);
        of[place - 1] = apart ? weft_retain(zeros) : zeros;
    }
}

static weft_status replay_backward(struct wf_taped_call *call, const struct wf_tape_node *node,
                                   weft_tensor **in_grads)
{
    struct wf_variant *variant = call->variant;
    struct wf_program_run run;
    struct wf_backward_run of = {call, &run, WEFT_OK};
    double began = wf_monotonic_seconds();
    const char *why;

    WF_TRY(wf_taped_call_add_missing_gradients(call));
    WF_TRY(bring_gradients_to_layouts(call));
    WF_TRY(check_unmodified(call));
    WF_TRY(wf_taped_call_check_hooks(call));
    why = wf_step_draws_begin_again(variant->backward->draws);
    WF_NEED(!why, WEFT_ERR_STATE, "compiled %s: backward: %s", variant->name, why);
    wf_step_draws_restore(variant->forward->draws, call->starts);
    WF_TRY(wf_program_begin_run(variant->backward_program, &run));
    set_bases(call, &run);
    run.deliver = wf_taped_call_deliver_in_run;
    run.payload = &of;
    wf_program_run_all(variant->backward_program, &run);
    wf_step_draws_advance(variant->backward->draws);
    for (int i = 0; i < variant->n_targets && of.status == WEFT_OK; i++)
        if (!call->leaves[i].is_delivered)
            of.status = wf_taped_call_add_term(call, &variant->targets[i],
                                               wf_taped_call_backward_result(call, &run, i), node,
                                               in_grads);
    wf_program_end_run(variant->backward_program, &run);
    variant->backward_replays++;
    wf_compile_times_add(&variant->times, WF_COMPILE_RUN_BACKWARD, began);
    return of.status;
}

/* ---- nodes ---- */

static void vjp_compiled_call(const struct wf_tape_node *node, weft_tensor *grad,
                              weft_tensor **in_grads)
{
    struct wf_taped_call *call = node->context;
    weft_status status;

    (void)grad;
    release_input_grads(call);
    wf_taped_call_begin_backward(call);
    status = call->is_capture ? wf_taped_call_capture_backward(call, node, in_grads)
                              : replay_backward(call, node, in_grads);
    if (status == WEFT_OK) status = wf_taped_call_notify_leaves(call);
    release_grads(call);
    if (status == WEFT_OK) add_missing_input_gradients(call, in_grads);
}

/* Inputs v[0] and on of those that are reached. */
static void vjp_inputs(const struct wf_tape_node *node, weft_tensor *grad, weft_tensor **in_grads)
{
    struct wf_taped_call *call = node->context;

    (void)grad;
    for (int i = 0; i < node->n_in; i++) {
        weft_tensor **given = &call->input_grads[node->v[0] + i];

        if (!*given) continue;
        in_grads[i] = wf_taped_call_handle_of(*given);
        weft_release(*given);
        *given = NULL;
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

static struct wf_tape_node *record_node(struct wf_taped_call *call, weft_tensor *out, wf_vjp *vjp,
                                        const char *name, weft_tensor *const *in, int n_in)
{
    struct wf_tape_node *node = wf_tape_record(out, vjp, name, in, n_in);

    node->context = call;
    node->release_context = release_call;
    call->refs++;
    return node;
}

/* A node of the call that no result has: a handle keeps it until the scope closes. */
static struct wf_tape_node *record_hidden_node(struct wf_taped_call *call, const weft_tensor *like,
                                               wf_vjp *vjp, const char *name,
                                               weft_tensor *const *in, int n_in)
{
    return record_node(call, wf_taped_call_handle_of(like), vjp, name, in, n_in);
}

/* It has the inputs that are reached, or, where they are too many, the nodes that have them. */
static struct wf_tape_node *record_node_of_call(struct wf_taped_call *call, const weft_tensor *like,
                                                weft_tensor *const *in)
{
    struct wf_tape_node *input_nodes[WF_NODE_INPUTS], *node;
    weft_tensor *wanted[WF_COMPILED_INPUTS];
    int n = 0, n_nodes = 0;

    for (int i = 0; i < call->variant->guards->n_in; i++)
        if (call->variant->reaches[i]) wanted[n++] = in[i];
    if (!has_input_nodes(call->variant))
        return record_hidden_node(call, like, vjp_compiled_call, "compiled", wanted, n);
    for (int i = 0; i < n; i += WF_NODE_INPUTS) {
        int left = n - i < WF_NODE_INPUTS ? n - i : WF_NODE_INPUTS;

        input_nodes[n_nodes] =
            record_hidden_node(call, like, vjp_inputs, "compiled inputs", &wanted[i], left);
        input_nodes[n_nodes++]->v[0] = i;
    }
    node = record_hidden_node(call, like, vjp_compiled_call, "compiled", NULL, 0);
    for (int i = 0; i < n_nodes; i++) wf_tape_node_add_order_edge(node, input_nodes[i]);
    return node;
}

/* Each result has a node, whose input is the node of the call. */
static void record_nodes(struct wf_taped_call *call, weft_tensor *const *in, weft_tensor **out)
{
    const struct wf_variant *variant = call->variant;
    struct wf_tape_node *node_of_call = NULL;

    for (int i = 0; i < variant->forward->n_results; i++) {
        struct wf_tape_node *node;

        if (!variant->forward->results[i].requires_grad) continue;
        if (!node_of_call) node_of_call = record_node_of_call(call, out[i], in);
        node = record_node(call, out[i], vjp_result, "compiled result", NULL, 0);
        node->v[0] = i;
        wf_tape_node_add_order_edge(node, node_of_call);
    }
    wf_taped_call_mark_outstanding(call);
}

_Static_assert(WF_COMPILED_INPUTS <= WF_NODE_INPUTS * WF_NODE_INPUTS,
               "a node has room for nodes of all inputs");

struct wf_taped_call *wf_taped_call_record(struct wf_variant *variant,
                                           const struct wf_program_run *run, weft_tensor *const *in,
                                           weft_tensor **out)
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
    return call;
}

void wf_taped_call_refresh_written_versions(struct wf_taped_call *call)
{
    const struct wf_variant *variant = call->variant;

    for (int s = 0; s < variant->backward->n_storages; s++)
        if (call->blocks[s] &&
            variant->forward->storages[variant->backward->storages[s].index].written)
            call->versions[s] = call->blocks[s]->version;
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

/* A result may also be an input, behind which there is another call. */
static struct wf_taped_call *warm_up_of_results(weft_tensor *const *results, int n)
{
    for (int i = 0; i < n; i++) {
        const struct wf_tape_node *node = results[i] ? results[i]->node : NULL;

        if (node && node->vjp == vjp_result && ((struct wf_taped_call *)node->context)->undo)
            return node->context;
    }
    return NULL;
}

weft_status wf_taped_call_warm_up(weft_tensor *const *results, int n)
{
    weft_tensor *in_grads[WF_NODE_INPUTS] = {0};
    struct wf_taped_call *call = warm_up_of_results(results, n);
    weft_scope *scope;
    weft_status status;

    if (!call) return WEFT_OK;
    scope = weft_scope_open();
    weft_no_grad_open();
    status = wf_taped_call_capture_backward(call, NULL, in_grads);
    (void)weft_no_grad_close();
    weft_scope_close(scope);
    release_grads(call);
    return status;
}
