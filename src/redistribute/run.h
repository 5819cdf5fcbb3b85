/* run.h: a plan on its way, action by action; for running it now, or in two halves. */
#pragma once

#include "comm/comm.h"
#include "redistribute/program.h"

struct wf_redist_run {
    const struct wf_redist_plan *plan;
    const void *src;
    struct wf_block *blocks[WF_REDIST_MAX_BUFFERS];
};

/** The block that an action makes, if it makes one. */
void wf_redist_alloc_action_block(struct wf_redist_run *run, const struct wf_redist_action *action);
/** What the action does, once the block is there; then the blocks that nobody needs any more. */
void wf_redist_run_action(const struct wf_redist_run *run, const struct wf_redist_action *action);
void wf_redist_release_dead_blocks(struct wf_redist_run *run,
                                   const struct wf_redist_action *action);

/** The collective of an action, ready to begin. */
struct wf_coll wf_redist_action_collective(const struct wf_redist_run *run,
                                           const struct wf_redist_action *action);

/** The result, no longer counted as communication unless it is a pending reduction. */
struct wf_block *wf_redist_run_result(const struct wf_redist_run *run);
