/*
 * redistribute_coll.c: the actions of a step that communicates: what is packed in which order, who
 * sends how much to whom, and how it is put together.
 */
#include "dtensor/redistribute_build.h"

#include <string.h>

#include "base/mem.h"

/* ---- what a collective says ---- */

static struct wf_redist_action *add_coll(struct wf_redist_builder *b, weft_coll coll, unsigned axes,
                                         int dst)
{
    struct wf_redist_action *action = wf_build_action(b, WF_ACT_COLL, b->view.buffer, dst);

    action->coll = coll;
    action->axes = (uint8_t)axes;
    action->src_offset = b->view.offset * (int64_t)b->element;
    return action;
}

static int64_t bytes(const struct wf_redist_builder *b, int64_t elements)
{
    return elements * (int64_t)b->element;
}

static size_t *new_counts(int ways) { return wf_calloc((size_t)ways, sizeof(size_t)); }

/* Where the view's elements are packed for sending, unless they lie in that order already: then
 * the view moves to where they begin. */
static void pack_begin(struct wf_redist_builder *b, int64_t elements)
{
    int buffer = wf_build_buffer(b, elements, WF_MEM_COMM);

    wf_build_action(b, WF_ACT_COPY, b->view.buffer, buffer);
}

static void pack_end(struct wf_redist_builder *b)
{
    int buffer = b->program->n_buffers - 1;
    int64_t shift;

    if (wf_build_take_back(b, &shift)) {
        b->view.offset = shift / (int64_t)b->element;
    } else {
        b->view.buffer = buffer;
        b->view.offset = 0;
    }
}

/* The same for what was received. */
static void unpack_end(struct wf_redist_builder *b, int parts)
{
    int64_t shift;

    if (!wf_build_take_back(b, &shift)) return;
    wf_build_look_at(b, parts);
    b->view.offset = shift / (int64_t)b->element;
}

/* ---- reductions ---- */

static bool sums_follow(const struct wf_redist_builder *b, const struct wf_redist_step *step)
{
    for (int a = 0; a < b->plan->from->n_axes; a++)
        if (weft_is_partial(step->to[a]) &&
            !weft_placement_equal(step->to[a], b->plan->to->placements[a]))
            return true;
    return false;
}

/* Norms and averages are sums, with something to do before the first and after the last. */
static weft_reduce begin_reduction(struct wf_redist_builder *b, const struct wf_redist_step *step)
{
    weft_placement p = step->from[__builtin_ctz(step->axes)];

    for (unsigned left = step->axes; left; left &= left - 1)
        if (step->from[__builtin_ctz(left)].reduce == WEFT_AVG)
            b->divisor *= b->sizes[__builtin_ctz(left)];
    if (p.reduce == WEFT_NORM && b->power == 0) {
        b->power = p.p;
        wf_build_own(b);
        wf_build_action(b, WF_ACT_POWER, b->view.buffer, b->view.buffer)->power = (double)p.p;
    }
    return p.reduce == WEFT_PRODUCT || p.reduce == WEFT_MAX || p.reduce == WEFT_MIN
               ? (weft_reduce)p.reduce
               : WEFT_SUM;
}

/* Once, when no reduction is left to finish: fewer passes, and less is rounded. */
void wf_build_end_reductions(struct wf_redist_builder *b, const struct wf_redist_step *step)
{
    if ((b->divisor == 1 && b->power == 0) || sums_follow(b, step)) return;
    wf_build_own(b);
    if (b->divisor != 1)
        wf_build_action(b, WF_ACT_DIVIDE, b->view.buffer, b->view.buffer)->divisor = b->divisor;
    if (b->power != 0)
        wf_build_action(b, WF_ACT_POWER, b->view.buffer, b->view.buffer)->power =
            1 / (double)b->power;
    b->divisor = 1;
    b->power = 0;
}

/* A buffer of ours is reduced in place; the source is read where it lies. */
void wf_build_all_reduce(struct wf_redist_builder *b, struct wf_redist_step *step)
{
    weft_reduce reduce = begin_reduction(b, step);
    struct wf_redist_action *action;
    int dst, ways = wf_build_ways(b, step->axes);

    if (!wf_build_is_contiguous(b)) wf_build_contiguous(b, WF_MEM_COMM);
    dst = b->view.buffer;
    if (dst == 0 || b->view.offset != 0)
        dst = wf_build_buffer(b, wf_build_elements(b), WF_MEM_COMM);
    b->program->buffers[dst].category = WF_MEM_COMM;
    step->bytes = bytes(b, 2 * wf_build_elements(b) * (ways - 1) / ways);
    action = add_coll(b, WEFT_COLL_ALL_REDUCE, step->axes, dst);
    action->reduce = reduce;
    action->count = (size_t)wf_build_elements(b);
    wf_build_look_at(b, dst);
}

void wf_build_reduce_scatter(struct wf_redist_builder *b, struct wf_redist_step *step)
{
    weft_reduce reduce = begin_reduction(b, step);
    int ways = wf_build_ways(b, step->axes), member[WEFT_MAX_AXES], dst;
    size_t *counts = new_counts(ways);
    struct wf_build_side whole = wf_build_view_side(b, WF_PART_P), part;
    struct wf_redist_action *action;
    int64_t shape[WEFT_MAX_DIMS], at = 0;

    pack_begin(b, wf_build_elements(b));
    for (int m = 0; m < ways; m++) {
        wf_build_member(b, step->axes, m, member);
        counts[m] = (size_t)wf_build_shape(b, member, step->to, shape);
        wf_build_meet(b, b->coordinates, step->from, member, step->to);
        part = wf_build_rows(b, WF_PART_Q, shape, at);
        wf_build_copies(b, &whole, &part);
        at += (int64_t)counts[m];
    }
    pack_end(b);
    wf_build_shape(b, b->coordinates, step->to, b->view.shape);
    step->bytes = bytes(b, at - wf_build_elements(b));
    dst = wf_build_buffer(b, wf_build_elements(b), WF_MEM_COMM);
    action = add_coll(b, WEFT_COLL_REDUCE_SCATTER, step->axes, dst);
    action->reduce = reduce;
    action->send_counts = counts;
    wf_build_look_at(b, dst);
}

/* ---- gathering and exchanging ---- */

void wf_build_all_gather(struct wf_redist_builder *b, struct wf_redist_step *step)
{
    int ways = wf_build_ways(b, step->axes), member[WEFT_MAX_AXES], parts;
    size_t *counts = new_counts(ways);
    struct wf_build_side part, whole;
    int64_t shape[WEFT_MAX_DIMS], at = 0;

    if (!wf_build_is_contiguous(b)) wf_build_contiguous(b, WF_MEM_COMM);
    step->bytes = bytes(b, wf_build_elements(b) * (ways - 1));
    parts = wf_build_buffer(b, wf_build_shape(b, b->coordinates, step->to, shape), WF_MEM_COMM);
    add_coll(b, WEFT_COLL_ALL_GATHER, step->axes, parts)->recv_counts = counts;
    wf_build_into(b, parts, shape);
    whole = wf_build_view_side(b, WF_PART_P);
    for (int m = 0; m < ways; m++) {
        wf_build_member(b, step->axes, m, member);
        counts[m] = (size_t)wf_build_shape(b, member, step->from, shape);
        wf_build_meet(b, b->coordinates, step->to, member, step->from);
        part = wf_build_rows(b, WF_PART_Q, shape, at);
        wf_build_copies(b, &part, &whole);
        at += (int64_t)counts[m];
    }
    unpack_end(b, parts);
}

/*
 * NOTE [who serves whom] Where an axis of an exchange was replicated several ranks hold what a rank
 * needs. It takes it from itself where it can; else from the replica with its own number, counted
 * so that ranks which need the same ask different ones. [S(0),R] -> [R,S(0)] becomes a permutation.
 */
static int number_of(const struct wf_redist_builder *b, const struct wf_redist_step *step,
                     const weft_placement *placements, const int *coordinates, bool cut, int number)
{
    for (unsigned left = step->axes; left; left &= left - 1) {
        int a = __builtin_ctz(left);

        if (wf_is_cut(placements[a]) == cut) number = number * b->sizes[a] + coordinates[a];
    }
    return number;
}

static bool serves(const struct wf_redist_builder *b, const struct wf_redist_step *step,
                   const int *holder, const int *taker)
{
    bool same_shards = true, same_rank = true;
    int replicas = 1, asked;

    for (unsigned left = step->axes; left; left &= left - 1) {
        int a = __builtin_ctz(left);
        bool same = holder[a] == taker[a];

        same_rank &= same;
        if (wf_is_cut(step->from[a]))
            same_shards &= same;
        else
            replicas *= b->sizes[a];
    }
    if (same_shards || replicas == 1) return same_rank || replicas == 1;
    asked = number_of(b, step, step->to, taker, true, 0);
    asked = number_of(b, step, step->to, taker, false, asked);
    return number_of(b, step, step->from, holder, false, 0) == asked % replicas;
}

static size_t *pack_exchange(struct wf_redist_builder *b, const struct wf_redist_step *step)
{
    int ways = wf_build_ways(b, step->axes), member[WEFT_MAX_AXES];
    struct wf_build_side mine = wf_build_view_side(b, WF_PART_P), message;
    size_t *counts = new_counts(ways);
    int64_t at = 0;

    pack_begin(b, 0);
    for (int m = 0; m < ways; m++) {
        wf_build_member(b, step->axes, m, member);
        if (!serves(b, step, b->coordinates, member)) continue;
        counts[m] = (size_t)wf_build_meet(b, b->coordinates, step->from, member, step->to);
        message = wf_build_shared(b, at);
        wf_build_copies(b, &mine, &message);
        at += (int64_t)counts[m];
    }
    b->program->buffers[b->program->n_buffers - 1].elements = at; /* a replica may send twice */
    pack_end(b);
    return counts;
}

static size_t *unpack_exchange(struct wf_redist_builder *b, const struct wf_redist_step *step,
                               int parts)
{
    int ways = wf_build_ways(b, step->axes), member[WEFT_MAX_AXES];
    struct wf_build_side mine, message;
    size_t *counts = new_counts(ways);
    int64_t shape[WEFT_MAX_DIMS], at = 0;

    wf_build_shape(b, b->coordinates, step->to, shape);
    wf_build_into(b, parts, shape);
    mine = wf_build_view_side(b, WF_PART_Q);
    for (int m = 0; m < ways; m++) {
        wf_build_member(b, step->axes, m, member);
        if (!serves(b, step, member, b->coordinates)) continue;
        counts[m] = (size_t)wf_build_meet(b, member, step->from, b->coordinates, step->to);
        message = wf_build_shared(b, at);
        wf_build_copies(b, &message, &mine);
        at += (int64_t)counts[m];
    }
    unpack_end(b, parts);
    return counts;
}

void wf_build_exchange(struct wf_redist_builder *b, struct wf_redist_step *step)
{
    size_t *send_counts = pack_exchange(b, step);
    int ways = wf_build_ways(b, step->axes), me = wf_build_me(b, step->axes), parts, coll;
    int64_t shape[WEFT_MAX_DIMS];

    step->bytes = 0;
    for (int m = 0; m < ways; m++)
        if (m != me) step->bytes += bytes(b, (int64_t)send_counts[m]);
    parts = wf_build_buffer(b, wf_build_shape(b, b->coordinates, step->to, shape), WF_MEM_COMM);
    add_coll(b, WEFT_COLL_ALL_TO_ALL, step->axes, parts)->send_counts = send_counts;
    coll = b->program->n_actions - 1;
    send_counts = unpack_exchange(b, step, parts);
    b->program->actions[coll].recv_counts = send_counts;
}
