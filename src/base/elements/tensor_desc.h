/*
 * tensor_desc.h: what a kernel knows of one operand: dtype, this rank's box of the global tensor,
 * and how its elements lie in memory. Part of an interned layout, so equal operands share one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/dtype.h>
#include <weft/export.h>

/** Consecutive elements of a dim. */
struct wf_index_range {
    int64_t offset, size;
};

/** What two ranges both have; of size 0 where they have nothing in common. */
static inline struct wf_index_range wf_index_range_intersect(struct wf_index_range a,
                                                             struct wf_index_range b)
{
    int64_t begin = a.offset > b.offset ? a.offset : b.offset;
    int64_t end = a.offset + a.size < b.offset + b.size ? a.offset + a.size : b.offset + b.size;

    return (struct wf_index_range){begin, end > begin ? end - begin : 0};
}

/** The elements of each dim in a shard that is not a box, in ascending order. */
struct wf_index_ranges {
    int64_t count[WEFT_MAX_DIMS];
    struct wf_index_range *of[WEFT_MAX_DIMS];
};

struct wf_tensor_desc {
    uint8_t dtype;
    int8_t ndim;
    bool contiguous; /* row-major without gaps (true for empty boxes) */
    bool first_term; /* for a partial sum: this rank is the first of every partial axis */
    uint8_t device;  /* weft_device */
    int64_t numel;   /* elements in the box */
    int64_t shape[WEFT_MAX_DIMS];  /* the box */
    int64_t stride[WEFT_MAX_DIMS]; /* in elements */
    int64_t global[WEFT_MAX_DIMS]; /* the whole tensor */
    int64_t offset[WEFT_MAX_DIMS]; /* of the box; the global size where the box is empty */
    struct wf_index_ranges *runs;  /* NULL: `shape` elements from `offset` on, in every dim */
};
