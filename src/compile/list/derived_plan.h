/* derived_plan.h: plans of nodes that a pass puts in the place of others: an op's kernel with other
 * operands, which dispatch has never planned. */
#pragma once

#include "ops/op_plan.h"

/** A plan of the same op, attributes and device, still without operands: `used` and `out` take over
 * a reference each. */
struct wf_op_plan *wf_derived_plan_new_like(const struct wf_op_plan *plan);

/** Prepare its kernel for the operands that it has now. gives: the plan, with one reference; NULL,
 * and the plan is freed: the kernel refuses */
struct wf_op_plan *wf_derived_plan_prepare(struct wf_op_plan *plan);
