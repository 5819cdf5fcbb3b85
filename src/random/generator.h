/*
 * generator.h: where random numbers come from: a seed, and the number of the next draw.
 *
 * Knows no tensor. Every random op is one draw; which bits an element gets of it is decided in
 * kernels/cpu/random.
 */
#pragma once

#include <stdbool.h>

#include <weft/generator.h>

struct weft_generator {
    uint64_t seed, draw; /* draw < 2^63 */
    unsigned set_count;  /* how often a program has set them */
    bool curand;         /* draw: how many numbers of cuRAND's sequence have been drawn */
    char *name;          /* NULL: the thread does not keep it */
    uint64_t first_seed; /* what it was added with */
    int refs;
    weft_generator *next; /* among the thread's */
};

/** `given`, or the thread's current generator for NULL. */
weft_generator *wf_generator_or_current(weft_generator *given);

/** Elements are numbered within this rank's shard (weft_local_random_open). */
bool wf_random_is_local(void);

/**
 * The state of the thread's random numbers: all its generators, the current one, and how elements
 * are numbered (by global or by local index).
 */
struct wf_rng_state;
struct wf_rng_state *wf_rng_state_save(void);
void wf_rng_state_free(struct wf_rng_state *draws); /* NULL is allowed */

/** Between enter and leave, any number of times, the numbers drawn after `draws` was saved are
 * drawn again; afterwards drawing continues as if they had not been. */
void wf_rng_state_enter(struct wf_rng_state *draws);
void wf_rng_state_leave(struct wf_rng_state *draws);

/** Call `each` for every generator of the thread, none twice: the current one first. */
void wf_generator_each(void (*each)(weft_generator *g, void *payload), void *payload);
/** How many generators the thread has made. */
unsigned wf_generator_made_count(void);

/** Drop what the thread holds: open regions, named generators; its own starts again. */
void wf_generator_finalize(void);
