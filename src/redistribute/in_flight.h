/*
 * in_flight.h: redistributions under way. All but a plan's last collective is done when
 * one starts; that collective goes on by itself, and what follows is local and done by who waits.
 * So ranks may wait at different times, and none can wait for another's waiting.
 */
#pragma once

#include "redistribute/redistribute.h"
#include "tensor/tensor.h"

/** True when the plan communicates, so that it can be under way. */
bool wf_redist_can_run_async(const struct wf_redist_plan *plan);

/**
 * Begin. `source` is kept until the end, and `owner`, which keeps the plan, given to `release`.
 * gives: the block that will hold the result, one reference for the caller
 */
struct wf_block *wf_redist_start_async(const struct wf_redist_plan *plan, const weft_tensor *source,
                                       void *owner, void (*release)(void *owner));

/** Wait for everything that is under way on this thread. */
void wf_redist_wait_all(void);
