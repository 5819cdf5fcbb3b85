/*
 * chain_steps.c: the steps that a chain is made of, apart from views, and losses at its end. A step
 * that x does not fit returns false. Values stay moderate: what grows fast is squashed first.
 */
#include "traps/chain.h"

#include <string.h>

/* ---- pointwise ---- */

static bool step_unary(struct chain *c)
{
    static const struct {
        const char *name;
        weft_tensor *(*op)(weft_tensor *);
    } ops[] = {
        {"neg", weft_neg},
        {"tanh", weft_tanh},
        {"sigmoid", weft_sigmoid},
        {"relu", weft_relu},
        {"silu", weft_silu},
        {"gelu", weft_gelu},
        {"gelu_tanh", weft_gelu_tanh},
    };
    int i = chain_pick(c, sizeof ops / sizeof *ops);

    chain_say(c, "%s", ops[i].name);
    BOTH(c, ops[i].op(x))
    return true;
}

static bool step_positive(struct chain *c)
{
    static const struct {
        const char *name;
        weft_tensor *(*op)(weft_tensor *);
    } ops[] = {{"sqrt", weft_sqrt}, {"rsqrt", weft_rsqrt}, {"log", weft_log}};
    int i = chain_pick(c, sizeof ops / sizeof *ops);

    chain_say(c, "%s(x^2+1)", ops[i].name);
    BOTH(c, ops[i].op(weft_add_scalar(weft_square(x), 1)))
    return true;
}

static bool step_scalar(struct chain *c)
{
    double number = 0.25 * (1 + chain_pick(c, 8)) * (chain_once_in(c, 3) ? -1 : 1);

    switch (chain_pick(c, 3)) {
    case 0:
        chain_say(c, "+%g", number);
        BOTH(c, weft_add_scalar(x, number))
        break;
    case 1:
        chain_say(c, "*%g", number);
        BOTH(c, weft_mul_scalar(x, number))
        break;
    default:
        chain_say(c, "%g/(tanh+2)", number);
        BOTH(c, weft_rdiv_scalar(weft_add_scalar(weft_tanh(x), 2), number))
    }
    return true;
}

/* A shape that broadcasts with x's: some dims 1, leading ones away. */
static int broadcast_shape(struct chain *c, int64_t *shape)
{
    int skip = chain_pick(c, chain_ndim(c) + 1);

    if (!chain_once_in(c, 3)) skip = 0;
    for (int d = skip; d < chain_ndim(c); d++)
        shape[d - skip] = chain_once_in(c, 4) ? 1 : chain_dim(c, d);
    return chain_ndim(c) - skip;
}

static weft_tensor *divide(weft_tensor *a, weft_tensor *b)
{
    return weft_div(a, weft_add_scalar(weft_square(b), 1));
}

static weft_tensor *larger_or_half(weft_tensor *a, weft_tensor *b)
{
    return weft_where(weft_gt(a, b), a, weft_mul_scalar(b, 0.5));
}

static bool step_binary(struct chain *c)
{
    static const struct {
        const char *name;
        weft_tensor *(*op)(weft_tensor *, weft_tensor *);
    } ops[] = {
        {"add", weft_add},         {"sub", weft_sub},         {"mul", weft_mul},
        {"div", divide},           {"maximum", weft_maximum}, {"minimum", weft_minimum},
        {"where", larger_or_half},
    };
    int i = chain_pick(c, sizeof ops / sizeof *ops);
    int64_t shape[WEFT_MAX_DIMS];
    bool swapped = chain_once_in(c, 3);
    weft_tensor *y[2];

    chain_say(c, "%s%s ", ops[i].name, swapped ? " swapped" : "");
    chain_leaf(c, y, broadcast_shape(c, shape), shape);
    BOTH(c, swapped ? ops[i].op(y[s], x) : ops[i].op(x, y[s]))
    return true;
}

/* A plain number beside distributed tensors; its gradient is whole on every rank of the mesh. */
static bool step_number(struct chain *c)
{
    weft_tensor *number[2];
    int64_t one = 1;

    if (c->leaves == CHAIN_LEAVES || weft_mesh_size(c->mesh) < weft_world_size()) return false;
    number[0] = weft_set_requires_grad(weft_full(WEFT_F64, &one, chain_pick(c, 2), 0.75), true);
    number[1] = weft_set_requires_grad(weft_full(WEFT_F64, &one, weft_ndim(number[0]), 0.75), true);
    number[1] = chain_place(c, number[1]);
    chain_say(c, "*number");
    memcpy(c->leaf[c->leaves++], number, sizeof number);
    BOTH(c, weft_mul(x, number[s]))
    return true;
}

/* x with itself, another view of x, or x in another layout. */
static bool step_itself(struct chain *c)
{
    weft_placement p[WEFT_MAX_AXES];
    int64_t shape[WEFT_MAX_DIMS];
    weft_tensor *other;

    chain_say(c, "x*tanh(x to ");
    chain_shape(c, shape);
    chain_placements(c, p, chain_ndim(c), shape);
    chain_say_placements(c, p);
    chain_say(c, ")");
    other = weft_redistribute(c->x[1], p);
    c->x[0] = weft_mul(c->x[0], weft_tanh(c->x[0]));
    c->x[1] = weft_mul(c->x[1], weft_tanh(other));
    return true;
}

static void without_partial(struct chain *c)
{
    weft_placement p[WEFT_MAX_AXES];

    for (int a = 0; a < weft_mesh_ndim(c->mesh); a++) {
        p[a] = weft_tensor_placement(c->x[1], a);
        if (weft_is_partial(p[a])) p[a] = weft_replicate();
    }
    c->x[1] = weft_redistribute(c->x[1], p);
}

/* The terms of a partial sum cannot be dropped one by one. */
static bool step_dropout(struct chain *c)
{
    uint64_t seed = (uint64_t)chain_pick(c, 1000);

    chain_say(c, "dropout");
    without_partial(c);
    for (int s = 0; s < 2; s++) {
        weft_manual_seed(seed);
        c->x[s] = weft_dropout(c->x[s], 0.25, NULL);
    }
    return true;
}

/* ---- reductions, softmax, norms ---- */

static bool step_reduce(struct chain *c)
{
    static weft_tensor *(*const ops[])(weft_tensor *, const int *, int,
                                       bool) = {weft_sum, weft_mean, weft_amax};
    static const char *const names[] = {"sum", "mean", "max"};
    int i = chain_pick(c, 3), dims[WEFT_MAX_DIMS], n = 0;
    bool keep = chain_once_in(c, 2);

    for (int d = 0; d < chain_ndim(c); d++) {
        if (i == 2 && chain_dim(c, d) == 0) return false;
        if (chain_once_in(c, 2)) dims[n++] = d;
    }
    chain_say(c, "%s%s", names[i], keep ? " keep" : "");
    for (int j = 0; j < n; j++) chain_say(c, " %d", dims[j]);
    BOTH(c, ops[i](x, dims, n, keep))
    return true;
}

static bool step_softmax(struct chain *c)
{
    bool logs = chain_once_in(c, 2);
    int dim;

    if (chain_ndim(c) == 0) return false;
    dim = chain_pick(c, chain_ndim(c));
    chain_say(c, "%ssoftmax %d", logs ? "log_" : "", dim);
    BOTH(c, logs ? weft_log_softmax(x, dim) : weft_softmax(x, dim))
    return true;
}

static bool step_norm(struct chain *c)
{
    weft_tensor *weight[2] = {NULL}, *bias[2] = {NULL};
    bool rms = chain_once_in(c, 2);
    int64_t width;

    if (chain_ndim(c) == 0 || chain_dim(c, -1) < 2) return false;
    width = chain_dim(c, -1);
    chain_say(c, "%s_norm ", rms ? "rms" : "layer");
    if (!chain_once_in(c, 3)) chain_leaf(c, weight, 1, &width);
    if (!rms && weight[0] && !chain_once_in(c, 3)) chain_leaf(c, bias, 1, &width);
    BOTH(c, rms ? weft_rms_norm(x, weight[s], 0.1) : weft_layer_norm(x, weight[s], bias[s], 0.1))
    return true;
}

/* ---- products ---- */

static bool step_matmul(struct chain *c)
{
    int64_t shape[3];
    weft_tensor *y[2];
    bool ta = chain_once_in(c, 3), tb = chain_once_in(c, 3), batched;
    int n = chain_ndim(c), lead;

    if (n < 2) return false;
    batched = n == 3 && chain_once_in(c, 2);
    lead = batched ? 1 : 0;
    if (batched) shape[0] = chain_dim(c, 0);
    shape[lead + tb] = chain_dim(c, ta ? -2 : -1);
    shape[lead + !tb] = chain_size(c);
    chain_say(c, "matmul%s%s ", ta ? " ta" : "", tb ? " tb" : "");
    chain_leaf(c, y, 2 + lead, shape);
    BOTH(c, weft_matmul_t(weft_tanh(x), y[s], ta, tb))
    return true;
}

static bool step_linear(struct chain *c)
{
    int64_t shape[4];
    weft_tensor *w[2], *bias[2] = {NULL};
    int n_out = 1 + chain_once_in(c, 4);

    if (chain_ndim(c) == 0 || chain_ndim(c) + n_out > 5) return false;
    shape[0] = chain_size(c);
    for (int d = 1; d < n_out; d++) shape[d] = chain_size(c);
    shape[n_out] = chain_dim(c, -1);
    chain_say(c, "linear ");
    chain_leaf(c, w, n_out + 1, shape);
    if (!chain_once_in(c, 3)) {
        chain_say(c, " bias ");
        chain_leaf(c, bias, n_out, shape);
    }
    BOTH(c, weft_linear(weft_tanh(x), w[s], bias[s], 1))
    return true;
}

static bool step_embedding(struct chain *c)
{
    int64_t shape[2] = {chain_size(c), chain_size(c)};
    weft_tensor *index[2];
    int n = chain_pick(c, 3);

    if (chain_ndim(c) != 2 || chain_dim(c, 0) == 0) return false;
    chain_say(c, "embedding ");
    chain_indices(c, index, n, shape, (int)chain_dim(c, 0));
    BOTH(c, weft_embedding(x, index[s]))
    return true;
}

static bool step_attention(struct chain *c)
{
    int64_t shape[4];
    weft_tensor *k[2], *v[2];
    bool causal = chain_once_in(c, 2);

    if (chain_ndim(c) != 4) return false;
    chain_shape(c, shape);
    for (int d = 0; d < 4; d++)
        if (shape[d] == 0) return false;
    chain_say(c, "attention%s ", causal ? " causal" : "");
    chain_leaf(c, k, 4, shape);
    chain_leaf(c, v, 4, shape);
    BOTH(c, weft_attention(x, k[s], v[s], causal, 0))
    return true;
}

static int64_t largest(const struct chain *c) { return c->x[0] ? weft_numel(c->x[0]) : 0; }

void chain_step(struct chain *c)
{
    static bool (*const steps[])(struct chain *) = {
        step_unary,  step_positive, step_scalar,  step_binary, step_binary,    step_itself,
        step_reduce, step_reduce,   step_softmax, step_norm,   step_dropout,   step_number,
        step_matmul, step_matmul,   step_linear,  step_linear, step_embedding, step_attention,
        chain_view,  chain_view,    chain_view,   chain_view,  chain_view,     chain_view,
        chain_view,  chain_view,    chain_view,   chain_view,
    };
    const int n = sizeof steps / sizeof *steps;

    chain_say(c, "; ");
    if (largest(c) > CHAIN_ROOM) {
        chain_say(c, "first half");
        BOTH(c, weft_slice(x, 0, 0, weft_size(x, 0) / 2))
    }
    while (!steps[chain_pick(c, n)](c)) {
    }
}

void chain_loss(struct chain *c, weft_tensor **loss)
{
    int64_t shape[WEFT_MAX_DIMS];
    weft_tensor *y[2];
    int n = chain_ndim(c), ignored;

    chain_say(c, "; ");
    chain_shape(c, shape);
    if (n > 0 && chain_dim(c, -1) > 0 && chain_once_in(c, 4)) {
        chain_say(c, "cross_entropy ");
        chain_indices(c, y, n - 1, shape, (int)chain_dim(c, -1));
        ignored = chain_pick(c, 3) - 1;
        for (int s = 0; s < 2; s++) loss[s] = weft_cross_entropy(c->x[s], y[s], ignored);
        return;
    }
    if (chain_once_in(c, 4)) {
        chain_say(c, "mse ");
        chain_leaf(c, y, n, shape);
        for (int s = 0; s < 2; s++) loss[s] = weft_mse(c->x[s], y[s]);
        return;
    }
    chain_say(c, "sum of products ");
    chain_leaf(c, y, n, shape);
    for (int s = 0; s < 2; s++) loss[s] = weft_sum_all(weft_mul(c->x[s], y[s]));
}
