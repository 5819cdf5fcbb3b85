/*
 * bucket.c: all-reduces over the same axes whose results nobody reads in between become one: what
 * they send is copied into one buffer, and what comes back to where each result belongs. Every
 * element is summed over the ranks in the order that all collectives have, so bits stay. It is done
 * where the start that is saved takes longer than the copies, by the model of cost.
 *
 * Off by itself: lists after lowering have a copy on one rank that another does not need, so ranks
 * could come to different buckets. It has to go before lowering first.
 */
#include <string.h>

#include "base/elements/dtype.h"
#include "base/mem.h"
#include "compile/passes/passes.h"
#include "compile/passes/pieces.h"
#include "compile/passes/rename.h"
#include "mesh/mesh.h"
#include "redistribute/link_cost.h"

enum { MOST_MEMBERS = 32, FARTHEST = 64, LINE = 64 };

/* Bytes that a core copies in a microsecond, about. */
static const double copied = 1e4;

struct bucket {
    int members[MOST_MEMBERS], waits[MOST_MEMBERS], n; /* starts, the last where it will be */
};

struct walk {
    struct wf_op_list *list; /* the new nodes */
    struct wf_list_node *old;
    int n_old;
    int *wait_of;              /* of each start */
    struct bucket **at;        /* of each old node: the bucket that begins there */
    const struct bucket *made; /* the one that is being made */
    bool conflict;
};

static bool is_all_reduce(const struct wf_list_node *node)
{
    return node->kind == WF_LIST_START && node->action->coll == WEFT_COLL_ALL_REDUCE &&
           node->action->count > 0;
}

static size_t bytes_of(const struct wf_list_node *start)
{
    return start->action->count * wf_dtypes[start->move->from->desc.dtype].size;
}

static bool is_alike(const struct wf_list_node *a, const struct wf_list_node *b)
{
    return a->move->from->mesh == b->move->from->mesh && a->action->axes == b->action->axes &&
           a->action->reduce == b->action->reduce &&
           a->move->from->desc.dtype == b->move->from->desc.dtype;
}

/* One start less, against copies there and back of this one; the first of a bucket is copied too.
 */
static bool pays(const struct wf_list_node *first, const struct wf_list_node *next, int members)
{
    struct wf_redist_problem problem =
        wf_redist_problem(next->move->from, next->move->to->placements);
    struct wf_link link = wf_link_slowest(problem.links, next->action->axes);
    int ranks = 1;
    double bytes = (double)bytes_of(next) + (members == 1 ? (double)bytes_of(first) : 0);

    for (int a = 0; a < next->move->from->n_axes; a++)
        if (next->action->axes >> a & 1) ranks *= wf_mesh_sizes(next->move->from->mesh)[a];
    return wf_passes_forced || wf_collective_time(link, ranks - 1, 0) > 2 * bytes / copied;
}

/* A node between must not touch a member's result, nor write what a member sends. */
static void check_use(int storage, bool write, void *payload)
{
    struct walk *walk = payload;

    for (int m = 0; m < walk->made->n; m++) {
        const struct wf_list_node *member = &walk->old[walk->made->members[m]];

        walk->conflict |= wf_storages_may_meet(walk->list, storage, member->out[0].storage);
        if (write)
            walk->conflict |= wf_storages_may_meet(walk->list, storage, member->in[0].storage);
    }
}

static bool is_wait_of_member(const struct bucket *bucket, int i)
{
    for (int m = 0; m < bucket->n; m++)
        if (bucket->waits[m] == i) return true;
    return false;
}

static void find_members(struct walk *walk, struct bucket *bucket, const bool *taken)
{
    const struct wf_list_node *first = &walk->old[bucket->members[0]];

    walk->made = bucket;
    walk->conflict = false;
    for (int i = bucket->members[0] + 1;
         i < walk->n_old && i - bucket->members[bucket->n - 1] < FARTHEST &&
         bucket->n < MOST_MEMBERS;
         i++) {
        const struct wf_list_node *node = &walk->old[i];

        if (is_wait_of_member(bucket, i)) continue;
        wf_list_node_visit_storages(&(struct wf_op_list){.nodes = walk->old}, node, check_use,
                                    walk);
        if (walk->conflict) return;
        if (taken[i] || !is_all_reduce(node) || !is_alike(first, node) ||
            !pays(first, node, bucket->n))
            continue;
        bucket->members[bucket->n] = i;
        bucket->waits[bucket->n++] = walk->wait_of[i];
    }
}

static int64_t room_of(const struct wf_list_node *start)
{
    return ((int64_t)bytes_of(start) + LINE - 1) / LINE * LINE;
}

static void add_copy(struct walk *walk, const struct wf_list_node *like, struct wf_operand from,
                     struct wf_operand to)
{
    struct wf_list_node *node = wf_piece_add_node(walk->list, WF_LIST_COPY, like);
    int64_t n = (int64_t)like->action->count, one = 1;

    node->copies = wf_calloc(1, sizeof *node->copies);
    wf_strided_copy_init(node->copies, &n, &one, &one, 1,
                         wf_dtypes[like->move->from->desc.dtype].size);
    node->n_copies = node->n_in = node->n_out = 1;
    node->in_place = true;
    node->in[0] = from;
    node->out[0] = to;
}

static void emit(struct walk *walk, const struct bucket *bucket)
{
    const struct wf_list_node *first = &walk->old[bucket->members[0]];
    struct wf_list_piece piece = {.action = {.act = WF_ACT_COLL}};
    int64_t size = (int64_t)wf_dtypes[first->move->from->desc.dtype].size, bytes = 0;
    int buffer, start;

    for (int m = 0; m < bucket->n; m++) bytes += room_of(&walk->old[bucket->members[m]]);
    buffer = wf_piece_add_buffer(
        walk->list, (weft_device)walk->list->storages[first->in[0].storage].device, bytes);
    bytes = 0;
    for (int m = 0; m < bucket->n; m++) {
        const struct wf_list_node *member = &walk->old[bucket->members[m]];

        add_copy(walk, member, wf_piece_operand(member->in[0]), wf_piece_at(buffer, bytes));
        bytes += (int64_t)bytes_of(member);
    }
    piece.action.axes = first->action->axes;
    piece.action.coll = WEFT_COLL_ALL_REDUCE;
    piece.action.reduce = first->action->reduce;
    piece.action.count = (size_t)(bytes / size);
    start = wf_piece_add_start(walk->list, first, &piece, wf_piece_at(buffer, 0),
                               wf_piece_at(buffer, 0));
    wf_piece_add_wait(walk->list, first, start);
    bytes = 0;
    for (int m = 0; m < bucket->n; m++) {
        const struct wf_list_node *member = &walk->old[bucket->members[m]];

        add_copy(walk, member, wf_piece_at(buffer, bytes), wf_piece_operand(member->out[0]));
        bytes += (int64_t)bytes_of(member);
    }
}

/* gives: how many collectives are in buckets */
static int decide(struct walk *walk)
{
    bool *taken = wf_calloc((size_t)walk->n_old + 1, sizeof *taken);
    int changed = 0;

    for (int i = 0; i < walk->n_old; i++)
        if (walk->old[i].kind == WF_LIST_WAIT) walk->wait_of[walk->old[i].started] = i;
    for (int i = 0; i < walk->n_old; i++) {
        struct bucket bucket = {.members = {i}, .waits = {walk->wait_of[i]}, .n = 1};

        if (taken[i] || !is_all_reduce(&walk->old[i])) continue;
        find_members(walk, &bucket, taken);
        if (bucket.n == 1) continue;
        for (int m = 0; m < bucket.n; m++) {
            taken[bucket.members[m]] = true;
            walk->old[bucket.members[m]].dead = walk->old[bucket.waits[m]].dead = true;
        }
        walk->at[bucket.members[bucket.n - 1]] = WF_NEW(struct bucket);
        *walk->at[bucket.members[bucket.n - 1]] = bucket;
        changed += bucket.n;
    }
    wf_free(taken);
    return changed;
}

static void rewrite(struct walk *walk)
{
    struct wf_op_list *dead = wf_op_list_new();
    int *number = wf_calloc((size_t)walk->n_old + 1, sizeof *number);

    for (int i = 0; i < walk->n_old; i++) {
        struct wf_list_node *node;

        if (walk->at[i]) emit(walk, walk->at[i]);
        number[i] = walk->list->n_nodes;
        if (walk->old[i].dead) continue;
        node = wf_op_list_add_node(walk->list, WF_LIST_KERNEL);
        *node = walk->old[i];
        if (node->started >= 0) node->started = number[node->started];
    }
    for (int i = 0; i < walk->n_old; i++)
        if (walk->old[i].dead) *wf_op_list_add_node(dead, WF_LIST_KERNEL) = walk->old[i];
    wf_op_list_free(dead);
    wf_free(number);
}

int wf_pass_bucket(struct wf_op_list *list)
{
    struct walk walk = {.list = list, .old = list->nodes, .n_old = list->n_nodes};
    int changed;

    if (list->keeps_collectives) return 0;
    walk.wait_of = wf_calloc((size_t)list->n_nodes + 1, sizeof *walk.wait_of);
    walk.at = wf_calloc((size_t)list->n_nodes + 1, sizeof(struct bucket *));
    changed = decide(&walk);
    if (changed) {
        list->nodes = NULL;
        list->n_nodes = 0;
        rewrite(&walk);
        wf_free(walk.old);
    }
    for (int i = 0; i < walk.n_old; i++) wf_free(walk.at[i]);
    wf_free(walk.wait_of);
    wf_free(walk.at);
    return changed;
}
