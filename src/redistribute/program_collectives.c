/*
 * program_collectives.c: the actions of a step that communicates: what is packed in which order,
 * who sends how much to whom, and how it is put together.
 */
#include "redistribute/program_build.h"

#include <string.h>

#include "base/mem.h"

/* ---- what a collective says ---- */

static struct wf_redist_action *add_collective_action(struct wf_redist_builder *b, weft_coll coll,
                                                      unsigned axes, int dst)
{
    struct wf_redist_action *action = wf_redist_add_action(b, WF_ACT_COLL, b->view.buffer, dst);

    action->coll = coll;
    action->axes = (uint8_t)axes;
    action->src_offset = b->view.offset * (int64_t)b->element;
    return action;
}

static int64_t elements_to_bytes(const struct wf_redist_builder *b, int64_t elements)
{
    return elements * (int64_t)b->element;
}

static size_t *alloc_counts(int ways) { return wf_calloc((size_t)ways, sizeof(size_t)); }

/* Where the view's elements are packed for sending, unless they lie in that order already: then
 * the view moves to where they begin. */
static void begin_packing(struct wf_redist_builder *b, int64_t elements)
{
    int buffer = wf_redist_add_buffer(b, elements, WF_MEM_COMM);

    wf_redist_add_action(b, WF_ACT_COPY, b->view.buffer, buffer);
}

static void end_packing(struct wf_redist_builder *b)
{
    int buffer = b->program->n_buffers - 1;
    int64_t shift;

    if (wf_redist_drop_plain_copy(b, &shift)) {
        b->view.offset = shift / (int64_t)b->element;
    } else {
        b->view.buffer = buffer;
        b->view.offset = 0;
    }
}

/* The same for what was received. */
static void end_unpacking(struct wf_redist_builder *b, int received)
{
    int64_t shift;

    if (!wf_redist_drop_plain_copy(b, &shift)) return;
    wf_redist_view_set_buffer(b, received);
    b->view.offset = shift / (int64_t)b->element;
}

/* ---- reductions ---- */

static bool more_reductions_follow(const struct wf_redist_builder *b,
                                   const struct wf_redist_step *step)
{
    for (int a = 0; a < b->plan->from->n_axes; a++)
        if (weft_is_partial(step->to[a]) &&
            !weft_placement_equal(step->to[a], b->plan->to->placements[a]))
            return true;
    return false;
}

/* Norms and averages are sums, with something to do before the first and after the last. */
static weft_reduce add_reduction_begin(struct wf_redist_builder *b,
                                       const struct wf_redist_step *step)
{
    weft_placement p = step->from[__builtin_ctz(step->axes)];

    for (unsigned left = step->axes; left; left &= left - 1)
        if (step->from[__builtin_ctz(left)].reduce == WEFT_AVG)
            b->divisor *= b->sizes[__builtin_ctz(left)];
    if (p.reduce == WEFT_NORM && b->power == 0) {
        b->power = p.p;
        wf_redist_ensure_own_buffer(b);
        wf_redist_add_action(b, WF_ACT_POWER, b->view.buffer, b->view.buffer)->power = (double)p.p;
    }
    return p.reduce == WEFT_PRODUCT || p.reduce == WEFT_MAX || p.reduce == WEFT_MIN
               ? (weft_reduce)p.reduce
               : WEFT_SUM;
}

/* Once, when no reduction is left to finish: fewer passes, and less is rounded. */
void wf_redist_add_reduction_end(struct wf_redist_builder *b, const struct wf_redist_step *step)
{
    if ((b->divisor == 1 && b->power == 0) || more_reductions_follow(b, step)) return;
    wf_redist_ensure_own_buffer(b);
    if (b->divisor != 1)
        wf_redist_add_action(b, WF_ACT_DIVIDE, b->view.buffer, b->view.buffer)->divisor =
            b->divisor;
    if (b->power != 0)
        wf_redist_add_action(b, WF_ACT_POWER, b->view.buffer, b->view.buffer)->power =
            1 / (double)b->power;
    b->divisor = 1;
    b->power = 0;
}

/* A buffer of ours is reduced in place; the source is read where it lies. */
void wf_redist_add_all_reduce(struct wf_redist_builder *b, struct wf_redist_step *step)
{
    weft_reduce reduce = add_reduction_begin(b, step);
    struct wf_redist_action *action;
    int dst, ways = wf_redist_step_rank_count(b, step->axes);

    if (!wf_redist_view_is_contiguous(b)) wf_redist_add_contiguous_copy(b, WF_MEM_COMM);
    dst = b->view.buffer;
    if (dst == 0 || b->view.offset != 0)
        dst = wf_redist_add_buffer(b, wf_redist_view_numel(b), WF_MEM_COMM);
    b->program->buffers[dst].category = WF_MEM_COMM;
    step->bytes = elements_to_bytes(b, 2 * wf_redist_view_numel(b) * (ways - 1) / ways);
    action = add_collective_action(b, WEFT_COLL_ALL_REDUCE, step->axes, dst);
    action->reduce = reduce;
    action->count = (size_t)wf_redist_view_numel(b);
    wf_redist_view_set_buffer(b, dst);
}

void wf_redist_add_reduce_scatter(struct wf_redist_builder *b, struct wf_redist_step *step)
{
    weft_reduce reduce = add_reduction_begin(b, step);
    int ways = wf_redist_step_rank_count(b, step->axes), member[WEFT_MAX_AXES], dst;
    size_t *counts = alloc_counts(ways);
    struct wf_copy_side whole = wf_redist_side_of_view(b, WF_SIDE_FIRST_SHARD), shard;
    struct wf_redist_action *action;
    int64_t shape[WEFT_MAX_DIMS], at = 0;

    begin_packing(b, wf_redist_view_numel(b));
    for (int m = 0; m < ways; m++) {
        wf_redist_member_coordinates(b, step->axes, m, member);
        counts[m] = (size_t)wf_redist_shard_shape(b, member, step->to, shape);
        wf_redist_intersect_shards(b, b->coordinates, step->from, member, step->to);
        shard = wf_redist_side_row_major(b, WF_SIDE_SECOND_SHARD, shape, at);
        wf_redist_add_overlap_copies(b, &whole, &shard);
        at += (int64_t)counts[m];
    }
    end_packing(b);
    wf_redist_shard_shape(b, b->coordinates, step->to, b->view.shape);
    step->bytes = elements_to_bytes(b, at - wf_redist_view_numel(b));
    dst = wf_redist_add_buffer(b, wf_redist_view_numel(b), WF_MEM_COMM);
    action = add_collective_action(b, WEFT_COLL_REDUCE_SCATTER, step->axes, dst);
    action->reduce = reduce;
    action->send_counts = counts;
    wf_redist_view_set_buffer(b, dst);
}

/* ---- gathering and exchanging ---- */

void wf_redist_add_all_gather(struct wf_redist_builder *b, struct wf_redist_step *step)
{
    int ways = wf_redist_step_rank_count(b, step->axes), member[WEFT_MAX_AXES], received;
    size_t *counts = alloc_counts(ways);
    struct wf_copy_side shard, whole;
    int64_t shape[WEFT_MAX_DIMS], at = 0;

    if (!wf_redist_view_is_contiguous(b)) wf_redist_add_contiguous_copy(b, WF_MEM_COMM);
    step->bytes = elements_to_bytes(b, wf_redist_view_numel(b) * (ways - 1));
    received = wf_redist_add_buffer(b, wf_redist_shard_shape(b, b->coordinates, step->to, shape),
                                    WF_MEM_COMM);
    add_collective_action(b, WEFT_COLL_ALL_GATHER, step->axes, received)->recv_counts = counts;
    wf_redist_view_new_buffer(b, received, shape);
    whole = wf_redist_side_of_view(b, WF_SIDE_FIRST_SHARD);
    for (int m = 0; m < ways; m++) {
        wf_redist_member_coordinates(b, step->axes, m, member);
        counts[m] = (size_t)wf_redist_shard_shape(b, member, step->from, shape);
        wf_redist_intersect_shards(b, b->coordinates, step->to, member, step->from);
        shard = wf_redist_side_row_major(b, WF_SIDE_SECOND_SHARD, shape, at);
        wf_redist_add_overlap_copies(b, &shard, &whole);
        at += (int64_t)counts[m];
    }
    end_unpacking(b, received);
}

/*
 * NOTE [who serves whom] Where an axis of an exchange was replicated several ranks hold what a rank
 * needs. It takes it from itself where it can; else from the replica with its own number, counted
 * so that ranks which need the same ask different ones. [S(0),R] -> [R,S(0)] becomes a permutation.
 */
static int number_on_axes(const struct wf_redist_builder *b, const struct wf_redist_step *step,
                          const weft_placement *placements, const int *coordinates, bool cut,
                          int number)
{
    for (unsigned left = step->axes; left; left &= left - 1) {
        int a = __builtin_ctz(left);

        if (wf_is_shard_or_strided(placements[a]) == cut)
            number = number * b->sizes[a] + coordinates[a];
    }
    return number;
}

static bool is_sender_for(const struct wf_redist_builder *b, const struct wf_redist_step *step,
                          const int *holder, const int *taker)
{
    bool same_shards = true, same_rank = true;
    int replicas = 1, asked;

    for (unsigned left = step->axes; left; left &= left - 1) {
        int a = __builtin_ctz(left);
        bool same = holder[a] == taker[a];

        same_rank &= same;
        if (wf_is_shard_or_strided(step->from[a]))
            same_shards &= same;
        else
            replicas *= b->sizes[a];
    }
    if (same_shards || replicas == 1) return same_rank || replicas == 1;
    asked = number_on_axes(b, step, step->to, taker, true, 0);
    asked = number_on_axes(b, step, step->to, taker, false, asked);
    return number_on_axes(b, step, step->from, holder, false, 0) == asked % replicas;
}

static size_t *pack_all_to_all(struct wf_redist_builder *b, const struct wf_redist_step *step)
{
    int ways = wf_redist_step_rank_count(b, step->axes), member[WEFT_MAX_AXES];
    struct wf_copy_side mine = wf_redist_side_of_view(b, WF_SIDE_FIRST_SHARD), message;
    size_t *counts = alloc_counts(ways);
    int64_t at = 0;

    begin_packing(b, 0);
    for (int m = 0; m < ways; m++) {
        wf_redist_member_coordinates(b, step->axes, m, member);
        if (!is_sender_for(b, step, b->coordinates, member)) continue;
        counts[m] =
            (size_t)wf_redist_intersect_shards(b, b->coordinates, step->from, member, step->to);
        message = wf_redist_side_of_overlap(b, at);
        wf_redist_add_overlap_copies(b, &mine, &message);
        at += (int64_t)counts[m];
    }
    b->program->buffers[b->program->n_buffers - 1].elements = at; /* a replica may send twice */
    end_packing(b);
    return counts;
}

static size_t *unpack_all_to_all(struct wf_redist_builder *b, const struct wf_redist_step *step,
                                 int received)
{
    int ways = wf_redist_step_rank_count(b, step->axes), member[WEFT_MAX_AXES];
    struct wf_copy_side mine, message;
    size_t *counts = alloc_counts(ways);
    int64_t shape[WEFT_MAX_DIMS], at = 0;

    wf_redist_shard_shape(b, b->coordinates, step->to, shape);
    wf_redist_view_new_buffer(b, received, shape);
    mine = wf_redist_side_of_view(b, WF_SIDE_SECOND_SHARD);
    for (int m = 0; m < ways; m++) {
        wf_redist_member_coordinates(b, step->axes, m, member);
        if (!is_sender_for(b, step, member, b->coordinates)) continue;
        counts[m] =
            (size_t)wf_redist_intersect_shards(b, member, step->from, b->coordinates, step->to);
        message = wf_redist_side_of_overlap(b, at);
        wf_redist_add_overlap_copies(b, &message, &mine);
        at += (int64_t)counts[m];
    }
    end_unpacking(b, received);
    return counts;
}

void wf_redist_add_all_to_all(struct wf_redist_builder *b, struct wf_redist_step *step)
{
    size_t *send_counts = pack_all_to_all(b, step);
    int ways = wf_redist_step_rank_count(b, step->axes),
        me = wf_redist_step_own_rank(b, step->axes), received, coll;
    int64_t shape[WEFT_MAX_DIMS];

    step->bytes = 0;
    for (int m = 0; m < ways; m++)
        if (m != me) step->bytes += elements_to_bytes(b, (int64_t)send_counts[m]);
    received = wf_redist_add_buffer(b, wf_redist_shard_shape(b, b->coordinates, step->to, shape),
                                    WF_MEM_COMM);
    add_collective_action(b, WEFT_COLL_ALL_TO_ALL, step->axes, received)->send_counts = send_counts;
    coll = b->program->n_actions - 1;
    send_counts = unpack_all_to_all(b, step, received);
    b->program->actions[coll].recv_counts = send_counts;
}
