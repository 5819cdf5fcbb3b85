/*
 * early.c: a move that communicates comes right behind the node that made what it moves, before
 * others that were recorded in between. So the gradients of parameters, which a step without
 * buckets reduces one after another at its end, start in the order in which backward makes them;
 * `overlap` then finds kernels to run meanwhile.
 *
 * Ranks must come to the same order. Before lowering they have the same nodes but for copies: a
 * reshape that is a view on one rank is a copy on another. So what goes up is what a kernel has
 * made, and no view or copy of it.
 */
#include <string.h>

#include "base/mem.h"
#include "compile/passes/passes.h"
#include "ops/op_table.h"

struct walk {
    struct wf_op_list *list;
    int node;
    int *last_write;     /* of each storage: the node; -1: none yet */
    bool *written_again; /* not by that node alone */
    int *first, *next;   /* of each node: the moves that come behind it, a chain; -1: its end */
    int *number;         /* of each node in the new order */
    struct wf_list_node *sorted;
    int n_sorted;
};

static void note_write(int storage, bool write, void *payload)
{
    struct walk *walk = payload;

    if (!write) return;
    walk->written_again[storage] = walk->last_write[storage] >= 0;
    walk->last_write[storage] = walk->node;
}

/* No move passes it: it may communicate by itself, or have parts that are in their place already.
 * Moves may go before a gradient for a hook: every rank does the same, and backward waits for the
 * move. */
static bool is_barrier(const struct wf_list_node *node)
{
    return node->kind == WF_LIST_START || node->kind == WF_LIST_WAIT ||
           (wf_list_node_is_fixed(node) && node->kind != WF_LIST_DELIVER);
}

/* The kernel that made what the move moves, as it is; -1: it stays where it stands. */
static int maker_of(const struct walk *walk, const struct wf_list_node *move)
{
    const struct wf_operand *source = &move->in[0];
    int writer = source->storage >= 0 ? walk->last_write[source->storage] : -1;
    const struct wf_list_node *maker = writer >= 0 ? &walk->list->nodes[writer] : NULL;

    if (move->kind != WF_LIST_MOVE || !wf_list_node_communicates(move) || !maker ||
        walk->written_again[source->storage] ||
        walk->list->storages[source->storage].kind != WF_STORAGE_MADE ||
        walk->list->storages[move->out[0].storage].kind != WF_STORAGE_MADE ||
        walk->last_write[move->out[0].storage] >= 0)
        return -1;
    if (maker->kind != WF_LIST_KERNEL || maker->in_place || !maker->plan ||
        wf_ops[maker->plan->op].kernel == WF_KERNEL_copy)
        return -1;
    for (int j = 0; j < maker->n_out; j++)
        if (maker->out[j].storage == source->storage)
            return maker->out[j].layout == source->layout ? writer : -1;
    return -1;
}

/* The node behind which each move goes. gives: how many go up */
static int find_places(struct walk *walk)
{
    int barrier = -1, changed = 0;

    for (walk->node = 0; walk->node < walk->list->n_nodes; walk->node++) {
        const struct wf_list_node *node = &walk->list->nodes[walk->node];
        int behind = walk->node - 1;

        if (maker_of(walk, node) >= 0) {
            behind = maker_of(walk, node);
            if (barrier > behind) behind = barrier;
        }
        if (is_barrier(node)) barrier = walk->node;
        if (behind >= 0 && behind < walk->node - 1) {
            int *end = &walk->first[behind];

            while (*end >= 0) end = &walk->next[*end];
            *end = walk->node;
            changed++;
        }
        if (node->kind != WF_LIST_VIEW)
            wf_list_node_visit_storages(walk->list, node, note_write, walk);
    }
    return changed;
}

static void append(struct walk *walk, int node)
{
    walk->number[node] = walk->n_sorted;
    walk->sorted[walk->n_sorted++] = walk->list->nodes[node];
}

/* Each node, and behind it the moves that go up to it: behind a move there are none. */
static void put_in_order(struct walk *walk)
{
    for (int i = 0; i < walk->list->n_nodes; i++) {
        if (walk->number[i] >= 0) continue;
        append(walk, i);
        for (int move = walk->first[i]; move >= 0; move = walk->next[move]) append(walk, move);
    }
    for (int i = 0; i < walk->n_sorted; i++)
        if (walk->sorted[i].started >= 0)
            walk->sorted[i].started = walk->number[walk->sorted[i].started];
    memcpy(walk->list->nodes, walk->sorted, (size_t)walk->n_sorted * sizeof *walk->sorted);
    wf_free(walk->sorted);
}

/* None yet: -1. */
static int *new_index_array(int n)
{
    int *numbers = wf_malloc(((size_t)n + 1) * sizeof *numbers);

    for (int i = 0; i <= n; i++) numbers[i] = -1;
    return numbers;
}

int wf_pass_early(struct wf_op_list *list)
{
    struct walk walk = {.list = list};
    int changed;

    if (list->keeps_collectives) return 0;
    walk.last_write = new_index_array(list->n_storages);
    walk.written_again = wf_calloc((size_t)list->n_storages + 1, sizeof(bool));
    walk.first = new_index_array(list->n_nodes);
    walk.next = new_index_array(list->n_nodes);
    walk.number = new_index_array(list->n_nodes);
    changed = find_places(&walk);
    if (changed) {
        walk.sorted = wf_malloc(((size_t)list->n_nodes + 1) * sizeof *walk.sorted);
        put_in_order(&walk);
    }
    wf_free(walk.last_write);
    wf_free(walk.written_again);
    wf_free(walk.first);
    wf_free(walk.next);
    wf_free(walk.number);
    return changed;
}
