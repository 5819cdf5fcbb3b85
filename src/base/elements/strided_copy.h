/*
 * strided_copy.h: a copy between two strided arrays of one shape, its loops merged and ordered
 * beforehand. Whatever moves elements without changing them does so through it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/export.h>

/* A dim may be walked in two loops: repetitions of a run. */
enum { WF_COPY_LOOPS = 2 * WEFT_MAX_DIMS };

struct wf_strided_copy {
    int loops;    /* around the runs, outermost first */
    int tiled;    /* 1: the two innermost loops are walked in tiles */
    int streamed; /* 1: what is written goes past the caches */
    size_t run;   /* bytes that lie together on both sides; 0: nothing to copy */
    /* Where the source lies element by element along other loops than the destination, which does
     * along the last one (transposed_copy.h): these loops, the outer one -1 if there is none. */
    bool transposed;
    int8_t columns, outer_columns;
    int64_t count[WF_COPY_LOOPS];
    int64_t src_step[WF_COPY_LOOPS], dst_step[WF_COPY_LOOPS]; /* bytes */
    int64_t src_offset, dst_offset;                           /* bytes; set by the caller */
};

/** Strides are in elements of `element` bytes; those of src may be 0, which repeats elements. */
void wf_strided_copy_init(struct wf_strided_copy *copy, const int64_t *shape,
                          const int64_t *src_stride, const int64_t *dst_stride, int ndim,
                          size_t element);

/** The copy is one of several that write `total` bytes between them. */
void wf_strided_copy_stream(struct wf_strided_copy *copy, int64_t total);

/** The two sides must not overlap. */
typedef void wf_strided_copy_runner(const struct wf_strided_copy *copy, void *dst, const void *src);
wf_strided_copy_runner wf_strided_copy_run; /* host memory */

/** Strides of an array without gaps. gives: the number of its elements */
int64_t wf_row_major_strides(int64_t *stride, const int64_t *shape, int ndim);
