/*
 * shard.h: which elements of one dim a rank holds, whatever the placements: any kind of shard, any
 * number of mesh axes on the dim, in any order.
 *
 * A rank stores its elements in the order of their global index, so a shard is an ascending list of
 * runs of consecutive elements; one run when the dim is cut by plain shards only. Nothing here
 * allocates; wf_shard_init fills a struct wf_shard, which does not change afterwards.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/elements/tensor_desc.h"
#include <weft/placement.h>

/* `count` times `size` elements, the first at `start`, then every `step`; of what the cut before
 * left. */
struct wf_strided_span {
    int64_t start, step, count, size;
};

/* What one axis keeps: a span for a plain shard, one for each segment, two for a strided shard. */
struct wf_shard_cut {
    int n;
    struct wf_strided_span span[WEFT_MAX_SEGMENTS];
};

struct wf_shard {
    int64_t global, size; /* elements of the whole dim, and of those the rank holds */
    int n_cuts;
    struct wf_shard_cut cuts[WEFT_MAX_AXES];
};

/** The shard of dim `dim`, of `global` elements, that the rank at `coordinates` of a grid
 *  `axis_sizes` holds; placements are normal. Coordinates of -1 (outside the mesh): nothing. */
void wf_shard_init(struct wf_shard *shard, int dim, int64_t global, const int *axis_sizes,
                   const int *coordinates, const weft_placement *placements, int n_axes);

/** The run of elements that begins with local index `local` (0 <= local < size), as long as it
 *  goes. Visit all with
 *      for (int64_t at = 0; at < shard->size; at += run.size) run = wf_shard_range_at(shard, at);
 */
struct wf_index_range wf_shard_range_at(const struct wf_shard *shard, int64_t local);

/** The number of runs; the first `room` of them go to `runs` (NULL with room 0). */
int64_t wf_shard_ranges(const struct wf_shard *shard, struct wf_index_range *runs, int64_t room);

/** The first element's global index; the dim's size when the shard is empty. */
int64_t wf_shard_offset(const struct wf_shard *shard);

/** Global index of a local one, and back: -1 when the rank does not hold the element. */
int64_t wf_shard_to_global(const struct wf_shard *shard, int64_t local);
int64_t wf_shard_to_local(const struct wf_shard *shard, int64_t global);

/**
 * Who holds element `index` of dim `dim`: the coordinates of the axes that cut the dim are written
 * to `coordinates`, the others are left alone (ranks at any place on those hold it alike).
 * gives: the element's local index there
 */
int64_t wf_shard_locate_owner(int *coordinates, int64_t index, int dim, int64_t global,
                              const int *axis_sizes, const weft_placement *placements, int n_axes);

/** Both hold the same elements of the dim. */
bool wf_shards_equal(const struct wf_shard *a, const struct wf_shard *b);

/** The axes that cut `dim`, in the order in which they do; returns their number. */
int wf_axes_sharding_dim(int *axes, int dim, const weft_placement *placements, int n_axes);

/** True when every rank's shard of every dim is one run, so that its shard of the tensor is a box.
 *  The same on all ranks. */
bool wf_placements_give_one_box(const weft_placement *placements, int n_axes);

/** Terms that are added up, be it divided afterwards: along several axes these may stand beside
 * each other, and reduce in one collective. */
static inline bool wf_reduce_adds_terms(weft_reduce reduce)
{
    return reduce == WEFT_SUM || reduce == WEFT_AVG || reduce == WEFT_MASKED;
}

/** The value is the sum of the terms itself, which that of an average is not. */
static inline bool wf_reduce_is_sum(weft_reduce reduce)
{
    return reduce == WEFT_SUM || reduce == WEFT_MASKED;
}

/** Both are partial in ways that add terms up. */
static inline bool wf_partials_add_terms(weft_placement p, weft_placement q)
{
    return wf_reduce_adds_terms((weft_reduce)p.reduce) &&
           wf_reduce_adds_terms((weft_reduce)q.reduce);
}

/** A shard of either kind, strided or not. */
static inline bool wf_is_shard_or_strided(weft_placement p)
{
    return p.kind == WEFT_KIND_SHARD || p.kind == WEFT_KIND_STRIDED;
}
