/*
 * style.h: a style resolved for one module, and the general way of distributing one.
 */
#pragma once

#include <weft/parallel.h>

#include "nn/module.h"

/** Everything a style does to one module, as placements on one mesh axis. */
struct wf_style_use {
    weft_style_kind kind;
    weft_placement weight, bias; /* of the parameters */
    weft_placement declared;     /* what a plain first input is a part of */
    weft_placement wants;        /* what the first input becomes */
    weft_placement output;       /* what the output becomes */
    bool keep_distributed;
};

/** "colwise", "rowwise", "loss". */
const char *wf_style_name(weft_style_kind kind);

/**
 * Look the style's row up and fill in the module's dims and the user's options.
 * fails: WEFT_ERR_ARG naming style, type and path when the style has no row for the module
 */
weft_status wf_style_resolve(struct wf_style_use *use, const weft_module *m, weft_style style);

/** Distribute the parameters and install the hooks of a resolved style. */
weft_status wf_style_apply(weft_module *m, weft_mesh *mesh, const struct wf_style_use *use);

/** A module's own share of weft_distribute_module; `release` frees the payload with the last hook.
 */
struct wf_distribution {
    weft_partition_function *partition;
    weft_input_function *input;
    weft_output_function *output;
    void *payload;
    void (*release)(void *payload);
};
weft_status wf_distribute(weft_module *m, weft_mesh *mesh, const struct wf_distribution *how);

/** Replace a plain parameter by its distributed form; whether it wants a gradient survives. */
weft_status wf_distribute_parameter(weft_module *m, int index, weft_mesh *mesh,
                                    const weft_placement *placements);

/** How a tree was, to return to when a change of several steps fails on the way. */
struct wf_snapshot;
struct wf_snapshot *wf_snapshot_take(weft_module *root);
/**
 * Parameters that were one tensor stay one, where their new placements agree.
 * fails: WEFT_ERR_LAYOUT naming both when they do not
 */
weft_status wf_snapshot_keep_ties(const struct wf_snapshot *snapshot);
/** End the snapshot: with `restore` the tree is as it was, else it stays as it is now. */
void wf_snapshot_drop(struct wf_snapshot *snapshot, bool restore);

/** A module that a line of a plan matches. */
struct wf_match {
    weft_module *module;
    const weft_plan *line;
};

/**
 * All matches of a plan, in its order; wf_malloc'ed, `*count` of them.
 * fails: WEFT_ERR_NOT_FOUND for a pattern without match, WEFT_ERR_STATE for a module matched twice
 */
weft_status wf_plan_match(struct wf_match **matches, int *count, weft_module *root,
                          const weft_plan *plan);
