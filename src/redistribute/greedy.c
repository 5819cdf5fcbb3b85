/*
 * greedy.c: the planner that takes one axis at a time, as PyTorch's does: the
 * yardstick that the cheapest plan is never dearer than.
 *
 * An axis may enter its target's list when that list has come so far; of the axes that may change
 * the one whose step shrinks the data most goes first (the order of enum wf_redist_kind). When none
 * may, the last axis of a list that has gone wrong is gathered, or a reduction is finished. A list
 * that is right is not touched, so the loop ends.
 */
#include "base/error.h"
#include "redistribute/graph.h"

/* Every axis that cuts `dim` is where the target has it. */
static bool is_dim_as_in_target(const struct wf_redist_graph *g, const struct wf_redist_state *s,
                                int dim)
{
    for (int a = 0; a < g->n_axes; a++)
        if (weft_shards(*wf_redist_state_placement(g, s, a), dim) &&
            (s->place[a] != g->to.place[a] || s->turn[a] != g->to.turn[a]))
            return false;
    return true;
}

/* A move to the target that does not have to be undone. */
static bool is_final_move(const struct wf_redist_graph *g, const struct wf_redist_move *move,
                          int axis)
{
    const weft_placement *to = wf_redist_state_placement(g, &move->to, axis);

    return !wf_is_shard_or_strided(*to) || is_dim_as_in_target(g, &move->to, to->dim);
}

static bool choose_final_move(const struct wf_redist_graph *g, const struct wf_redist_state *s,
                              struct wf_redist_move *best)
{
    bool any = false;

    for (int a = 0; a < g->n_axes; a++) {
        struct wf_redist_move move;

        if (!wf_redist_graph_axis_move(g, s, a, g->to.place[a], &move) ||
            !is_final_move(g, &move, a))
            continue;
        if (!any || move.kind < best->kind) *best = move;
        any = true;
    }
    return any;
}

/* The innermost axis of a list that is wrong, or a pending one that cannot go to its target. */
static void choose_unblocking_move(const struct wf_redist_graph *g, const struct wf_redist_state *s,
                                   struct wf_redist_move *move)
{
    for (int a = g->n_axes - 1; a >= 0; a--) {
        const weft_placement *now = wf_redist_state_placement(g, s, a);

        if (wf_is_shard_or_strided(*now) && is_dim_as_in_target(g, s, now->dim) &&
            s->place[a] == g->to.place[a])
            continue;
        if (wf_redist_graph_axis_move(g, s, a, WF_AT_R, move)) return;
    }
    WF_DIE("redistribute: the greedy planner has no step left");
}

int wf_redist_greedy_steps(const struct wf_redist_graph *g, struct wf_redist_step *steps,
                           double *cost)
{
    struct wf_redist_state now = g->from;
    int n = 0;

    *cost = 0;
    while (!wf_redist_state_equal(&now, &g->to)) {
        struct wf_redist_move move;

        if (!choose_final_move(g, &now, &move)) choose_unblocking_move(g, &now, &move);
        *cost += move.cost;
        if (move.kind != WF_REDIST_LABEL) {
            WF_ASSERT(n < WF_REDIST_MAX_STEPS);
            wf_redist_graph_move_to_step(g, &now, &move, &steps[n++]);
        }
        now = move.to;
    }
    return n;
}
