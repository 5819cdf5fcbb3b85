/*
 * step_draws.h: the draws of a step that is repeated without its calls. Where the step begins, each
 * generator of the thread has a place; a draw is a generator and how far it is from there, so that
 * in a later step the same draw has another number.
 */
#pragma once

#include "random/generator.h"

struct wf_step_draws;

/** A draw: which generator's, and how many come before it in the step. */
struct wf_step_draw {
    int generator;
    uint64_t before;
};

/** The step begins / ends here. gives: end: NULL; or why it cannot be repeated */
struct wf_step_draws *wf_step_draws_begin(void);
const char *wf_step_draws_end(struct wf_step_draws *draws);
void wf_step_draws_free(struct wf_step_draws *draws);

/** Whose draw has these numbers. gives: false: it is no generator's that was there when the step
 * began, so it has them in every step. Two of which it may be are a reason not to repeat it. */
bool wf_step_draws_find(struct wf_step_draws *draws, uint64_t seed, uint64_t draw,
                        struct wf_step_draw *found);

/** The step begins again: NULL; or why it would be another. */
const char *wf_step_draws_begin_again(struct wf_step_draws *draws);
/** Its numbers now. */
void wf_step_draws_numbers(const struct wf_step_draws *draws, struct wf_step_draw which,
                           uint64_t *seed, uint64_t *draw);
/** Where the step began, to find its numbers again when others have been taken since: an entry for
 * each generator. */
struct wf_draw_start {
    uint64_t seed, draw;
};
int wf_step_draws_generator_count(const struct wf_step_draws *draws);
void wf_step_draws_save(const struct wf_step_draws *draws, struct wf_draw_start *starts);
void wf_step_draws_restore(struct wf_step_draws *draws, const struct wf_draw_start *starts);

/** It has been taken: all generators go on as far as they did in the first. */
void wf_step_draws_advance(struct wf_step_draws *draws);
