/*
 * row_plan.h: kernels that work row by row along one dim (softmax, norms) on strided operands.
 *
 * Operand 0 is the output, which is row-major; inputs may be anything. Where every operand is dense
 * along the last dim one call does all rows; otherwise rows are walked, and those that are not
 * dense go through scratch memory that belongs to the plan.
 */
#pragma once

#include "kernels/cpu/pointwise/elementwise.h"

struct wf_row_plan {
    int64_t n, count;          /* elements of a row, rows */
    int64_t stride;            /* of the output along a row, elements: 1 for the last dim */
    bool dense;                /* all operands are row-major */
    int64_t bytes;             /* of an element */
    struct wf_loop_nest outer; /* of rows; walked in the output's order */
    struct wf_loop_dim row;
    char *scratch; /* one row per operand */
};

/** Plan rows along `dim` for out[0] and the first n_in inputs, all of one dtype and shape. */
void wf_row_plan_make(struct wf_row_plan *rows, const struct wf_kernel_call *k, int n_in, int dim);

/** Row r of an input that lies at `at`: itself, or gathered into scratch. */
static inline const void *wf_row_load(const struct wf_row_plan *p, int operand, const char *at)
{
    char *room = p->scratch + operand * p->n * p->bytes;

    if (p->n == 1 || p->row.step[operand] == p->bytes) return at;
    wf_gather_strided(room, at, p->n, p->row.step[operand] / p->bytes, p->bytes);
    return room;
}

/** Where to write the output row that belongs at `at`; then bring it there. */
static inline void *wf_row_output_buffer(const struct wf_row_plan *p, char *at)
{
    return p->n == 1 || p->stride == 1 ? (void *)at : p->scratch;
}

void wf_row_store(const struct wf_row_plan *p, char *at);
