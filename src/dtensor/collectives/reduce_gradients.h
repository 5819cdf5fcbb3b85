/* reduce_gradients.h: pending gradients, reduced together. */
#pragma once

#include <weft/tensor.h>

/** weft_reduce_gradients but for the axes along which leaves have keepers (autograd/tape.h). */
weft_status wf_reduce_partial_gradients(weft_tensor *const *leaves, int n);
