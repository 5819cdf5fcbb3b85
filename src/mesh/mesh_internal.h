/*
 * mesh_internal.h: what the files of this folder share: the mesh itself, the table of equal meshes,
 * and lines through a grid. Nobody outside src/mesh includes it.
 */
#pragma once

#include "mesh/mesh.h"
#include "mesh/mesh_parse.h"

/* Axes of a root that weft_mesh_flatten merged, in the order in which they vary; the last fastest.
 */
struct wf_flattened_axes {
    char name[WF_AXIS_NAME];
    int n_axes, axes[WEFT_MAX_AXES];
};

struct weft_mesh {
    /* what makes two meshes equal */
    struct wf_mesh_shape text; /* sizes and names */
    int *ranks;                /* world numbers, the last axis varying fastest */
    int me;                    /* this rank's index in `ranks`, -1 outside */
    bool fake;
    weft_device device;
    /* what follows from it */
    int size;
    int coordinates[WEFT_MAX_AXES]; /* -1 outside the mesh */
    int steps[WEFT_MAX_AXES];       /* from one place in `ranks` to the next along an axis */
    uint64_t hash;                  /* without `me`: the same on all ranks */
    /* not part of equality */
    int refs;
    struct wf_comm
        *lines[1 << WEFT_MAX_AXES];   /* by the axes that a line merges, bit a for axis a */
    weft_mesh *root;                  /* it was sliced from; NULL: not a slice */
    struct wf_flattened_axes *merged; /* any: the table owns the mesh too (NOTE [merged]) */
    int n_merged;
    weft_mesh *next; /* in the table */
};

/** The mesh equal to the candidate, which has text, ranks, me, fake and root; one more owner. Takes
 * over candidate->ranks. An equal mesh that is there already gets the candidate's root. */
weft_mesh *wf_mesh_intern(const weft_mesh *candidate);

/** Remember that the user merged axes of this mesh. */
void wf_mesh_add_flattened(weft_mesh *mesh, const struct wf_flattened_axes *merged);
/** End of a rank: nothing is merged any more, and nothing kept for it. */
void wf_mesh_release_flattened(void);

/** The ranks of the line through this rank along these axes, the last varying fastest; through the
 *  first rank where this one is outside. `ranks` has room for them. gives: this rank's place on it,
 *  -1 outside */
int wf_mesh_line_ranks(const weft_mesh *mesh, const int *axes, int n_axes, int *ranks);

/** The mesh whose axis i merges the axes of piece i; this rank's line. The root becomes that of
 *  `mesh`. */
weft_mesh *wf_mesh_submesh(weft_mesh *mesh, const struct wf_flattened_axes *pieces, int n_pieces);

/** What `name` stands for in this mesh: an axis, or axes that the user merged; false for neither.
 */
bool wf_mesh_resolve_axis_name(const weft_mesh *mesh, const char *name,
                               struct wf_flattened_axes *piece);

/** The mesh that this one was cut from, at the top (NOTE [root] in submesh.c). */
static inline const weft_mesh *wf_mesh_root(const weft_mesh *mesh)
{
    while (mesh->root) mesh = mesh->root;
    return mesh;
}

static inline bool wf_mesh_has_names(const weft_mesh *mesh)
{
    return mesh->text.names[0][0] != '\0';
}
