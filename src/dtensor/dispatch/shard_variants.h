/*
 * shard_variants.h: in which ways an op may cut the dims that share a letter.
 *
 * A kernel whose operands are all cut by one rule need not know the rule. So where
 * operands are strided, balanced, in segments or in another order of axes, the op may leave them
 * so.
 */
#pragma once

#include "ops/op_table.h"

struct wf_shard_variants {
    int count;
    weft_placement shard[WF_MAX_IN + 2]; /* of dim 0 */
};

/** The plain shard first, then those in which the inputs, or the layout that is wanted, have the
 *  letter's dims cut along `axis` now, as far as the op can do with them. Each once. */
void wf_list_shard_variants(struct wf_shard_variants *variants, const struct wf_infer *call,
                            const struct wf_dim_labels *labels, const weft_mesh *mesh, int axis,
                            int label);
