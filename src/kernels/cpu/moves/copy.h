/* copy.h: a planned copy between two strided arrays of one shape. */
#pragma once

#include "kernels/cpu/loop_nest.h"

struct wf_strided_copy_plan {
    void (*run)(const struct wf_strided_copy_plan *copy, char *to, const char *from);
    int64_t bytes;                 /* of an element */
    struct wf_loop_nest nest;      /* what is walked; operand 0 is `to`, 1 is `from` */
    struct wf_loop_dim line, rows; /* the loops inside: `rows` for transposed copies only */
};

void wf_strided_copy_plan_make(struct wf_strided_copy_plan *copy, int ndim, const int64_t *shape,
                               const struct wf_operand_strides *to,
                               const struct wf_operand_strides *from);
