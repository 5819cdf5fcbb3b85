/* derived_plan.c: the fields of a plan that its kernel and its node need; none of dispatch's. */
#include "compile/list/derived_plan.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "dtensor/dispatch/plan_cache.h"
#include "kernels/device_kernels.h"
#include "ops/op_table.h"

struct wf_op_plan *wf_derived_plan_new_like(const struct wf_op_plan *plan)
{
    struct wf_op_plan *made = WF_NEW(struct wf_op_plan);

    made->op = plan->op;
    made->name = plan->name;
    made->attrs = plan->attrs;
    made->attr_words = plan->attr_words;
    made->way = plan->way;
    made->device = plan->device;
    made->refs = 1;
    memcpy(made->absent, plan->absent, sizeof made->absent);
    return made;
}

struct wf_op_plan *wf_derived_plan_prepare(struct wf_op_plan *plan)
{
    struct wf_kernel_call *k = &plan->kernel;

    *k = (struct wf_kernel_call){
        .op = plan->name, .attrs = &plan->attrs, .n_in = plan->n_in, .n_out = plan->n_out};
    for (int i = 0; i < plan->n_in; i++)
        if (plan->used[i]) k->in[i] = &plan->used[i]->desc;
    for (int j = 0; j < plan->n_out; j++)
        if (plan->out[j]) k->out[j] = &plan->out[j]->desc;
    if (wf_prepare_kernel_on((weft_device)plan->device, (enum wf_kernel)wf_ops[plan->op].kernel,
                             k) == WEFT_OK)
        return plan;
    weft_error_clear();
    wf_op_plan_release_context(plan);
    return NULL;
}
