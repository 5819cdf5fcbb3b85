/* scatter_shards.h: from a tensor that every rank holds, or one rank of each axis, to everybody's
 * part. */
#pragma once

#include "tensor/tensor.h"

/**
 * This rank's part of `whole` (plain, row-major) as a fresh tensor without gradient.
 *
 * Placements are normal and fit; pending ones count as replicated. source < 0: each rank cuts its
 * own copy, nothing is sent. Else the elements are those of the rank at place `source` of every
 * axis: a scatter per axis that shards, a broadcast per other axis, none along axes of one rank.
 * Collective over the mesh then, and without memory the job ends.
 */
weft_tensor *wf_scatter_from_source(weft_tensor *whole, weft_mesh *mesh,
                                    const weft_placement *placements, int source);
