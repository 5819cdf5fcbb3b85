/* op_list.c: making, walking and freeing lists. */
#include "compile/list/op_list.h"

#include <string.h>

#include "base/array_grow.h"
#include "base/elements/dtype.h"
#include "base/hash.h"
#include "base/mem.h"
#include "compile/replay/fused.h"
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
    node->started = node->item = -1;
    for (int i = 0; i < WF_MAX_IN; i++) node->in[i].storage = -1;
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

static void release_piece(struct wf_list_piece *piece)
{
    if (!piece || --piece->refs > 0) return;
    wf_free(piece->action.send_counts);
    wf_free(piece->action.recv_counts);
    wf_free(piece);
}

static void clear_node(struct wf_list_node *node)
{
    for (int i = 0; i < WF_MAX_IN; i++) release_operand(&node->in[i]);
    for (int j = 0; j < WF_MAX_OUT; j++) release_operand(&node->out[j]);
    for (int i = 0; node->arrays && i < 2 * node->n_items; i++) release_operand(&node->arrays[i]);
    wf_free(node->arrays);
    if (!node->action) wf_free(node->copies);
    if (node->call.release) node->call.release(node->call.self);
    if (node->plan) wf_op_plan_release(node->plan);
    wf_fused_free(node->fused);
    release_piece(node->piece);
}

void wf_op_list_free(struct wf_op_list *list)
{
    if (!list) return;
    for (int i = 0; i < list->n_nodes; i++) clear_node(&list->nodes[i]);
    for (int s = 0; s < list->n_storages; s++)
        if (list->storages[s].block) wf_block_release(list->storages[s].block);
    for (int i = 0; i < list->n_results; i++) {
        release_operand(&list->results[i].at);
        weft_release(list->results[i].outside);
    }
    for (int i = 0; i < list->n_gradients; i++) {
        release_operand(&list->gradients[i].at);
        if (list->gradients[i].before) wf_layout_release(list->gradients[i].before);
        weft_release(list->gradients[i].leaf);
    }
    if (!list->draws_borrowed) wf_step_draws_free(list->draws);
    wf_free(list->nodes);
    wf_free(list->storages);
    wf_free(list->results);
    wf_free(list->gradients);
    wf_free(list->split_steps);
    wf_free(list);
}

static void copy_node(struct wf_list_node *to, const struct wf_list_node *from)
{
    *to = *from;
    to->call = (struct wf_changing_call){0};
    to->items = NULL;
    to->arrays = NULL;
    to->fused = NULL;
    to->n_items = 0;
    if (to->copies && !to->action) {
        to->copies = wf_malloc((size_t)to->n_copies * sizeof *to->copies);
        memcpy(to->copies, from->copies, (size_t)to->n_copies * sizeof *to->copies);
    }
    if (to->plan) to->plan->refs++;
    if (to->piece) to->piece->refs++;
    for (int i = 0; i < WF_MAX_IN; i++) to->in[i] = wf_operand_retain(to->in[i]);
    for (int j = 0; j < WF_MAX_OUT; j++) to->out[j] = wf_operand_retain(to->out[j]);
}

struct wf_list_node *wf_op_list_repeat_node(struct wf_op_list *list,
                                            const struct wf_list_node *from)
{
    struct wf_list_node copy = *from, *node; /* it may be one of the list, which moves */

    node = wf_op_list_add_node(list, WF_LIST_KERNEL);
    copy_node(node, &copy);
    return node;
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
        weft_retain(copy->results[i].outside);
    }
    return copy;
}

struct wf_op_list *wf_op_list_cut(const struct wf_op_list *list, int first, int end,
                                  const bool *given)
{
    struct wf_op_list *cut = wf_op_list_new();

    for (int s = 0; s < list->n_storages; s++) {
        wf_op_list_add_storage(cut, list->storages[s]);
        cut->storages[s].block = NULL;
        if (!given[s]) continue;
        cut->storages[s].kind = WF_STORAGE_INPUT;
        cut->storages[s].index = s;
    }
    for (int i = first; i < end; i++)
        copy_node(wf_op_list_add_node(cut, WF_LIST_KERNEL), &list->nodes[i]);
    cut->draws = list->draws;
    cut->draws_borrowed = true;
    return cut;
}

void wf_op_list_replace_node(struct wf_op_list *list, int node, const struct wf_list_node *by)
{
    clear_node(&list->nodes[node]);
    list->nodes[node] = *by;
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

bool wf_list_nodes_equal(const struct wf_list_node *a, const struct wf_list_node *b)
{
    if (a->kind != b->kind || a->plan != b->plan || a->move != b->move || a->n_in != b->n_in ||
        a->n_out != b->n_out || a->in_place != b->in_place || a->draws != b->draws ||
        a->n_copies != b->n_copies || a->count != b->count || a->element_bytes != b->element_bytes)
        return false;
    if (!a->draws && memcmp(&a->scalars, &b->scalars, sizeof a->scalars) != 0) return false;
    if (memcmp(a->element, b->element, sizeof a->element) != 0) return false;
    if (a->n_copies && !a->action &&
        memcmp(a->copies, b->copies, (size_t)a->n_copies * sizeof *a->copies) != 0)
        return false;
    for (int i = 0; i < a->n_in; i++)
        if (!wf_operands_begin_together(&a->in[i], &b->in[i])) return false;
    for (int j = 0; j < a->n_out; j++)
        if (!wf_operands_begin_together(&a->out[j], &b->out[j])) return false;
    return true;
}

bool wf_op_lists_equal_to(const struct wf_op_list *a, const struct wf_op_list *b, int n)
{
    if (a->n_nodes < n || b->n_nodes < n) return false;
    for (int i = 0; i < n; i++)
        if (!wf_list_nodes_equal(&a->nodes[i], &b->nodes[i])) return false;
    return true;
}

/* Storages are counted as they come, since a move has as many as its plan needs. */
static uint64_t step_of_operand(const struct wf_operand *operand, int *number, int *count)
{
    if (operand->storage < 0) return 0;
    if (!number[operand->storage]) number[operand->storage] = ++*count;
    return (uint64_t)number[operand->storage];
}

/* All of a layout but its sizes. */
static uint64_t hash_of_placement(const struct wf_layout *layout)
{
    if (!layout) return 0;
    return wf_hash_bytes(layout->placements, (size_t)layout->n_axes * sizeof *layout->placements) +
           (uint64_t)layout->desc.dtype * 31 + (uint64_t)layout->desc.ndim;
}

uint64_t wf_op_list_steps(const struct wf_op_list *list)
{
    int *number = wf_calloc((size_t)list->n_storages + 1, sizeof *number), count = 0;
    uint64_t hash = (uint64_t)list->n_nodes;

    for (int i = 0; i < list->n_nodes; i++) {
        const struct wf_list_node *node = &list->nodes[i];
        uint64_t words[4 + WF_MAX_IN + WF_MAX_OUT] = {hash, node->kind,
                                                      node->plan ? node->plan->op : UINT64_MAX};
        int n = 3;

        for (int k = 0; k < node->n_in; k++)
            words[n++] = step_of_operand(&node->in[k], number, &count);
        for (int k = 0; k < node->n_out; k++)
            words[n++] = step_of_operand(&node->out[k], number, &count);
        words[n] = hash_of_placement(node->out[0].layout);
        hash = wf_hash_bytes(words, sizeof words);
    }
    wf_free(number);
    return hash;
}

static bool has_collective(const struct wf_redist_program *program)
{
    for (int i = 0; program && i < program->n_actions; i++)
        if (program->actions[i].act == WF_ACT_COLL) return true;
    return false;
}

bool wf_list_node_communicates(const struct wf_list_node *node)
{
    if (node->kind == WF_LIST_START || node->kind == WF_LIST_WAIT) return true;
    if (node->kind == WF_LIST_MOVE) return has_collective(node->move->program);
    /* an op with a planner of its own may be one between meshes, or a program's */
    return node->kind == WF_LIST_KERNEL && wf_ops[node->plan->op].planner;
}

uint64_t wf_op_list_collectives(const struct wf_op_list *list)
{
    uint64_t hash = 0;

    for (int i = 0; i < list->n_nodes; i++) {
        const struct wf_list_node *node = &list->nodes[i];
        uint64_t words[5] = {hash, node->kind};

        if (!wf_list_node_communicates(node) || node->kind == WF_LIST_WAIT) continue;
        if (node->kind == WF_LIST_START) {
            words[2] = node->action->coll;
            words[3] = node->action->axes;
            words[4] = node->action->reduce;
        }
        hash = wf_hash_bytes(words, sizeof words);
    }
    return hash;
}

bool wf_op_list_gives(const struct wf_op_list *list, int storage)
{
    for (int i = 0; i < list->n_results; i++)
        if (list->results[i].at.storage == storage) return true;
    for (int i = 0; i < list->n_gradients; i++)
        if (list->gradients[i].at.storage == storage) return true;
    return false;
}

bool wf_list_node_is_fixed(const struct wf_list_node *node)
{
    return node->kind == WF_LIST_UPDATE || node->kind == WF_LIST_DELIVER ||
           (node->kind == WF_LIST_KERNEL && node->plan &&
            wf_ops[node->plan->op].attrs == WF_ATTRS_registered);
}

bool wf_optimizer_item_changes(const struct wf_optimizer_item *item, const struct wf_block *block)
{
    const struct wf_optimizer_step_arrays *a = &item->arrays;
    int64_t bytes = a->count * (int64_t)wf_dtypes[a->dtype].size;

    for (int k = 0; k < WF_STEP_STATES; k++)
        if (wf_block_overlaps(block, a->state[k], bytes)) return true;
    return wf_block_overlaps(block, a->w, bytes) ||
           (a->rounded && wf_block_overlaps(block, a->rounded,
                                            a->count * (int64_t)wf_dtypes[a->rounded_dtype].size));
}

bool wf_list_node_has_effect(const struct wf_op_list *list, const struct wf_list_node *node)
{
    if (node->kind == WF_LIST_UPDATE || node->kind == WF_LIST_DELIVER ||
        node->kind == WF_LIST_WAIT || node->kind == WF_LIST_FUSED)
        return true;
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
    if (node->kind == WF_LIST_FUSED && node->fused) {
        wf_fused_visit_storages(node->fused, visit, payload);
        return;
    }
    if (node->kind == WF_LIST_WAIT) { /* the collective reads and writes until here */
        const struct wf_list_node *start = &list->nodes[node->started];

        visit(start->in[0].storage, false, payload);
        visit(start->out[0].storage, true, payload);
        return;
    }
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i].storage >= 0) visit(node->in[i].storage, false, payload);
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
