/* all_reduce_max_min.h: what ranks know by themselves, compared over a mesh. */
#pragma once

#include <weft/mesh.h>

enum { WF_MAX_REDUCED_WORDS = 80 };

/** The largest and the smallest of each of n <= WF_MAX_REDUCED_WORDS words over the ranks of the
 * mesh. Collective over it: one all-reduce per axis. */
void wf_all_reduce_max_min(weft_mesh *mesh, const int64_t *words, int n, int64_t *most,
                           int64_t *least);
