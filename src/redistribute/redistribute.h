/*
 * redistribute.h: from one layout to another, plan then run (docs/concepts/redistribute.md).
 *
 * A plan is pure: two layouts in, a list of steps out, and the copies and collectives that carry
 * them out on this rank. It is made once per pair of layouts and run often.
 */
#pragma once

#include "device/pool.h"
#include "placement/layout.h"
#include "redistribute/link_cost.h"
#include "redistribute/transitions.h"
#include <weft/tensor.h>

/* Placements of all axes before and after the step; each shard has its order, 0 first, among the
 * axes that shard its dim. */
struct wf_redist_step {
    uint8_t kind;
    uint8_t axes; /* bit a: the ranks along axis a take part */
    weft_placement from[WEFT_MAX_AXES], to[WEFT_MAX_AXES];
    int64_t bytes; /* that this rank sends */
};

/** An axis is un-sharded at most once, and then needs at most two steps to its target. */
enum { WF_REDIST_MAX_STEPS = 3 * WEFT_MAX_AXES };

/** All that a planner reads. */
struct wf_redist_problem {
    int n_axes, ndim;
    const int *sizes;
    const int64_t *global;
    size_t element; /* bytes */
    const weft_placement *from, *to;
    struct wf_link links[WEFT_MAX_AXES];
    uint64_t flattened; /* bit m: collectives over the axes of mask m together are wanted */
};

/** A planner: the steps, and what they should take in microseconds; returns their number. Pure.
 *  Changes that move nothing have no step. */
typedef int wf_redist_planner(struct wf_redist_step *steps, const struct wf_redist_problem *problem,
                              double *cost);

/** The library's: the shortest path over states (search.c). */
wf_redist_planner wf_redist_find_steps;

/** The problem of two layouts of one mesh and shape. */
struct wf_redist_problem wf_redist_problem(const struct wf_layout *from, const weft_placement *to);

_Static_assert(1 << WEFT_MAX_AXES <= 64, "a set of axes is a bit of `flattened`");

struct wf_redist_program;

struct wf_redist_plan {
    struct wf_layout *from, *to;
    int n_steps; /* 0: no element moves, the caller shares the source's storage */
    struct wf_redist_step steps[WF_REDIST_MAX_STEPS];
    double cost;                       /* microseconds, by the model */
    struct wf_redist_program *program; /* what run does; NULL when n_steps is 0 */
};

/**
 * Both layouts have the same mesh, shape and dtype; `from` may be strided, `to` is row-major.
 * The plan retains them. gives: wf_redist_plan_free
 * fails: WEFT_ERR_DTYPE when a reduction is needed that the dtype has not
 */
struct wf_redist_plan *wf_redist_plan_new(struct wf_layout *from, struct wf_layout *to);
/** The same by another planner: for tests, which compare. */
struct wf_redist_plan *wf_redist_plan_with_planner(wf_redist_planner *planner,
                                                   struct wf_layout *from, struct wf_layout *to);
void wf_redist_plan_free(struct wf_redist_plan *plan);

/**
 * Carry out a plan with steps. `src` is the first element of this rank's shard, laid out as
 * plan->from says. Collective over the axes of the steps that are collectives.
 * gives: a block with this rank's shard by plan->to, counted as activations, or as communication
 *        when it is partial
 */
struct wf_block *wf_redist_run(const struct wf_redist_plan *plan, const void *src);

/** The same for a tensor without elements: observers hear of each collective, and the blocks, the
 *  result too, are planned ones. Needs no communicator. */
struct wf_block *wf_redist_simulate(const struct wf_redist_plan *plan);

/** "tp: S(0)->R all-gather 96 B; dp: R->S(1) chunk"; returns the length as snprintf does. */
int wf_redist_print(const struct wf_redist_plan *plan, char *text, size_t bytes);

/** Say once per thread where collectives one after another would be one if the user had flattened
 *  their axes. */
void wf_redist_hint_flatten_mesh(const struct wf_redist_plan *plan);

/** Bytes that each rank sends in a step, were all shards of one size: the same on all ranks. */
double wf_redist_step_bytes(const struct wf_layout *layout, const struct wf_redist_step *step);

/** Bytes that this rank sends when the plan runs. */
int64_t wf_redist_bytes_sent(const struct wf_redist_plan *plan);

/**
 * Microseconds that the cheapest plan should take, without making it; from placements alone, so not
 * 0 where different placements happen to hold the same elements. Infinite for a target
 * that is partial where the source is a shard or another reduction: no op asks for that.
 */
double wf_redist_estimated_time(const struct wf_layout *from, const weft_placement *to);

/**
 * Estimate of the bytes that each rank sends to change one axis of `layout`. The same on all
 * ranks; no allocation, a few ns: for choosing among strategies. WF_REDIST_NEVER for a shard that
 * would become partial.
 */
int64_t wf_redist_axis_bytes(const struct wf_layout *layout, int axis, weft_placement from,
                             weft_placement to);
#define WF_REDIST_NEVER (INT64_MAX / 64)
