/* mesh.h: the grid of ranks behind weft_mesh, and the communicator of each axis line. */
#pragma once

#include <weft/mesh.h>

struct wf_comm;

/** The communicator of the line along `axis` through this rank; made when first used, then cached.
 *  All ranks of the line ask for it at the same point. NULL outside the mesh. */
struct wf_comm *wf_mesh_comm(weft_mesh *mesh, int axis);

/** Sizes of all axes, and this rank's coordinates (-1 outside the mesh); borrowed. */
const int *wf_mesh_sizes(const weft_mesh *mesh);
const int *wf_mesh_coordinates(const weft_mesh *mesh);

/** A mesh of any size without ranks behind it, for planning and tests: coordinates as given. */
weft_mesh *wf_mesh_fake(int n_axes, const int *sizes, const int *coordinates,
                        const char *const *names);
