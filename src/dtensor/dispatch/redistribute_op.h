/* redistribute_op.h: redistribution as an op, for the library's own use. */
#pragma once

#include "tensor/tensor.h"

/** weft_redistribute of whatever the library itself needs: to partial placements too. */
weft_tensor *wf_redistribute(weft_tensor *t, const weft_placement *placements);
