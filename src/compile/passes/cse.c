/*
 * cse.c: what is computed or moved twice from the same bytes is done once. Two nodes are the same
 * when kernel, scalars and operands are, and nobody has written to the operands in between. One
 * gather for several products is such a case.
 *
 * Results that the caller gets keep bytes of their own. What two saved slots of backward hold may
 * be one block: the second then has the first's (wf_storage.same_as).
 */
#include <string.h>

#include "base/mem.h"
#include "compile/passes/passes.h"
#include "compile/passes/rename.h"
#include "ops/op_table.h"

struct entry {
    uint64_t hash;
    int node; /* -1: a free slot */
};

struct walk {
    struct wf_op_list *list;
    int *to;      /* of each storage: the one that has its value */
    int *final;   /* of each storage: under which number it ends; the one that the caller gets */
    int *writers; /* nodes that write it */
    uint32_t *version; /* writes to it so far; outside: to anything that was not made here */
    uint32_t outside;
    uint32_t (*seen)[WF_MAX_IN]; /* of each node: versions of its inputs */
    bool *given;
    struct entry *table;
    int room;
};

static uint32_t version_of(const struct walk *walk, int storage)
{
    return walk->list->storages[storage].kind == WF_STORAGE_MADE ? walk->version[storage]
                                                                 : walk->outside;
}

static void note_write(int storage, bool write, void *payload)
{
    struct walk *walk = payload;

    if (!write) return;
    walk->version[storage]++;
    if (walk->list->storages[storage].kind != WF_STORAGE_MADE) walk->outside++;
}

/* ---- which nodes are the same ---- */

/* With two dims of size 1 a transposed view may have the strides of its source on a rank that has
 * one row, and others on a rank with two: ranks would not agree on what is the same. */
static bool may_look_alike(const struct wf_layout *from)
{
    int ones = 0;

    for (int d = 0; d < from->desc.ndim; d++) ones += from->desc.global[d] == 1;
    return ones > 1;
}

static bool may_be_shared(const struct walk *walk, const struct wf_list_node *node)
{
    if (node->kind != WF_LIST_KERNEL && node->kind != WF_LIST_MOVE) return false;
    if (node->in_place || node->draws || !node->plan || node->n_in == 0) return false;
    if (walk->list->keeps_collectives && wf_list_node_communicates(node)) return false;
    if (node->kind == WF_LIST_MOVE && may_look_alike(node->move->from)) return false;
    if (node->kind == WF_LIST_KERNEL && wf_ops[node->plan->op].attrs == WF_ATTRS_registered)
        return false; /* a program's function may do more than fill its result */
    for (int j = 0; j < node->n_out; j++) {
        int s = node->out[j].storage;

        if (s < 0) continue;
        if (walk->list->storages[s].kind != WF_STORAGE_MADE || walk->writers[s] != 1) return false;
        for (int i = 0; i < node->n_in; i++)
            if (node->in[i].storage == s) return false;
    }
    return true;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

static uint64_t hash_of(const struct wf_list_node *node)
{
    uint64_t hash =
        node->kind == WF_LIST_MOVE ? (uint64_t)(uintptr_t)node->move->to : node->plan->op;

    for (int i = 0; i < node->n_in; i++) {
        hash = mix(hash, (uint64_t)(int64_t)node->in[i].storage);
        hash = mix(hash, (uint64_t)node->in[i].offset);
    }
    return mix(hash, node->kind);
}

static bool same_operand(const struct wf_operand *a, const struct wf_operand *b)
{
    return a->storage == b->storage && a->offset == b->offset && a->layout == b->layout;
}

/* By their keys, not as pointers: what ranks have in their caches may differ, but they must agree
 * on what they leave out. */
static bool same_plan(const struct wf_op_plan *a, const struct wf_op_plan *b)
{
    if (a == b) return true;
    return a->op == b->op && a->n_in == b->n_in && a->attr_words == b->attr_words &&
           a->want == b->want && a->in_place == b->in_place &&
           memcmp(a->in, b->in, a->n_in * sizeof(struct wf_layout *)) == 0 &&
           memcmp(&a->attrs, &b->attrs, sizeof a->attrs) == 0;
}

/* Layouts of a move are enough: its steps follow from them. */
static bool same_work(const struct wf_list_node *a, const struct wf_list_node *b)
{
    if (a->kind == WF_LIST_MOVE)
        return a->move->from == b->move->from && a->move->to == b->move->to;
    return same_plan(a->plan, b->plan) && memcmp(&a->scalars, &b->scalars, sizeof a->scalars) == 0;
}

static bool is_same(const struct walk *walk, int first, int second)
{
    const struct wf_list_node *a = &walk->list->nodes[first], *b = &walk->list->nodes[second];

    if (a->kind != b->kind || a->n_in != b->n_in || a->n_out != b->n_out || !same_work(a, b))
        return false;
    for (int i = 0; i < a->n_in; i++)
        if (!same_operand(&a->in[i], &b->in[i]) || walk->seen[first][i] != walk->seen[second][i])
            return false;
    for (int j = 0; j < a->n_out; j++)
        if ((a->out[j].storage < 0) != (b->out[j].storage < 0) ||
            a->out[j].offset != b->out[j].offset || a->out[j].layout != b->out[j].layout)
            return false;
    return true;
}

/* The earlier node, or this one where there is none, in the table from now on; -1: there is none.
 */
static int find_or_add(struct walk *walk, int node)
{
    uint64_t hash = hash_of(&walk->list->nodes[node]);

    for (int at = (int)(hash >> 32) & (walk->room - 1);; at = (at + 1) & (walk->room - 1)) {
        struct entry *entry = &walk->table[at];

        if (entry->node < 0) {
            *entry = (struct entry){hash, node};
            return -1;
        }
        if (entry->hash == hash && is_same(walk, entry->node, node)) return entry->node;
    }
}

/* ---- one instead of two ---- */

/* Storage `second` can be that of `first`, whose value it has. */
static bool can_join(const struct walk *walk, int first, int second)
{
    const struct wf_storage *storages = walk->list->storages;
    int end = walk->final[first];

    if (!storages[second].kept || !storages[end].kept) return true;
    return !walk->given[second] && !walk->given[end];
}

static void merge_storages(struct walk *walk, int first, int second)
{
    struct wf_storage *storages = walk->list->storages;
    int end = walk->final[first];

    walk->to[second] = first;
    if (!storages[second].kept) return;
    if (!storages[end].kept)
        walk->final[first] = second;
    else
        storages[second].same_as = end + 1;
}

static bool replace(struct walk *walk, int first, int second)
{
    struct wf_list_node *a = &walk->list->nodes[first], *b = &walk->list->nodes[second];

    for (int j = 0; j < b->n_out; j++)
        if (b->out[j].storage >= 0 && !can_join(walk, a->out[j].storage, b->out[j].storage))
            return false;
    for (int j = 0; j < b->n_out; j++)
        if (b->out[j].storage >= 0) merge_storages(walk, a->out[j].storage, b->out[j].storage);
    b->dead = true;
    return true;
}

static void rename_inputs(const struct walk *walk, struct wf_list_node *node)
{
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i].storage >= 0) node->in[i].storage = walk->to[node->in[i].storage];
}

static int visit_node(struct walk *walk, int i)
{
    struct wf_list_node *node = &walk->list->nodes[i];
    int first;

    if (node->kind == WF_LIST_VIEW) return 0;
    rename_inputs(walk, node);
    for (int k = 0; k < node->n_in; k++)
        walk->seen[i][k] = node->in[k].storage < 0 ? 0 : version_of(walk, node->in[k].storage);
    if (may_be_shared(walk, node)) {
        first = find_or_add(walk, i);
        if (first >= 0 && replace(walk, first, i)) return 1;
    }
    wf_list_node_visit_storages(walk->list, node, note_write, walk);
    return 0;
}

/* The value of a storage that has become another's is read there, under the last number. */
static void finish(struct walk *walk)
{
    for (int s = 0; s < walk->list->n_storages; s++)
        if (walk->to[s] != s) walk->final[s] = walk->final[walk->to[s]];
    wf_list_rename(walk->list, walk->final, NULL);
    wf_op_list_sweep(walk->list);
}

int wf_pass_cse(struct wf_op_list *list)
{
    size_t n = (size_t)list->n_storages + 1;
    struct walk walk = {.list = list,
                        .to = wf_malloc(n * sizeof(int)),
                        .final = wf_malloc(n * sizeof(int)),
                        .writers = wf_list_count_writers(list),
                        .version = wf_calloc(n, sizeof(uint32_t)),
                        .seen = wf_calloc((size_t)list->n_nodes + 1, sizeof *walk.seen),
                        .given = wf_calloc(n, sizeof(bool)),
                        .room = 64};
    int removed = 0;

    while (walk.room < 2 * list->n_nodes) walk.room *= 2;
    walk.table = wf_malloc((size_t)walk.room * sizeof *walk.table);
    for (int i = 0; i < walk.room; i++) walk.table[i].node = -1;
    for (int s = 0; s < list->n_storages; s++) walk.to[s] = walk.final[s] = s;
    for (int i = 0; i < list->n_results; i++)
        if (list->results[i].at.storage >= 0) walk.given[list->results[i].at.storage] = true;
    for (int i = 0; i < list->n_gradients; i++)
        if (list->gradients[i].at.storage >= 0) walk.given[list->gradients[i].at.storage] = true;
    for (int i = 0; i < list->n_nodes; i++) removed += visit_node(&walk, i);
    if (removed) finish(&walk);
    wf_free(walk.to);
    wf_free(walk.final);
    wf_free(walk.writers);
    wf_free(walk.version);
    wf_free(walk.seen);
    wf_free(walk.given);
    wf_free(walk.table);
    return removed;
}
