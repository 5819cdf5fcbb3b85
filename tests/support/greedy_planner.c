/*
 * greedy_planner.c: see the header.
 *
 * An axis may enter its target's list when that list has come so far; of the axes that may change
 * the one whose step shrinks the data most goes first (the order of the kinds in transitions.def).
 * When none may, the last axis of a list that has gone wrong is gathered, or a reduction is
 * finished. A list that is right is not touched, so the loop ends.
 */
#include "support/greedy_planner.h"

#include <check.h>

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

/* The innermost axis of a list that is wrong, or a partial one that cannot go to its target. */
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
    ck_abort_msg("the greedy planner has no step left");
}

int wt_greedy_steps(struct wf_redist_step *steps, const struct wf_redist_problem *problem,
                    double *cost)
{
    struct wf_redist_graph graph;
    struct wf_redist_state now;
    int n = 0;

    wf_redist_graph_init(&graph, problem);
    now = graph.from;
    *cost = 0;
    while (!wf_redist_state_equal(&now, &graph.to)) {
        struct wf_redist_move move;

        if (!choose_final_move(&graph, &now, &move)) choose_unblocking_move(&graph, &now, &move);
        *cost += move.cost;
        if (move.kind != WF_REDIST_LABEL) {
            ck_assert_int_lt(n, WF_REDIST_MAX_STEPS);
            wf_redist_graph_move_to_step(&graph, &now, &move, &steps[n++]);
        }
        now = move.to;
    }
    return n;
}
