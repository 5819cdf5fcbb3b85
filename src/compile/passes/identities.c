/*
 * identities.c: readers of a copy read what it was made of, where that has the same bits: a copy in
 * the layout that its source has, and a move back to a layout from which an earlier one came. Sums
 * are left alone: x + 0 is not x for -0, and terms have other bits than their sum.
 */
#include "base/elements/dtype.h"
#include "base/mem.h"
#include "compile/passes/passes.h"
#include "compile/passes/rename.h"
#include "ops/op_table.h"

struct walk {
    struct wf_op_list *list;
    int *writers, *last_writer;
    int *move_to; /* of each storage: the move that makes it; -1: none does */
    bool *viewed; /* of each storage: some node sees it in another shape */
    int *to;
    int64_t *by;
};

static bool is_plain_copy(const struct wf_list_node *node)
{
    return node->kind == WF_LIST_KERNEL && node->plan && !node->in_place &&
           wf_ops[node->plan->op].kernel == WF_KERNEL_copy && node->in[0].storage >= 0 &&
           node->in[0].layout == node->out[0].layout;
}

/* What all ranks know of both is the same. How a rank's box lies in memory is its own affair. */
static bool same_for_all(const struct wf_layout *a, const struct wf_layout *b)
{
    bool same = a->mesh == b->mesh && a->desc.dtype == b->desc.dtype && a->n_axes == b->n_axes &&
                a->desc.ndim == b->desc.ndim;

    for (int d = 0; same && d < a->desc.ndim; d++) same = a->desc.global[d] == b->desc.global[d];
    for (int i = 0; same && i < a->n_axes; i++)
        same = weft_placement_equal(a->placements[i], b->placements[i]);
    return same;
}

/* The move that made this one's source, if the two together change nothing; else NULL. */
static const struct wf_list_node *undone_by(const struct walk *walk,
                                            const struct wf_list_node *node)
{
    const struct wf_list_node *first;
    int s = node->in[0].storage;

    if (node->kind != WF_LIST_MOVE || walk->move_to[s] < 0 || walk->writers[s] != 1 ||
        walk->viewed[s])
        return NULL;
    if (walk->list->keeps_collectives && wf_list_node_communicates(node)) return NULL;
    first = &walk->list->nodes[walk->move_to[s]];
    if (!same_for_all(first->move->from, node->move->to)) return NULL;
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

/* Instead of a move, a copy of this rank's elements, which lie otherwise in the source. */
static void become_copy(struct wf_list_node *move, const struct wf_operand *source)
{
    const struct wf_tensor_desc *from = &source->layout->desc, *to = &move->move->to->desc;

    move->kind = WF_LIST_COPY;
    wf_layout_release(move->in[0].layout);
    move->in[0] = wf_operand_retain(*source);
    move->copies = wf_calloc(1, sizeof *move->copies);
    move->n_copies = 1;
    wf_strided_copy_init(move->copies, to->shape, from->stride, to->stride, to->ndim,
                         wf_dtypes[to->dtype].size);
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
    if (back && back->move->from != node->move->to) {
        become_copy(node, source);
        return 1;
    }
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
                        wf_calloc(n, sizeof(bool)),
                        wf_malloc(n * sizeof(int)),
                        wf_calloc(n, sizeof(int64_t))};
    int removed = 0;

    for (int s = 0; s < list->n_storages; s++) {
        walk.move_to[s] = -1;
        walk.to[s] = s;
    }
    for (int i = 0; i < list->n_nodes; i++)
        if (list->nodes[i].kind == WF_LIST_VIEW) walk.viewed[list->nodes[i].out[0].storage] = true;
    for (int i = 0; i < list->n_nodes; i++) removed += visit_node(&walk, i);
    if (removed) {
        wf_list_rename(list, walk.to, walk.by);
        wf_op_list_sweep(list);
    }
    wf_free(walk.writers);
    wf_free(walk.last_writer);
    wf_free(walk.move_to);
    wf_free(walk.viewed);
    wf_free(walk.to);
    wf_free(walk.by);
    return removed;
}
