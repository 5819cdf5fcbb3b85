/* fakes.h: meshes without ranks, and layouts over them: for what is planned and never run. */
#pragma once

#include "placement/layout.h"

/** Axes a, b, c, d of these sizes. */
struct wt_grid {
    int n_axes, sizes[WEFT_MAX_AXES];
};

/** The mesh, seen by the rank at its origin. */
weft_mesh *wt_fake_mesh(const struct wt_grid *grid);

/** f32, of this shape; the placements as text. */
struct wf_layout *wt_fake_layout(weft_mesh *mesh, const char *placements, int ndim,
                                 const int64_t *shape);
