/* shape.h: what every shape has to be, whoever makes a tensor of it. */
#pragma once

#include <stdint.h>

#include <weft/tensor.h>

#include "base/elements/numel.h"

/** fails: WEFT_ERR_DTYPE, WEFT_ERR_SHAPE for what no new tensor can have */
weft_status wf_shape_check(weft_dtype dtype, const int64_t *shape, int ndim);
