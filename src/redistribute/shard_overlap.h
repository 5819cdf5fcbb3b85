/*
 * shard_overlap.h: the elements of one dim that two shards both hold, and where they lie in
 * each. Both shards are in the order of global indices, and so is their overlap: sender and
 * receiver agree on its order.
 */
#pragma once

#include "placement/shard.h"

/* `count` times `size` elements: where they begin, and how far apart the repetitions lie. */
struct wf_overlap_span {
    int64_t count, size;
    int64_t a, a_step, b, b_step; /* in either shard */
    int64_t shared;               /* elements of the overlap before these */
};

struct wf_overlap {
    int n, room;
    int64_t total; /* elements */
    struct wf_overlap_span *spans;
};

/** Replace what the overlap is; the array is kept and grown. gives: wf_overlap_free */
void wf_overlap_compute(struct wf_overlap *overlap, const struct wf_shard *a,
                        const struct wf_shard *b);
void wf_overlap_free(struct wf_overlap *overlap);
