/* clip.h: what both forms of clipping by a norm begin with. */
#pragma once

#include <weft/optim.h>

/** fails: WEFT_ERR_ARG */
weft_status wf_clip_check_norm(double max_norm, double p);

/** The gradients of a module's parameters, none of them partial any more, in an array to free. */
weft_status wf_clip_collect_gradients(weft_module *module, weft_tensor ***grads, int *n);
