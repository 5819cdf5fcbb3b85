/* check_local_shards.h: checks that local tensors are shards of one distributed tensor. */
#pragma once

#include "tensor/tensor.h"

/** The global shape if all shards have the size of `local`; placements are normalized. */
void wf_global_shape_of_even_shards(int64_t *global, const int64_t *local, int ndim,
                                    const weft_mesh *mesh, const weft_placement *placements);

/** A list of placements has one entry per mesh axis; n 0: the caller gave no length to check. */
weft_status wf_check_placement_count(const char *who, int n_placements, const weft_mesh *mesh);

/** `stride` is that of a dense tensor of this shape whose dims have the same order in memory as
 *  those of `local`. */
weft_status wf_check_local_stride(const weft_tensor *local, const int64_t *shape,
                                  const int64_t *stride);

/**
 * Compare the arguments of from_local over the mesh: dtype, whether a gradient is wanted, the
 * global shape, the size of each rank's shard, and that replicas are equal.
 *
 * Collective over the mesh: one all-reduce per axis, and a few more for replicas. Every rank of the
 * mesh gets the same answer and message.
 */
weft_status wf_check_local_over_mesh(weft_tensor *local, weft_mesh *mesh,
                                     const weft_placement *placements, const int64_t *shape);
