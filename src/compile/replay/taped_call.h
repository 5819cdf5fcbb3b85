/*
 * taped_call.h: a call of a compiled function as one node of the tape.
 *
 * The call that captures runs the function on a tape of its own, whose leaves are the inputs and
 * the parameters. When backward reaches the node for the first time, the walk over that tape is
 * recorded as the backward list (first_backward.c); later calls replay it.
 */
#pragma once

#include "compile/replay/variant.h"

/** Results of a replay that require gradients get the call's node, before the writes of the list
 * are counted. `run` is the forward's; what backward reads is retained. */
struct wf_taped_call *wf_taped_call_record(struct wf_variant *variant,
                                           const struct wf_program_run *run, weft_tensor *const *in,
                                           weft_tensor **out);

/** They are counted now: what the list has written itself, backward reads as it is. What it has
 * read only may be the same bytes as what it has written; backward refuses that, as after the ops.
 */
void wf_taped_call_refresh_written_versions(struct wf_taped_call *call);

/** The same for the call that captured: its results are replaced. Takes over `captured`. `undo`: of
 * a warm-up, else NULL. */
void wf_taped_call_record_captured(struct wf_variant *variant, struct wf_captured_forward *captured,
                                   weft_tensor *const *in, weft_tensor **out, struct wf_undo *undo);

/** Record the backward of the warm-up that gave these results, without gradients for anybody.
 * Nothing where none of them has one. */
weft_status wf_taped_call_warm_up(weft_tensor *const *results, int n);

/** What a run may do at the deliver nodes of the backward list, which is ready to run. */
void wf_variant_plan_deliveries(struct wf_variant *variant);

/** Calls whose tape is gone, kept for the next ones. */
void wf_taped_calls_free(struct wf_taped_call *call);

/* ---- for the files of a taped call ---- */

/** What is between a call and a leaf, by target or external tensor. */
struct wf_leaf_progress {
    bool counts_as_outstanding; /* the call does, at the leaf (wf_grad_state.outstanding_calls) */
    bool is_delivered;          /* in the backward that runs it has this term, */
    bool hook_notified;         /* and its hook was told so (wf_leaf_notify_if_complete) */
};

/** A call whose results require gradients, until its tape is gone. */
struct wf_taped_call {
    struct wf_taped_call *next; /* among the idle ones */
    struct wf_variant *variant;
    weft_tensor **grads; /* of the results, as backward brings them; one reference each */
    /* of the inputs that are reached, where they are too many for one node: from its vjp until
       those of the input nodes, one reference each */
    weft_tensor *input_grads[WF_COMPILED_INPUTS];
    struct wf_leaf_progress *leaves; /* while leaves count the call */
    int leaf_room;
    int refs; /* of the nodes */
    /* a replay: by storage of the backward list, where forward storages lie */
    char **base;
    struct wf_block **blocks;
    uint32_t *versions;
    struct wf_draw_start *starts; /* where the forward's draws began */
    /* the call that captured */
    struct wf_captured_forward captured;
    bool is_capture;
    struct wf_undo *undo; /* of a warm-up, whose gradients go nowhere; NULL: none */
    enum { OUTSTANDING_NOWHERE, OUTSTANDING_AT_EXTERNALS, OUTSTANDING_AT_TARGETS } outstanding_at;
};

/** A handle of the open scope to the same bytes. */
weft_tensor *wf_taped_call_handle_of(const weft_tensor *t);
/** Zeros for results that backward did not come from: so one backward list serves every case. */
weft_status wf_taped_call_add_missing_gradients(struct wf_taped_call *call);
/** Room for the blocks that the backward list reads. */
void wf_taped_call_make_room_for_blocks(struct wf_taped_call *call);

/** Leaves count this call's backward among what is still to add to their gradients / no longer do,
 * without it / no longer do, and those that are complete are notified (leaf_gradients.c). */
void wf_taped_call_mark_outstanding(struct wf_taped_call *call);
/** A backward of the call begins: the first one, one after a failure, or one of a tape that was
 * retained. */
void wf_taped_call_begin_backward(struct wf_taped_call *call);
void wf_taped_call_clear_outstanding(struct wf_taped_call *call);
weft_status wf_taped_call_notify_leaves(struct wf_taped_call *call);

/** Refuses a backward that some leaf's hook would refuse, before anything has changed. */
weft_status wf_taped_call_check_hooks(const struct wf_taped_call *call);

/** What a run of the backward list does at its deliver nodes: `deliver` of wf_program_run, with
 * this as payload. */
struct wf_backward_run {
    struct wf_taped_call *call;
    struct wf_program_run *run;
    weft_status status;
};
void wf_taped_call_deliver_in_run(int result, void *backward_run);

/** Result i of the backward list in this run, as a handle of the open scope. */
weft_tensor *wf_taped_call_backward_result(const struct wf_taped_call *call,
                                           const struct wf_program_run *run, int i);

/** The backward that is recorded, of the call that captured (first_backward.c). */
weft_status wf_taped_call_capture_backward(struct wf_taped_call *call,
                                           const struct wf_tape_node *node, weft_tensor **in_grads);

/** Add a term of a gradient to its leaf, or to an input of the call's node: the last one of an
 * input stays in in_grads, or in the call's input_grads. */
weft_status wf_taped_call_add_term(struct wf_taped_call *call,
                                   const struct wf_gradient_target *target, weft_tensor *grad,
                                   const struct wf_tape_node *node, weft_tensor **in_grads);
