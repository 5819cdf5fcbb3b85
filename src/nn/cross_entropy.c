/* cross_entropy.c: the loss of class scores, as a module, so that a style can take it over. */
#include <weft/autograd.h>
#include <weft/ops.h>

#include "nn/layer_construction.h"

struct cross_entropy {
    struct wf_features features;
    weft_cross_entropy_options options; /* but for the weight, which is the parameter, if any */
};

static weft_tensor *cross_entropy_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    const struct cross_entropy *loss = m->payload;
    weft_cross_entropy_options options = loss->options;

    (void)n;
    options.weight = m->n_parameters ? m->parameters[0].tensor : NULL;
    return weft_cross_entropy_with(inputs[0], inputs[1], options);
}

const weft_module_class wf_class_cross_entropy = {
    .type = "cross entropy", .forward = cross_entropy_forward, .free = wf_free, .inputs = 2};

/* Class weights are spread, saved and loaded as parameters are, and not trained. */
static weft_status add_class_weights(weft_module *m, weft_tensor *weight)
{
    weft_scope *scope;
    weft_status status;

    if (!weight) return WEFT_OK;
    WF_NEED(weft_ndim(weight) == 1 && !weft_tensor_mesh(weight) && !weft_requires_grad(weight),
            WEFT_ERR_ARG, "cross entropy: class weights are plain [V] and want no gradient");
    scope = weft_scope_open();
    weight = weft_detach(weight);
    status = weft_module_add_parameter(m, "weight", weight);
    if (status == WEFT_OK) weft_set_requires_grad(weight, false);
    weft_scope_close(scope);
    return status;
}

weft_module *weft_cross_entropy_new(weft_cross_entropy_config config)
{
    int dim = config.options.class_dim ? config.options.class_dim : -1;
    struct cross_entropy *loss;
    weft_module *m;

    WF_NEED_PTR(config.classes >= 0, WEFT_ERR_ARG, "cross entropy: classes is %lld",
                (long long)config.classes);
    WF_NEED_PTR(dim >= -WEFT_MAX_DIMS && dim < WEFT_MAX_DIMS, WEFT_ERR_ARG,
                "cross entropy: class_dim is %d", dim);
    m = wf_layer_new(&wf_class_cross_entropy, sizeof *loss);
    loss = m->payload;
    loss->options = config.options;
    loss->features = (struct wf_features){.input_dim = dim, .n_in = dim < 0 ? -dim : -(dim + 1)};
    loss->features.in_sizes[dim < 0 ? 0 : dim] = config.classes;
    m->features = &loss->features;
    return wf_layer_finish(m, add_class_weights(m, config.options.weight));
}
