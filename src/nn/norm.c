/* norm.c: layer norm and RMS norm over the last dim. */
#include <weft/ops.h>

#include "nn/layer_construction.h"

struct norm {
    double eps;
};

static weft_tensor *parameter_or_null(const weft_module *m, int index)
{
    return index < m->n_parameters ? m->parameters[index].tensor : NULL;
}

static weft_tensor *layer_norm_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    const struct norm *norm = m->payload;

    (void)n;
    return weft_layer_norm(inputs[0], parameter_or_null(m, 0), parameter_or_null(m, 1), norm->eps);
}

static weft_tensor *rms_norm_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    const struct norm *norm = m->payload;

    (void)n;
    return weft_rms_norm(inputs[0], parameter_or_null(m, 0), norm->eps);
}

const weft_module_class wf_class_layer_norm = {
    .type = "layer norm", .forward = layer_norm_forward, .free = wf_free};
const weft_module_class wf_class_rms_norm = {
    .type = "RMS norm", .forward = rms_norm_forward, .free = wf_free};

static weft_module *new_norm(const weft_module_class *kind, const weft_norm_config *c, bool bias)
{
    weft_status status = WEFT_OK;
    weft_module *m;

    WF_TRY_PTR(wf_check_positive_size(kind->type, "width", c->width));
    WF_NEED_PTR(c->eps >= 0, WEFT_ERR_ARG, "%s: eps is %g", kind->type, c->eps);
    m = wf_layer_new(kind, sizeof(struct norm));
    *(struct norm *)m->payload = (struct norm){.eps = c->eps > 0 ? c->eps : 1e-5};
    if (!c->no_weight) status = wf_parameter_add_constant(m, "weight", c->dtype, &c->width, 1, 1);
    if (status == WEFT_OK && !c->no_weight && bias)
        status = wf_parameter_add_constant(m, "bias", c->dtype, &c->width, 1, 0);
    return wf_layer_finish(m, status);
}

weft_module *weft_layer_norm_new(weft_norm_config config)
{
    return new_norm(&wf_class_layer_norm, &config, !config.no_bias);
}

weft_module *weft_rms_norm_new(weft_norm_config config)
{
    return new_norm(&wf_class_rms_norm, &config, false);
}
