/*
 * first_backward.c: the backward of the call that captured: the walk over the inner tape, recorded.
 * Afterwards the call is as one that was replayed.
 */
#include "compile/replay/taped_call.h"

#include "base/error.h"
#include "base/mem.h"
#include "ops/dispatch_op.h"

static void keep_gradient_layouts(struct wf_taped_call *call)
{
    struct wf_variant *variant = call->variant;
    int n = variant->forward->n_results;

    variant->gradient_layouts = wf_calloc((size_t)n + 1, sizeof(struct wf_layout *));
    for (int i = 0; i < n; i++)
        if (call->grads[i]) variant->gradient_layouts[i] = wf_layout_retain(call->grads[i]->layout);
}

/* The block is also that of another gradient, or of a tensor that the forward knows. */
static bool shares_block(const struct wf_taped_call *call, int i)
{
    const struct wf_captured_forward *captured = &call->captured;
    const struct wf_block *block = call->grads[i]->block;

    for (int j = 0; j < i; j++)
        if (call->grads[j] && call->grads[j]->block == block) return true;
    for (int b = 0; b < captured->n_blocks; b++)
        if (captured->blocks[b].block == block) return true;
    return false;
}

/* Row-major, and each with bytes of its own: so a replay reads them. */
static weft_status make_gradients_inputs(struct wf_taped_call *call)
{
    for (int i = 0; i < call->captured.n_out; i++) {
        weft_tensor *grad = call->grads[i];

        if (!grad || (grad->layout->desc.contiguous && !shares_block(call, i))) continue;
        grad = weft_retain(grad->layout->desc.contiguous ? weft_clone(grad)
                                                         : wf_copy_row_major_for_view(grad));
        if (!grad) return weft_error_status();
        weft_release(call->grads[i]);
        call->grads[i] = grad;
    }
    return WEFT_OK;
}

static void release_nothing(void *call) { (void)call; }

/* Passes the gradients of up to WF_NODE_INPUTS results on to the inner tape: result v[0] and on. */
static void vjp_results(const struct wf_tape_node *node, weft_tensor *grad, weft_tensor **in_grads)
{
    struct wf_taped_call *call = node->context;

    (void)grad;
    for (int i = (int)node->v[0], n = 0; n < node->n_in; i++)
        if (call->variant->forward->results[i].requires_grad) in_grads[n++] = call->grads[i];
}

static void vjp_all_results(const struct wf_tape_node *node, weft_tensor *grad,
                            weft_tensor **in_grads)
{
    for (int n = 0; n < node->n_in; n++) in_grads[n] = grad;
}

/* A number behind some results, the first of which is number `first`. gives: NULL: no memory */
static weft_tensor *number_behind(struct wf_taped_call *call, weft_tensor *const *results, int n,
                                  int first)
{
    weft_tensor *number = wf_number_like(results[0], 0);
    struct wf_tape_node *node;

    if (!number) return NULL;
    node =
        wf_tape_record(number, first < 0 ? vjp_all_results : vjp_results, "compiled", results, n);
    node->context = call;
    node->release_context = release_nothing;
    node->v[0] = first;
    return number;
}

static weft_tensor *number_behind_all_results(struct wf_taped_call *call)
{
    weft_tensor *some[WF_NODE_INPUTS], *numbers[WF_NODE_INPUTS];
    int n = 0, n_numbers = 0, first = 0, n_out = call->captured.n_out;

    for (int i = 0; i < n_out; i++) {
        if (call->variant->forward->results[i].requires_grad) some[n++] = call->captured.out[i];
        if (n == 0 || (n < WF_NODE_INPUTS && i + 1 < n_out)) continue;
        numbers[n_numbers] = number_behind(call, some, n, first);
        if (!numbers[n_numbers++]) return NULL;
        first = i + 1;
        n = 0;
    }
    return n_numbers == 1 ? numbers[0] : number_behind(call, numbers, n_numbers, -1);
}

/* The numbers hold the tape, which nobody may when it is asked what the function keeps. */
static weft_status walk_inner_tape(struct wf_taped_call *call)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *root = number_behind_all_results(call);
    weft_status status = !root                     ? weft_error_status()
                         : wf_backward_is_retained ? weft_backward_retain(root)
                                                   : weft_backward(root);

    weft_scope_close(scope);
    return status;
}

/* ---- the first backward: recorded ---- */

static struct wf_gradient_target target_of(const struct wf_captured_forward *captured,
                                           weft_tensor *leaf)
{
    for (int i = 0; i < captured->n_in; i++)
        if (captured->aliases[i] == leaf) return (struct wf_gradient_target){.input = i};
    return (struct wf_gradient_target){.leaf = weft_retain(leaf), .input = -1};
}

/* Each term that was delivered is a result of the list. */
static void add_results(struct wf_variant *variant, struct wf_list_recorder *r,
                        const struct wf_captured_forward *captured)
{
    struct wf_op_list *list = r->list;
    int n = r->n_deliveries;

    wf_variant_free_gradient_targets(variant); /* of an earlier walk of the same tape */
    list->results = wf_calloc((size_t)n + 1, sizeof *list->results);
    variant->targets = wf_calloc((size_t)n + 1, sizeof *variant->targets);
    variant->n_targets = list->n_results = n;
    for (int i = 0; i < n; i++) {
        list->results[i] =
            (struct wf_list_result){.at = wf_recording_operand(r, r->deliveries[i].grad),
                                    .same_as_input = -1,
                                    .same_as_result = -1};
        variant->targets[i] = target_of(captured, r->deliveries[i].leaf);
    }
}

static weft_status deliver_term(struct wf_taped_call *call, const struct wf_list_recorder *r, int i,
                                const struct wf_tape_node *node, weft_tensor **in_grads)
{
    const struct wf_gradient_target *target = &call->variant->targets[i];
    weft_tensor *grad = r->deliveries[i].grad;

    return target->leaf ? wf_leaf_deliver_grad(target->leaf, grad)
                        : wf_taped_call_add_term(call, target, wf_taped_call_handle_of(grad), node,
                                                 in_grads);
}

/* What was delivered, now that nobody records. Leaves no longer wait for terms that they do not
 * get: those of a warm-up, and those after a failure. */
static weft_status deliver_terms(struct wf_taped_call *call, const struct wf_list_recorder *r,
                                 const struct wf_tape_node *node, weft_tensor **in_grads)
{
    weft_status status = WEFT_OK;

    for (int i = 0; i < r->n_deliveries; i++) {
        struct wf_grad_state *state = r->deliveries[i].leaf->grad_state;

        if (status == WEFT_OK && !call->undo)
            status = deliver_term(call, r, i, node, in_grads);
        else if (state)
            state->awaited--;
    }
    return status;
}

static weft_status record_backward(struct wf_taped_call *call, const struct wf_tape_node *node,
                                   weft_tensor **in_grads)
{
    struct wf_variant *variant = call->variant;
    struct wf_captured_forward *captured = &call->captured;
    struct wf_list_recorder *r = WF_NEW(struct wf_list_recorder);
    weft_status status;

    wf_recording_begin(r);
    r->is_backward = true;
    r->base.is_whole = true;
    r->undo = call->undo;
    r->list->forward_draws = variant->forward->draws;
    for (int i = 0; i < captured->n_blocks; i++)
        wf_recording_add_forward(r, captured->blocks[i].block,
                                 &variant->forward->storages[captured->blocks[i].storage],
                                 captured->blocks[i].storage);
    for (int i = 0; i < captured->n_out; i++)
        if (variant->forward->results[i].requires_grad)
            wf_recording_add_input(r, call->grads[i], i);
    status = walk_inner_tape(call);
    if (status == WEFT_OK) add_results(variant, r, captured);
    wf_recording_end(r);
    if (status == WEFT_OK) status = deliver_terms(call, r, node, in_grads);
    if (variant->unusable || variant->backward) {
        /* not the first backward: ranks have found the list of that one to be of no use */
    } else if (r->n_breaks) {
        variant->unusable = wf_format("backward: %s", r->breaks[0].reason);
    } else if (status == WEFT_OK) {
        variant->backward = r->list;
        r->list = NULL;
    }
    wf_recording_free(r);
    wf_free(r);
    return status;
}

static bool call_holds(const struct wf_taped_call *call, const struct wf_block *block)
{
    for (int s = 0; s < call->variant->backward->n_storages; s++)
        if (call->blocks[s] == block) return true;
    return false;
}

/* What the forward made and something still holds, though the tape is gone and it is no result: the
 * function keeps it, and a replay would not be seen there. */
static void look_for_kept_tensors(struct wf_taped_call *call)
{
    struct wf_variant *variant = call->variant;
    const struct wf_captured_forward *captured = &call->captured;

    for (int i = 0; i < captured->n_blocks; i++) {
        const struct wf_known_block *known = &captured->blocks[i];
        int held = 1 + call_holds(call, known->block);

        if (variant->forward->storages[known->storage].kind != WF_STORAGE_MADE ||
            wf_op_list_gives(variant->forward, known->storage) || known->block->refs <= held)
            continue;
        if (!variant->unusable)
            variant->unusable = wf_strdup("it keeps a tensor that it makes: make it a result");
    }
}

/* The tape of the capture is gone, but another backward may come: as after a replay. */
static void become_replay(struct wf_taped_call *call)
{
    const struct wf_captured_forward *captured = &call->captured;
    struct wf_variant *variant = call->variant;
    const struct wf_op_list *backward = variant->backward;

    wf_taped_call_make_room_for_blocks(call);
    for (int s = 0; s < backward->n_storages; s++) {
        if (!backward->storages[s].kept_by_calls) continue;
        for (int i = 0; i < captured->n_blocks; i++) {
            struct wf_block *block = captured->blocks[i].block;

            if (captured->blocks[i].storage != backward->storages[s].index) continue;
            call->blocks[s] = wf_block_retain(block);
            call->versions[s] = block->version;
            call->base[s] = backward->storages[s].base;
        }
    }
    wf_captured_forward_drop_tape(&call->captured);
    look_for_kept_tensors(call);
    wf_captured_forward_free(&call->captured);
    call->is_capture = false;
}

/* Nothing has been walked: another backward may record it. */
static bool tape_was_never_traversed(const struct wf_taped_call *call)
{
    const struct wf_captured_forward *captured = &call->captured;

    for (int i = 0; i < captured->n_out; i++)
        if (captured->out[i] && captured->out[i]->node && captured->out[i]->node->used)
            return false;
    return true;
}

static weft_status record_and_plan(struct wf_taped_call *call, const struct wf_tape_node *node,
                                   weft_tensor **in_grads, bool is_first)
{
    WF_TRY(wf_taped_call_add_missing_gradients(call));
    WF_TRY(make_gradients_inputs(call));
    WF_TRY(record_backward(call, node, in_grads));
    if (!is_first || !call->variant->backward) return WEFT_OK;
    keep_gradient_layouts(call);
    return wf_variant_finish(call->variant);
}

/*
 * Ranks may fail, break or keep tensors apart from each other: all agree, before the call goes on
 * as a replay, whose collectives are then the same on all, and after it, when tensors that are
 * still held have been found. What was refused before anything had run may be tried again.
 */
weft_status wf_taped_call_capture_backward(struct wf_taped_call *call,
                                           const struct wf_tape_node *node, weft_tensor **in_grads)
{
    struct wf_variant *variant = call->variant;
    bool is_first = !variant->backward && !variant->unusable;
    weft_status status = record_and_plan(call, node, in_grads, is_first);

    if (!is_first) return status;
    if (status != WEFT_OK && !variant->unusable &&
        (variant->backward || !tape_was_never_traversed(call)))
        variant->unusable = wf_strdup(weft_error_message());
    wf_variant_agree_across_ranks(variant);
    if (variant->unusable || !variant->backward) return status;
    become_replay(call);
    wf_variant_agree_across_ranks(variant);
    return status;
}
