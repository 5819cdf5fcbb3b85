/*
 * grad_types.h: types of plain tensors that came out of a mesh (docs/concepts/autograd.md). Where
 * each goes wrong is data, grad_types.def; here is what reads it. All of it runs when a plan is
 * made.
 */
#pragma once

#include "dtensor/dispatch/plan_cache.h"

/** The types of to_local's result. fails: WEFT_ERR_LAYOUT for a gradient that no result has */
weft_status wf_grad_types_of_to_local(struct wf_grad_types *types, const struct wf_layout *in,
                                      const weft_placement *gradient);

/** Let the plan of from_local know what its input may not be; `gradient` as far as it is given,
 * `sized` where the global shape is. */
void wf_grad_types_check_from_local(struct wf_op_plan *plan, const weft_placement *placements,
                                    const weft_placement *gradient, bool sized);

/** Types of a plain call's outputs; false when they have none. Lets the plan know what its inputs
 * may not be. */
bool wf_grad_types_infer(struct wf_op_plan *plan, const struct wf_infer *call,
                         struct wf_grad_types *out);

/** A plain number beside distributed inputs stands for the same number on every rank. */
void wf_grad_types_check_scalars(struct wf_op_plan *plan, weft_mesh *mesh);

/** The plain tensor is not known to differ between ranks of the mesh. fails: WEFT_ERR_LAYOUT */
weft_status wf_grad_types_check_replicated(const struct wf_layout *plain, weft_mesh *mesh,
                                           const char *who);

/** Refuse what the plan knows to be wrong; `recorded`: a gradient is wanted. */
weft_status wf_grad_types_check_call(const struct wf_op_plan *plan, weft_tensor *const *in,
                                     bool recorded);
