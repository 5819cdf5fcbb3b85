/*
 * captured_draws.h: draws in a captured step (device/capture.h). A kernel that was captured with
 * the numbers of a draw is given again, in each launch, with those that the generator has come to.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"

struct wf_step_draws; /* random/step_draws.h */

/** Right after a capture has begun / right before it ends, and of the graph that came out: NULL, or
 * why its draws would be others than the step's now. */
struct wf_step_draws *wf_captured_draws_begin(void);
void wf_captured_draws_end(struct wf_step_draws *draws);
const char *wf_captured_draws_differ(struct wf_step_draws *draws);

/** A draw of the step. */
struct wf_captured_draw {
    struct wf_step_draws *draws;
    int generator;
    uint64_t before;
};

/** Which draw has the numbers of these scalars. gives: false: they are the same in every step */
bool wf_captured_draw_find(const struct wf_scalars *scalars, struct wf_captured_draw *found);
/** Set its numbers in the step that is taken. */
void wf_captured_draw_set(const struct wf_captured_draw *draw, struct wf_scalars *scalars);
