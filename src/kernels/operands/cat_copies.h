/* cat_copies.h: a concatenation as a copy per input, for every device. */
#pragma once

#include "base/elements/strided_copy.h"
#include "kernels/kernels.h"

struct wf_cat_copies {
    struct wf_strided_copy input[WF_MAX_IN]; /* into its place in the output */
};

/** Put the copies of a call into k->prep. fails: WEFT_ERR_DTYPE for an input of another dtype */
weft_status wf_cat_copies_prepare(struct wf_kernel_call *k);
