/* captured_call.h: an op's kernel in a step that is being captured. */
#pragma once

#include "device/capture.h"
#include "ops/op_plan.h"

/** plan->kernel.run, captured; what a draw gives it is another in each launch. */
void wf_run_kernel_in_capture(const struct wf_op_plan *plan, void *const *to,
                              const void *const *from, const struct wf_op_args *args);
