/* scatter_shards.h: gives each rank its shard of a tensor that all ranks or one source rank hold.
 */
#pragma once

#include "tensor/tensor.h"

/**
 * This rank's shard of `whole` (plain, row-major) as a new tensor without gradient.
 *
 * Placements are normalized and valid for `whole`; partial ones count as replicated. source < 0:
 * each rank cuts its own copy, nothing is sent. Else the elements are those of the rank at place
 * `source` of every axis: a scatter per axis that shards, a broadcast per other axis, none along
 * axes of one rank. Collective over the mesh then, and out of memory ends the job.
 */
weft_tensor *wf_scatter_from_source(weft_tensor *whole, weft_mesh *mesh,
                                    const weft_placement *placements, int source);
