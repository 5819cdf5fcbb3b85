/* op_list.c: making, walking and freeing lists. */
#include "compile/list/op_list.h"

#include <string.h>

#include "base/array_grow.h"
#include "base/elements/dtype.h"
#include "base/mem.h"
#include "dtensor/dispatch/plan_cache.h"

struct wf_op_list *wf_op_list_new(void) { return WF_NEW(struct wf_op_list); }

int wf_op_list_add_storage(struct wf_op_list *list, struct wf_storage storage)
{
    list->storages = wf_array_grow(list->storages, list->n_storages, sizeof *list->storages);
    list->storages[list->n_storages] = storage;
    return list->n_storages++;
}

struct wf_list_node *wf_op_list_add_node(struct wf_op_list *list, enum wf_list_node_kind kind)
{
    struct wf_list_node *node;

    list->nodes = wf_array_grow(list->nodes, list->n_nodes, sizeof *list->nodes);
    node = &list->nodes[list->n_nodes++];
    memset(node, 0, sizeof *node);
    node->kind = (uint8_t)kind;
    node->started = -1;
    for (int i = 0; i < WF_MAX_IN; i++) node->in[i].storage = node->absent[i].storage = -1;
    for (int j = 0; j < WF_MAX_OUT; j++) node->out[j].storage = -1;
    return node;
}

struct wf_operand wf_operand_retain(struct wf_operand operand)
{
    if (operand.layout) wf_layout_retain(operand.layout);
    return operand;
}

static void release_operand(struct wf_operand *operand)
{
    if (operand->layout) wf_layout_release(operand->layout);
    operand->layout = NULL;
}

void wf_fused_free(struct wf_fused *fused); /* passes/fuse.c */

static void clear_node(struct wf_list_node *node)
{
    for (int i = 0; i < WF_MAX_IN; i++) release_operand(&node->in[i]);
    for (int i = 0; i < WF_MAX_IN; i++) release_operand(&node->absent[i]);
    for (int j = 0; j < WF_MAX_OUT; j++) release_operand(&node->out[j]);
    for (int i = 0; node->arrays && i < 2 * node->n_items; i++) release_operand(&node->arrays[i]);
    wf_free(node->arrays);
    if (!node->action) wf_free(node->copies);
    if (node->call.release) node->call.release(node->call.self);
    if (node->plan) wf_op_plan_release(node->plan);
    wf_fused_free(node->fused);
}

void wf_op_list_free(struct wf_op_list *list)
{
    if (!list) return;
    for (int i = 0; i < list->n_nodes; i++) clear_node(&list->nodes[i]);
    for (int s = 0; s < list->n_storages; s++)
        if (list->storages[s].block) wf_block_release(list->storages[s].block);
    for (int i = 0; i < list->n_results; i++) release_operand(&list->results[i].at);
    for (int i = 0; i < list->n_gradients; i++) {
        release_operand(&list->gradients[i].at);
        if (list->gradients[i].before) wf_layout_release(list->gradients[i].before);
        weft_release(list->gradients[i].leaf);
    }
    wf_step_draws_free(list->draws);
    wf_free(list->nodes);
    wf_free(list->storages);
    wf_free(list->results);
    wf_free(list->gradients);
    wf_free(list);
}

static void copy_node(struct wf_list_node *to, const struct wf_list_node *from)
{
    *to = *from;
    to->call = (struct wf_changing_call){0};
    to->items = NULL;
    to->arrays = NULL;
    to->copies = NULL;
    to->fused = NULL;
    to->n_items = to->n_copies = 0;
    if (to->plan) to->plan->refs++;
    for (int i = 0; i < WF_MAX_IN; i++) to->in[i] = wf_operand_retain(to->in[i]);
    for (int i = 0; i < WF_MAX_IN; i++) to->absent[i] = wf_operand_retain(to->absent[i]);
    for (int j = 0; j < WF_MAX_OUT; j++) to->out[j] = wf_operand_retain(to->out[j]);
}

struct wf_op_list *wf_op_list_copy(const struct wf_op_list *list)
{
    struct wf_op_list *copy = wf_op_list_new();

    for (int s = 0; s < list->n_storages; s++) {
        wf_op_list_add_storage(copy, list->storages[s]);
        copy->storages[s].block = NULL;
    }
    for (int i = 0; i < list->n_nodes; i++)
        copy_node(wf_op_list_add_node(copy, WF_LIST_KERNEL), &list->nodes[i]);
    copy->results = wf_calloc((size_t)list->n_results + 1, sizeof *copy->results);
    copy->n_results = list->n_results;
    for (int i = 0; i < list->n_results; i++) {
        copy->results[i] = list->results[i];
        copy->results[i].at = wf_operand_retain(copy->results[i].at);
    }
    return copy;
}

void wf_op_list_sweep(struct wf_op_list *list)
{
    int *number = wf_calloc((size_t)list->n_nodes + 1, sizeof *number), n = 0;

    for (int i = 0; i < list->n_nodes; i++) {
        number[i] = n;
        if (list->nodes[i].dead)
            clear_node(&list->nodes[i]);
        else
            list->nodes[n++] = list->nodes[i];
    }
    list->n_nodes = n;
    for (int i = 0; i < n; i++)
        if (list->nodes[i].started >= 0) list->nodes[i].started = number[list->nodes[i].started];
    wf_free(number);
}

bool wf_list_node_has_effect(const struct wf_op_list *list, const struct wf_list_node *node)
{
    if (node->kind == WF_LIST_UPDATE || node->kind == WF_LIST_WAIT) return true;
    for (int j = 0; j < node->n_out; j++) {
        const struct wf_storage *storage;

        if (node->out[j].storage < 0) continue;
        storage = &list->storages[node->out[j].storage];
        if (storage->kind != WF_STORAGE_MADE || storage->kept) return true;
    }
    return false;
}

void wf_list_node_visit_storages(const struct wf_op_list *list, const struct wf_list_node *node,
                                 wf_storage_visitor *visit, void *payload)
{
    if (node->kind == WF_LIST_VIEW) return;
    if (node->kind == WF_LIST_WAIT) { /* the collective reads and writes until here */
        const struct wf_list_node *start = &list->nodes[node->started];

        visit(start->in[0].storage, false, payload);
        visit(start->out[0].storage, true, payload);
        return;
    }
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i].storage >= 0) visit(node->in[i].storage, false, payload);
    for (int i = 0; i < WF_MAX_IN; i++)
        if (node->absent[i].storage >= 0) visit(node->absent[i].storage, false, payload);
    for (int i = 0; i < 2 * node->n_items; i++)
        if (node->arrays[i].storage >= 0) visit(node->arrays[i].storage, false, payload);
    for (int j = 0; j < node->n_out; j++)
        if (node->out[j].storage >= 0) visit(node->out[j].storage, true, payload);
    for (int i = 0; i < node->n_items; i++)
        if (node->arrays[2 * i].storage >= 0) visit(node->arrays[2 * i].storage, true, payload);
}

int64_t wf_operand_bytes(const struct wf_operand *operand)
{
    const struct wf_tensor_desc *desc = &operand->layout->desc;
    int64_t last = 0;

    if (desc->numel == 0) return 0;
    for (int d = 0; d < desc->ndim; d++) last += (desc->shape[d] - 1) * desc->stride[d];
    return (last + 1) * (int64_t)wf_dtypes[desc->dtype].size;
}
