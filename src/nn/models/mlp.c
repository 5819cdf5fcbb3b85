/*
 * mlp.c: two linear layers with an activation between them, or with a gate: then the first gives
 * gate and up [*,2,hidden] from one product, and splits over ranks by hidden.
 */
#include "nn/layer_construction.h"

struct mlp {
    weft_module *up, *act, *down;
};

static weft_tensor *mlp_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    const struct mlp *mlp = m->payload;

    (void)n;
    return weft_call(mlp->down, weft_call(mlp->act, weft_call(mlp->up, inputs[0])));
}

static const weft_module_class class_mlp = {.type = "mlp", .forward = mlp_forward, .free = wf_free};

static weft_module *new_up_projection(const weft_mlp_config *c)
{
    weft_linear_config linear = {.in = {c->in},
                                 .out = {c->hidden},
                                 .transposed = c->transposed,
                                 .no_bias = c->no_bias,
                                 .std = c->std,
                                 .dtype = c->dtype};

    if (c->gated) {
        linear.out[0] = 2;
        linear.out[1] = c->hidden;
        linear.out_split = 1;
    }
    return weft_linear_new(linear);
}

static weft_status build_mlp(weft_module *m, const weft_mlp_config *c)
{
    struct mlp *mlp = m->payload;

    WF_TRY(wf_check_positive_size("mlp", "in", c->in));
    WF_TRY(wf_check_positive_size("mlp", "hidden", c->hidden));
    WF_TRY(wf_check_positive_size("mlp", "out", c->out));
    mlp->up = new_up_projection(c);
    WF_TRY(wf_layer_add_child(m, "up", &mlp->up));
    mlp->act = c->gated ? weft_gate_new(c->act) : weft_activation_new(c->act);
    WF_TRY(wf_layer_add_child(m, "act", &mlp->act));
    mlp->down = weft_linear_new((weft_linear_config){.in = {c->hidden},
                                                     .out = {c->out},
                                                     .transposed = c->transposed,
                                                     .no_bias = c->no_bias,
                                                     .std = c->out_std > 0 ? c->out_std : c->std,
                                                     .dtype = c->dtype});
    return wf_layer_add_child(m, "down", &mlp->down);
}

weft_module *weft_mlp(weft_mlp_config config)
{
    weft_module *m = wf_layer_new(&class_mlp, sizeof(struct mlp));

    return wf_layer_finish(m, build_mlp(m, &config));
}
