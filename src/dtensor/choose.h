/*
 * choose.h: which placements an op's operands get (design D3).
 *
 * For each mesh axis the candidates are: everything replicated, each letter of the op's rule
 * sharded, each linear set pending. The cheapest in bytes wins, the first of equals, so that all
 * ranks choose alike. Pure: reads global metadata only.
 */
#pragma once

#include "ops/table.h"

struct wf_choice {
    weft_placement in[WF_MAX_IN][WEFT_MAX_AXES];
    weft_placement out[WF_MAX_OUT][WEFT_MAX_AXES];
};

/** `call` has its output shapes; its distributed inputs are on `mesh`, others are plain. */
void wf_choose(const struct wf_infer *call, const weft_mesh *mesh, struct wf_choice *choice);
