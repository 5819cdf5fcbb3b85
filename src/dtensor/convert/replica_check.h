/* replica_check.h: checks that replicas hold the same bytes. */
#pragma once

#include "tensor/tensor.h"

/** The sum, maximum or minimum of a number over some axes of a mesh (a bit mask), on all their
 *  ranks. */
void wf_mesh_all_reduce_int(weft_mesh *mesh, unsigned axes, weft_reduce how, int64_t *value);

/**
 * Compare a hash of this rank's elements along the mesh axes in `axes` (a bit mask).
 *
 * Two small reductions per axis; every rank of the mesh gets the same answer for its lines. Ranks
 * outside the mesh do not communicate and get true.
 */
bool wf_mesh_replicas_equal(weft_tensor *t, weft_mesh *mesh, unsigned axes);
