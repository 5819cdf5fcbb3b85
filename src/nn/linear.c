/*
 * linear.c: x wT + bias, where input and output features may be several dims.
 *
 * Which dims a style splits follows from the config; the styles themselves are rows in
 * parallel_styles/styles.def.
 */
#include <math.h>

#include <weft/ops.h>

#include "nn/layer_construction.h"

struct linear {
    struct wf_features features; /* n_in is the number of contracted dims */
    bool transposed;             /* the weight is [in...,out...] */
};

static weft_tensor *linear_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    const struct linear *linear = m->payload;
    weft_tensor *bias = m->n_parameters > 1 ? m->parameters[1].tensor : NULL;

    (void)n;
    return weft_linear_with(inputs[0], m->parameters[0].tensor, bias,
                            (weft_linear_options){.k_dims = linear->features.n_in,
                                                  .transposed = linear->transposed,
                                                  .wide = m->wide,
                                                  .wide_gradient = m->wide_gradient});
}

const weft_module_class wf_class_linear = {
    .type = "linear", .forward = linear_forward, .free = wf_free};

/* Sizes up to the first 0. */
static int count_nonzero_sizes(const int64_t *sizes)
{
    int n = 0;

    while (n < WEFT_MAX_DIMS && sizes[n]) n++;
    return n;
}

static weft_status check_linear_config(const weft_linear_config *c, int n_in, int n_out)
{
    WF_NEED(n_in && n_out, WEFT_ERR_ARG, "linear: `%s` has no sizes", n_in ? "out" : "in");
    WF_NEED(n_in + n_out <= WEFT_MAX_DIMS, WEFT_ERR_ARG,
            "linear: %d + %d dims; a weight can have %d", n_out, n_in, WEFT_MAX_DIMS);
    for (int i = 0; i < n_in; i++) WF_TRY(wf_check_positive_size("linear", "in", c->in[i]));
    for (int i = 0; i < n_out; i++) WF_TRY(wf_check_positive_size("linear", "out", c->out[i]));
    WF_NEED(c->in_split >= 0 && c->in_split < n_in, WEFT_ERR_ARG, "linear: in_split %d of %d dims",
            c->in_split, n_in);
    WF_NEED(c->out_split >= 0 && c->out_split < n_out, WEFT_ERR_ARG,
            "linear: out_split %d of %d dims", c->out_split, n_out);
    WF_NEED(c->std >= 0, WEFT_ERR_ARG, "linear: std is %g", c->std);
    return WEFT_OK;
}

static weft_status add_linear_parameters(weft_module *m, const weft_linear_config *c, int n_in,
                                         int n_out)
{
    int64_t shape[WEFT_MAX_DIMS], fan_in = 1;
    double bound;

    for (int i = 0; i < n_out; i++) shape[c->transposed ? n_in + i : i] = c->out[i];
    for (int i = 0; i < n_in; i++) shape[c->transposed ? i : n_out + i] = c->in[i];
    for (int i = 0; i < n_in; i++) fan_in *= c->in[i];
    bound = 1 / sqrt((double)fan_in);
    if (c->std > 0)
        WF_TRY(wf_parameter_add_normal(m, "weight", c->dtype, shape, n_out + n_in, c->std));
    else
        WF_TRY(wf_parameter_add_uniform(m, "weight", c->dtype, shape, n_out + n_in, bound));
    if (c->no_bias) return WEFT_OK;
    if (c->std > 0) return wf_parameter_add_constant(m, "bias", c->dtype, c->out, n_out, 0);
    return wf_parameter_add_uniform(m, "bias", c->dtype, c->out, n_out, bound);
}

weft_module *weft_linear_new(weft_linear_config config)
{
    int n_in = count_nonzero_sizes(config.in), n_out = count_nonzero_sizes(config.out);
    int first_out = config.transposed ? n_in : 0, first_in = config.transposed ? 0 : n_out;
    struct wf_features *features;
    weft_module *m;

    WF_TRY_PTR(check_linear_config(&config, n_in, n_out));
    m = wf_layer_new(&wf_class_linear, sizeof(struct linear));
    ((struct linear *)m->payload)->transposed = config.transposed;
    features = &((struct linear *)m->payload)->features;
    *features = (struct wf_features){.weight_out = first_out + config.out_split,
                                     .weight_in = first_in + config.in_split,
                                     .bias_out = config.out_split,
                                     .output_dim = config.out_split - n_out,
                                     .input_dim = config.in_split - n_in,
                                     .n_in = n_in};
    for (int i = 0; i < n_in; i++) features->in_sizes[i] = config.in[i];
    m->features = features;
    return wf_layer_finish(m, add_linear_parameters(m, &config, n_in, n_out));
}
