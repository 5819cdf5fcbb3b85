/*
 * places.h: where the elements of this rank's part lie in the whole tensor.
 *
 * In row-major order the elements of a part are runs of consecutive global indices. A cursor walks
 * the runs and hands out pieces of them, as long as its caller has room for.
 */
#pragma once

#include "base/desc.h"

/* A dim outside the runs: what each of its local indices adds to the global index. */
struct wf_place_dim {
    int64_t size;
    int64_t start, step; /* where they are evenly spaced */
    int64_t *index;      /* else: one for each; NULL: evenly */
};

struct wf_places {
    int64_t count; /* elements */
    int n_dims;
    struct wf_place_dim dim[WEFT_MAX_DIMS];
    int64_t n_runs;
    struct wf_run *runs; /* of the innermost dims; the same for every index of the others */
};

void wf_places_make(struct wf_places *places, const struct wf_desc *desc);
void wf_places_drop(struct wf_places *places);

struct wf_place_cursor {
    const struct wf_places *places;
    int64_t index[WEFT_MAX_DIMS]; /* of the outer dims */
    int64_t base;                 /* what they add up to */
    int64_t run;
    int64_t done; /* elements of the run that were handed out */
    int64_t left; /* elements in all */
};

struct wf_place_cursor wf_places_begin(const struct wf_places *places);

/** Global index of the next element, and how many follow it without gap (`*size`, at least 1). Only
 *  while cursor->left > 0. */
int64_t wf_places_next(const struct wf_place_cursor *cursor, int64_t *size);
/** Go `size` elements on, at most what next said. */
void wf_places_advance(struct wf_place_cursor *cursor, int64_t size);
