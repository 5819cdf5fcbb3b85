/*
 * identities.c: readers of a copy read what it was made of, where that has the same bits: a copy in
 * the layout that its source has, and a move back to a layout from which an earlier one came. Sums
 * are left alone: x + 0 is not x for -0, and terms have other bits than their sum.
 */
#include "base/mem.h"
#include "compile/passes/passes.h"
#include "compile/passes/rename.h"
#include "ops/op_table.h"

struct walk {
    struct wf_op_list *list;
    int *writers, *last_writer;
    int *move_to; /* of each storage: the move that makes it; -1: none does */
    int *to;
    int64_t *by;
};

static bool is_plain_copy(const struct wf_list_node *node)
{
    return node->kind == WF_LIST_KERNEL && node->plan && !node->in_place &&
           wf_ops[node->plan->op].kernel == WF_KERNEL_copy && node->in[0].storage >= 0 &&
           node->in[0].layout == node->out[0].layout;
}

/* The move that made this one's source, if the two together change nothing; else NULL. */
static const struct wf_list_node *undone_by(const struct walk *walk,
                                            const struct wf_list_node *node)
{
    const struct wf_list_node *first;
    int s = node->in[0].storage;

    if (node->kind != WF_LIST_MOVE || walk->move_to[s] < 0 || walk->writers[s] != 1) return NULL;
    if (walk->list->keeps_collectives && wf_list_node_communicates(node)) return NULL;
    first = &walk->list->nodes[walk->move_to[s]];
    if (first->out[0].offset != node->in[0].offset || first->move->to != node->move->from ||
        first->move->from != node->move->to)
        return NULL;
    return first->move->from->partial || first->move->to->partial ? NULL : first;
}

/* Both have the same bytes from here to the end of the list. */
static bool can_stand_for(const struct walk *walk, const struct wf_operand *source,
                          const struct wf_operand *copy, int since)
{
    const struct wf_storage *made = &walk->list->storages[copy->storage];

    return made->kind == WF_STORAGE_MADE && !made->kept && walk->writers[copy->storage] == 1 &&
           source->storage != copy->storage && walk->last_writer[source->storage] < since;
}

/* Written here or, of what comes from outside, never: a caller may give one block twice. */
static bool stays(const struct walk *walk, int storage)
{
    const struct wf_op_list *list = walk->list;

    if (list->storages[storage].kind == WF_STORAGE_MADE) return true;
    for (int s = 0; s < list->n_storages; s++)
        if (walk->writers[s] && wf_storages_may_meet(list, s, storage)) return false;
    return true;
}

static int visit_node(struct walk *walk, int i)
{
    struct wf_list_node *node = &walk->list->nodes[i];
    const struct wf_list_node *back;
    const struct wf_operand *source = NULL;
    int since = i, copy = node->out[0].storage;

    if (node->kind == WF_LIST_MOVE) walk->move_to[copy] = i;
    if (is_plain_copy(node)) source = &node->in[0];
    back = undone_by(walk, node);
    if (back) {
        source = &back->in[0];
        since = (int)(back - walk->list->nodes);
    }
    if (!source || !can_stand_for(walk, source, &node->out[0], since) ||
        !stays(walk, source->storage))
        return 0;
    walk->to[copy] = walk->to[source->storage];
    walk->by[copy] = source->offset - node->out[0].offset + walk->by[source->storage];
    node->dead = true;
    return 1;
}

int wf_pass_identities(struct wf_op_list *list)
{
    size_t n = (size_t)list->n_storages + 1;
    struct walk walk = {list,
                        wf_list_count_writers(list),
                        wf_list_last_writers(list),
                        wf_malloc(n * sizeof(int)),
                        wf_malloc(n * sizeof(int)),
                        wf_calloc(n, sizeof(int64_t))};
    int removed = 0;

    for (int s = 0; s < list->n_storages; s++) {
        walk.move_to[s] = -1;
        walk.to[s] = s;
    }
    for (int i = 0; i < list->n_nodes; i++) removed += visit_node(&walk, i);
    if (removed) {
        wf_list_rename(list, walk.to, walk.by);
        wf_op_list_sweep(list);
    }
    wf_free(walk.writers);
    wf_free(walk.last_writer);
    wf_free(walk.move_to);
    wf_free(walk.to);
    wf_free(walk.by);
    return removed;
}
