/*
 * mixer.c: the layer on one device. Of its own it has the selective scan; the rest are layers of
 * the library.
 *
 * Shapes: B texts, T words, I channels, N numbers of a channel's state.
 */
#include "mamba/mixer.h"

#include <math.h>
#include <stdlib.h>

/* ---- the scan ---- */

/* (x [B,T,I], dt [B,T,I], B [B,T,N], C [B,T,N]) -> [B,T,I] */
static weft_tensor *scan_forward(weft_module *m, weft_tensor *const *in, int n)
{
    weft_tensor *x = in[0], *dt = weft_unsqueeze(in[1], 3); /* [B,T,I,1] */
    weft_tensor *take = weft_unsqueeze(in[2], 2), *let_out = weft_unsqueeze(in[3], 2);
    weft_tensor *a = weft_neg(weft_exp(weft_module_parameter(m, "A_log")));
    weft_tensor *keep = weft_exp(weft_mul(dt, a)); /* [B,T,I,N], as `taken` and h */
    weft_tensor *taken = weft_mul(weft_mul(dt, weft_unsqueeze(x, 3)), take);
    weft_tensor *h = weft_linear_scan(keep, taken, NULL, 1);
    weft_tensor *y = weft_sum(weft_mul(h, let_out), (int[]){3}, 1, false);

    (void)n;
    return weft_add(y, weft_mul(x, weft_module_parameter(m, "D")));
}

/* The first A is -1 .. -N in every channel, so that states forget at several rates; D is 1. */
static weft_status add_scan_parameters(weft_module *m, const struct mixer *c)
{
    weft_spec one_state = {.dtype = c->dtype, .ndim = 1, .shape = {c->state}};
    weft_spec channels = {.dtype = c->dtype, .ndim = 1, .shape = {c->inner}};
    weft_tensor *a = weft_log(weft_make_arange(one_state, 1, 1));
    weft_status status;

    a = weft_clone(weft_expand(a, (int64_t[]){c->inner, c->state}, 2));
    status = weft_module_add_parameter(m, "A_log", a);
    return status ? status : weft_module_add_parameter(m, "D", weft_make_ones(channels));
}

static weft_module *scan_new(const struct mixer *c)
{
    static const weft_module_class kind = {
        .type = "selective scan", .forward = scan_forward, .inputs = 4};
    weft_module *m = weft_module_new(&kind, NULL);
    weft_scope *scope = weft_scope_open();
    weft_status status = add_scan_parameters(m, c);

    weft_scope_close(scope);
    if (!status) return m;
    weft_module_release(m);
    return NULL;
}

/* ---- the layer ---- */

/* x [B,T,I], each channel by itself along T */
static weft_tensor *convolve(weft_module *m, weft_tensor *x)
{
    x = weft_call(weft_module_child(m, "conv"), weft_transpose(x, 1, 2));
    return weft_silu(weft_transpose(x, 1, 2));
}

static weft_tensor *mixer_forward(weft_module *m, weft_tensor *const *in, int n)
{
    const struct mixer *c = weft_module_payload(m);
    const int64_t sizes[] = {c->rank, c->state, c->state};
    weft_tensor *halves = weft_call(weft_module_child(m, "in"), in[0]); /* [B,T,2,I] */
    weft_tensor *x = convolve(m, weft_select(halves, 2, 0)), *parts[3], *y;

    (void)n;
    /* features of dt, B and C */
    if (weft_split(parts, weft_call(weft_module_child(m, "select"), x), 2, sizes, 3)) return NULL;
    parts[0] = weft_softplus(weft_call(weft_module_child(m, "step"), parts[0]), 1);
    y = weft_call_n(weft_module_child(m, "scan"),
                    (weft_tensor *[]){x, parts[0], parts[1], parts[2]}, 4);
    y = weft_mul(y, weft_silu(weft_select(halves, 2, 1)));
    return weft_call(weft_module_child(m, "out"), y);
}

/* Steps between 0.001 and 0.1 at first, evenly in their logarithm: the bias is what softplus makes
 * such a step of. */
static weft_status set_first_steps(weft_module *step, const struct mixer *c)
{
    weft_spec channels = {.dtype = c->dtype, .ndim = 1, .shape = {c->inner}};
    weft_scope *scope = weft_scope_open();
    weft_tensor *dt = weft_exp(weft_make_uniform(channels, log(0.001), log(0.1), NULL));
    weft_status status = weft_copy_(weft_module_parameter(step, "bias"), weft_log(weft_expm1(dt)));

    weft_scope_close(scope);
    return status;
}

static weft_module *step_new(const struct mixer *c)
{
    weft_module *m = weft_linear_new(
        (weft_linear_config){.in = {c->rank}, .out = {c->inner}, .dtype = c->dtype});

    if (!m || !set_first_steps(m, c)) return m;
    weft_module_release(m);
    return NULL;
}

static weft_status add_children(weft_module *m, const struct mixer *c)
{
    weft_linear_config in = {.in = {c->width}, .out = {2, c->inner}, .out_split = 1};
    weft_linear_config select = {.in = {c->inner}, .out = {c->rank + 2 * c->state}};
    weft_linear_config out = {.in = {c->inner}, .out = {c->width}};
    weft_conv_config conv = {
        .in = c->inner, .out = c->inner, .kernel = {c->taps}, .dtype = c->dtype};
    weft_status status;

    in.dtype = select.dtype = out.dtype = c->dtype;
    in.no_bias = select.no_bias = out.no_bias = true;
    conv.options =
        (weft_conv_options){.padding = {c->taps - 1}, .groups = c->inner, .causal = true};
    status = weft_module_add_child(m, "in", weft_linear_new(in));
    if (!status) status = weft_module_add_child(m, "conv", weft_conv1d_new(conv));
    if (!status) status = weft_module_add_child(m, "select", weft_linear_new(select));
    if (!status) status = weft_module_add_child(m, "step", step_new(c));
    if (!status) status = weft_module_add_child(m, "scan", scan_new(c));
    return status ? status : weft_module_add_child(m, "out", weft_linear_new(out));
}

weft_module *mixer_new(struct mixer c)
{
    static const weft_module_class kind = {
        .type = "mamba mixer", .forward = mixer_forward, .free = free};
    struct mixer *own = malloc(sizeof *own);
    weft_module *m;

    if (!own) abort();
    *own = c;
    m = weft_module_new(&kind, own);
    if (!add_children(m, &c)) return m;
    weft_module_release(m);
    return NULL;
}

/* ---- over ranks ---- */

struct spreading {
    weft_module *m;
    weft_mesh *mesh;
};

static weft_status spread_one(weft_module *owner, const char *name, weft_tensor *parameter,
                              void *payload)
{
    const struct spreading *s = payload;
    const weft_placement channels = weft_shard(0);

    if (owner != s->m) return WEFT_OK;
    return weft_module_set_parameter(owner, name,
                                     weft_distribute_tensor(parameter, s->mesh, &channels, -1));
}

static weft_status by_channels(weft_module *m, weft_mesh *mesh, void *payload)
{
    struct spreading s = {m, mesh};

    (void)payload;
    return weft_module_each_parameter(m, spread_one, &s);
}

const weft_style_functions mixer_by_channels = {.name = "by channels", .partition = by_channels};
