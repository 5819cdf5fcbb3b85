/*
 * random.c: random ops. A call is one draw of a generator, an element its global index, so every
 * rank gets its shard of the same numbers and all generators stay in step.
 */
#include <weft/factory.h>
#include <weft/random.h>

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "ops/fills/fill_ops.h"
#include "ops/op_functions.h"
#include "random/generator.h"

/* Ops without inputs take everything from the wanted layout. */
weft_status wf_shape_as_requested(struct wf_infer *call)
{
    wf_infer_output_like(call, 0, call->want);
    return WEFT_OK;
}

/* ---- filling in place ---- */

static weft_status check_fill_target(enum wf_op op, const weft_tensor *t)
{
    WF_NEED_GIVEN(t, "%s: no tensor", wf_ops[op].name);
    WF_TRY(wf_tensor_need_alive(t, wf_ops[op].name));
    WF_NEED(!t->node, WEFT_ERR_STATE, "%s: values on the tape cannot change in place",
            wf_ops[op].name);
    return WEFT_OK;
}

weft_status wf_fill_with_op(enum wf_op op, weft_tensor *t, struct wf_op_args args)
{
    WF_TRY(check_fill_target(op, t));
    args.want = t->layout;
    args.into = t;
    return wf_dispatch_op_one_output(op, NULL, 0, &args) ? WEFT_OK : weft_error_status();
}

weft_status weft_fill_(weft_tensor *t, double value)
{
    return wf_fill_with_op(WF_OP_fill, t, (struct wf_op_args){.scalars.s = {value}});
}

static bool is_outside_mesh(const struct wf_layout *layout)
{
    return layout->mesh && !weft_mesh_is_member(layout->mesh);
}

static void set_seed_and_draw(struct wf_op_args *args, const weft_generator *g)
{
    args->draws = true;
    args->scalars.v[0] = (int64_t)g->seed;
    args->scalars.v[1] = (int64_t)g->draw;
}

/* Into this rank's shard as a plain tensor: the same bytes, numbered from 0. */
static weft_status fill_local_shard(enum wf_op op, weft_tensor *t, struct wf_op_args args)
{
    weft_scope *scope = weft_scope_open();
    struct wf_layout *local = wf_layout_local(t->layout);
    weft_tensor *shard = wf_tensor_new(local, wf_block_retain(t->block), t->data, t->origin);
    weft_status status = wf_fill_with_op(op, shard, args);

    wf_layout_release(local);
    weft_scope_close(scope);
    return status;
}

/* The op that draws the numbers of a generator of cuRAND's kind. */
static weft_status to_curand_op(enum wf_op *op)
{
    WF_NEED(*op == WF_OP_uniform || *op == WF_OP_normal, WEFT_ERR_ARG,
            "%s: cuRAND's generator draws uniform and normal numbers only", wf_ops[*op].name);
    *op = *op == WF_OP_uniform ? WF_OP_curand_uniform : WF_OP_curand_normal;
    return WEFT_OK;
}

static weft_status draw_in_place(enum wf_op op, weft_tensor *t, weft_generator *g,
                                 struct wf_op_args args)
{
    bool by_shard;

    WF_TRY(check_fill_target(op, t));
    WF_NEED(!t->layout->partial, WEFT_ERR_LAYOUT,
            "%s: the terms of a partial sum would not add up to random numbers", wf_ops[op].name);
    by_shard = wf_random_is_local() && t->layout->mesh;
    g = wf_generator_or_current(g);
    if (g->curand) WF_TRY(to_curand_op(&op));
    set_seed_and_draw(&args, g);
    WF_TRY((by_shard ? fill_local_shard : wf_fill_with_op)(op, t, args));
    if (!is_outside_mesh(t->layout)) g->draw += g->curand ? (uint64_t)weft_numel(t) : 1;
    return WEFT_OK;
}

weft_status weft_uniform_(weft_tensor *t, double low, double high, weft_generator *g)
{
    WF_NEED(low <= high, WEFT_ERR_ARG, "uniform: from %g to %g", low, high);
    return draw_in_place(WF_OP_uniform, t, g, (struct wf_op_args){.scalars.s = {low, high}});
}

weft_status weft_normal_(weft_tensor *t, double mean, double std, weft_generator *g)
{
    WF_NEED(std >= 0, WEFT_ERR_ARG, "normal: standard deviation %g", std);
    return draw_in_place(WF_OP_normal, t, g, (struct wf_op_args){.scalars.s = {mean, std}});
}

weft_status weft_trunc_normal_(weft_tensor *t, double mean, double std, double low, double high,
                               weft_generator *g)
{
    WF_NEED(std > 0, WEFT_ERR_ARG, "trunc_normal: standard deviation %g", std);
    WF_NEED(low < high, WEFT_ERR_ARG, "trunc_normal: from %g to %g", low, high);
    return draw_in_place(WF_OP_trunc_normal, t, g,
                         (struct wf_op_args){.scalars.s = {mean, std, low, high}});
}

weft_status weft_log_normal_(weft_tensor *t, double mean, double std, weft_generator *g)
{
    WF_NEED(std >= 0, WEFT_ERR_ARG, "log_normal: standard deviation %g", std);
    return draw_in_place(WF_OP_log_normal, t, g, (struct wf_op_args){.scalars.s = {mean, std}});
}

weft_status weft_exponential_(weft_tensor *t, double rate, weft_generator *g)
{
    WF_NEED(rate > 0, WEFT_ERR_ARG, "exponential: rate %g", rate);
    return draw_in_place(WF_OP_exponential, t, g, (struct wf_op_args){.scalars.s = {rate}});
}

weft_status weft_geometric_(weft_tensor *t, double p, weft_generator *g)
{
    WF_NEED(p > 0 && p <= 1, WEFT_ERR_ARG, "geometric: probability %g", p);
    return draw_in_place(WF_OP_geometric, t, g, (struct wf_op_args){.scalars.s = {p}});
}

weft_status weft_bernoulli_(weft_tensor *t, double p, weft_generator *g)
{
    WF_NEED(p >= 0 && p <= 1, WEFT_ERR_ARG, "bernoulli: probability %g", p);
    return draw_in_place(WF_OP_bernoulli, t, g, (struct wf_op_args){.scalars.s = {p}});
}

/* Whole numbers from -largest to largest, all of which the dtype holds; bools and bytes begin at 0.
 */
static const uint64_t largest_exact[WEFT_DTYPE_COUNT] = {
    [WEFT_F32] = 1 << 24,   [WEFT_F64] = (uint64_t)1 << 53,
    [WEFT_BF16] = 1 << 8,   [WEFT_F16] = 1 << 11,
    [WEFT_I32] = INT32_MAX, [WEFT_I64] = INT64_MAX,
    [WEFT_U8] = 255,        [WEFT_BOOL] = 1,
    [WEFT_I16] = INT16_MAX, [WEFT_I8] = INT8_MAX};

static bool dtype_can_represent(weft_dtype dtype, int64_t value)
{
    uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value;
    bool is_whole = !weft_dtype_is_float(dtype); /* these hold one more below */

    if (value < 0 && (dtype == WEFT_U8 || dtype == WEFT_BOOL)) return false;
    return size <= largest_exact[dtype] + (value < 0 && is_whole);
}

weft_status weft_randint_(weft_tensor *t, int64_t low, int64_t high, weft_generator *g)
{
    WF_TRY(check_fill_target(WF_OP_randint, t));
    WF_NEED(low < high, WEFT_ERR_ARG, "randint: from %lld to %lld", (long long)low,
            (long long)high);
    WF_NEED(dtype_can_represent(weft_tensor_dtype(t), low) &&
                dtype_can_represent(weft_tensor_dtype(t), high - 1),
            WEFT_ERR_ARG, "randint: %s does not hold all of %lld .. %lld",
            weft_dtype_name(weft_tensor_dtype(t)), (long long)low, (long long)(high - 1));
    return draw_in_place(
        WF_OP_randint, t, g,
        (struct wf_op_args){.scalars.v = {0, 0, low, (int64_t)((uint64_t)high - (uint64_t)low)}});
}

weft_status weft_randperm_(weft_tensor *t, weft_generator *g)
{
    WF_TRY(check_fill_target(WF_OP_randperm, t));
    WF_NEED(weft_ndim(t) == 1, WEFT_ERR_SHAPE, "randperm: a tensor with %d dims; it needs one",
            weft_ndim(t));
    WF_NEED(weft_size(t, 0) == 0 || dtype_can_represent(weft_tensor_dtype(t), weft_size(t, 0) - 1),
            WEFT_ERR_ARG, "randperm: %s does not hold %lld", weft_dtype_name(weft_tensor_dtype(t)),
            (long long)weft_size(t, 0) - 1);
    return draw_in_place(WF_OP_randperm, t, g, (struct wf_op_args){0});
}

/* ---- initialisation of weights ---- */

/* Of the global shape: a rank's own shard would give another variance for every sharding. */
static weft_status fan_in_and_out(const weft_tensor *t, const char *who, double *in, double *out)
{
    double rest = 1;

    WF_NEED_GIVEN(t, "%s: no tensor", who);
    WF_TRY(wf_tensor_need_alive(t, who));
    WF_NEED(weft_ndim(t) >= 2, WEFT_ERR_SHAPE, "%s: a weight with %d dims; it needs two or more",
            who, weft_ndim(t));
    for (int d = 2; d < weft_ndim(t); d++) rest *= (double)weft_size(t, d);
    *in = (double)weft_size(t, 1) * rest;
    *out = (double)weft_size(t, 0) * rest;
    return WEFT_OK;
}

/* Values without spread where there is nothing to spread over. */
static double std_from_fan(double variance_times_fan, double fan)
{
    return fan > 0 ? sqrt(variance_times_fan / fan) : 0;
}

static weft_status kaiming_std(const weft_tensor *t, double slope, weft_fan fan, double *std)
{
    double in, out;

    WF_NEED(fan == WEFT_FAN_IN || fan == WEFT_FAN_OUT, WEFT_ERR_ARG, "kaiming: fan %d", (int)fan);
    WF_TRY(fan_in_and_out(t, "kaiming", &in, &out));
    *std = std_from_fan(2 / (1 + slope * slope), fan == WEFT_FAN_IN ? in : out);
    return WEFT_OK;
}

static weft_status xavier_std(const weft_tensor *t, double gain, double *std)
{
    double in, out;

    WF_TRY(fan_in_and_out(t, "xavier", &in, &out));
    *std = fabs(gain) * std_from_fan(2, in + out);
    return WEFT_OK;
}

/* A uniform distribution on [-bound, bound) has the standard deviation bound / sqrt(3). */
static weft_status fill_uniform_with_std(weft_tensor *t, double std, weft_generator *g)
{
    return weft_uniform_(t, -sqrt(3) * std, sqrt(3) * std, g);
}

weft_status weft_kaiming_uniform_(weft_tensor *t, double slope, weft_fan fan, weft_generator *g)
{
    double std;

    WF_TRY(kaiming_std(t, slope, fan, &std));
    return fill_uniform_with_std(t, std, g);
}

weft_status weft_kaiming_normal_(weft_tensor *t, double slope, weft_fan fan, weft_generator *g)
{
    double std;

    WF_TRY(kaiming_std(t, slope, fan, &std));
    return weft_normal_(t, 0, std, g);
}

weft_status weft_xavier_uniform_(weft_tensor *t, double gain, weft_generator *g)
{
    double std;

    WF_TRY(xavier_std(t, gain, &std));
    return fill_uniform_with_std(t, std, g);
}

weft_status weft_xavier_normal_(weft_tensor *t, double gain, weft_generator *g)
{
    double std;

    WF_TRY(xavier_std(t, gain, &std));
    return weft_normal_(t, 0, std, g);
}

/* ---- from tensors ---- */

/* One draw of an op with an input. */
static weft_tensor *draw_with_input(enum wf_op op, weft_tensor *x, weft_generator *g,
                                    struct wf_op_args args)
{
    weft_tensor *y;

    g = wf_generator_or_current(g);
    if (g->curand) WF_TRY_PTR(to_curand_op(&op));
    set_seed_and_draw(&args, g);
    y = wf_dispatch_op_one_output(op, &x, 1, &args);
    if (y && !is_outside_mesh(x->layout)) g->draw++;
    return y;
}

/* One draw for each element of x; numbered by the rank's own shard where that is asked for. */
static weft_tensor *draw_per_element(enum wf_op op, weft_tensor *x, weft_generator *g,
                                     struct wf_op_args args)
{
    const struct wf_layout *layout = x->layout;

    if (!wf_random_is_local() || !layout->mesh) return draw_with_input(op, x, g, args);
    if (is_outside_mesh(layout)) return x;
    return weft_from_local(draw_with_input(op, weft_to_local(x, NULL), g, args), layout->mesh,
                           layout->placements, layout->desc.global);
}

/* With every partial axis replicated, and every axis that cuts `dim` (-1: none is meant). */
static weft_tensor *replicated_along(weft_tensor *x, int dim)
{
    weft_placement to[WEFT_MAX_AXES];

    if (!x->layout->mesh) return x;
    memcpy(to, x->layout->placements, sizeof to);
    for (int a = 0; a < x->layout->n_axes; a++)
        if (to[a].kind == WEFT_KIND_PARTIAL || weft_shards(to[a], dim)) to[a] = weft_replicate();
    return weft_redistribute(x, to);
}

/* Whether it was drawn says nothing of the probability's change. */
void wf_vjp_bernoulli(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    (void)n;
    in[0] = weft_zeros_like(g); /* of an infinite g too */
}

weft_tensor *weft_bernoulli(weft_tensor *p, weft_generator *g)
{
    if (!p) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(p, "bernoulli"));
    p = replicated_along(p, -1);
    return p ? draw_per_element(WF_OP_bernoulli_of, p, g, (struct wf_op_args){0}) : NULL;
}

weft_status wf_shape_multinomial(struct wf_infer *call)
{
    int last = call->in[0]->desc.ndim - 1;
    int64_t width = last >= 0 ? call->in[0]->desc.global[last] : 0, n = call->attrs->multinomial.n;

    WF_NEED(last >= 0, WEFT_ERR_SHAPE, "multinomial: the weights have no dims");
    WF_NEED(n >= 0 && (width > 0 || n == 0), WEFT_ERR_ARG, "multinomial: %lld indices of %lld",
            (long long)n, (long long)width);
    WF_NEED(call->attrs->multinomial.replacement || n <= width, WEFT_ERR_ARG,
            "multinomial: %lld indices of %lld without replacement", (long long)n,
            (long long)width);
    wf_infer_output_like(call, 0, call->in[0]);
    call->out[0].dtype = WEFT_I64;
    call->out[0].shape[last] = n;
    return WEFT_OK;
}

weft_tensor *weft_multinomial(weft_tensor *p, int64_t n, bool replacement, weft_generator *g)
{
    if (!p) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(p, "multinomial"));
    p = replicated_along(p, weft_ndim(p) - 1);
    return p ? draw_with_input(
                   WF_OP_multinomial, p, g,
                   (struct wf_op_args){WF_ATTRS(multinomial, .n = n, .replacement = replacement)})
             : NULL;
}

void wf_vjp_dropout(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    struct wf_op_args args = {
        .scalars.s = {n->s[0]}, .scalars.v = {n->v[0], n->v[1]}, .draws = true};

    in[0] = wf_dispatch_op_one_output(WF_OP_dropout, &g, 1, &args);
}

weft_tensor *weft_dropout(weft_tensor *x, double p, weft_generator *g)
{
    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "dropout"));
    WF_NEED_PTR(p >= 0 && p <= 1, WEFT_ERR_ARG, "dropout: probability %g", p);
    WF_NEED_PTR(!x->layout->partial, WEFT_ERR_LAYOUT,
                "dropout: a partial sum is not supported; redistribute it first");
    return draw_per_element(WF_OP_dropout, x, g, (struct wf_op_args){.scalars.s = {p}});
}
