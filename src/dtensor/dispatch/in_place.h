/* in_place.h: results that go into a tensor that there is. */
#pragma once

#include "ops/op_plan.h"

/**
 * Run the plan's kernel on `used` and write the first output over args->into, whatever its strides.
 * gives: args->into; NULL when the output is for other elements, or without memory
 */
weft_tensor *wf_run_into(const struct wf_op_plan *plan, weft_tensor *const *used,
                         const struct wf_op_args *args);
