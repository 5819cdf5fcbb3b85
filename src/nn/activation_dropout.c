/* activation_dropout.c: activation functions, gates and dropout as modules. */
#include <weft/ops.h>
#include <weft/random.h>

#include "nn/layer_construction.h"

/* ---- activations ---- */

static weft_tensor *(*const activation_functions[WEFT_ACTIVATIONS])(weft_tensor *x) = {
    [WEFT_GELU] = weft_gelu, [WEFT_GELU_TANH] = weft_gelu_tanh, [WEFT_RELU] = weft_relu,
    [WEFT_SILU] = weft_silu, [WEFT_TANH] = weft_tanh,
};

static weft_tensor *activation_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    const weft_activation_kind *kind = m->payload;

    (void)n;
    return activation_functions[*kind](inputs[0]);
}

static const weft_module_class class_activation = {
    .type = "activation", .forward = activation_forward, .free = wf_free};

/* x [*,2,h], gate and up, -> [*,h] */
static weft_tensor *gate_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    const weft_activation_kind *kind = m->payload;

    (void)n;
    if (*kind == WEFT_SILU) return weft_swiglu(inputs[0]);
    return weft_mul(activation_functions[*kind](weft_select(inputs[0], -2, 0)),
                    weft_select(inputs[0], -2, 1));
}

static const weft_module_class class_gate = {
    .type = "gate", .forward = gate_forward, .free = wf_free};

static weft_module *new_activation_or_gate(const weft_module_class *class,
                                           weft_activation_kind kind)
{
    weft_module *m;

    WF_NEED_PTR((unsigned)kind < WEFT_ACTIVATIONS, WEFT_ERR_ARG, "activation: unknown kind %d",
                (int)kind);
    m = wf_layer_new(class, sizeof kind);
    *(weft_activation_kind *)m->payload = kind;
    return m;
}

weft_module *weft_activation_new(weft_activation_kind kind)
{
    return new_activation_or_gate(&class_activation, kind);
}

weft_module *weft_gate_new(weft_activation_kind kind)
{
    return new_activation_or_gate(&class_gate, kind);
}

/* ---- dropout ---- */

static weft_tensor *dropout_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    const double *p = m->payload;

    (void)n;
    return m->training && *p > 0 ? weft_dropout(inputs[0], *p, NULL) : inputs[0];
}

const weft_module_class wf_class_dropout = {
    .type = "dropout", .forward = dropout_forward, .free = wf_free};

weft_module *weft_dropout_new(double p)
{
    weft_module *m;

    WF_NEED_PTR(p >= 0 && p <= 1, WEFT_ERR_ARG, "dropout: p is %g; it must lie in [0, 1]", p);
    m = wf_layer_new(&wf_class_dropout, sizeof p);
    *(double *)m->payload = p;
    return m;
}
