/* redistribute_gradient.h: the one rule for gradients of redistributions
 * (docs/concepts/autograd.md). */
#pragma once

#include "placement/layout.h"
#include <weft/tensor.h>

/**
 * The gradient of what was redistributed, on this mesh or to another: back in the placements of the
 * input, but replicated where that was partial. Collective; records what it does.
 */
weft_tensor *wf_redistribute_gradient(weft_tensor *g, const struct wf_layout *input);
