/* strided_copy.h: one strided copy, its loops merged and ordered beforehand. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <weft/export.h>

/* A dim may be walked in two loops: repetitions of a run. */
enum { WF_COPY_LOOPS = 2 * WEFT_MAX_DIMS };

struct wf_strided_copy {
    int loops;  /* around the runs, outermost first */
    size_t run; /* bytes that lie together on both sides */
    int64_t count[WF_COPY_LOOPS];
    int64_t src_step[WF_COPY_LOOPS], dst_step[WF_COPY_LOOPS]; /* bytes */
    int64_t src_offset, dst_offset;                           /* bytes; set by the caller */
};

/** Strides are in elements of `element` bytes. No dim may be 0. */
void wf_strided_copy_init(struct wf_strided_copy *copy, int ndim, const int64_t *shape,
                          const int64_t *src_stride, const int64_t *dst_stride, size_t element);

/** The two sides must not overlap. */
void wf_strided_copy_run(const struct wf_strided_copy *copy, void *dst, const void *src);
