/*
 * recompute.c: what is cheap to compute is computed again before a late use, instead of being kept
 * over the point where the list needs most memory; if what it is made of is kept anyway. The same
 * kernel on the same bytes gives the same bits. It stops when a part of the peak is saved, so that
 * no more is computed twice than pays.
 *
 * Within one list: forward and backward of a whole step. What backward reads of a forward that is a
 * list of its own is min_cut.c's.
 */
#include "base/log.h"
#include "base/mem.h"
#include "compile/passes/kinds.h"
#include "compile/passes/passes.h"
#include "compile/passes/rename.h"

enum { LEAST_BYTES = 64 << 10, PART_OF_PEAK = 4, ROUNDS = 4 };

struct life {
    int writers, last_writer, first, last;
    int before, after; /* the uses on both sides of the peak; -1: none */
};

struct walk {
    struct wf_op_list *list;
    struct life *lives;
    int node, peak;
    int *outside; /* of each node: writes before it to what was not made here */
    int64_t peak_bytes;
};

static void note_use(int storage, bool write, void *payload)
{
    struct walk *walk = payload;
    struct life *life = &walk->lives[storage];

    if (write) life->last_writer = walk->node;
    if (write && walk->list->storages[storage].kind != WF_STORAGE_MADE)
        walk->outside[walk->node + 1]++;
    life->writers += write;
    if (life->first < 0) life->first = walk->node;
    life->last = walk->node;
}

static bool is_planned(const struct wf_storage *storage)
{
    return storage->kind == WF_STORAGE_MADE && !storage->kept;
}

static void find_lives(struct walk *walk)
{
    for (int s = 0; s < walk->list->n_storages; s++)
        walk->lives[s] =
            (struct life){.last_writer = -1, .first = -1, .last = -1, .before = -1, .after = -1};
    for (walk->node = 0; walk->node < walk->list->n_nodes; walk->node++) {
        walk->outside[walk->node + 1] += walk->outside[walk->node];
        wf_list_node_visit_storages(walk->list, &walk->list->nodes[walk->node], note_use, walk);
    }
}

/* Where most bytes are needed together. */
static void find_peak(struct walk *walk)
{
    const struct wf_op_list *list = walk->list;
    int64_t *change = wf_calloc((size_t)list->n_nodes + 2, sizeof *change), now = 0;

    for (int s = 0; s < list->n_storages; s++) {
        if (!is_planned(&list->storages[s]) || walk->lives[s].first < 0) continue;
        change[walk->lives[s].first] += list->storages[s].bytes;
        change[walk->lives[s].last + 1] -= list->storages[s].bytes;
    }
    for (int i = 0; i < list->n_nodes; i++) {
        now += change[i];
        if (now <= walk->peak_bytes) continue;
        walk->peak_bytes = now;
        walk->peak = i;
    }
    wf_free(change);
}

static void note_side(int storage, bool write, void *payload)
{
    struct walk *walk = payload;
    struct life *life = &walk->lives[storage];

    (void)write;
    if (walk->node < walk->peak)
        life->before = walk->node;
    else if (life->after < 0)
        life->after = walk->node;
}

/* Its operands are there at its late use, as they were. */
static bool keeps_operands(const struct walk *walk, int i, int use)
{
    const struct wf_list_node *node = &walk->list->nodes[i];

    for (int k = 0; k < node->n_in; k++) {
        int s = node->in[k].storage;

        if (s < 0) continue;
        if (walk->list->storages[s].kind != WF_STORAGE_MADE) {
            if (walk->outside[i] != walk->outside[use]) return false;
            continue;
        }
        if (walk->lives[s].last_writer > i) return false;
        if (is_planned(&walk->list->storages[s]) && walk->lives[s].last < use) return false;
    }
    return true;
}

/* The storage that is worth it, of the node's first result; -1: none. */
static int candidate(const struct walk *walk, int i)
{
    const struct wf_list_node *node = &walk->list->nodes[i];
    int s = node->n_out ? node->out[0].storage : -1;
    const struct life *life;

    if (s < 0 || i >= walk->peak || !wf_is_cheap_to_repeat(node)) return -1;
    life = &walk->lives[s];
    if (!is_planned(&walk->list->storages[s]) || life->writers != 1 || life->after <= walk->peak ||
        life->before < 0 || walk->list->storages[s].bytes < LEAST_BYTES ||
        !keeps_operands(walk, i, life->after))
        return -1;
    return s;
}

/* ---- the new list ---- */

struct again {
    int node, storage; /* of the old list: what is run again, and which of its results is read */
    int next;          /* another one before the same use; -1: none */
};

static void run_again(struct wf_op_list *list, const struct wf_list_node *old,
                      const struct again *again, int *to)
{
    const struct wf_list_node *from = &old[again->node];
    struct wf_list_node *node = wf_op_list_repeat_node(list, from);

    for (int k = 0; k < from->n_in; k++)
        if (node->in[k].storage >= 0) node->in[k].storage = to[node->in[k].storage];
    for (int j = 0; j < from->n_out; j++) {
        struct wf_storage made;
        int s;

        if (from->out[j].storage < 0) continue;
        made = list->storages[from->out[j].storage];
        made.kept = false;
        made.same_as = 0;
        s = wf_op_list_add_storage(list, made);
        node->out[j].storage = s;
        if (from->out[j].storage == again->storage) to[again->storage] = s;
    }
}

static void rename_node(struct wf_list_node *node, const int *to)
{
    for (int k = 0; k < node->n_in; k++)
        if (node->in[k].storage >= 0) node->in[k].storage = to[node->in[k].storage];
    for (int k = 0; k < node->n_out; k++)
        if (node->out[k].storage >= 0) node->out[k].storage = to[node->out[k].storage];
    for (int k = 0; k < 2 * node->n_items; k++)
        if (node->arrays[k].storage >= 0) node->arrays[k].storage = to[node->arrays[k].storage];
}

static void rewrite(struct wf_op_list *list, const struct again *agains, const int *first)
{
    struct wf_list_node *old = list->nodes;
    int n = list->n_nodes, n_storages = list->n_storages;
    int *number = wf_calloc((size_t)n + 1, sizeof *number);
    int *to = wf_malloc(((size_t)n_storages + 1) * sizeof *to);

    for (int s = 0; s < n_storages; s++) to[s] = s;
    list->nodes = NULL;
    list->n_nodes = 0;
    for (int i = 0; i < n; i++) {
        struct wf_list_node *node;

        for (int a = first[i]; a >= 0; a = agains[a].next) run_again(list, old, &agains[a], to);
        number[i] = list->n_nodes;
        node = wf_op_list_add_node(list, WF_LIST_KERNEL);
        *node = old[i];
        rename_node(node, to);
        if (node->started >= 0) node->started = number[node->started];
    }
    wf_free(old);
    wf_free(number);
    wf_free(to);
}

/* Around one peak, until it is as low as `*goal`, which the first round sets. gives: nodes that run
 * again */
static int lower_peak(struct wf_op_list *list, int64_t *goal)
{
    struct walk walk = {.list = list, .peak = -1};
    struct again *agains = wf_calloc((size_t)list->n_nodes + 1, sizeof *agains);
    int *first = wf_malloc(((size_t)list->n_nodes + 1) * sizeof *first), n = 0;
    int64_t saved = 0;

    walk.outside = wf_calloc((size_t)list->n_nodes + 2, sizeof *walk.outside);
    walk.lives = wf_calloc((size_t)list->n_storages + 1, sizeof *walk.lives);
    find_lives(&walk);
    find_peak(&walk);
    if (*goal < 0) *goal = walk.peak_bytes - walk.peak_bytes / PART_OF_PEAK;
    for (walk.node = 0; walk.node < list->n_nodes; walk.node++)
        wf_list_node_visit_storages(list, &list->nodes[walk.node], note_side, &walk);
    for (int i = 0; i < list->n_nodes; i++) first[i] = -1;
    for (int i = 0; i < list->n_nodes && walk.peak_bytes - saved > *goal; i++) {
        int s = candidate(&walk, i), use;

        if (s < 0) continue;
        use = walk.lives[s].after;
        agains[n] = (struct again){i, s, first[use]};
        first[use] = n++;
        saved += list->storages[s].bytes;
        walk.lives[s].last = walk.lives[s].before; /* no operand of another */
    }
    if (n) {
        rewrite(list, agains, first);
        WF_LOG(WF_LOG_INFO, "compile", "recompute: %d nodes again, %lld of %lld bytes less", n,
               (long long)saved, (long long)walk.peak_bytes);
    }
    wf_free(walk.lives);
    wf_free(walk.outside);
    wf_free(agains);
    wf_free(first);
    return n;
}

int wf_pass_recompute(struct wf_op_list *list)
{
    int64_t goal = -1;
    int changed = 0;

    for (int round = 0, n = 1; round < ROUNDS && n; round++) {
        n = lower_peak(list, &goal);
        changed += n;
    }
    return changed;
}
