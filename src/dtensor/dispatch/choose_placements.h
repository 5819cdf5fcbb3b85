/*
 * choose_placements.h: which placements an op's operands get (docs/concepts/dispatch.md).
 *
 * For each mesh axis the candidates are: everything replicated, and what the op's rule offers: each
 * letter sharded and each linear set partial, or the strategies of a rule that the program has
 * registered. The cheapest wins, the first of equals, so that all ranks choose alike. Pure: reads
 * global metadata only.
 */
#pragma once

#include "ops/op_table.h"

struct wf_placement_choice {
    weft_placement in[WF_MAX_IN][WEFT_MAX_AXES];
    weft_placement out[WF_MAX_OUT][WEFT_MAX_AXES];
    int64_t cost; /* picoseconds that moving the inputs should take, all axes together */
    bool depends_on_requires_grad; /* the choice depends on whether they are wanted */
};

/**
 * `call` has its output shapes; its distributed inputs are on `mesh`, others are plain.
 *
 * fails: WEFT_ERR_LAYOUT for a registered op without a rule; what a registered rule says
 */
weft_status wf_choose_placements(const struct wf_infer *call, const weft_mesh *mesh,
                                 struct wf_placement_choice *choice);
