/* coverage.h: whether parts make up a whole: each element in one of them, and in no more. */
#pragma once

#include <stdbool.h>

#include "io/file_slices.h"

/** Sums over the parts of one tensor, at points that whoever wrote a file cannot know. */
struct wf_coverage {
    uint64_t sum[2];
};

/** The parts of one or several tensors are added in any order, in time that grows with their runs.
 */
void wf_coverage_add_slice(struct wf_coverage *coverage, const struct wf_local_runs *part,
                           int ndim);

/** True when the parts that were added make up a tensor of this shape. */
bool wf_coverage_is_complete(const struct wf_coverage *coverage, int ndim, const int64_t *shape);
