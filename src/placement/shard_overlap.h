/*
 * shard_overlap.h: the elements of one dim that two shards both hold, where they lie in each, and
 * the copies that bring them from one to the other. Both shards are in the order of global indices,
 * and so is their overlap: sender and receiver, writer and reader agree on its order.
 */
#pragma once

#include "base/elements/strided_copy.h"
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

/** The same of two lists of ranges, each ascending and without overlaps. */
void wf_overlap_compute_ranges(struct wf_overlap *overlap, const struct wf_index_range *a,
                               int64_t n_a, const struct wf_index_range *b, int64_t n_b);

/* One side of a copy of what two shards both hold: the first or the second of them, laid out by
 * strides, or their overlap, row-major. Offsets and strides in elements. */
enum wf_copy_side_kind { WF_SIDE_FIRST_SHARD, WF_SIDE_SECOND_SHARD, WF_SIDE_OVERLAP };
struct wf_copy_side {
    enum wf_copy_side_kind kind;
    int64_t offset, stride[WEFT_MAX_DIMS];
};

/* The copies of the overlaps of all dims: one for each choice of a span per dim. Visit all with
 *     struct wf_overlap_copies all = {.ndim = ..., .overlap = ...};
 *     while (wf_overlap_next_copy(&all, &copy)) ... */
struct wf_overlap_copies {
    int ndim;
    const struct wf_overlap *overlap; /* of each dim */
    struct wf_copy_side src, dst;
    size_t element;
    bool begun;
    int choice[WEFT_MAX_DIMS];
};
bool wf_overlap_next_copy(struct wf_overlap_copies *all, struct wf_strided_copy *copy);

/**
 * Copy the elements of shard `to` out of `src`, which holds those of shard `from`; one wf_shard per
 * dim. Both arrays are row-major without gaps, where `run` copies. Every element of `to` is one of
 * `from`.
 */
void wf_shard_copy(void *dst, const struct wf_shard *to, const void *src,
                   const struct wf_shard *from, int ndim, size_t element,
                   wf_strided_copy_runner *run);
