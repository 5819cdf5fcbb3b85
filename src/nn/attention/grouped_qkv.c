/*
 * grouped_qkv.c: queries, keys and values from one input, where several query heads share a key and
 * a value, with the queries' weight apart from the keys' and values'.
 *
 * Shapes: C width, H query heads, G groups of R = H / G heads, D head size. The result is the
 * packed product that attention.c reads, [*,G,R+2,D]. Query heads can be split anywhere, also
 * within a group: then a style makes each piece a group of its own, G' > G of them, with a copy of
 * the key and value that it needs (`rows` of the parameter), and the result is
 * [*,G',H/G'+2,D].
 */
#include <math.h>

#include <weft/ops.h>

#include "nn/layer_construction.h"

struct grouped {
    struct wf_features features;
};

/* q [*,H,D] in the groups of kv [*,G,2,D], before them: [*,G,H/G+2,D] */
static weft_tensor *pack_qkv(weft_tensor *q, weft_tensor *kv)
{
    int64_t shape[WEFT_MAX_DIMS], groups;
    int n;

    if (!q || !kv) return NULL;
    n = weft_ndim(kv);
    for (int d = 0; d < n; d++) shape[d] = weft_size(kv, d);
    groups = shape[n - 3];
    shape[n - 2] = groups ? weft_size(q, n - 3) / groups : 1;
    return weft_cat((weft_tensor *[]){weft_reshape(q, shape, n), kv}, 2, n - 2);
}

static weft_tensor *grouped_qkv_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    weft_linear_options options = {.wide_gradient = m->wide_gradient};
    int each = m->n_parameters / 2; /* a weight, or a weight and a bias */
    weft_tensor *both[2];

    (void)n;
    for (int i = 0; i < 2; i++) {
        const struct wf_parameter *weight = &m->parameters[i * each];
        weft_tensor *bias = each > 1 ? wf_parameter_selected_rows(weight + 1) : NULL;

        both[i] = weft_linear_with(inputs[0], wf_parameter_selected_rows(weight), bias, options);
    }
    return pack_qkv(both[0], both[1]);
}

const weft_module_class wf_class_grouped = {
    .type = "grouped linear", .forward = grouped_qkv_forward, .free = wf_free};

/* A weight [out...,in] and its bias [out...]. */
static weft_status add_weight_and_bias(weft_module *m, const struct wf_grouped_qkv_config *c,
                                       const char *weight, const char *bias, const int64_t *out,
                                       int n_out)
{
    int64_t shape[4] = {out[0], out[1], out[2], 0};
    double bound = 1 / sqrt((double)c->in);

    shape[n_out] = c->in;
    if (c->std > 0)
        WF_TRY(wf_parameter_add_normal(m, weight, c->dtype, shape, n_out + 1, c->std));
    else
        WF_TRY(wf_parameter_add_uniform(m, weight, c->dtype, shape, n_out + 1, bound));
    if (c->no_bias) return WEFT_OK;
    if (c->std > 0) return wf_parameter_add_constant(m, bias, c->dtype, out, n_out, 0);
    return wf_parameter_add_uniform(m, bias, c->dtype, out, n_out, bound);
}

static weft_status add_qkv_parameters(weft_module *m, const struct wf_grouped_qkv_config *c)
{
    int64_t queries[3] = {c->heads, c->head_dim, 0}, shared[3] = {c->groups, 2, c->head_dim};

    WF_TRY(add_weight_and_bias(m, c, "q_weight", "q_bias", queries, 2));
    return add_weight_and_bias(m, c, "kv_weight", "kv_bias", shared, 3);
}

weft_module *wf_grouped_qkv_new(const struct wf_grouped_qkv_config *c)
{
    weft_module *m = wf_layer_new(&wf_class_grouped, sizeof(struct grouped));
    struct wf_features *features = &((struct grouped *)m->payload)->features;

    *features = (struct wf_features){.output_dim = -3,
                                     .input_dim = -1,
                                     .weight_in = 2,
                                     .n_in = 1,
                                     .in_sizes = {c->in},
                                     .shared_from = c->no_bias ? 1 : 2,
                                     .sharers = c->heads / c->groups};
    m->features = features;
    return wf_layer_finish(m, add_qkv_parameters(m, c));
}
