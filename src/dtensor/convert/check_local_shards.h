/* check_local_shards.h: is a plain tensor the part of a distributed one that it is said to be? */
#pragma once

#include "tensor/tensor.h"

/** The global shape of which `local` is an even part; placements are normal. */
void wf_global_shape_of_even_shards(int64_t *global, int ndim, const int64_t *local,
                                    const weft_mesh *mesh, const weft_placement *placements);

/** A list of placements is as long as the mesh has axes; 0: nobody counted. */
weft_status wf_check_placement_count(const char *who, int n_placements, const weft_mesh *mesh);

/** `stride` walks a tensor of this shape without gaps, its dims in the order in which they lie in
 *  `local`. */
weft_status wf_check_local_stride(const weft_tensor *local, const int64_t *shape,
                                  const int64_t *stride);

/**
 * Compare over the mesh what from_local is given: dtype, whether a gradient is wanted, the global
 * shape, that each part is the one its rank should have, and that replicas are equal.
 *
 * Collective over the mesh: one all-reduce per axis, and a few more for replicas. Every rank of the
 * mesh gets the same answer and message.
 */
weft_status wf_check_local_over_mesh(weft_tensor *local, weft_mesh *mesh,
                                     const weft_placement *placements, const int64_t *shape);
