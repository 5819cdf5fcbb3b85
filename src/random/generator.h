/*
 * generator.h: where random numbers come from: a seed, and the number of the next draw.
 *
 * Knows no tensor. Every random op is one draw; which bits an element gets of it is decided in
 * kernels/draw.h.
 */
#pragma once

#include <stdbool.h>

#include <weft/random.h>

struct weft_generator {
    uint64_t seed, draw; /* draw < 2^63 */
    char *name;          /* NULL: in no table */
    uint64_t first_seed; /* what it was added with */
    int refs;
    weft_generator *next; /* in the thread's table */
};

/** `given`, or the thread's current generator for NULL. */
weft_generator *wf_generator_of(weft_generator *given);

/** Elements are numbered within this rank's part (weft_local_random_begin). */
bool wf_random_is_local(void);

/** Drop what the thread holds: forks, named generators; its own starts again. */
void wf_generator_finalize(void);
