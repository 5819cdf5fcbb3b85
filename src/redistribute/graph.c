/*
 * graph.c: which moves a state allows, where they lead and what they cost. Pure: it
 * looks at placements and sizes only. What a move does to memory is program.c's.
 */
#include "redistribute/graph.h"

#include <string.h>

/* ---- lists of axes ---- */

static bool axis_cuts_dim(const struct wf_redist_graph *g, const struct wf_redist_state *s,
                          int axis, int dim)
{
    return weft_shards(*wf_redist_state_placement(g, s, axis), dim);
}

/* The number of axes that shard `dim`, and so the turn of the next. */
static int count_axes_of_dim(const struct wf_redist_graph *g, const struct wf_redist_state *s,
                             int dim)
{
    int n = 0;

    for (int a = 0; a < g->n_axes; a++) n += axis_cuts_dim(g, s, a, dim);
    return n;
}

static bool is_last_axis_of_dim(const struct wf_redist_graph *g, const struct wf_redist_state *s,
                                int axis)
{
    return s->turn[axis] + 1 == count_axes_of_dim(g, s, wf_redist_state_placement(g, s, axis)->dim);
}

static bool is_axis_partial(const struct wf_redist_graph *g, const struct wf_redist_state *s,
                            int axis)
{
    return weft_is_partial(*wf_redist_state_placement(g, s, axis));
}

/* Partial, and still to be reduced. */
static bool is_reduction_unfinished(const struct wf_redist_graph *g,
                                    const struct wf_redist_state *s, int axis)
{
    return is_axis_partial(g, s, axis) && s->place[axis] != g->to.place[axis];
}

/* Leave the list (the caller knows that it is the last there), and enter another. */
static void set_axis_place(const struct wf_redist_graph *g, struct wf_redist_state *s, int axis,
                           int place)
{
    const weft_placement *p = &g->kinds[axis][place];

    s->place[axis] = WF_AT_R;
    s->turn[axis] = wf_is_shard_or_strided(*p) ? (uint8_t)count_axes_of_dim(g, s, p->dim) : 0;
    s->place[axis] = (uint8_t)place;
}

/* ---- cost ---- */

/* Of steps that send nothing: small enough to matter only among plans of equal time. */
static const double LABEL = 0.0005, CHUNK = 0.001, EMBED = 0.01, EMBED_BYTE = 0.00001;

static double shard_bytes_of_state(const struct wf_redist_graph *g, const struct wf_redist_state *s)
{
    double bytes = g->bytes;

    for (int a = 0; a < g->n_axes; a++)
        if (wf_is_shard_or_strided(*wf_redist_state_placement(g, s, a)))
            bytes /= g->problem->sizes[a];
    return bytes;
}

/* Ranks that cut a dim, of those in the mask. */
static int count_shards_of_dim(const struct wf_redist_graph *g, const struct wf_redist_state *s,
                               unsigned axes, int dim)
{
    int ways = 1;

    for (int a = 0; a < g->n_axes; a++)
        if (axes >> a & 1 && axis_cuts_dim(g, s, a, dim)) ways *= g->problem->sizes[a];
    return ways;
}

/* How many others a rank hears from in an exchange: where a dim is in m pieces and is to be in n, m
 * / n pieces make one. A permutation has one partner. */
static int count_exchange_partners(const struct wf_redist_graph *g,
                                   const struct wf_redist_state *from,
                                   const struct wf_redist_move *move)
{
    int count = 1;

    for (int d = 0; d < g->problem->ndim; d++) {
        int was = count_shards_of_dim(g, from, move->axes, d),
            is = count_shards_of_dim(g, &move->to, move->axes, d);

        count *= (was + is - 1) / is;
    }
    return count > 2 ? count - 1 : 1;
}

static double cost_of_move(const struct wf_redist_graph *g, const struct wf_redist_state *from,
                           const struct wf_redist_move *move)
{
    enum wf_redist_kind kind = (enum wf_redist_kind)move->kind;
    int ways = 1, hops;

    if (kind == WF_REDIST_LABEL) return LABEL;
    if (kind == WF_REDIST_CHUNK) return CHUNK;
    if (kind == WF_REDIST_EMBED) return EMBED + EMBED_BYTE * shard_bytes_of_state(g, &move->to);
    for (int a = 0; a < g->n_axes; a++)
        if (move->axes >> a & 1) ways *= g->problem->sizes[a];
    hops = kind == WF_REDIST_ALL_TO_ALL ? count_exchange_partners(g, from, move)
                                        : wf_redist_kind_hops(kind, ways);
    return wf_collective_time(wf_link_slowest(g->problem->links, move->axes), hops,
                              wf_redist_kind_bytes(kind, ways, shard_bytes_of_state(g, from),
                                                   shard_bytes_of_state(g, &move->to)));
}

/* ---- one axis ---- */

/* A sum of maxima is not a maximum of sums: one reduction is finished before another starts. */
static bool may_become_partial(const struct wf_redist_graph *g, const struct wf_redist_state *s,
                               int axis)
{
    for (int a = 0; a < g->n_axes; a++)
        if (a != axis && is_reduction_unfinished(g, s, a)) return false;
    return true;
}

bool wf_redist_graph_axis_move(const struct wf_redist_graph *g, const struct wf_redist_state *s,
                               int axis, int place, struct wf_redist_move *move)
{
    const weft_placement *now = wf_redist_state_placement(g, s, axis), *to = &g->kinds[axis][place];
    enum wf_redist_kind kind;

    if (s->place[axis] == place ||
        (wf_is_shard_or_strided(*now) && !is_last_axis_of_dim(g, s, axis)))
        return false;
    if (is_axis_partial(g, s, axis) && !is_reduction_unfinished(g, s, axis)) return false;
    kind = wf_redist_kind_of(*now, *to);
    if (weft_is_partial(*to) && (wf_redist_kinds[kind].passes || !may_become_partial(g, s, axis)))
        return false; /* a collective leads to replicated, which is another move */
    move->kind = (uint8_t)kind;
    move->axes = (uint8_t)(1u << axis);
    move->to = *s;
    set_axis_place(g, &move->to, axis, place);
    move->cost = cost_of_move(g, s, move);
    return true;
}

/* ---- several axes together ---- */

/* What all axes of the mask would do alike: LABEL when they would not. */
static enum wf_redist_kind kind_of_merged_move(const struct wf_redist_graph *g,
                                               const struct wf_redist_state *s, unsigned axes)
{
    int first = __builtin_ctz(axes), count = __builtin_popcount(axes);
    const weft_placement *now = wf_redist_state_placement(g, s, first),
                         *to = &g->kinds[first][g->to.place[first]];
    enum wf_redist_kind kind;

    for (unsigned left = axes; left; left &= left - 1) {
        int a = __builtin_ctz(left);
        const weft_placement *at = wf_redist_state_placement(g, s, a);

        if (weft_is_partial(*now) ? !is_reduction_unfinished(g, s, a)
                                  : !wf_is_shard_or_strided(*at))
            return WF_REDIST_LABEL;
        if (!weft_placement_equal(*at, *now) &&
            !(weft_is_partial(*now) && wf_partials_add_terms(*now, *at)))
            return WF_REDIST_LABEL;
        if (!weft_placement_equal(g->kinds[a][g->to.place[a]], *to)) return WF_REDIST_LABEL;
        if (wf_is_shard_or_strided(*at) && s->turn[a] + count < count_axes_of_dim(g, s, now->dim))
            return WF_REDIST_LABEL;
    }
    if (weft_is_partial(*to) && !weft_is_partial(*now)) return WF_REDIST_LABEL;
    kind = wf_redist_kind_of(*now, *to);
    return wf_redist_kinds[kind].merges ? kind : WF_REDIST_LABEL;
}

/* Enter the target's dim in the order of the target. */
static void shard_axes_in_target_order(const struct wf_redist_graph *g, struct wf_redist_state *s,
                                       unsigned axes)
{
    for (unsigned left = axes; left; left &= left - 1) {
        int a = __builtin_ctz(left);

        s->place[a] = WF_AT_R;
        s->turn[a] = 0;
    }
    for (int turn = 0; turn < g->n_axes; turn++)
        for (int a = 0; a < g->n_axes; a++)
            if (axes >> a & 1 && g->to.turn[a] == turn) set_axis_place(g, s, a, g->to.place[a]);
}

static bool move_of_several_axes(const struct wf_redist_graph *g, const struct wf_redist_state *s,
                                 unsigned axes, struct wf_redist_move *move)
{
    enum wf_redist_kind kind = kind_of_merged_move(g, s, axes);

    if (kind == WF_REDIST_LABEL) return false;
    move->kind = (uint8_t)kind;
    move->axes = (uint8_t)axes;
    move->to = *s;
    if (kind == WF_REDIST_REDUCE_SCATTER) {
        shard_axes_in_target_order(g, &move->to, axes);
    } else {
        for (int a = 0; a < g->n_axes; a++)
            if (axes >> a & 1) move->to.place[a] = WF_AT_R, move->to.turn[a] = 0;
    }
    move->cost = cost_of_move(g, s, move);
    return true;
}

/* ---- exchange ---- */

/* The target's shards, but partial axes stay as they are. */
static struct wf_redist_state target_without_reductions(const struct wf_redist_graph *g,
                                                        const struct wf_redist_state *s)
{
    struct wf_redist_state to = *s;

    for (int a = 0; a < g->n_axes; a++)
        if (!is_axis_partial(g, s, a)) to.place[a] = WF_AT_R, to.turn[a] = 0;
    for (int turn = 0; turn < g->n_axes; turn++)
        for (int a = 0; a < g->n_axes; a++)
            if (!is_axis_partial(g, s, a) && g->to.turn[a] == turn &&
                wf_is_shard_or_strided(g->kinds[a][g->to.place[a]]))
                set_axis_place(g, &to, a, g->to.place[a]);
    return to;
}

/* Neither it nor an axis before it in its list changes. */
static bool is_shard_order_unchanged(const struct wf_redist_graph *g,
                                     const struct wf_redist_state *s,
                                     const struct wf_redist_state *to, int axis)
{
    int dim = wf_redist_state_placement(g, s, axis)->dim;

    for (int a = 0; a < g->n_axes; a++)
        if ((axis_cuts_dim(g, s, a, dim) && s->turn[a] <= s->turn[axis]) ||
            (axis_cuts_dim(g, to, a, dim) && to->turn[a] <= s->turn[axis]))
            if (s->place[a] != to->place[a] || s->turn[a] != to->turn[a]) return false;
    return true;
}

/* From shards to shards over all axes whose ranks then hold other elements. Where axes only are
 * gathered or chunked there are moves of their own. */
static bool all_to_all_move(const struct wf_redist_graph *g, const struct wf_redist_state *s,
                            struct wf_redist_move *move)
{
    bool gathers = true, chunks = true;
    unsigned axes = 0;

    move->to = target_without_reductions(g, s);
    for (int a = 0; a < g->n_axes; a++) {
        bool was = wf_is_shard_or_strided(*wf_redist_state_placement(g, s, a)),
             is = wf_is_shard_or_strided(*wf_redist_state_placement(g, &move->to, a));

        if ((!was && !is) || (was && is && is_shard_order_unchanged(g, s, &move->to, a))) continue;
        axes |= 1u << a;
        gathers &= !is;
        chunks &= !was;
    }
    if (gathers || chunks || (axes & (axes - 1)) == 0) return false;
    move->kind = WF_REDIST_ALL_TO_ALL;
    move->axes = (uint8_t)axes;
    move->cost = cost_of_move(g, s, move);
    return true;
}

/* ---- all moves ---- */

int wf_redist_graph_list_moves(const struct wf_redist_graph *g, const struct wf_redist_state *s,
                               struct wf_redist_move *moves)
{
    int n = 0;

    for (int a = 0; a < g->n_axes; a++) {
        if (wf_redist_graph_axis_move(g, s, a, g->to.place[a], &moves[n])) n++;
        if (g->to.place[a] != WF_AT_R && wf_redist_graph_axis_move(g, s, a, WF_AT_R, &moves[n]))
            n++;
    }
    for (unsigned axes = 3; axes < 1u << g->n_axes; axes++)
        if (g->problem->flattened >> axes & 1 && move_of_several_axes(g, s, axes, &moves[n])) n++;
    if (all_to_all_move(g, s, &moves[n])) n++;
    return n;
}

/* ---- the ends ---- */

static int find_place_of_placement(const struct wf_redist_graph *g, int axis, weft_placement p)
{
    for (int place = 0; place < WF_AT_TO; place++)
        if (weft_placement_equal(g->kinds[axis][place], p)) return place;
    return WF_AT_TO;
}

/* A shard's turn, counted anew: axes of one rank have none. */
static uint8_t shard_order_of_axis(const struct wf_redist_problem *p,
                                   const weft_placement *placements, int axis)
{
    int axes[WEFT_MAX_AXES], turn = 0, n;

    if (p->sizes[axis] == 1 || !wf_is_shard_or_strided(placements[axis])) return 0;
    n = wf_axes_sharding_dim(axes, placements[axis].dim, placements, p->n_axes);
    for (int i = 0; i < n && axes[i] != axis; i++) turn += p->sizes[axes[i]] > 1;
    return (uint8_t)turn;
}

static weft_placement drop_shard_order(weft_placement p)
{
    p.order = 0;
    return p;
}

void wf_redist_graph_init(struct wf_redist_graph *g, const struct wf_redist_problem *problem)
{
    memset(g, 0, sizeof *g);
    g->problem = problem;
    g->n_axes = problem->n_axes;
    g->bytes = (double)problem->element;
    for (int d = 0; d < problem->ndim; d++) g->bytes *= (double)problem->global[d];
    for (int a = 0; a < g->n_axes; a++) {
        if (problem->sizes[a] == 1) continue;
        g->kinds[a][WF_AT_FROM] = drop_shard_order(problem->from[a]);
        g->kinds[a][WF_AT_TO] = drop_shard_order(problem->to[a]);
        g->from.place[a] = (uint8_t)find_place_of_placement(g, a, g->kinds[a][WF_AT_FROM]);
        g->to.place[a] = (uint8_t)find_place_of_placement(g, a, g->kinds[a][WF_AT_TO]);
        g->from.turn[a] = shard_order_of_axis(problem, problem->from, a);
        g->to.turn[a] = shard_order_of_axis(problem, problem->to, a);
    }
}

void wf_redist_graph_move_to_step(const struct wf_redist_graph *g,
                                  const struct wf_redist_state *from,
                                  const struct wf_redist_move *move, struct wf_redist_step *step)
{
    memset(step, 0, sizeof *step);
    step->kind = move->kind;
    step->axes = move->axes;
    for (int a = 0; a < g->n_axes; a++) {
        step->from[a] = *wf_redist_state_placement(g, from, a);
        step->from[a].order = from->turn[a];
        step->to[a] = *wf_redist_state_placement(g, &move->to, a);
        step->to[a].order = move->to.turn[a];
    }
}
