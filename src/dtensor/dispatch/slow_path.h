/*
 * slow_path.h: calls that are not simply carried out. A plan says so in one number, which is
 * all that dispatch reads; what follows is decided in slow_path.c.
 */
#pragma once

#include "dtensor/dispatch/plan_cache.h"

enum wf_slow_path {
    WF_SLOW_PLAIN_SCALAR = 1, /* a plain number beside distributed inputs */
    WF_SLOW_PLAIN_TENSOR =
        2, /* a plain tensor of several elements beside them: nothing else is planned */
    WF_SLOW_IMPLICIT_MOVE = 4,   /* an input is redistributed that nobody asked to */
    WF_SLOW_EXPLICIT_MOVE = 8,   /* an input is redistributed, which is what the op is for */
    WF_SLOW_GRAD_TYPES = 32,     /* the inputs' gradient types do not go together: grad_types.h */
    WF_SLOW_ROW_MAJOR_COPY = 16, /* a view whose input is made row-major first */
    WF_SLOW_OTHER_DEVICE =
        64, /* a number of the CPU beside tensors of a device: nothing else is planned */
    WF_SLOW_DTYPES = 128, /* operands that are cast to one dtype first: nothing else is planned */
    WF_SLOW_COMPLEX = 256 /* computed on pairs of real numbers: nothing else is planned */
};

enum wf_dispatch_verdict {
    WF_DISPATCH_CONTINUE,
    WF_DISPATCH_PROMOTE,
    WF_DISPATCH_CAST,
    WF_DISPATCH_COMPLEX,
    WF_DISPATCH_REFUSE
};

/** What dispatch does with this call; refused: the error is recorded. `recorded`: a gradient is
 *  wanted of it. */
enum wf_dispatch_verdict wf_dispatch_slow(struct wf_op_plan *plan, weft_tensor *const *in,
                                          bool recorded);

/** The call with its plain inputs as replicated ones, and numbers on the plan's device. */
weft_tensor *wf_call_promoted(const struct wf_op_plan *plan, weft_tensor *const *in,
                              const struct wf_op_args *args, weft_tensor **more);

/** The call with its operands in the plan's one dtype. */
weft_tensor *wf_call_in_one_dtype(const struct wf_op_plan *plan, weft_tensor *const *in,
                                  const struct wf_op_args *args, weft_tensor **more);

/** A gradient that the program gives for `of`: a plain number, or where plain tensors may stand
 *  beside distributed ones a plain tensor, as a replicated one; other plain ones are refused. */
weft_tensor *wf_plain_gradient_as_replicated(weft_tensor *grad, const weft_tensor *of);

/** Refuses a plain tensor of several elements beside distributed ones unless that is allowed. */
weft_status wf_check_implicit_replication(const struct wf_op_plan *plan);
