/*
 * leaf_gradients.c: what a compiled call's backward gives to leaves, and when their gradient hooks
 * are notified.
 *
 * A leaf counts the calls that are still to add to its gradient (wf_grad_state.outstanding_calls),
 * as it counts functions that are computed again (autograd/recompute.c). Which leaves a call adds
 * to is known from the first backward on; before, those that ops have read count. Where a leaf had
 * a hook when the list was recorded, the list has a node for each term of its gradient, at which
 * the leaf gets it, in the middle of the run: so a bucket of gradients is on its way while backward
 * goes on, as in immediate execution. Others get theirs at the end of the run.
 */
#include "base/error.h"
#include "base/mem.h"
#include "compile/passes/rename.h"
#include "compile/replay/taped_call.h"

/* ---- leaves that count this call ---- */

static weft_tensor *leaf_of_call(const struct wf_taped_call *call, int i)
{
    const struct wf_variant *variant = call->variant;

    return call->outstanding_at == OUTSTANDING_AT_TARGETS ? variant->targets[i].leaf
                                                          : variant->guards->externals[i].tensor;
}

static int count_leaves(const struct wf_taped_call *call)
{
    const struct wf_variant *variant = call->variant;

    if (call->outstanding_at == OUTSTANDING_NOWHERE) return 0;
    return call->outstanding_at == OUTSTANDING_AT_TARGETS ? variant->n_targets
                                                          : variant->guards->n_externals;
}

void wf_taped_call_mark_outstanding(struct wf_taped_call *call)
{
    int n;

    call->outstanding_at = call->variant->backward && !call->is_capture ? OUTSTANDING_AT_TARGETS
                                                                        : OUTSTANDING_AT_EXTERNALS;
    n = count_leaves(call);
    if (n > call->leaf_room) {
        call->leaf_room = n;
        call->leaves = wf_realloc(call->leaves, (size_t)n * sizeof *call->leaves);
    }
    for (int i = 0; i < n; i++) {
        const weft_tensor *leaf = leaf_of_call(call, i);

        call->leaves[i] =
            (struct wf_leaf_progress){.counts_as_outstanding = leaf && leaf->grad_state};
        if (call->leaves[i].counts_as_outstanding) leaf->grad_state->outstanding_calls++;
    }
}

void wf_taped_call_begin_backward(struct wf_taped_call *call)
{
    if (call->outstanding_at == OUTSTANDING_NOWHERE)
        wf_taped_call_mark_outstanding(call); /* once more */
    for (int i = 0; i < count_leaves(call); i++)
        call->leaves[i].is_delivered = call->leaves[i].hook_notified = false;
}

/* Its hook may have been taken off since, or be another one. */
static void clear_outstanding_at_leaf(struct wf_taped_call *call, int i)
{
    const weft_tensor *leaf = leaf_of_call(call, i);

    if (call->leaves[i].counts_as_outstanding && leaf->grad_state &&
        leaf->grad_state->outstanding_calls > 0)
        leaf->grad_state->outstanding_calls--;
    call->leaves[i].counts_as_outstanding = false;
}

void wf_taped_call_clear_outstanding(struct wf_taped_call *call)
{
    for (int i = 0; i < count_leaves(call); i++) clear_outstanding_at_leaf(call, i);
    call->outstanding_at = OUTSTANDING_NOWHERE;
}

/* Of a leaf that stands there several times, only the first one is notified. */
static bool needs_notification(const struct wf_taped_call *call, int i)
{
    const weft_tensor *leaf = leaf_of_call(call, i);

    if (!leaf || !leaf->grad_state || !leaf->grad || call->leaves[i].hook_notified) return false;
    for (int j = 0; j < i; j++)
        if (!call->leaves[j].hook_notified && leaf_of_call(call, j) == leaf) return false;
    return true;
}

weft_status wf_taped_call_notify_leaves(struct wf_taped_call *call)
{
    int n = count_leaves(call);
    weft_status status = WEFT_OK;

    for (int i = 0; i < n; i++) clear_outstanding_at_leaf(call, i);
    for (int i = 0; i < n && status == WEFT_OK; i++)
        if (needs_notification(call, i)) status = wf_leaf_notify_if_complete(leaf_of_call(call, i));
    call->outstanding_at = OUTSTANDING_NOWHERE;
    return status;
}

/* ---- what may happen at a node that gives a gradient to its leaf ---- */

static int count_results_in(const struct wf_op_list *list, int storage)
{
    int n = 0;

    for (int i = 0; i < list->n_results; i++) n += list->results[i].at.storage == storage;
    for (int s = 0; s < list->n_storages; s++) n += list->storages[s].same_as - 1 == storage;
    return n;
}

static bool is_read_later(const struct wf_variant *variant, const int *last_uses,
                          const weft_tensor *leaf, int node)
{
    const struct wf_op_list *list = variant->backward;

    for (int s = 0; s < list->n_storages; s++) {
        const struct wf_storage *storage = &list->storages[s];

        if (storage->kind == WF_STORAGE_FORWARD)
            storage = &variant->forward->storages[storage->index];
        if (last_uses[s] > node && storage->kind == WF_STORAGE_EXTERNAL &&
            storage->block == leaf->block)
            return true;
    }
    return false;
}

void wf_variant_plan_deliveries(struct wf_variant *variant)
{
    const struct wf_op_list *list = variant->backward;
    int *last_uses = wf_list_last_uses(list);

    for (int i = 0; i < list->n_nodes; i++) {
        const struct wf_list_node *node = &list->nodes[i];
        struct wf_gradient_target *target;

        if (node->kind != WF_LIST_DELIVER) continue;
        target = &variant->targets[node->result];
        target->is_last_use =
            last_uses[node->in[0].storage] == i && count_results_in(list, node->in[0].storage) == 1;
        target->leaf_is_read_later = is_read_later(variant, last_uses, target->leaf, i);
    }
    wf_free(last_uses);
}

/* ---- in the run ---- */

weft_status wf_taped_call_check_hooks(const struct wf_taped_call *call)
{
    for (int i = 0; i < call->variant->n_targets; i++) {
        const weft_tensor *leaf = call->variant->targets[i].leaf;

        if (leaf) WF_TRY(wf_leaf_check_before_walk(leaf));
    }
    return WEFT_OK;
}

/* The leaf has it alone, so that a hook that takes it needs no copy. */
static weft_status add_to_leaf(const struct wf_backward_run *of, int i)
{
    const struct wf_gradient_target *target = &of->call->variant->targets[i];
    struct wf_block **kept = &of->run->kept[of->call->variant->backward->results[i].at.storage];
    weft_scope *scope = weft_scope_open();
    weft_tensor *grad = wf_taped_call_backward_result(of->call, of->run, i);
    weft_status status;

    if (target->is_last_use && *kept) {
        wf_block_release(*kept);
        *kept = NULL;
    }
    status = wf_leaf_accumulate_grad(target->leaf, grad);
    weft_scope_close(scope);
    return status;
}

void wf_taped_call_deliver_in_run(int i, void *payload)
{
    struct wf_backward_run *of = payload;
    struct wf_taped_call *call = of->call;
    const struct wf_gradient_target *target = &call->variant->targets[i];
    const struct wf_grad_state *state = target->leaf->grad_state;

    if (of->status != WEFT_OK || !state || call->leaves[i].is_delivered) return;
    call->leaves[i].is_delivered = true;
    of->status = add_to_leaf(of, i);
    if (of->status != WEFT_OK || !call->leaves[i].counts_as_outstanding ||
        (state->hook->writes_leaf && target->leaf_is_read_later))
        return;
    clear_outstanding_at_leaf(call, i);
    call->leaves[i].hook_notified = true;
    of->status = wf_leaf_notify_if_complete(target->leaf);
}
