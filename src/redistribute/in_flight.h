/*
 * in_flight.h: asynchronous redistributions. All but a plan's last collective is done at the start;
 * that collective goes on in the background, and the local actions after it are done by the wait.
 * So ranks may wait at different times, and no wait depends on another rank's wait.
 */
#pragma once

#include "redistribute/redistribute.h"
#include "tensor/tensor.h"

/** True when the plan communicates, so that it can be asynchronous. */
bool wf_redist_can_run_async(const struct wf_redist_plan *plan);

/**
 * Start. `source` is retained until the wait, which then gives `owner`, who holds the plan, to
 * `release`.
 * gives: the block that will hold the result, one reference for the caller
 */
struct wf_block *wf_redist_start_async(const struct wf_redist_plan *plan, const weft_tensor *source,
                                       void *owner, void (*release)(void *owner));

/** True while the elements of the tensor are in flight. */
bool wf_redist_is_in_flight(const weft_tensor *t);

/** Wait for all redistributions of this thread that are in flight. */
void wf_redist_wait_all(void);
