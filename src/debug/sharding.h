/*
 * sharding.h: a tensor divided wherever any rank's shard begins or ends: per dim the intervals, and
 * which ranks hold each. Text and SVG draw from this.
 */
#pragma once

#include "placement/layout.h"

struct wf_sharding_dim {
    int64_t *bounds; /* intervals are [bounds[i], bounds[i + 1]) */
    int n;           /* intervals */
    bool *holds;     /* [interval * ranks + rank] */
};

struct wf_sharding {
    const struct wf_layout *layout;
    int ndim, n_ranks;
    int *numbers; /* of the ranks in the world, the mesh's last axis varying fastest */
    struct wf_sharding_dim dims[WEFT_MAX_DIMS];
};

/** The layout is distributed and retained by somebody else meanwhile. gives: wf_sharding_free */
struct wf_sharding *wf_sharding_new(const struct wf_layout *layout);
void wf_sharding_free(struct wf_sharding *s);

/** The ranks (as indices of `numbers`) that hold the cell with these intervals, into `ranks`; how
 *  many. */
int wf_sharding_cell_ranks(const struct wf_sharding *s, const int *interval, int *ranks);

/** "0-3,8": their numbers, in ascending order. Text that does not fit ends in "..". */
void wf_sharding_ranks_text(const struct wf_sharding *s, const int *ranks, int n, char *text,
                            size_t bytes);

/** Visit the pieces of the leading dims, all but the last two: `interval` is the first time 0 and
 *  then counted up; false when that was the last. */
bool wf_sharding_next_slice(const struct wf_sharding *s, int *interval);

/** "[0:2, 4:8, :, :]" */
void wf_sharding_slice_text(const struct wf_sharding *s, const int *interval, char *text,
                            size_t bytes);

/** True on the rank that draws. */
bool wf_sharding_drawn_by_this_rank(const struct wf_layout *layout);
