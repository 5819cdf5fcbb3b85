/* mesh.h: the grid of ranks behind weft_mesh, and the communicators of its lines. */
#pragma once

#include <weft/mesh.h>

struct wf_comm;

/** The communicator of the line along `axis` through this rank; made when first used, then cached.
 *  All ranks of the line ask for it at the same point. NULL outside the mesh and on fake ones. */
struct wf_comm *wf_mesh_axis_comm(weft_mesh *mesh, int axis);

/** The same for several axes merged to one line, the last varying fastest. Bit a of `axes` stands
 *  for axis a. */
struct wf_comm *wf_mesh_axes_comm(weft_mesh *mesh, unsigned axes);

/** The same for all of its axes. NULL without a mesh, too. */
struct wf_comm *wf_mesh_all_axes_comm(weft_mesh *mesh);

/** What the ledger and errors call this line: "tp", "dp_tp"; lives as long as the process. */
const char *wf_mesh_axes_label(const weft_mesh *mesh, unsigned axes);

/** The user made a mesh of these axes by weft_mesh_flatten; answered alike outside the mesh. */
bool wf_mesh_is_flattened(const weft_mesh *mesh, unsigned axes);
/** The mesh's axes that a name stands for, as bits: one, or those that the user merged under it; 0
 * for none. */
unsigned wf_mesh_axes_of(const weft_mesh *mesh, const char *name);
/** How often the user has merged axes of this mesh's root: plans made before know less. */
int wf_mesh_flattened_count(const weft_mesh *mesh);

/** Sizes of all axes, and this rank's coordinates (-1 outside the mesh); borrowed. */
const int *wf_mesh_sizes(const weft_mesh *mesh);
const int *wf_mesh_coordinates(const weft_mesh *mesh);
/** World ranks, the last axis varying fastest; weft_mesh_size of them; borrowed. */
const int *wf_mesh_rank_list(const weft_mesh *mesh);

/** A mesh of any size without ranks behind it, for planning and tests: coordinates as given.
 *  names NULL: a0, a1, ... */
weft_mesh *wf_mesh_new_fake(const int *sizes, const int *coordinates, const char *const *names,
                            int n_axes);

/** What a function given `mesh` works on: the innermost default mesh for NULL. NULL when there is
 *  none, or when the thread holds an error: the mesh may be missing because making it failed. */
weft_mesh *wf_mesh_or_current(weft_mesh *mesh);

/**
 * Call `hook` on a rank whenever something changes there that plans follow from: which axes of a
 * mesh are merged. Once per process, before any rank runs. Ranks cache different plans; those made
 * before and after such a change must not meet in one collective.
 */
void wf_mesh_set_change_hook(void (*hook)(void));

/** End of a rank: drop what was opened and never closed, and meshes kept for their merged axes. */
void wf_mesh_finalize(void);
