/*
 * leaf_gradients.c: what a compiled call's backward gives to leaves, and what their gradient hooks
 * hear of it.
 *
 * Hooks know that more terms are to come to the leaves that the call reads, as from a function that
 * is computed again (autograd/recompute.c). Which leaves they are is known from the first backward
 * on; before, those that ops have read. Where a hook was there when the list was recorded, the list
 * has a node at which the leaf gets its gradient, in the middle of the run: so a bucket of
 * gradients is on its way while backward goes on, as in immediate execution.
 */
#include <string.h>

#include "base/mem.h"
#include "compile/replay/taped_call.h"

/* ---- leaves that await this call ---- */

/* NULL: it has heard of the call already. */
static weft_tensor *awaited_leaf(const struct wf_taped_call *call, int i)
{
    const struct wf_variant *variant = call->variant;

    if (call->awaits == AWAITS_EXTERNALS) return variant->guards->externals[i].tensor;
    return call->progress[i].heard ? NULL : variant->targets[i].leaf;
}

static int count_awaited(const struct wf_taped_call *call)
{
    const struct wf_variant *variant = call->variant;

    if (call->awaits == AWAITS_NOTHING) return 0;
    return call->awaits == AWAITS_TARGETS ? variant->n_targets : variant->guards->n_externals;
}

static void add_to_awaited(struct wf_taped_call *call, int by)
{
    for (int i = 0; i < count_awaited(call); i++) {
        weft_tensor *leaf = awaited_leaf(call, i);

        if (leaf && leaf->grad_state) leaf->grad_state->recomputes += by;
    }
}

static void end_awaiting(struct wf_taped_call *call)
{
    size_t n = (size_t)call->variant->n_targets;

    if (call->progress) memset(call->progress, 0, n * sizeof *call->progress);
    call->awaits = AWAITS_NOTHING;
}

void wf_taped_call_begin_awaiting(struct wf_taped_call *call)
{
    call->awaits = call->variant->backward ? AWAITS_TARGETS : AWAITS_EXTERNALS;
    add_to_awaited(call, 1);
}

static bool came_before(const struct wf_taped_call *call, int i)
{
    for (int j = 0; j < i; j++)
        if (awaited_leaf(call, j) == awaited_leaf(call, i)) return true;
    return false;
}

weft_status wf_taped_call_notify_leaves(struct wf_taped_call *call)
{
    int n = count_awaited(call);
    weft_status status = WEFT_OK;

    add_to_awaited(call, -1);
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        weft_tensor *leaf = awaited_leaf(call, i);

        if (leaf && leaf->grad_state && leaf->grad && !came_before(call, i))
            status = wf_leaf_notify_if_complete(leaf);
    }
    end_awaiting(call);
    return status;
}

void wf_taped_call_stop_awaiting(struct wf_taped_call *call)
{
    add_to_awaited(call, -1);
    end_awaiting(call);
}

/* ---- what may happen at a node that gives a gradient to its leaf ---- */

struct last_uses {
    int *node; /* by storage; -1: none uses it */
    int at;
};

static void note_use(int storage, bool write, void *payload)
{
    struct last_uses *last = payload;

    (void)write;
    last->node[storage] = last->at;
}

static int count_results_in(const struct wf_op_list *list, int storage)
{
    int n = 0;

    for (int i = 0; i < list->n_results; i++) n += list->results[i].at.storage == storage;
    for (int s = 0; s < list->n_storages; s++) n += list->storages[s].same_as - 1 == storage;
    return n;
}

/* A hook may write to the leaf, so no node may read it any more. */
static bool is_read_behind(const struct wf_variant *variant, const struct last_uses *last,
                           const weft_tensor *leaf, int node)
{
    const struct wf_op_list *list = variant->backward;

    for (int s = 0; s < list->n_storages; s++) {
        const struct wf_storage *storage = &list->storages[s];

        if (storage->kind == WF_STORAGE_FORWARD)
            storage = &variant->forward->storages[storage->index];
        if (last->node[s] > node && storage->kind == WF_STORAGE_EXTERNAL &&
            storage->block == leaf->block)
            return true;
    }
    return false;
}

void wf_variant_plan_deliveries(struct wf_variant *variant)
{
    const struct wf_op_list *list = variant->backward;
    struct last_uses last = {wf_malloc(((size_t)list->n_storages + 1) * sizeof(int)), 0};

    for (int s = 0; s < list->n_storages; s++) last.node[s] = -1;
    for (last.at = 0; last.at < list->n_nodes; last.at++)
        wf_list_node_visit_storages(list, &list->nodes[last.at], note_use, &last);
    for (int i = 0; i < list->n_nodes; i++) {
        const struct wf_list_node *node = &list->nodes[i];
        struct wf_gradient_target *target;

        if (node->kind != WF_LIST_DELIVER) continue;
        target = &variant->targets[node->result];
        target->is_last_use =
            last.node[node->in[0].storage] == i && count_results_in(list, node->in[0].storage) == 1;
        target->leaf_is_free = !is_read_behind(variant, &last, target->leaf, i);
    }
    wf_free(last.node);
}

/* ---- in the run ---- */

/* The leaf has it alone, so that a hook that takes it needs no copy. */
static weft_status deliver_now(struct wf_leaf_delivery *delivery, int i)
{
    struct wf_taped_call *call = delivery->call;
    const struct wf_gradient_target *target = &call->variant->targets[i];
    int s = call->variant->backward->results[i].at.storage;
    struct wf_block **kept = &delivery->run->kept[s];
    weft_scope *scope = weft_scope_open();
    weft_tensor *grad = wf_taped_call_result(call, delivery->run, i);
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
    struct wf_leaf_delivery *delivery = payload;
    struct wf_taped_call *call = delivery->call;
    const struct wf_gradient_target *target = &call->variant->targets[i];
    struct wf_grad_state *state = target->leaf->grad_state;

    if (delivery->status != WEFT_OK || call->awaits != AWAITS_TARGETS || !state) return;
    call->progress[i].delivered = true;
    delivery->status = deliver_now(delivery, i);
    if (delivery->status != WEFT_OK || !target->leaf_is_free || call->progress[i].heard) return;
    call->progress[i].heard = true;
    state->recomputes--;
    delivery->status = wf_leaf_notify_if_complete(target->leaf);
}
