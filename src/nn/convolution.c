/* convolution.c: convolutions in one and two dims as layers. Styles split channels, of those
 * without groups. */
#include <math.h>

#include <weft/ops.h>

#include "nn/layer_construction.h"

struct convolution {
    struct wf_features features;
    int dims;
    weft_conv_options options;
};

static weft_tensor *convolution_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    const struct convolution *c = m->payload;
    weft_tensor *bias = m->n_parameters > 1 ? m->parameters[1].tensor : NULL;

    (void)n;
    return (c->dims == 1 ? weft_conv1d : weft_conv2d)(inputs[0], m->parameters[0].tensor, bias,
                                                      c->options);
}

const weft_module_class wf_class_conv1d = {
    .type = "conv1d", .forward = convolution_forward, .free = wf_free};
const weft_module_class wf_class_conv2d = {
    .type = "conv2d", .forward = convolution_forward, .free = wf_free};

/* Those with groups: a style that splits channels would split groups. */
static const weft_module_class class_grouped_conv1d = {
    .type = "conv1d with groups", .forward = convolution_forward, .free = wf_free};
static const weft_module_class class_grouped_conv2d = {
    .type = "conv2d with groups", .forward = convolution_forward, .free = wf_free};

static weft_status check_config(const char *name, int dims, const weft_conv_config *c,
                                int64_t groups)
{
    WF_TRY(wf_check_positive_size(name, "in", c->in));
    WF_TRY(wf_check_positive_size(name, "out", c->out));
    for (int d = 0; d < dims; d++) WF_TRY(wf_check_positive_size(name, "kernel", c->kernel[d]));
    WF_NEED(groups > 0 && c->in % groups == 0 && c->out % groups == 0, WEFT_ERR_ARG,
            "%s: %lld groups do not divide %lld and %lld channels", name, (long long)groups,
            (long long)c->in, (long long)c->out);
    return WEFT_OK;
}

/* Both uniform in +-1/sqrt(what an output adds up), as in PyTorch. */
static weft_status add_parameters(weft_module *m, int dims, const weft_conv_config *c,
                                  int64_t groups)
{
    int64_t shape[2 + 3] = {c->out, c->in / groups}, fan_in = shape[1];
    double bound;

    for (int d = 0; d < dims; d++) fan_in *= shape[2 + d] = c->kernel[d];
    bound = 1 / sqrt((double)fan_in);
    WF_TRY(wf_parameter_add_uniform(m, "weight", c->dtype, shape, 2 + dims, bound));
    return c->no_bias ? WEFT_OK : wf_parameter_add_uniform(m, "bias", c->dtype, shape, 1, bound);
}

/* Channels are dim 0 and 1 of the weight, and stand before the dims of space elsewhere. */
static void describe_channels(struct convolution *c, int64_t in)
{
    int channels = -c->dims - 1;

    c->features = (struct wf_features){.weight_out = 0,
                                       .weight_in = 1,
                                       .bias_out = 0,
                                       .output_dim = channels,
                                       .input_dim = channels,
                                       .n_in = c->dims + 1,
                                       .in_sizes = {in}};
}

static weft_module *convolution_new(int dims, const weft_conv_config *config)
{
    static const weft_module_class *const kinds[2][2] = {
        {&wf_class_conv1d, &wf_class_conv2d}, {&class_grouped_conv1d, &class_grouped_conv2d}};
    int64_t groups = config->options.groups ? config->options.groups : 1;
    struct convolution *c;
    weft_module *m;

    WF_TRY_PTR(check_config(kinds[0][dims - 1]->type, dims, config, groups));
    m = wf_layer_new(kinds[groups > 1][dims - 1], sizeof(struct convolution));
    c = m->payload;
    c->dims = dims;
    c->options = config->options;
    describe_channels(c, config->in);
    if (groups == 1) m->features = &c->features;
    return wf_layer_finish(m, add_parameters(m, dims, config, groups));
}

weft_module *weft_conv1d_new(weft_conv_config config) { return convolution_new(1, &config); }

weft_module *weft_conv2d_new(weft_conv_config config) { return convolution_new(2, &config); }
