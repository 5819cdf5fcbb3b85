/*
 * care.h: calls that are not simply carried out. A plan that needs care says so in one byte, which
 * is all that the door looks at; what follows is decided in care.c.
 */
#pragma once

#include "dtensor/plan.h"

enum wf_care {
    WF_CARE_NUMBER = 1, /* a plain number beside distributed inputs */
    WF_CARE_PLAIN = 2, /* a plain tensor of several elements beside them: nothing else is planned */
    WF_CARE_MOVES = 4, /* an input is redistributed that nobody asked to */
    WF_CARE_ASKED = 8, /* an input is redistributed, which is what the op is for */
    WF_CARE_TYPES = 32, /* the inputs' gradient types do not go together: types.h */
    WF_CARE_COPY = 16   /* a view whose input is made row-major first */
};

enum wf_verdict { WF_GO_ON, WF_LIFT, WF_REFUSE };

/** What the door does with this call; refused: the error is recorded. `recorded`: a gradient is
 *  wanted of it. */
enum wf_verdict wf_take_care(struct wf_plan *plan, weft_tensor *const *in, bool recorded);

/** The call with its plain inputs as replicated ones. */
weft_tensor *wf_call_lifted(const struct wf_plan *plan, weft_tensor *const *in,
                            const struct wf_args *args, weft_tensor **more);

/** A gradient that the program gives for `of`: a plain number, or where plain tensors may stand
 *  beside distributed ones a plain tensor, as a replicated one; other plain ones are refused. */
weft_tensor *wf_gradient_beside(weft_tensor *grad, const weft_tensor *of);

/** Refuses a plain tensor of several elements beside distributed ones unless that is allowed. */
weft_status wf_may_replicate(const struct wf_plan *plan);
