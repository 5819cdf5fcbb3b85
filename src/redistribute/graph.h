/*
 * graph.h: states of a redistribution and the moves between them; what planners walk.
 *
 * NOTE [turns] The axes that shard one dim cut it one after another, each what the one before it
 * left: the dim has a list of axes. So only the last axis of a list can leave it, an axis that
 * enters becomes the last, and nothing else needs to be known of uneven, nested or strided shards.
 *
 * Each axis is in its source placement, replicated, or in its target placement. Axes of one rank
 * hold everything whatever their placement says: they are replicated throughout.
 */
#pragma once

#include "redistribute/redistribute.h"

enum { WF_AT_R, WF_AT_FROM, WF_AT_TO, WF_PLACES };

struct wf_redist_state {
    uint8_t place[WEFT_MAX_AXES];
    uint8_t turn[WEFT_MAX_AXES]; /* of shards; else 0 */
};

struct wf_redist_move {
    uint8_t kind; /* enum wf_redist_kind */
    uint8_t axes;
    double cost;
    struct wf_redist_state to;
};

struct wf_redist_graph {
    const struct wf_redist_problem *problem;
    int n_axes;
    double bytes; /* of the whole tensor */
    weft_placement kinds[WEFT_MAX_AXES][WF_PLACES];
    struct wf_redist_state from, to;
};

/** Per axis two, one exchange, and at most one per set of several axes. */
enum { WF_REDIST_MAX_MOVES = 2 * WEFT_MAX_AXES + 1 + (1 << WEFT_MAX_AXES) };

void wf_redist_graph_init(struct wf_redist_graph *graph, const struct wf_redist_problem *problem);

/** What can be done next; returns the number of moves. */
int wf_redist_graph_list_moves(const struct wf_redist_graph *graph,
                               const struct wf_redist_state *state, struct wf_redist_move *moves);

/** The move of one axis to a place, if there is one. */
bool wf_redist_graph_axis_move(const struct wf_redist_graph *graph,
                               const struct wf_redist_state *state, int axis, int place,
                               struct wf_redist_move *move);

static inline const weft_placement *wf_redist_state_placement(const struct wf_redist_graph *graph,
                                                              const struct wf_redist_state *state,
                                                              int axis)
{
    return &graph->kinds[axis][state->place[axis]];
}

static inline bool wf_redist_state_equal(const struct wf_redist_state *a,
                                         const struct wf_redist_state *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/** Write a move down as a step. */
void wf_redist_graph_move_to_step(const struct wf_redist_graph *graph,
                                  const struct wf_redist_state *from,
                                  const struct wf_redist_move *move, struct wf_redist_step *step);
