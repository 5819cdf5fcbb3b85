/*
 * style.h: a style resolved for one module, and the general way of distributing one.
 */
#pragma once

#include <weft/parallel.h>

#include "nn/module.h"

/** How one input or output of a module is converted. */
struct wf_boundary {
    bool taken;              /* false: it is handed through as it is */
    bool moved;              /* false: `wants` says nothing, it keeps its layout */
    weft_placement declared; /* the placement of a plain tensor */
    weft_placement wants;    /* what it is redistributed to */
    bool wide; /* where the module is in 16 bits, its product comes and its gradient goes in f32 */
};

/** The communication of an operation itself, beside redistributions of its inputs and output. */
enum wf_style_own_communication {
    WF_OWN_NOTHING,
    WF_OWN_SUMS,   /* forward, the largest logit and the sums of a loss: 2 all-reduces */
    WF_OWN_GATHER, /* backward, its parameter's gradient: an all-gather */
    WF_OWN_LATER   /* nothing now: its parameters' gradients wait for weft_reduce_gradients */
};

/** Everything a style does to one module, as placements on one mesh axis. */
struct wf_resolved_style {
    weft_style_kind kind;
    const weft_style_functions *functions;
    void *payload;               /* of a custom style */
    weft_placement weight, bias; /* of the parameters */
    weft_placement shared;       /* of those that features->shared_from names */
    int64_t copies;              /* how many groups share each of their entries; 0: sharded alike */
    struct wf_boundary inputs[WEFT_MODULE_INPUTS];
    int n_inputs; /* a call must have so many; 0: any number */
    struct wf_boundary outputs[WEFT_MODULE_OUTPUTS];
    int n_outputs;           /* 1 for rows; of prepare-module 0: they are left alone */
    weft_placement gives;    /* what the op makes, before the output is moved */
    weft_placement gradient; /* what the op's backward makes of the first input's gradient */
    bool has_gradient;       /* the first input has one that the row knows */
    bool local_inputs;       /* inputs are handed on as plain tensors */
    bool keep_distributed;   /* the output is not */
    enum wf_style_own_communication own;
    int source; /* the rank whose elements the parameters get; -1: each rank keeps its own */
};

/** "colwise", "rowwise", ... */
const char *wf_style_name(weft_style style);

/** The kind with this name (`length` bytes); WEFT_STYLES when there is none. */
weft_style_kind wf_style_kind_by_name(const char *name, size_t length);

/**
 * Look the style's row up and fill in the module's dims and the user's options, for so many ranks.
 * fails: WEFT_ERR_ARG naming style, type and path when the style has no row for the module, and
 *        for options that cannot be read or that the style does not have
 */
weft_status wf_style_resolve(struct wf_resolved_style *use, const weft_module *m, weft_style style,
                             int ways);

/** Resolve / apply the style for parameters that split heads share. */
void wf_style_resolve_shared_heads(struct wf_resolved_style *use, const weft_module *m, int ways);
weft_status wf_style_apply_shared_heads(weft_module *m, weft_mesh *mesh,
                                        const struct wf_resolved_style *use);

/** wf_style_resolve for prepare-module. */
weft_status wf_style_resolve_prepare(struct wf_resolved_style *use, const weft_module *m,
                                     weft_style_options options);

/** Distribute the parameters and install the hooks of a resolved style. */
weft_status wf_style_apply(weft_module *m, weft_mesh *mesh, const struct wf_resolved_style *use);

/** The functions of the styles that are rows, and of prepare-module; payload: wf_resolved_style. */
extern const weft_style_functions wf_row_functions, wf_prepare_functions;

/* ---- layouts as text ---- */

/** A list of layouts, one per tensor, "none" for one that is left alone. */
struct wf_layout_list {
    int count;
    bool given[WEFT_MODULE_INPUTS];
    weft_placement at[WEFT_MODULE_INPUTS];
};

/** Read "S(0), none"; `field` is for messages. fails: WEFT_ERR_ARG */
weft_status wf_layout_list_parse(struct wf_layout_list *layouts, const char *text,
                                 const char *field);

/**
 * Convert an input or output: a plain tensor becomes a shard of the declared layout, a distributed
 * one keeps its own layout (a wrong declaration cannot spoil it), and both are then redistributed
 * to the wanted one. gives: a distributed tensor; t itself when `taken` is false
 */
weft_tensor *wf_convert_at_boundary(const weft_module *m, weft_tensor *t, weft_mesh *mesh,
                                    const struct wf_boundary *boundary);

/** wf_convert_at_boundary over all inputs of a call. */
weft_status wf_convert_inputs_at_boundary(weft_module *m, weft_tensor **inputs, int n,
                                          weft_mesh *mesh, const struct wf_resolved_style *use);

/* ---- distributing ---- */

/** A module's own share of weft_distribute_module; `release` frees the payload with the last hook.
 */
struct wf_module_distribution {
    weft_partition_function *partition;
    weft_input_function *input;
    weft_output_function *output;
    weft_outputs_function *outputs; /* as in weft_style_functions */
    bool hooks_only;                /* parameters stay as they are */
    int source; /* as weft_distribute_tensor, of those that `partition` leaves plain */
    void *payload;
    void (*release)(void *payload);
};
weft_status wf_distribute_module_with(weft_module *m, weft_mesh *mesh,
                                      const struct wf_module_distribution *how);

/** What a style is applied to: the module, and the default mesh where `*mesh` is NULL. fails:
 *  WEFT_ERR_ARG when one is missing, or what made it so */
weft_status wf_check_module_and_mesh(const weft_module *module, weft_mesh **mesh, const char *who);

/** Replace a plain parameter by a distributed one, as weft_distribute_tensor; whether it wants a
 *  gradient survives. */
weft_status wf_distribute_parameter(weft_module *m, int index, weft_mesh *mesh,
                                    const weft_placement *placements, int source);

/** For every module with a distributed parameter; reads the parameter's layout at each call. */
extern const struct wf_distributed_callbacks wf_distributed_callbacks;

/** How a tree was, to return to when a change of several steps fails on the way. */
struct wf_module_snapshot;
struct wf_module_snapshot *wf_module_snapshot_take(weft_module *m);
/**
 * Parameters that were one tensor stay one, where their new placements agree.
 * fails: WEFT_ERR_LAYOUT naming both when they do not; for the snapshot of a root, WEFT_ERR_STATE
 *        where another tree has the tensor too
 */
weft_status wf_module_snapshot_restore_ties(const struct wf_module_snapshot *snapshot);
/** End the snapshot: with `restore` the tree is as it was, else it stays as it is now. */
void wf_module_snapshot_end(struct wf_module_snapshot *snapshot, bool restore);

/* ---- plans ---- */

/** A module that a line of a plan matches, and what the line's style does to it. */
struct wf_style_match {
    weft_module *module;
    const weft_plan *line;
    struct wf_resolved_style use; /* from wf_style_plan_resolve on */
};

/**
 * All matches of a plan, in its order; wf_malloc'ed, `*count` of them. A pattern without match is a
 * warning (unless its style is optional), with `strict` an error.
 * fails: WEFT_ERR_NOT_FOUND for a pattern without match, WEFT_ERR_STATE for a module matched twice
 */
weft_status wf_style_plan_match(struct wf_style_match **matches, int *count, weft_module *root,
                                const weft_plan *plan, bool strict);

/** Resolve the styles of all matches, for so many ranks. fails: as wf_style_resolve, for the first
 */
weft_status wf_style_plan_resolve(struct wf_style_match *matches, int count, int ways);

/** True when the module or one of its parameters is spread over a mesh. */
bool wf_module_is_distributed(const weft_module *m);

/** Apply resolved styles, one after another; on failure the tree is as it was. */
weft_status wf_style_plan_apply(weft_module *root, weft_mesh *mesh,
                                const struct wf_style_match *matches, int count);

/** Styles work along one mesh axis. fails: WEFT_ERR_ARG */
weft_status wf_style_plan_check_mesh(const weft_mesh *mesh);

/** Put "WHOSE: " before the failure that was just recorded; its status. */
weft_status wf_error_add_prefix(const char *whose);

/** Put "NAME line N: " before the failure that was just recorded (line 0: leave it); its status. */
weft_status wf_error_add_plan_line(const char *name, int line);
