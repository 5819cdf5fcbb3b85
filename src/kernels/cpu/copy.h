/* copy.h: a planned copy between two strided arrays of one shape. */
#pragma once

#include "kernels/cpu/nest.h"

struct wf_copy {
    void (*run)(const struct wf_copy *copy, char *to, const char *from);
    int64_t bytes;            /* of an element */
    struct wf_nest nest;      /* what is walked; operand 0 is `to`, 1 is `from` */
    struct wf_dim line, rows; /* the loops inside: `rows` for transposed copies only */
};

void wf_copy_make(struct wf_copy *copy, int ndim, const int64_t *shape, const struct wf_strided *to,
                  const struct wf_strided *from);
