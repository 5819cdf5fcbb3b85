/* run.h: a plan that is being run, action by action: at once, or started and waited for later. */
#pragma once

#include "comm/comm.h"
#include "redistribute/program.h"

struct wf_redist_run {
    const struct wf_redist_plan *plan;
    weft_device device; /* of src and of the blocks */
    const void *src;
    struct wf_block *blocks[WF_REDIST_MAX_BUFFERS];
};

/** The block that an action makes, if it makes one. */
void wf_redist_alloc_action_block(struct wf_redist_run *run, const struct wf_redist_action *action);
/** Carry out the action, whose block exists; then release the blocks that no later action uses. */
void wf_redist_run_action(const struct wf_redist_run *run, const struct wf_redist_action *action);
void wf_redist_release_dead_blocks(struct wf_redist_run *run,
                                   const struct wf_redist_action *action);

/** The collective of an action, ready to be started. */
struct wf_coll wf_redist_action_collective(const struct wf_redist_run *run,
                                           const struct wf_redist_action *action);

/** The result, no longer counted as communication unless it is partial. */
struct wf_block *wf_redist_run_result(const struct wf_redist_run *run);
