/* coverage.h: checks that shards make up a tensor: each element is in exactly one of them. */
#pragma once

#include <stdbool.h>

#include "io/file_slices.h"

/** Sums over the shards of one tensor, at random points that the writer of a file cannot know. */
struct wf_coverage {
    uint64_t sum[2];
};

/** Shards of one or several tensors are added in any order, in time linear in their runs. */
void wf_coverage_add_slice(struct wf_coverage *coverage, const struct wf_local_runs *shard,
                           int ndim);

/** True when the shards that were added make up a tensor of this shape. */
bool wf_coverage_is_complete(const struct wf_coverage *coverage, const int64_t *shape, int ndim);
