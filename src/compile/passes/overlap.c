/*
 * overlap.c: a collective starts as soon as what it sends is there and is waited for when its
 * result is needed first, so that kernels run in between. Starts keep their order among each other,
 * and so do waits: it is the same on all ranks, and communicators need it.
 *
 * A few collectives may be in flight together, and none is moved further than some nodes: memory is
 * held from the start to the wait.
 */
#include <string.h>

#include "base/mem.h"
#include "compile/passes/passes.h"
#include "compile/passes/rename.h"
#include "ops/op_table.h"

enum { MOST_CROSSED = 32, FARTHEST = 256, MOST_STORAGES = 64 };

/* What the nodes that are moved touch. */
struct moving {
    const struct wf_op_list *list;
    struct {
        int storage;
        bool write;
    } touched[MOST_STORAGES];
    int n;
    bool conflict;
};

static void add_touched(int storage, bool write, void *payload)
{
    struct moving *m = payload;

    if (m->n == MOST_STORAGES) {
        m->conflict = true;
        return;
    }
    m->touched[m->n].storage = storage;
    m->touched[m->n++].write = write;
}

static void check_touched(int storage, bool write, void *payload)
{
    struct moving *m = payload;

    for (int i = 0; i < m->n && !m->conflict; i++)
        m->conflict = (write || m->touched[i].write) &&
                      wf_storages_may_meet(m->list, storage, m->touched[i].storage);
}

static bool may_move_past(struct moving *m, const struct wf_list_node *node)
{
    wf_list_node_visit_storages(m->list, node, check_touched, m);
    return !m->conflict;
}

struct walk {
    struct wf_op_list *list;
    int *order; /* of positions: the node that stands there */
};

static const struct wf_list_node *at(const struct walk *walk, int position)
{
    return &walk->list->nodes[walk->order[position]];
}

/* Nodes first .. last - 1 change places with those from `to` on, towards the front. */
static void move_up(struct walk *walk, int to, int first, int last)
{
    int unit[FARTHEST], n = last - first;

    memcpy(unit, &walk->order[first], (size_t)n * sizeof *unit);
    memmove(&walk->order[to + n], &walk->order[to], (size_t)(first - to) * sizeof *unit);
    memcpy(&walk->order[to], unit, (size_t)n * sizeof *unit);
}

/* Copies that pack what the collective sends go with it. */
static int first_of_unit(const struct walk *walk, int start)
{
    const struct wf_list_node *node = at(walk, start);
    int first = start;

    while (first > 0 && start - first < FARTHEST - 1 && at(walk, first - 1)->move == node->move &&
           (at(walk, first - 1)->kind == WF_LIST_COPY || at(walk, first - 1)->kind == WF_LIST_FILL))
        first--;
    return first;
}

static int start_earlier(struct walk *walk, int start)
{
    struct moving m = {.list = walk->list};
    int first = first_of_unit(walk, start), to = first, crossed = 0;

    for (int i = first; i <= start; i++)
        wf_list_node_visit_storages(walk->list, at(walk, i), add_touched, &m);
    while (to > 0 && first - to < FARTHEST) {
        const struct wf_list_node *before = at(walk, to - 1);

        if (before->kind == WF_LIST_START || wf_list_node_is_fixed(before)) break;
        if (before->kind == WF_LIST_WAIT && ++crossed > MOST_CROSSED) break;
        if (!may_move_past(&m, before)) break;
        to--;
    }
    if (to == first) return 0;
    move_up(walk, to, first, start + 1);
    return 1;
}

static int wait_later(struct walk *walk, int wait)
{
    struct moving m = {.list = walk->list};
    int to = wait, crossed = 0;

    wf_list_node_visit_storages(walk->list, at(walk, wait), add_touched, &m);
    while (to + 1 < walk->list->n_nodes && to - wait < FARTHEST) {
        const struct wf_list_node *after = at(walk, to + 1);

        if (after->kind == WF_LIST_WAIT) break;
        /* past a gradient for a hook, which only starts collectives */
        if (wf_list_node_is_fixed(after) && after->kind != WF_LIST_DELIVER) break;
        if (after->kind == WF_LIST_START && ++crossed > MOST_CROSSED) break;
        if (!may_move_past(&m, after)) break;
        to++;
    }
    if (to == wait) return 0;
    for (int i = wait, node = walk->order[wait]; i <= to; i++)
        walk->order[i] = i < to ? walk->order[i + 1] : node;
    return 1;
}

static void put_in_order(struct walk *walk)
{
    struct wf_op_list *list = walk->list;
    struct wf_list_node *nodes = wf_malloc((size_t)list->n_nodes * sizeof *nodes);
    int *number = wf_malloc((size_t)list->n_nodes * sizeof *number);

    for (int i = 0; i < list->n_nodes; i++) {
        nodes[i] = list->nodes[walk->order[i]];
        number[walk->order[i]] = i;
    }
    for (int i = 0; i < list->n_nodes; i++)
        if (nodes[i].started >= 0) nodes[i].started = number[nodes[i].started];
    memcpy(list->nodes, nodes, (size_t)list->n_nodes * sizeof *nodes);
    wf_free(nodes);
    wf_free(number);
}

int wf_pass_overlap(struct wf_op_list *list)
{
    struct walk walk = {list, wf_malloc(((size_t)list->n_nodes + 1) * sizeof(int))};
    int moved = 0;

    for (int i = 0; i < list->n_nodes; i++) walk.order[i] = i;
    for (int i = 0; i < list->n_nodes; i++)
        if (at(&walk, i)->kind == WF_LIST_START) moved += start_earlier(&walk, i);
    for (int i = list->n_nodes - 1; i >= 0; i--)
        if (at(&walk, i)->kind == WF_LIST_WAIT) moved += wait_later(&walk, i);
    if (moved) put_in_order(&walk);
    wf_free(walk.order);
    return moved;
}
