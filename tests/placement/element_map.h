/*
 * element_map.h: what placements mean, said a second time and as literally as can be: lists of
 * indexes that are cut, axis after axis, by counting. And random layouts to compare with.
 */
#pragma once

#include <stdint.h>

#include "placement/layout.h"

enum { WT_MAP_ROOM = 128 };

/* One dim, as one rank sees it. */
struct wt_map {
    int count;
    int64_t index[WT_MAP_ROOM];
    int segment[WT_MAP_ROOM]; /* of each index; all 0 without segments */
};

struct wt_layout_case {
    int n_axes, ndim;
    int sizes[WEFT_MAX_AXES], coordinates[WEFT_MAX_AXES];
    int64_t global[3];
    weft_placement p[WEFT_MAX_AXES];
};

/** Elements of dim `dim` that the rank at the case's coordinates holds. */
void wt_map_of(struct wt_map *map, const struct wt_layout_case *c, int dim);

/** A number below `bound`; the same sequence for the same start everywhere. */
int wt_below(uint64_t *state, int bound);

/** Up to 4 axes and 3 dims, any placements, normal; sizes that fit. */
void wt_random_layout(struct wt_layout_case *c, uint64_t *state);

/** The case's text, for a failing assertion. */
const char *wt_layout_text(const struct wt_layout_case *c);
