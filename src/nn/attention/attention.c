/*
 * attention.c: self-attention with queries, keys and values from one product.
 *
 * Shapes: B batch, T tokens, C width, H heads, G groups of R = H / G heads that share a key and a
 * value, D head size. The packed product, [B,T,3,H,D] or [B,T,G,R+2,D], goes into the fused kernel
 * as it is; H or G is a dim of both weights, so heads can be split unevenly. Only with a cache it
 * is taken apart, because keys and values then stay. With `by_heads` the packed product comes from
 * grouped_qkv.c, where a rank's shard may have more groups than G and fewer heads in each than R,
 * so both numbers are always read from the product.
 */
#include <weft/autograd.h>
#include <weft/ops.h>

#include "nn/attention/attention_dropout.h"
#include "nn/attention/attention_inputs.h"
#include "nn/attention/kv_cache.h"
#include "nn/layer_construction.h"

struct attention {
    weft_module *qkv, *proj;
    bool causal, grouped, turned, by_heads;
    double dropout;             /* of the attention weights */
    double scale;               /* of the scores; 0: 1/sqrt(D) */
    int64_t heads;              /* of the whole */
    weft_rotary_options rotary; /* where `turned` */
    struct wf_kv_cache cache;
};

static weft_tensor *apply_rotary(const struct attention *a, weft_tensor *qkv,
                                 weft_tensor *positions)
{
    weft_rotary_options rotary = a->rotary;

    if (!a->turned || !qkv) return qkv;
    rotary.heads = weft_size(qkv, 3) - 1;
    if (!positions) rotary.offset += a->cache.used;
    return weft_rotary(qkv, positions, rotary);
}

static weft_tensor *attend_fused(const struct attention *a, weft_tensor *qkv,
                                 const struct wf_attention_inputs *in)
{
    weft_attention_options options = {.causal = a->causal,
                                      .grouped = a->grouped,
                                      .scale = a->scale,
                                      .mask = in->mask,
                                      .bias = in->bias};

    return weft_attention_packed_with(apply_rotary(a, qkv, in->positions), options);
}

/* What is packed in the product, as views of it. */
struct split_qkv {
    weft_tensor *q; /* [B,T,H,D] or [B,T,G,R,D] */
    weft_tensor *k, *v;
};

static struct split_qkv split_packed_qkv(const struct attention *a, weft_tensor *qkv)
{
    int dim = a->grouped ? 3 : 2;
    int64_t r = a->grouped ? weft_size(qkv, 3) - 2 : 1;

    return (struct split_qkv){.q = a->grouped ? weft_slice(qkv, dim, 0, r)
                                              : weft_select(qkv, dim, 0),
                              .k = weft_select(qkv, dim, r),
                              .v = weft_select(qkv, dim, r + 1)};
}

/* The module of which a style knows where the heads are: qkv, or one below what stands in its place
 * (weft_module_replace_child). */
static weft_module *find_distributed_qkv(weft_module *m)
{
    weft_module *found = m->distributed_callbacks && m->n_parameters ? m : NULL;

    for (int i = 0; i < m->n_children && !found; i++) {
        weft_module *below = find_distributed_qkv(m->children[i]);

        if (below->distributed_callbacks && below->n_parameters) found = below;
    }
    return found ? found : m;
}

/* The same with some of the weights left out. */
static weft_tensor *attend_with_dropout(const struct attention *a, weft_tensor *qkv,
                                        const struct wf_attention_inputs *in)
{
    struct split_qkv split_qkv;

    qkv = apply_rotary(a, qkv, in->positions);
    if (!qkv) return NULL;
    split_qkv = split_packed_qkv(a, qkv);
    return wf_attention_with_dropout(&(struct wf_dropout_attention){
        .q = split_qkv.q,
        .k = split_qkv.k,
        .v = split_qkv.v,
        .mask = in->mask,
        .bias = in->bias,
        .causal = a->causal,
        .scale = a->scale,
        .p = a->dropout,
        .made_by = find_distributed_qkv(a->qkv),
        .heads_in_all = a->grouped ? a->heads / (weft_size(qkv, 3) - 2) : a->heads});
}

static weft_tensor *to_batch_first(weft_tensor *x_tbgd)
{
    static const int order[] = {1, 0, 2, 3};

    return weft_permute(x_tbgd, order);
}

/* The same with keys and values of the tokens before. */
static weft_tensor *attend_with_kv_cache(struct attention *a, weft_tensor *qkv,
                                         const struct wf_attention_inputs *in)
{
    weft_attention_options options = {
        .causal = a->causal, .scale = a->scale, .mask = in->mask, .bias = in->bias};
    struct split_qkv split_qkv;
    weft_tensor *y;
    int64_t used;

    if (!qkv) return NULL;
    WF_NEED_PTR(!weft_requires_grad(qkv), WEFT_ERR_STATE,
                "attention: a cache is for generation, between weft_no_grad_open and _close");
    qkv = apply_rotary(a, qkv, in->positions);
    if (!qkv) return NULL;
    split_qkv = split_packed_qkv(a, qkv);
    WF_TRY_PTR(wf_kv_cache_append(&a->cache, split_qkv.k, split_qkv.v));
    used = a->cache.used + weft_size(split_qkv.k, 1);
    options.unused_keys = a->cache.room - used;
    y = weft_attention_with(split_qkv.q, to_batch_first(a->cache.k_lbgd),
                            to_batch_first(a->cache.v_lbgd), options);
    if (y) a->cache.used = used;
    return y;
}

/* [B,T,G,R,D] -> [B,T,H,D] */
static weft_tensor *merge_groups_into_heads(weft_tensor *y)
{
    int64_t shape[4];

    if (!y) return NULL;
    for (int d = 0; d < 3; d++) shape[d] = weft_size(y, d);
    shape[2] *= weft_size(y, 3);
    shape[3] = weft_size(y, 4);
    return weft_reshape(y, shape, 4);
}

static weft_tensor *attention_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    struct attention *a = m->payload;
    struct wf_attention_inputs in;
    weft_tensor *qkv, *y;

    WF_TRY_PTR(wf_attention_sort_inputs(&in, "attention", inputs + 1, n - 1));
    if (!a->turned) WF_TRY_PTR(wf_attention_refuse_positions(&in, "attention"));
    qkv = weft_call(a->qkv, inputs[0]);
    if (a->cache.room)
        y = attend_with_kv_cache(a, qkv, &in);
    else if (m->training && a->dropout > 0)
        y = attend_with_dropout(a, qkv, &in);
    else
        y = attend_fused(a, qkv, &in);
    return weft_call(a->proj, a->by_heads ? merge_groups_into_heads(y) : y);
}

static void free_attention(void *payload)
{
    struct attention *a = payload;

    wf_kv_cache_clear(&a->cache);
    wf_free(a);
}

static const weft_module_class class_attention = {
    .type = "attention", .forward = attention_forward, .free = free_attention, .optional = 3};

struct wf_kv_cache *wf_attention_kv_cache(weft_module *m)
{
    return m->kind == &class_attention ? &((struct attention *)m->payload)->cache : NULL;
}

/* `base` turns rotary positions on; which heads they turn is set by the layer. */
static weft_status check_rotary_options(const weft_rotary_options *o)
{
    bool more = o->dims != 0 || o->interleaved || o->offset != 0 || o->factor != 0 || o->low != 0 ||
                o->high != 0 || o->length != 0;

    WF_NEED(o->base >= 0, WEFT_ERR_ARG, "attention: rotary.base is %g", o->base);
    WF_NEED(o->base > 0 || !more, WEFT_ERR_ARG,
            "attention: rotary options turn nothing without rotary.base, usually 10000");
    WF_NEED(o->heads == 0, WEFT_ERR_ARG,
            "attention: rotary.heads is %lld, but queries and keys turn, all of them",
            (long long)o->heads);
    return WEFT_OK;
}

static weft_status check_attention_config(const weft_attention_config *c)
{
    WF_TRY(wf_check_positive_size("attention", "width", c->width));
    WF_TRY(wf_check_positive_size("attention", "heads", c->heads));
    WF_NEED(c->head_dim > 0 || (c->head_dim == 0 && c->width % c->heads == 0), WEFT_ERR_ARG,
            "attention: width %lld is no multiple of %lld heads, head_dim is %lld",
            (long long)c->width, (long long)c->heads, (long long)c->head_dim);
    WF_NEED(c->dropout >= 0 && c->dropout <= 1, WEFT_ERR_ARG, "attention: dropout is %g",
            c->dropout);
    WF_NEED(c->scale >= 0, WEFT_ERR_ARG, "attention: scale is %g", c->scale);
    WF_NEED(c->kv_heads >= 0 && (!c->kv_heads || c->heads % c->kv_heads == 0), WEFT_ERR_ARG,
            "attention: %lld heads cannot share %lld keys evenly", (long long)c->heads,
            (long long)c->kv_heads);
    WF_NEED(!c->by_heads || !c->transposed, WEFT_ERR_ARG,
            "attention: by_heads has no transposed weights");
    return check_rotary_options(&c->rotary);
}

static int64_t head_dim(const weft_attention_config *c)
{
    return c->head_dim ? c->head_dim : c->width / c->heads;
}

static int64_t count_kv_groups(const weft_attention_config *c)
{
    return c->kv_heads ? c->kv_heads : c->heads;
}

static weft_module *new_qkv_by_heads(const weft_attention_config *c)
{
    return wf_grouped_qkv_new(&(struct wf_grouped_qkv_config){.in = c->width,
                                                              .heads = c->heads,
                                                              .groups = count_kv_groups(c),
                                                              .head_dim = head_dim(c),
                                                              .no_bias = c->no_bias,
                                                              .std = c->std,
                                                              .dtype = c->dtype});
}

static weft_module *new_packed_qkv(const struct attention *a, const weft_attention_config *c)
{
    int64_t d = head_dim(c);
    weft_linear_config linear = {.in = {c->width},
                                 .out = {3, c->heads, d},
                                 .out_split = 1,
                                 .transposed = c->transposed,
                                 .no_bias = c->no_bias,
                                 .std = c->std,
                                 .dtype = c->dtype};

    if (a->grouped) {
        linear.out[0] = count_kv_groups(c);
        linear.out[1] = c->heads / count_kv_groups(c) + 2;
        linear.out_split = 0;
    }
    return weft_linear_new(linear);
}

static weft_module *new_output_projection(const struct attention *a, const weft_attention_config *c)
{
    int64_t d = head_dim(c);
    weft_linear_config linear = {.in = {c->heads, d},
                                 .out = {c->width},
                                 .transposed = c->transposed,
                                 .no_bias = c->no_bias || c->no_proj_bias,
                                 .std = c->out_std > 0 ? c->out_std : c->std,
                                 .dtype = c->dtype};

    if (a->grouped && !a->by_heads) {
        linear.in[0] = count_kv_groups(c);
        linear.in[1] = c->heads / count_kv_groups(c);
        linear.in[2] = d;
    }
    return weft_linear_new(linear);
}

static weft_status build_attention(weft_module *m, const weft_attention_config *c)
{
    struct attention *a = m->payload;

    WF_TRY(check_attention_config(c));
    a->causal = !c->bidirectional;
    a->dropout = c->dropout;
    a->scale = c->scale;
    a->heads = c->heads;
    a->turned = c->rotary.base > 0;
    a->by_heads = c->by_heads;
    a->grouped = a->turned || c->kv_heads > 0 || c->by_heads;
    a->rotary = c->rotary;
    a->qkv = c->by_heads ? new_qkv_by_heads(c) : new_packed_qkv(a, c);
    WF_TRY(wf_layer_add_child(m, "qkv", &a->qkv));
    a->proj = new_output_projection(a, c);
    return wf_layer_add_child(m, "proj", &a->proj);
}

weft_module *weft_attention_new(weft_attention_config config)
{
    weft_module *m = wf_layer_new(&class_attention, sizeof(struct attention));

    return wf_layer_finish(m, build_attention(m, &config));
}
