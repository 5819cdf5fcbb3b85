/*
 * dead.c: nodes whose results nobody reads. It goes from the last node to the first, so that what
 * only a dead node reads is dead too.
 *
 * A move is dead with its collectives: that follows from the list before lowering, which is the
 * same on all ranks. After it, collectives stay: of terms that go to one rank alone (a move to a
 * partial layout) the other ranks read nothing, and what they then could do without that rank still
 * needs.
 */
#include "base/mem.h"
#include "compile/passes/passes.h"

struct walk {
    bool *read; /* by storage: a later node reads it */
};

static void note_read(int storage, bool write, void *payload)
{
    struct walk *walk = payload;

    if (!write) walk->read[storage] = true;
}

static bool is_read(const struct wf_list_node *node, const struct walk *walk)
{
    for (int j = 0; j < node->n_out; j++)
        if (node->out[j].storage >= 0 && walk->read[node->out[j].storage]) return true;
    return false;
}

static bool keeps_collectives(const struct wf_op_list *list)
{
    return list->keeps_collectives || list->lowered;
}

/* A view is there for readers of the list: it goes when nothing else reads its bytes. */
static bool is_needed(const struct wf_op_list *list, const struct wf_list_node *node,
                      const struct walk *walk)
{
    if (wf_list_node_has_effect(list, node)) return true;
    if (keeps_collectives(list) && wf_list_node_communicates(node)) return true;
    return is_read(node, walk);
}

int wf_pass_dead(struct wf_op_list *list)
{
    struct walk walk = {wf_calloc((size_t)list->n_storages + 1, sizeof *walk.read)};
    int removed = 0;

    for (int i = list->n_nodes - 1; i >= 0; i--) {
        struct wf_list_node *node = &list->nodes[i];

        if (node->kind == WF_LIST_WAIT) { /* with its start */
            const struct wf_list_node *start = &list->nodes[node->started];

            node->dead = !keeps_collectives(list) && !wf_list_node_has_effect(list, start) &&
                         !is_read(start, &walk);
        } else {
            node->dead = !is_needed(list, node, &walk);
        }
        removed += node->dead;
        if (!node->dead) wf_list_node_visit_storages(list, node, note_read, &walk);
    }
    wf_op_list_sweep(list);
    wf_free(walk.read);
    return removed;
}
