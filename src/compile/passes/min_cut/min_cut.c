/*
 * min_cut.c: what a backward list reads of its forward is saved, or computed again from what is
 * saved, whichever needs fewer bytes: a minimum cut through what cheap kernels make one of the
 * other. The same kernel on the same bytes gives the same bits.
 *
 * A storage of the forward list is an edge as wide as its bytes, between what it is made of and
 * what is made of it. What is saved is cut. What a caller could write before backward comes
 * (inputs, parameters, results) is read again only where backward has read it before, so that
 * backward refuses no call that it would not refuse without this pass. PyTorch: the min-cut
 * partitioner.
 */
#include "base/elements/dtype.h"
#include "base/log.h"
#include "base/mem.h"
#include "compile/passes/kinds.h"
#include "compile/passes/min_cut/max_flow.h"
#include "compile/passes/passes.h"
#include "compile/passes/rename.h"

/* Smaller storages are saved. Nothing is done where less than 1/PART_SAVED of the bytes would go.
 */
enum { LEAST_BYTES = 64 << 10, PART_SAVED = 8 };

struct fact {
    int64_t bytes;             /* on all ranks together, so that all decide alike */
    int maker;                 /* node of the forward list that makes it, and cheaply; -1: none */
    int of_backward;           /* the storage of the backward list that stands for it; -1: none */
    bool read, written, given; /* by the backward list; one of its results */
    bool saved, runs_again;    /* as the cut says; neither: backward does without it */
    int again;                 /* the backward list's storage of what is computed again */
};

struct choice {
    const struct wf_op_list *forward;
    struct wf_op_list *backward;
    struct fact *facts; /* of the forward list's storages */
    int *use;           /* of its nodes: the backward node before which it runs again; -1: none */
    int node;           /* that is walked over */
};

/* ---- what is known ---- */

static void find_makers(struct choice *choice)
{
    const struct wf_op_list *list = choice->forward;
    int *writers = wf_list_count_writers(list), *last = wf_list_last_writers(list);

    for (int i = 0; i < list->n_nodes; i++) {
        const struct wf_list_node *node = &list->nodes[i];
        bool repeatable = wf_is_cheap_to_repeat(node);

        for (int k = 0; k < node->n_in && repeatable; k++) {
            int s = node->in[k].storage;

            repeatable = s < 0 || (last[s] < i && writers[s] <= 1);
        }
        for (int j = 0; j < node->n_out && repeatable; j++) {
            int s = node->out[j].storage;

            if (s >= 0 && list->storages[s].kind == WF_STORAGE_MADE && writers[s] == 1)
                choice->facts[s].maker = i;
        }
    }
    wf_free(writers);
    wf_free(last);
}

static void find_bytes(struct choice *choice)
{
    const struct wf_op_list *list = choice->forward;

    for (int s = 0; s < list->n_storages; s++) choice->facts[s].bytes = list->storages[s].bytes;
    for (int i = 0; i < list->n_nodes; i++)
        for (int j = 0; j < list->nodes[i].n_out; j++) {
            const struct wf_operand *out = &list->nodes[i].out[j];

            if (out->storage >= 0 && out->layout)
                choice->facts[out->storage].bytes =
                    out->layout->numel * (int64_t)wf_dtypes[out->layout->desc.dtype].size;
        }
}

static void note_use_in_backward(int storage, bool write, void *payload)
{
    struct choice *choice = payload;
    const struct wf_storage *of = &choice->backward->storages[storage];

    if (of->kind != WF_STORAGE_FORWARD) return;
    if (write)
        choice->facts[of->index].written = true;
    else
        choice->facts[of->index].read = true;
}

static void find_facts(struct choice *choice)
{
    struct wf_op_list *backward = choice->backward;

    for (int s = 0; s < choice->forward->n_storages; s++)
        choice->facts[s] = (struct fact){.maker = -1, .of_backward = -1, .again = -1};
    for (int s = 0; s < backward->n_storages; s++)
        if (backward->storages[s].kind == WF_STORAGE_FORWARD)
            choice->facts[backward->storages[s].index].of_backward = s;
    for (int i = 0; i < backward->n_nodes; i++)
        wf_list_node_visit_storages(backward, &backward->nodes[i], note_use_in_backward, choice);
    for (int i = 0; i < backward->n_results; i++) {
        int s = backward->results[i].at.storage;

        if (s >= 0 && backward->storages[s].kind == WF_STORAGE_FORWARD)
            choice->facts[backward->storages[s].index].given = true;
    }
    find_makers(choice);
    find_bytes(choice);
}

/* ---- the cut ---- */

/* What saving it costs; WF_FLOW_UNBOUNDED: it cannot be read in backward. */
static int64_t price(const struct choice *choice, int s)
{
    const struct wf_storage *storage = &choice->forward->storages[s];
    const struct fact *fact = &choice->facts[s];

    if (fact->of_backward < 0 || fact->written) return WF_FLOW_UNBOUNDED;
    if (storage->kind == WF_STORAGE_MADE && !storage->kept) return fact->bytes;
    return fact->read || fact->given ? 0 : WF_FLOW_UNBOUNDED;
}

static bool must_be_saved(const struct choice *choice, int s)
{
    const struct fact *fact = &choice->facts[s];

    return fact->maker < 0 || fact->given || fact->written || choice->forward->storages[s].kept ||
           fact->bytes < LEAST_BYTES;
}

/* The two ends of a storage's edge. */
static int made_end(int s) { return 2 * s; }
static int read_end(int s) { return 2 * s + 1; }

static void find_min_cut(struct choice *choice)
{
    int n = choice->forward->n_storages, source = 2 * n, sink = 2 * n + 1;
    bool *marks = wf_calloc((size_t)(2 * n + 2), sizeof *marks);
    struct wf_flow_graph graph;

    wf_flow_init(&graph, 2 * n + 2);
    for (int s = 0; s < n; s++) {
        const struct fact *fact = &choice->facts[s];
        const struct wf_list_node *maker;

        wf_flow_add_edge(&graph, made_end(s), read_end(s), price(choice, s));
        if (fact->read && !fact->written)
            wf_flow_add_edge(&graph, read_end(s), sink, WF_FLOW_UNBOUNDED);
        if (must_be_saved(choice, s)) {
            wf_flow_add_edge(&graph, source, made_end(s), WF_FLOW_UNBOUNDED);
            continue;
        }
        maker = &choice->forward->nodes[fact->maker];
        for (int k = 0; k < maker->n_in; k++)
            if (maker->in[k].storage >= 0)
                wf_flow_add_edge(&graph, read_end(maker->in[k].storage), made_end(s),
                                 WF_FLOW_UNBOUNDED);
    }
    wf_flow_min_cut(&graph, source, sink, marks);
    for (int s = 0; s < n; s++) {
        choice->facts[s].runs_again = marks[made_end(s)];
        choice->facts[s].saved = !marks[made_end(s)] && marks[read_end(s)];
    }
    wf_flow_free(&graph);
    wf_free(marks);
}

/* `everywhere`: on all ranks; else on this one. */
static struct wf_saved_bytes count_bytes(const struct choice *choice, bool everywhere)
{
    struct wf_saved_bytes saved = {0};

    for (int s = 0; s < choice->forward->n_storages; s++) {
        const struct wf_storage *storage = &choice->forward->storages[s];
        const struct fact *fact = &choice->facts[s];
        int64_t bytes = everywhere ? fact->bytes : storage->bytes;

        if (storage->kind != WF_STORAGE_MADE || storage->kept) continue;
        if (fact->read || fact->written || fact->given) saved.without += bytes;
        if (fact->written || fact->given || fact->saved) saved.bytes += bytes;
    }
    return saved;
}

/* ---- the new backward list ---- */

static void note_use_of_repeated(int storage, bool write, void *payload)
{
    struct choice *choice = payload;
    const struct wf_storage *of = &choice->backward->storages[storage];
    const struct fact *fact;

    (void)write;
    if (of->kind != WF_STORAGE_FORWARD) return;
    fact = &choice->facts[of->index];
    if (fact->runs_again && fact->maker >= 0 && choice->use[fact->maker] < 0)
        choice->use[fact->maker] = choice->node;
}

/* Of a node that runs again, those that make what it reads run before it. */
static void find_uses(struct choice *choice)
{
    const struct wf_op_list *forward = choice->forward, *backward = choice->backward;

    for (int i = 0; i < forward->n_nodes; i++) choice->use[i] = -1;
    for (choice->node = 0; choice->node < backward->n_nodes; choice->node++)
        wf_list_node_visit_storages(backward, &backward->nodes[choice->node], note_use_of_repeated,
                                    choice);
    for (int i = forward->n_nodes - 1; i >= 0; i--) {
        const struct wf_list_node *node = &forward->nodes[i];

        for (int k = 0; k < node->n_in && choice->use[i] >= 0; k++) {
            int s = node->in[k].storage, maker = s >= 0 ? choice->facts[s].maker : -1;

            if (maker < 0 || !choice->facts[s].runs_again) continue;
            if (choice->use[maker] < 0 || choice->use[maker] > choice->use[i])
                choice->use[maker] = choice->use[i];
        }
    }
}

static void run_again(struct choice *choice, int i)
{
    const struct wf_op_list *forward = choice->forward;
    struct wf_list_node *node = wf_op_list_repeat_node(choice->backward, &forward->nodes[i]);

    for (int k = 0; k < node->n_in; k++) {
        int s = node->in[k].storage;

        if (s < 0) continue;
        node->in[k].storage =
            choice->facts[s].runs_again ? choice->facts[s].again : choice->facts[s].of_backward;
    }
    for (int j = 0; j < node->n_out; j++) {
        struct wf_storage made;
        int s = node->out[j].storage;

        if (s < 0) continue;
        made = forward->storages[s];
        made.kept = false;
        made.same_as = 0;
        node->out[j].storage = wf_op_list_add_storage(choice->backward, made);
        if (choice->facts[s].runs_again) choice->facts[s].again = node->out[j].storage;
    }
}

/* Backward nodes, each with those that run again before it in the order of the forward list. */
static void insert(struct choice *choice, const int *first, const int *next)
{
    struct wf_op_list *list = choice->backward;
    struct wf_list_node *old = list->nodes;
    int n = list->n_nodes;

    list->nodes = NULL;
    list->n_nodes = 0;
    for (int i = 0; i < n; i++) {
        for (int f = first[i]; f >= 0; f = next[f]) run_again(choice, f);
        *wf_op_list_add_node(list, WF_LIST_KERNEL) = old[i];
    }
    wf_free(old);
}

/* gives: how many nodes run again */
static int insert_repeated_nodes(struct choice *choice)
{
    int n = choice->backward->n_nodes, m = choice->forward->n_nodes, again = 0;
    int *first = wf_malloc(((size_t)n + 1) * sizeof *first);
    int *next = wf_malloc(((size_t)m + 1) * sizeof *next);

    for (int i = 0; i < n; i++) first[i] = -1;
    for (int f = m - 1; f >= 0; f--) {
        if (choice->use[f] < 0) continue;
        next[f] = first[choice->use[f]];
        first[choice->use[f]] = f;
        again++;
    }
    insert(choice, first, next);
    wf_free(first);
    wf_free(next);
    return again;
}

static void read_what_runs_again(struct choice *choice)
{
    struct wf_op_list *list = choice->backward;
    int *to = wf_malloc(((size_t)list->n_storages + 1) * sizeof *to);

    for (int s = 0; s < list->n_storages; s++) {
        const struct wf_storage *storage = &list->storages[s];
        int again = storage->kind == WF_STORAGE_FORWARD ? choice->facts[storage->index].again : -1;

        to[s] = again < 0 ? s : again;
    }
    wf_list_rename(list, to, NULL);
    wf_free(to);
}

struct wf_saved_bytes wf_min_cut(const struct wf_op_list *forward, struct wf_op_list *backward,
                                 bool on)
{
    struct choice choice = {.forward = forward, .backward = backward};
    struct wf_saved_bytes saved, everywhere;

    choice.facts = wf_calloc((size_t)forward->n_storages + 1, sizeof *choice.facts);
    choice.use = wf_calloc((size_t)forward->n_nodes + 1, sizeof *choice.use);
    find_facts(&choice);
    if (on) find_min_cut(&choice);
    saved = count_bytes(&choice, false);
    everywhere = count_bytes(&choice, true);
    if (!on || (everywhere.without - everywhere.bytes) * PART_SAVED <= everywhere.without) {
        saved.bytes = saved.without;
    } else {
        find_uses(&choice);
        saved.again = insert_repeated_nodes(&choice);
        read_what_runs_again(&choice);
        WF_LOG(WF_LOG_INFO, "compile", "min_cut: %d nodes again, %lld of %lld bytes saved",
               saved.again, (long long)saved.bytes, (long long)saved.without);
    }
    wf_free(choice.facts);
    wf_free(choice.use);
    return saved;
}
