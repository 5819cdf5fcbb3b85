/*
 * replica_step.c: the calls of a training step over replicas: backward with a number of tokens, and
 * the mean loss over the tokens of all.
 */
#include <math.h>

#include <weft/autograd.h>
#include <weft/dtensor.h>
#include <weft/ops.h>

#include "base/error.h"
#include "data_parallel/data_parallel.h"
#include "tensor/tensor.h"

static struct wf_replicas *require_replica_module(const weft_module *module, const char *who)
{
    const struct wf_hook *hook;

    WF_NEED_PTR(module, WEFT_ERR_ARG, "%s: the module is NULL", who);
    hook = wf_module_view_hook(module);
    WF_NEED_PTR(hook && hook->view_parameter == wf_replica_parameter_view, WEFT_ERR_STATE,
                "%s: module '%s' (%s) is no replica: call weft_data_parallel", who, module->path,
                module->kind->type);
    return hook->payload;
}

static weft_status loss_value(weft_tensor *loss, double *value)
{
    weft_tensor *plain;

    WF_NEED(weft_numel(loss) == 1, WEFT_ERR_SHAPE, "data parallel: the loss has %lld elements",
            (long long)weft_numel(loss));
    weft_no_grad_open();
    plain = weft_full_tensor(loss);
    weft_no_grad_close();
    if (!plain) return weft_error_status();
    *value = wf_is_meta(plain) ? NAN : weft_item(plain);
    return WEFT_OK;
}

/* When the gradients of a step were dropped, its token count starts at zero again. */
static void reset_sums_if_dropped(struct wf_replicas *r)
{
    if (r->n_started) return;
    for (int i = 0; i < r->n_members; i++)
        if (r->members[i].leaf->grad && !r->members[i].grad_state.reduced) return;
    r->tokens = r->loss = 0;
}

static weft_status backward_weighted_by_tokens(struct wf_replicas *r, weft_tensor *loss,
                                               double tokens)
{
    weft_status status = WEFT_OK;
    double value = 0;

    WF_TRY(loss_value(loss, &value));
    reset_sums_if_dropped(r);
    if (++r->backwards == r->config.backwards) wf_buckets_begin_backward(r);
    if (tokens > 0 || r->cut || r->spread) status = weft_backward(weft_mul_scalar(loss, tokens));
    if (status == WEFT_OK) wf_buckets_start_remaining(r);
    r->grad_hook.wants_complete = false;
    WF_TRY(status);
    r->tokens += tokens;
    if (tokens > 0) r->loss += tokens * value;
    return WEFT_OK;
}

weft_status weft_data_parallel_backward(weft_module *module, weft_tensor *loss, int64_t tokens)
{
    struct wf_replicas *r = require_replica_module(module, "data parallel backward");
    weft_scope *scope;
    weft_status status;

    if (!r) return weft_error_status();
    WF_NEED_GIVEN(loss, "data parallel backward: the loss is NULL");
    WF_NEED(tokens >= 0, WEFT_ERR_ARG, "data parallel backward: %lld tokens", (long long)tokens);
    scope = weft_scope_open();
    status = backward_weighted_by_tokens(r, loss, (double)tokens);
    weft_scope_close(scope);
    return status;
}

weft_status weft_data_parallel_loss(weft_module *module, double *loss, int64_t *tokens)
{
    const struct wf_replicas *r = require_replica_module(module, "data parallel loss");

    if (!r) return weft_error_status();
    if (loss) *loss = r->mean_loss;
    if (tokens) *tokens = (int64_t)r->all_tokens;
    return WEFT_OK;
}

weft_status weft_data_parallel_share_buffers(weft_module *module)
{
    const struct wf_replicas *r = require_replica_module(module, "data parallel share buffers");

    if (!r) return weft_error_status();
    wf_replicas_sync_buffers(r);
    return WEFT_OK;
}

weft_status weft_data_parallel_mean(weft_module *module, double mean, int64_t tokens,
                                    double *of_all)
{
    const struct wf_replicas *r = require_replica_module(module, "data parallel mean");
    double sums[] = {(double)tokens, tokens > 0 ? mean * (double)tokens : 0};

    if (!r) return weft_error_status();
    WF_NEED(of_all, WEFT_ERR_ARG, "data parallel mean: nowhere to put it");
    WF_NEED(tokens >= 0, WEFT_ERR_ARG, "data parallel mean: %lld tokens", (long long)tokens);
    wf_replicas_sum_values(r, r->axes, sums, 2);
    *of_all = sums[0] > 0 ? sums[1] / sums[0] : NAN;
    return WEFT_OK;
}
