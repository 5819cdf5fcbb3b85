/*
 * layer.h: a mixture of experts as a module, on one device or with its experts over a mesh axis.
 *
 * Every token goes to the `chosen` experts that its router likes best (Shazeer et al. 2017), and
 * gets the sum of what they make of it, weighted by the router's probabilities. With a capacity an
 * expert takes so many tokens of the batch, in their order, and drops the others (Lepikhin et al.
 * 2021); without one it takes all.
 */
#pragma once

#include <weft/weft.h>

struct moe_config {
    int experts, chosen;
    int64_t width, hidden;
    double capacity; /* tokens of an expert, of the average over experts; 0: no bound */
    weft_dtype dtype;
};

/** What a call says beside its result. */
struct moe_report {
    weft_tensor
        *balance;    /* [], 1 when experts are used alike: a loss to add a little of (Switch) */
    int64_t dropped; /* choices of all ranks together */
};

/**
 * Parameters router.weight [E,D], up [E,F,D] and down [E,D,F], normal.
 * gives: a module of the caller; [T,D] -> [T,D]
 */
weft_module *moe_new(struct moe_config config);

/** Give each rank of a mesh with one axis its experts; tokens come by rows, S(0), from then on. */
weft_status moe_spread(weft_module *moe, weft_mesh *mesh);

/** The module's forward. ranks: all of the mesh. report: NULL, or what is told */
weft_tensor *moe_forward(weft_module *moe, weft_tensor *tokens, struct moe_report *report);
