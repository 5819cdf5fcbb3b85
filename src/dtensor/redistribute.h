/*
 * redistribute.h: from one layout to another, plan then run (docs/concepts/redistribute.md).
 *
 * A plan is pure: two layouts in, a list of steps out, each on one mesh axis, and the copies and
 * collectives that carry them out on this rank. It is made once per pair of layouts and run often.
 */
#pragma once

#include "device/pool.h"
#include "placement/layout.h"

enum wf_redist_kind {
    WF_REDIST_CHUNK,          /* R -> S: keep this rank's part */
    WF_REDIST_REDUCE_SCATTER, /* P -> S */
    WF_REDIST_ALL_TO_ALL,     /* S(i) -> S(j) */
    WF_REDIST_ALL_REDUCE,     /* P -> R */
    WF_REDIST_ALL_GATHER,     /* S -> R */
    WF_REDIST_EMBED,          /* R -> P, S -> P: the terms of the other ranks change nothing */
    WF_REDIST_KINDS
};

struct wf_redist_step {
    uint8_t kind;
    int8_t axis;
    weft_placement from, to;
};

/** An axis is un-sharded at most once, and then needs at most two steps to its target. */
enum { WF_REDIST_MAX_STEPS = 3 * WEFT_MAX_AXES };

struct wf_redist_program;

struct wf_redist_plan {
    struct wf_layout *from, *to;
    int n_steps; /* 0: no element moves, the caller shares the source's storage */
    struct wf_redist_step steps[WF_REDIST_MAX_STEPS];
    struct wf_redist_program *program; /* what run does; NULL when n_steps is 0 */
};

/**
 * The steps from one list of placements to another; returns their number. Pure.
 *
 * Changes that move nothing have no step: those of axes of size 1, and R -> P of a reduction that
 * equal terms do not change (avg, max, min).
 */
int wf_redist_steps(struct wf_redist_step *steps, int n_axes, const int *sizes,
                    const weft_placement *from, const weft_placement *to);

/**
 * Both layouts have the same mesh, shape and dtype; `from` may be strided, `to` is row-major.
 * The plan retains them. gives: wf_redist_plan_free
 * fails: WEFT_ERR_DTYPE when a reduction is needed that the dtype has not
 */
struct wf_redist_plan *wf_redist_plan_new(struct wf_layout *from, struct wf_layout *to);
void wf_redist_plan_free(struct wf_redist_plan *plan);

/**
 * Carry out a plan with steps. `src` is the first element of this rank's part, laid out as
 * plan->from says. Collective over the axes of the steps that are collectives.
 * gives: a block with this rank's part by plan->to, counted as activations, or as communication
 *        when it is a pending reduction
 */
struct wf_block *wf_redist_run(const struct wf_redist_plan *plan, const void *src);

/** The same for a tensor without elements: observers hear of each collective, and the blocks, the
 *  result too, are planned ones. Needs no communicator. */
struct wf_block *wf_redist_pretend(const struct wf_redist_plan *plan);

/** "tp: S(0)->R all-gather, dp: R->S(1) chunk"; returns the length as snprintf does. */
int wf_redist_print(const struct wf_redist_plan *plan, char *text, size_t bytes);

/** Bytes that this rank sends when the plan runs. */
int64_t wf_redist_bytes(const struct wf_redist_plan *plan);

/**
 * Estimate of the bytes that each rank sends to change one axis of `layout`. The same on all
 * ranks; no allocation, a few ns: for choosing between strategies.
 */
int64_t wf_redist_cost(const struct wf_layout *layout, int axis, weft_placement from,
                       weft_placement to);
