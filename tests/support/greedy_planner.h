/*
 * greedy_planner.h: a planner that takes one axis at a time, as PyTorch's does: the yardstick that
 * the library's plans are never dearer than.
 */
#pragma once

#include "redistribute/redistribute.h"

/** As wf_redist_find_steps. */
int wt_greedy_steps(struct wf_redist_step *steps, const struct wf_redist_problem *problem,
                    double *cost);
