/* check.h: a cross-entropy in a layout, against the oracle: values, gradients, layouts, and the
 * collectives and bytes of the closed form. */
#pragma once

#include "loss/oracle.h"
#include "support/worlds.h"

struct check {
    struct oracle oracle; /* shape, class_dim, smoothing, z_loss, ignored */
    bool weighted;
    weft_dtype dtype;
    const char *logits; /* placements on the world's mesh; NULL: all is plain */
    const char *target; /* NULL: plain */
    bool block;         /* inside weft_loss_parallel_open */
    int sums, totals;   /* numbers of the second all-reduce per token, of that of a mean; 0: 2, 3 */
};

/** Every reduction of it. `w` has a ledger and nothing booked. */
void check_losses(struct wt_world *w, const struct check *c);

/** The same in two steps, between which logits, targets and weights of the oracle may be changed.
 */
void check_prepare(struct check *c);
/** Make the oracle's logits what the dtype holds of them. */
void check_round(struct check *c);
void check_reductions(struct wt_world *w, struct check *c);

/** The options and tensors that a check stands for, for cases that go their own way. */
weft_cross_entropy_options check_options(const struct check *c, weft_loss_reduction reduction);
/** The logits as a leaf that wants a gradient / targets / class weights (NULL without). */
weft_tensor *check_logits(struct wt_world *w, const struct check *c);
weft_tensor *check_target(struct wt_world *w, const struct check *c);
weft_tensor *check_weight(struct wt_world *w, const struct check *c);

/** What a dtype's losses and gradients may be off by. */
struct wt_tolerance check_tolerance(weft_dtype dtype);
