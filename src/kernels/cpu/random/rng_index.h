/*
 * rng_index.h: where the elements of this rank's shard lie in the whole tensor.
 *
 * In row-major order the elements of a shard are runs of consecutive global indices. A cursor
 * walks the runs and returns as many elements at a time as its caller has room for.
 */
#pragma once

#include "base/elements/tensor_desc.h"

/* A dim outside the runs: what each of its local indices adds to the global index. */
struct wf_rng_index_dim {
    int64_t size;
    int64_t start, step; /* where they are evenly spaced */
    int64_t *index;      /* else: one for each; NULL: evenly */
};

struct wf_rng_index {
    int64_t count; /* elements */
    int n_dims;
    struct wf_rng_index_dim dim[WEFT_MAX_DIMS];
    int64_t n_runs;
    struct wf_index_range *runs; /* of the innermost dims; the same for every index of the others */
};

void wf_rng_index_make(struct wf_rng_index *places, const struct wf_tensor_desc *desc);
void wf_rng_index_free(struct wf_rng_index *places);

struct wf_rng_index_cursor {
    const struct wf_rng_index *places;
    int64_t index[WEFT_MAX_DIMS]; /* of the outer dims */
    int64_t base;                 /* what they add up to */
    int64_t run;
    int64_t done; /* elements of the run that were handed out */
    int64_t left; /* elements in all */
};

struct wf_rng_index_cursor wf_rng_index_cursor_begin(const struct wf_rng_index *places);

/** Global index of the next element, and how many follow it without gap (`*size`, at least 1). Only
 *  while cursor->left > 0. */
int64_t wf_rng_index_cursor_peek(const struct wf_rng_index_cursor *cursor, int64_t *size);
/** Go `size` elements on, at most what next said. */
void wf_rng_index_cursor_advance(struct wf_rng_index_cursor *cursor, int64_t size);
