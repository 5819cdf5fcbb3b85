/*
 * bucket.c: collectives of one kind over the same axes whose results nobody reads in between become
 * one: all-reduces, all-gathers and reduce-scatters, of equal pieces for every rank. What they send
 * is copied into one buffer, and what comes back to where each result belongs; a buffer with a
 * piece for each rank has that of every member in it, side by side. Every element is summed over
 * the ranks in the order that all collectives have, so bits stay. It is done where the start that
 * is saved takes longer than the copies, by the model of cost.
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

static int ranks_of(const struct wf_list_node *start)
{
    const struct wf_layout *from = start->move->from;
    int ranks = 1;

    for (int a = 0; a < from->n_axes; a++)
        if (start->action->axes >> a & 1) ranks *= wf_mesh_sizes(from->mesh)[a];
    return ranks;
}

/* Elements of a piece that every rank sends or gets; 0: they differ, on this rank's communicator or
 * on another of the mesh. */
static size_t count_of_piece(const struct wf_list_node *start)
{
    const struct wf_redist_action *action = start->action;
    const size_t *counts =
        action->coll == WEFT_COLL_ALL_GATHER ? action->recv_counts : action->send_counts;

    if (action->coll == WEFT_COLL_ALL_REDUCE) return action->count;
    if (!wf_layout_shards_equal(start->move->from) || !wf_layout_shards_equal(start->move->to))
        return 0;
    for (int r = 1; r < ranks_of(start); r++)
        if (counts[r] != counts[0]) return 0;
    return counts[0];
}

static bool may_join(const struct wf_list_node *node)
{
    return node->kind == WF_LIST_START && !node->piece &&
           (node->action->coll == WEFT_COLL_ALL_REDUCE ||
            node->action->coll == WEFT_COLL_ALL_GATHER ||
            node->action->coll == WEFT_COLL_REDUCE_SCATTER) &&
           count_of_piece(node) > 0;
}

static int pieces_sent(const struct wf_list_node *start)
{
    return start->action->coll == WEFT_COLL_REDUCE_SCATTER ? ranks_of(start) : 1;
}

static int pieces_received(const struct wf_list_node *start)
{
    return start->action->coll == WEFT_COLL_ALL_GATHER ? ranks_of(start) : 1;
}

static size_t bytes_of_piece(const struct wf_list_node *start)
{
    return count_of_piece(start) * wf_dtypes[start->move->from->desc.dtype].size;
}

static bool is_alike(const struct wf_list_node *a, const struct wf_list_node *b)
{
    return a->action->coll == b->action->coll && a->move->from->mesh == b->move->from->mesh &&
           a->action->axes == b->action->axes && a->action->reduce == b->action->reduce &&
           a->move->from->desc.dtype == b->move->from->desc.dtype;
}

/* One start less, against copies there and back of this one; the first of a bucket is copied too.
 */
static bool pays(const struct wf_list_node *first, const struct wf_list_node *next, int members)
{
    struct wf_redist_problem problem =
        wf_redist_problem(next->move->from, next->move->to->placements);
    struct wf_link link = wf_link_slowest(problem.links, next->action->axes);
    double piece =
        (double)bytes_of_piece(next) + (members == 1 ? (double)bytes_of_piece(first) : 0);

    return wf_passes_forced || wf_collective_time(link, ranks_of(next) - 1, 0) >
                                   (pieces_sent(next) + pieces_received(next)) * piece / copied;
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
        if (taken[i] || !may_join(node) || !is_alike(first, node) || !pays(first, node, bucket->n))
            continue;
        bucket->members[bucket->n] = i;
        bucket->waits[bucket->n++] = walk->wait_of[i];
    }
}

/* Pieces of a member, between its own buffer, where they lie together, and the bucket's, where they
 * are `step` bytes apart. */
static void add_copy(struct walk *walk, const struct bucket *bucket,
                     const struct wf_list_node *like, int pieces, int64_t step,
                     struct wf_operand own, struct wf_operand shared, bool pack)
{
    const struct wf_list_node *first = &walk->old[bucket->members[0]];
    struct wf_list_node *node = wf_piece_add_node(walk->list, WF_LIST_COPY, first);
    size_t size = wf_dtypes[like->move->from->desc.dtype].size;
    int64_t n = (int64_t)count_of_piece(like);
    const int64_t shape[] = {pieces, n}, of_own[] = {n, 1}, of_shared[] = {step / (int64_t)size, 1};

    node->plan = first->plan; /* a part of its move, for `overlap`, which takes it along */
    node->plan->refs++;
    node->move = first->move;
    node->copies = wf_calloc(1, sizeof *node->copies);
    wf_strided_copy_init(node->copies, shape, pack ? of_own : of_shared, pack ? of_shared : of_own,
                         2, size);
    node->n_copies = node->n_in = node->n_out = 1;
    node->in_place = true;
    node->in[0] = pack ? own : shared;
    node->out[0] = pack ? shared : own;
}

/* A piece of the bucket's is one of every member. */
static int64_t bytes_of_bucket_piece(const struct walk *walk, const struct bucket *bucket)
{
    int64_t bytes = 0;

    for (int m = 0; m < bucket->n; m++)
        bytes += (int64_t)bytes_of_piece(&walk->old[bucket->members[m]]);
    return bytes;
}

static void copy_members(struct walk *walk, const struct bucket *bucket, int buffer, bool pack)
{
    int64_t at = 0, step = bytes_of_bucket_piece(walk, bucket);

    for (int m = 0; m < bucket->n; m++) {
        const struct wf_list_node *member = &walk->old[bucket->members[m]];

        add_copy(walk, bucket, member, pack ? pieces_sent(member) : pieces_received(member), step,
                 wf_piece_operand(pack ? member->in[0] : member->out[0]), wf_piece_at(buffer, at),
                 pack);
        at += (int64_t)bytes_of_piece(member);
    }
}

/* That of one member, of more elements. */
static void set_action(struct wf_list_piece *piece, const struct wf_list_node *like, size_t count)
{
    struct wf_redist_action *action = &piece->action;
    int ranks = ranks_of(like);
    size_t *counts; /* the piece's */

    action->axes = like->action->axes;
    action->coll = like->action->coll;
    action->reduce = like->action->reduce;
    if (action->coll == WEFT_COLL_ALL_REDUCE) {
        action->count = count;
        return;
    }
    counts = wf_calloc((size_t)ranks, sizeof *counts);
    for (int r = 0; r < ranks; r++) counts[r] = count;
    if (action->coll == WEFT_COLL_ALL_GATHER)
        action->recv_counts = counts;
    else
        action->send_counts = counts;
}

static int64_t round_up(int64_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

static void emit(struct walk *walk, const struct bucket *bucket)
{
    const struct wf_list_node *first = &walk->old[bucket->members[0]];
    struct wf_list_piece piece = {.action = {.act = WF_ACT_COLL}};
    weft_device device = (weft_device)walk->list->storages[first->in[0].storage].device;
    int64_t bytes = bytes_of_bucket_piece(walk, bucket);
    int from = wf_piece_add_buffer(walk->list, device, round_up(bytes * pieces_sent(first)));
    int to =
        pieces_sent(first) == pieces_received(first)
            ? from
            : wf_piece_add_buffer(walk->list, device, round_up(bytes * pieces_received(first)));
    int start;

    copy_members(walk, bucket, from, true);
    set_action(&piece, first, (size_t)bytes / wf_dtypes[first->move->from->desc.dtype].size);
    start = wf_piece_add_start(walk->list, first, &piece, wf_piece_at(from, 0), wf_piece_at(to, 0));
    wf_piece_add_wait(walk->list, first, start);
    copy_members(walk, bucket, to, false);
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

        if (taken[i] || !may_join(&walk->old[i])) continue;
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
