/* channel_norm.c: batch norm and group norm as layers. */
#include <weft/ops.h>

#include "nn/layer_construction.h"

/* Its buffers are behind the parameters, the running mean before the variance. */
struct channel_norm {
    double eps, momentum;
    int64_t groups;
    bool running; /* there are running statistics: the module's two buffers */
};

enum { WEIGHT, BIAS };

static weft_tensor *parameter_or_null(const weft_module *m, int index)
{
    return index < m->n_parameters ? m->parameters[index].tensor : NULL;
}

static weft_tensor *batch_norm_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    const struct channel_norm *norm = m->payload;
    weft_batch_norm_options options = {.training = m->training || !norm->running,
                                       .momentum = norm->momentum};

    (void)n;
    if (norm->running) {
        options.running_mean = m->parameters[m->n_parameters].tensor;
        options.running_var = m->parameters[m->n_parameters + 1].tensor;
    }
    return weft_batch_norm(inputs[0], parameter_or_null(m, WEIGHT), parameter_or_null(m, BIAS),
                           norm->eps, options);
}

static weft_tensor *group_norm_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    const struct channel_norm *norm = m->payload;

    (void)n;
    return weft_group_norm(inputs[0], norm->groups, parameter_or_null(m, WEIGHT),
                           parameter_or_null(m, BIAS), norm->eps);
}

static const weft_module_class class_batch_norm = {
    .type = "batch norm", .forward = batch_norm_forward, .free = wf_free};
static const weft_module_class class_group_norm = {
    .type = "group norm", .forward = group_norm_forward, .free = wf_free};

static weft_status add_weight_and_bias(weft_module *m, weft_dtype dtype, int64_t channels)
{
    WF_TRY(wf_parameter_add_constant(m, "weight", dtype, &channels, 1, 1));
    return wf_parameter_add_constant(m, "bias", dtype, &channels, 1, 0);
}

static weft_status add_running(weft_module *m, const char *name, weft_dtype dtype, int64_t channels,
                               double value)
{
    weft_scope *scope;
    weft_status status;
    weft_tensor *t;

    WF_NEED(weft_dtype_is_float(dtype), WEFT_ERR_DTYPE, "batch norm: buffer %s cannot be %s", name,
            weft_dtype_name(dtype));
    scope = weft_scope_open();
    t = weft_full(dtype, &channels, 1, value);
    status = t ? weft_module_add_buffer(m, name, t, (weft_buffer_options){0}) : weft_error_status();
    weft_scope_close(scope);
    return status;
}

weft_module *weft_batch_norm_new(weft_batch_norm_config config)
{
    weft_status status = WEFT_OK;
    weft_module *m;

    WF_TRY_PTR(wf_check_positive_size("batch norm", "channels", config.channels));
    WF_NEED_PTR(config.eps >= 0, WEFT_ERR_ARG, "batch norm: eps is %g", config.eps);
    WF_NEED_PTR(config.momentum >= 0 && config.momentum <= 1, WEFT_ERR_ARG,
                "batch norm: momentum is %g", config.momentum);
    m = wf_layer_new(&class_batch_norm, sizeof(struct channel_norm));
    *(struct channel_norm *)m->payload =
        (struct channel_norm){.eps = config.eps > 0 ? config.eps : 1e-5,
                              .momentum = config.momentum,
                              .running = !config.no_running};
    if (!config.no_weight) status = add_weight_and_bias(m, config.dtype, config.channels);
    if (status == WEFT_OK && !config.no_running)
        status = add_running(m, "running_mean", config.dtype, config.channels, 0);
    if (status == WEFT_OK && !config.no_running)
        status = add_running(m, "running_var", config.dtype, config.channels, 1);
    return wf_layer_finish(m, status);
}

weft_module *weft_group_norm_new(weft_group_norm_config config)
{
    weft_status status = WEFT_OK;
    weft_module *m;

    WF_TRY_PTR(wf_check_positive_size("group norm", "channels", config.channels));
    WF_NEED_PTR(config.groups > 0 && config.channels % config.groups == 0, WEFT_ERR_ARG,
                "group norm: %lld channels are no %lld equal groups", (long long)config.channels,
                (long long)config.groups);
    WF_NEED_PTR(config.eps >= 0, WEFT_ERR_ARG, "group norm: eps is %g", config.eps);
    m = wf_layer_new(&class_group_norm, sizeof(struct channel_norm));
    *(struct channel_norm *)m->payload =
        (struct channel_norm){.eps = config.eps > 0 ? config.eps : 1e-5, .groups = config.groups};
    if (!config.no_weight) status = add_weight_and_bias(m, config.dtype, config.channels);
    return wf_layer_finish(m, status);
}
