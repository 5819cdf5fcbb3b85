/* reduce_gradients.h: partial gradients of leaves, reduced together. */
#pragma once

#include <weft/tensor.h>

/** As weft_reduce_gradients, without the axes that leaves' gradient hooks reduce (autograd/tape.h).
 */
weft_status wf_reduce_partial_gradients(weft_tensor *const *leaves, int n);
