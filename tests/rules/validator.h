/*
 * validator.h: proves sharding rules by brute force.
 *
 * For one mesh axis a rule claims: with inputs placed so, running the raw kernel on each rank's
 * shard gives parts of the output placed so. Here every simulated rank's shard is cut out of whole
 * inputs, the kernel runs once per rank on a fake mesh, the parts are glued and compared with the
 * one-rank result. No ranks and no messages are needed.
 */
#pragma once

#include "cases/op_cases.h"

struct wt_verdict {
    int checked, wrong;
    char first_wrong[512];
};

/** Every strategy that the row accepts without moving an input, for one sample. Adds to the
 * verdict. `row` is passed so that a test can tell a lie about it. */
void wt_validate(struct wt_verdict *verdict, const struct wf_op_row *row,
                 const struct wt_op_case *sample, weft_dtype dtype, int ranks);

/** Print strategies that hold for this sample at 2, 3 and 4 ranks and that the row does not accept.
 *  Only rows of one or two inputs; returns their number. */
int wt_explore(const struct wt_op_case *sample, FILE *out);
