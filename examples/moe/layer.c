/*
 * layer.c: the router in distributed tensors; tokens to experts and back in a local function.
 *
 * Shapes: t tokens of this rank, k choices of each, r rows that are sent or come, d width.
 */
#include "moe/layer.h"

#include <math.h>
#include <stdlib.h>

#include "common/say.h"
#include "moe/route.h"

struct moe {
    struct moe_config config;
    weft_mesh *mesh; /* NULL: one device */
};

/* What the local function needs beside tensors. */
struct call {
    const struct moe *moe;
    int64_t tokens; /* of all ranks */
    int64_t dropped;
};

/* ---- on this rank ---- */

/* Rows of each expert through its two layers. One without rows is left alone. */
static weft_tensor *run_experts(const struct route *r, weft_tensor *rows_rd, weft_tensor *up_efd,
                                weft_tensor *down_edf)
{
    weft_tensor **outs = room_for((size_t)r->own + 1, sizeof *outs), *result_rd = rows_rd;
    int64_t at = 0;
    int n = 0;

    for (int e = 0; e < r->own; e++) {
        int64_t rows = route_rows(r, e);
        weft_tensor *hidden_rf;

        if (rows == 0) continue;
        hidden_rf =
            weft_linear(weft_slice(rows_rd, 0, at, at + rows), weft_select(up_efd, 0, e), NULL, 1);
        outs[n++] = weft_linear(weft_gelu(hidden_rf), weft_select(down_edf, 0, e), NULL, 1);
        at += rows;
    }
    if (n) result_rd = weft_cat(outs, n, 0);
    free(outs);
    return result_rd;
}

/* To the ranks of the experts, through these, and back: rows as they were sent. */
static weft_tensor *through_experts(const struct route *r, weft_tensor *sent_rd,
                                    weft_tensor *up_efd, weft_tensor *down_edf)
{
    weft_tensor *x = sent_rd;

    if (r->mesh) x = weft_mesh_all_to_all_known(x, r->send, r->recv, r->mesh, 0);
    x = weft_embedding(x, r->by_expert);
    x = run_experts(r, x, up_efd, down_edf);
    x = weft_embedding(x, r->back);
    return r->mesh ? weft_mesh_all_to_all_known(x, r->recv, r->send, r->mesh, 0) : x;
}

/* A tensor of n integers: those of `choices`, each divided by k. */
static weft_tensor *tokens_of(weft_tensor *choices, int64_t k)
{
    weft_tensor *t = weft_full(WEFT_I64, (int64_t[]){weft_numel(choices)}, 1, 0);
    const int64_t *from = weft_data(choices);

    for (int64_t i = 0; i < weft_numel(t); i++) ((int64_t *)weft_data(t))[i] = from[i] / k;
    return t;
}

/* The sum of a token's weighted rows; what was dropped is a row of zeros behind them. */
static weft_tensor *combine(const struct route *r, weft_tensor *rows_rd, weft_tensor *weights_tk)
{
    int64_t t = weft_size(weights_tk, 0), k = weft_size(weights_tk, 1), d = weft_size(rows_rd, 1);
    weft_tensor *weights_r1 = weft_reshape(weights_tk, (int64_t[]){t * k, 1}, 2);
    weft_tensor *none_1d = weft_full(weft_tensor_dtype(rows_rd), (int64_t[]){1, d}, 2, 0);
    weft_tensor *index_tk = weft_reshape(r->row, (int64_t[]){t, k}, 2);

    rows_rd = weft_mul(rows_rd, weft_embedding(weights_r1, r->sent));
    rows_rd = weft_cat((weft_tensor *[]){rows_rd, none_1d}, 2, 0);
    return weft_sum(weft_embedding(rows_rd, index_tk), (int[]){1}, 1, false);
}

/* Of all choices the part that each expert was asked for, [e]; the same on all ranks. */
static weft_tensor *parts_of(const struct route *r, weft_dtype dtype)
{
    int64_t all = 0, n = r->experts;
    weft_tensor *parts = weft_full(WEFT_F64, &n, 1, 0);

    for (int i = 0; i < r->ways * r->experts; i++) all += r->made[i];
    for (int i = 0; i < r->ways * r->experts; i++)
        ((double *)weft_data(parts))[i % r->experts] += (double)r->made[i] / (double)all;
    return weft_cast(parts, dtype);
}

static int64_t capacity_of(const struct moe_config *c, int64_t tokens)
{
    double average = (double)tokens * c->chosen / c->experts;

    return c->capacity > 0 ? (int64_t)ceil(c->capacity * average) : -1;
}

/* in: tokens [t,d], weights [t,k], indices [t,k], up, down; out: [t,d] and what parts_of gives */
static weft_status mix(weft_tensor *const *in, weft_tensor **out, void *context)
{
    struct call *call = context;
    const struct moe_config *c = &call->moe->config;
    struct route r;
    weft_status status =
        route_open(&r, call->moe->mesh, c->experts, in[2], capacity_of(c, call->tokens));

    if (status == WEFT_OK) {
        weft_tensor *sent_rd = weft_embedding(in[0], tokens_of(r.sent, c->chosen));

        out[0] = combine(&r, through_experts(&r, sent_rd, in[3], in[4]), in[1]);
        out[1] = parts_of(&r, weft_tensor_dtype(in[0]));
        call->dropped = route_dropped(&r);
        status = out[0] && out[1] ? WEFT_OK : weft_error_status();
    }
    route_close(&r);
    return status;
}

/* ---- the module ---- */

weft_tensor *moe_forward(weft_module *m, weft_tensor *tokens, struct moe_report *report)
{
    static const weft_placement rows[] = {{.kind = WEFT_KIND_SHARD}},
                                whole[] = {{.kind = WEFT_KIND_REPLICATE}};
    static const weft_placement *const outs[] = {rows, whole};
    const struct moe *moe = weft_module_payload(m);
    weft_tensor *probs, *weights, *indices, *result[2], *balance;

    if (!tokens) return NULL;
    probs = weft_softmax(weft_call(weft_module_child(m, "router"), tokens), -1);
    weights = weft_topk(probs, moe->config.chosen, -1, &indices);
    if (!weights) return NULL;
    weights = weft_div(weights, weft_sum(weights, (int[]){-1}, 1, true));

    struct call call = {.moe = moe, .tokens = weft_size(tokens, 0)};
    const int64_t *shapes[] = {(int64_t[]){weft_size(tokens, 0), weft_size(tokens, 1)}, NULL};
    weft_local_map map = {.function = mix,
                          .context = &call,
                          .mesh = moe->mesh,
                          .n_in = 5,
                          .n_out = 2,
                          .out = outs,
                          .out_shapes = shapes};

    if (weft_local_map_call(&map,
                            (weft_tensor *[]){tokens, weights, indices,
                                              weft_module_parameter(m, "up"),
                                              weft_module_parameter(m, "down")},
                            result) != WEFT_OK)
        return NULL;
    if (!report) return result[0];
    balance = weft_mul(weft_mean(probs, (int[]){0}, 1, false), weft_detach(result[1]));
    report->balance = weft_mul_scalar(weft_sum_all(balance), moe->config.experts);
    report->dropped = call.dropped;
    return report->balance ? result[0] : NULL;
}

static weft_tensor *forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    (void)n;
    return moe_forward(m, inputs[0], NULL);
}

static const weft_module_class moe_class = {
    .type = "mixture of experts", .forward = forward, .free = free};

static weft_status add_normal(weft_module *m, const char *name, const struct moe_config *c,
                              int64_t out, int64_t in)
{
    weft_spec spec = {.ndim = 3, .shape = {c->experts, out, in}, .dtype = c->dtype};

    return weft_module_add_parameter(m, name,
                                     weft_make_normal(spec, 0, 1 / sqrt((double)in), NULL));
}

weft_module *moe_new(struct moe_config config)
{
    struct moe *moe = room_for(1, sizeof *moe);
    weft_scope *scope = weft_scope_open();
    weft_module *m;
    weft_status status;

    moe->config = config;
    m = weft_module_new(&moe_class, moe);
    status = weft_module_add_child(m, "router",
                                   weft_linear_new((weft_linear_config){.in = {config.width},
                                                                        .out = {config.experts},
                                                                        .no_bias = true,
                                                                        .dtype = config.dtype}));
    if (status == WEFT_OK) status = add_normal(m, "up", &config, config.hidden, config.width);
    if (status == WEFT_OK) status = add_normal(m, "down", &config, config.width, config.hidden);
    weft_scope_close(scope);
    if (status == WEFT_OK) return m;
    weft_module_release(m);
    return NULL;
}

static weft_status place(weft_module *m, const char *name, weft_mesh *mesh, weft_placement p)
{
    weft_tensor *whole = weft_module_parameter(m, name);

    return weft_module_set_parameter(m, name, weft_distribute_tensor(whole, mesh, &p, -1));
}

weft_status moe_spread(weft_module *m, weft_mesh *mesh)
{
    struct moe *moe = weft_module_payload(m);
    weft_scope *scope = weft_scope_open();
    weft_status status = place(weft_module_child(m, "router"), "weight", mesh, weft_replicate());

    if (status == WEFT_OK) status = place(m, "up", mesh, weft_shard(0));
    if (status == WEFT_OK) status = place(m, "down", mesh, weft_shard(0));
    if (status == WEFT_OK) moe->mesh = mesh;
    weft_scope_close(scope);
    return status;
}
