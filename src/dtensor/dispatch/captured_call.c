/*
 * captured_call.c: kernels of a captured step. Most are captured as they are called; one that draws
 * is kept, with its plan and its operands, and is given again in each launch.
 */
#include "dtensor/dispatch/captured_call.h"

#include <string.h>

#include "base/mem.h"
#include "dtensor/dispatch/plan_cache.h"
#include "ops/fills/captured_draws.h"

struct captured_call {
    struct wf_op_plan *plan; /* one reference */
    void *to[WF_MAX_OUT];
    const void *from[WF_MAX_IN];
    struct wf_scalars scalars;
    struct wf_captured_draw draw;
};

static void give(void *self)
{
    struct captured_call *call = self;

    wf_captured_draw_set(&call->draw, &call->scalars);
    call->plan->kernel.run(&call->plan->kernel, call->to, call->from, &call->scalars);
}

static void release(void *self)
{
    struct captured_call *call = self;

    wf_op_plan_release(call->plan);
    wf_free(call);
}

/* `to` has its first n_out places, or one where the result is written over a tensor. */
static struct captured_call *keep_call(const struct wf_op_plan *plan, void *const *to,
                                       const void *const *from, const struct wf_op_args *args)
{
    struct captured_call *call = WF_NEW(struct captured_call);

    call->plan = (struct wf_op_plan *)plan;
    call->plan->refs++;
    memcpy(call->to, to, plan->n_out * sizeof *to);
    memcpy(call->from, from, plan->n_in * sizeof *from);
    call->scalars = args->scalars;
    return call;
}

void wf_run_kernel_in_capture(const struct wf_op_plan *plan, void *const *to,
                              const void *const *from, const struct wf_op_args *args)
{
    struct wf_captured_draw draw;
    struct captured_call *call;

    if (plan->device != WEFT_CUDA || !args->draws ||
        !wf_captured_draw_find(&args->scalars, &draw)) {
        plan->kernel.run(&plan->kernel, to, from, &args->scalars);
        return;
    }
    call = keep_call(plan, to, from, args);
    call->draw = draw;
    wf_capture_add_call((struct wf_changing_call){.give = give, .release = release, .self = call});
}
