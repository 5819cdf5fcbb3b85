/*
 * pair.h: one model twice, on one device and spread: they are stepped together and compared, and
 * what the spread one communicates is counted in forward, backward and the optimizer's step.
 */
#pragma once

#include <weft/weft.h>

#include "support/given.h"

struct pair {
    weft_module *one, *many;
    weft_optim *optim_one, *optim_many; /* NULL: pair_step is not called */
    weft_ledger *ledger;
    weft_dtype dtype;
    struct wt_tolerance near;
};

/** Collectives of one direction. Every kind that is not named must be 0. */
struct pair_count {
    int all_reduce, all_gather, reduce_scatter, all_to_all;
};

/** The case owns both modules from now on, and the rest of the pair. */
struct pair pair_open(weft_module *one, weft_module *many, weft_dtype dtype);
/** Optimizers for both. */
void pair_optimize(struct pair *p, weft_optim *(*make)(weft_module *m));

/** Only parameters whose path ("net1.weight") begins with one of `names` (NULL ends) want a
 *  gradient. */
void pair_train_only(weft_module *m, const char *const *names);

/** Outputs are equal; the spread one is returned and what was sent is this (nothing on one rank).
 *  `one` gets the other. */
weft_tensor *pair_forward(struct pair *p, weft_tensor *x, weft_tensor **one,
                          struct pair_count count);
/** Backward of the same weighted sum of both outputs; `partial`: how many parameters then have a
 *  gradient that is a partial sum (more than one rank). */
void pair_backward(struct pair *p, weft_tensor *one, weft_tensor *many, struct pair_count count,
                   int partial);
/** Gradients are equal, and absent for what is frozen; they are dropped. */
void pair_gradients(struct pair *p);
/** One step of both optimizers: one all-reduce if anything is partial, none otherwise. Parameters
 *  are equal afterwards, less exactly from then on: Adam divides by small gradients. */
void pair_step(struct pair *p, int partial);
