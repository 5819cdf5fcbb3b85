/*
 * draws.h: every way to fill a tensor at random, in one table, and where a rank's elements lie.
 */
#pragma once

#include "support/worlds.h"

typedef weft_status wt_draw_fn(weft_tensor *t, weft_generator *g);

struct wt_draw {
    const char *name;
    wt_draw_fn *fill;
    weft_dtype dtype;
    bool coin; /* 0 or 1: eight elements may well equal eight others */
};

extern const struct wt_draw wt_draws[];
extern const int wt_draw_count;

/** This rank's elements are those of the whole tensor `want` (row-major f64), bit for bit, whatever
 *  the placements are. No communication. */
bool wt_is_part_of(const weft_tensor *t, const double *want);

/** A tensor of this shape in placements given as text ("S(0),R") on the world's mesh, undefined. */
weft_tensor *wt_placed(struct wt_world *w, weft_dtype dtype, int ndim, const int64_t *shape,
                       const char *placements);

/** n numbers of every rank of the world, one rank after the other; the caller frees. ranks: all */
double *wt_of_all_ranks(const double *mine, int64_t n);

/** The n elements of t that each rank of the world holds, as wt_of_all_ranks. ranks: all */
double *wt_local_rows(weft_tensor *t, int64_t n);

/** No two ranks hold the same n elements; `what` is for the report. ranks: all */
void wt_parts_differ(weft_tensor *t, int64_t n, const char *what);

/** No two of `count` rows of n numbers are equal. */
bool wt_rows_differ(const double *rows, int64_t count, int64_t n);

/** The current generator's state is the same on all ranks, and is (seed, draws). */
bool wt_generator_is(uint64_t seed, uint64_t draws);
