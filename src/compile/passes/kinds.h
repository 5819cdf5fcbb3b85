/* kinds.h: kernels that memory bounds: cheap to run again, and worth running together. */
#pragma once

#include "compile/list/op_list.h"

enum wf_chain_kind {
    WF_KIND_NONE,
    WF_KIND_BY_ELEMENT,
    WF_KIND_LIBRARY, /* by element too, by functions that may round the last of a run differently */
    WF_KIND_SOFTMAX,
    WF_KIND_LAYER_NORM,
    WF_KIND_RMS_NORM,
    WF_KIND_SWIGLU,
    WF_KIND_REDUCTION
};

enum wf_chain_kind wf_chain_kind_of(enum wf_kernel kernel);

/** A kernel that memory bounds, of whole tensors that it does not write over, without draws: run
 * again it gives the same bits. */
bool wf_is_cheap_to_repeat(const struct wf_list_node *node);
