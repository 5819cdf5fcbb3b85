/*
 * test_transformer.c: what transformers are made of, on all ranks: grouped heads, masks, gates,
 * caches for generation, and blocks that are computed again in backward. Models as a whole are
 * compared with PyTorch in tests/golden.
 */
/* mpi: 2 */
#include <string.h>

#include <weft/weft.h>

#include "support/mpi_check.h"
#include "support/near.h"
#include "support/owned.h"

enum { B = 2, T = 6, G = 3, R = 2, D = 4, H = G * R, C = H * D };

static const weft_plan plan[] = {
    {"blocks.*.attn.qkv", {.kind = WEFT_STYLE_COLWISE}},
    {"blocks.*.attn.proj", {.kind = WEFT_STYLE_ROWWISE}},
    {"blocks.*.mlp.up", {.kind = WEFT_STYLE_COLWISE}},
    {"blocks.*.mlp.down", {.kind = WEFT_STYLE_ROWWISE}},
    {0},
};

static weft_tensor *noise(const int64_t *shape, int ndim)
{
    weft_spec spec = {.dtype = WEFT_F64, .ndim = ndim};

    memcpy(spec.shape, shape, (size_t)ndim * sizeof *shape);
    return weft_make_normal(spec, 0, 1, NULL);
}

#define NOISE(...)                                                                                 \
    noise((int64_t[]){__VA_ARGS__}, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

static bool same(weft_tensor *got, weft_tensor *want)
{
    return wt_near_tensors(got, want, WT_WITHIN(1e-11));
}

/* ---- attention ---- */

/* Keys and values repeated for each query head of their group. */
static weft_tensor *repeated(weft_tensor *k)
{
    int64_t apart[] = {B, T, G, 1, D}, wide[] = {B, T, G, R, D}, flat[] = {B, T, H, D};

    return weft_reshape(weft_expand(weft_reshape(k, apart, 5), wide, 5), flat, 4);
}

WT_TEST(attention__groups_share_keys_and_values)
{
    weft_tensor *q = NOISE(B, T, H, D), *k = NOISE(B, T, G, D), *v = NOISE(B, T, G, D), *dk;
    weft_tensor *plain, *grouped;

    weft_set_requires_grad(k, true);
    plain = weft_attention(q, repeated(k), repeated(v), true, 0);
    grouped = weft_attention_with(q, k, v, (weft_attention_options){.causal = true});
    WT_ALL(same(grouped, plain));
    WT_ALL(weft_backward(weft_sum_all(weft_square(plain))) == WEFT_OK);
    dk = weft_mul_scalar(weft_grad(k), 1);
    weft_zero_grad(k);
    WT_ALL(weft_backward(weft_sum_all(weft_square(grouped))) == WEFT_OK);
    WT_ALL(same(weft_grad(k), dk));
}

/* However many ranks there are: by groups some hold none, by query heads each has its groups' keys.
 */
WT_TEST(attention__is_split_by_groups_or_within_them)
{
    weft_mesh *mesh = wt_own(weft_mesh_new(WEFT_CPU, "tp=%d", wt_ranks()));
    weft_tensor *q = NOISE(B, T, G, R, D), *k = NOISE(B, T, G, D), *v = NOISE(B, T, G, D);
    weft_attention_options options = {.causal = true};
    weft_tensor *want = weft_attention_with(q, k, v, options), *dk;

    weft_set_requires_grad(k, true);
    WT_ALL(weft_backward(weft_sum_all(weft_square(weft_attention_with(q, k, v, options)))) ==
           WEFT_OK);
    dk = weft_grad(k);
    for (int dim = 2; dim <= 3; dim++) {
        weft_placement by = weft_shard(dim), keys = dim == 2 ? weft_shard(2) : weft_replicate();
        weft_tensor *dq = weft_distribute_tensor(q, mesh, &by, -1), *y;
        weft_tensor *ks = weft_distribute_tensor(weft_detach(k), mesh, &keys, -1);
        weft_tensor *vs = weft_distribute_tensor(v, mesh, &keys, -1);

        weft_set_requires_grad(ks, true);
        y = weft_attention_with(dq, ks, vs, options);
        WT_ALL(same(y, want));
        WT_ALL(weft_backward(weft_sum_all(weft_square(y))) == WEFT_OK);
        WT_ALL(same(weft_grad(ks), dk));
    }
}

/* Padding is as if the keys did not exist, in either form of mask. */
WT_TEST(attention__masks_hide_padding)
{
    enum { KEYS = 4 };
    weft_tensor *q = NOISE(B, T, H, D), *k = NOISE(B, T, G, D), *v = NOISE(B, T, G, D), *want;
    int64_t shape[] = {B, T}, added[] = {1, 1, T};
    double low[T];
    bool seen[B * T];

    for (int i = 0; i < B * T; i++) seen[i] = i % T < KEYS;
    for (int i = 0; i < T; i++) low[i] = i < KEYS ? 0 : -INFINITY;
    want = weft_attention_with(q, weft_slice(k, 1, 0, KEYS), weft_slice(v, 1, 0, KEYS),
                               (weft_attention_options){0});
    WT_ALL(same(
        weft_attention_with(
            q, k, v, (weft_attention_options){.mask = weft_from_data(WEFT_BOOL, shape, 2, seen)}),
        want));
    WT_ALL(same(
        weft_attention_with(
            q, k, v, (weft_attention_options){.mask = weft_from_data(WEFT_F64, added, 3, low)}),
        want));
    WT_ALL(same(weft_attention_with(q, k, v, (weft_attention_options){.unused_keys = T - KEYS}),
                want));
}

WT_TEST(attention__a_query_that_sees_nothing_gives_zero)
{
    weft_tensor *q = NOISE(B, T, H, D), *k = NOISE(B, T, G, D), *y;
    int64_t shape[] = {B, T};
    bool nothing[B * T] = {false};

    weft_set_requires_grad(k, true);
    y = weft_attention_with(
        q, k, k, (weft_attention_options){.mask = weft_from_data(WEFT_BOOL, shape, 2, nothing)});
    WT_ALL(same(y, weft_zeros_like(q)));
    WT_ALL(weft_backward(weft_sum_all(y)) == WEFT_OK);
    WT_ALL(same(weft_grad(k), weft_zeros_like(k)));
}

WT_TEST(attention__refuses_what_does_not_fit)
{
    weft_tensor *q = NOISE(B, T, H, D), *k = NOISE(B, T, G, D), *mask = NOISE(B, T, T);

    WT_FAILS(weft_attention_with(q, k, k, (weft_attention_options){.unused_keys = T + 1}),
             WEFT_ERR_ARG, "keys unused");
    WT_FAILS(weft_attention_with(q, k, k, (weft_attention_options){.unused_keys = -1}),
             WEFT_ERR_ARG, "-1 of");
    WT_ALL(same(weft_attention_with(q, k, k, (weft_attention_options){.unused_keys = T}),
                weft_zeros_like(q)));
    WT_FAILS(weft_attention_packed_with(NOISE(B, T, 3, H * D),
                                        (weft_attention_options){.unused_keys = 1}),
             WEFT_ERR_ARG, "attention_packed: all keys are used");
    WT_ALL(!weft_attention_with(q, k, k, (weft_attention_options){.mask = NOISE(B, 2, T)}));
    WT_ALL(
        !weft_attention_with(q, NOISE(B, T, 4, D), NOISE(B, T, 4, D), (weft_attention_options){0}));
    weft_set_requires_grad(mask, true);
    weft_error_clear();
    WT_ALL(!weft_attention_with(q, k, k, (weft_attention_options){.mask = mask}));
    WT_ALL(strstr(weft_error_message(), "mask") != NULL);
    weft_error_clear();
}

/* ---- gates ---- */

WT_TEST(gate__is_the_activation_of_the_first_half_times_the_second)
{
    weft_tensor *x = NOISE(B, 2, 7), *gate = weft_select(x, 1, 0), *up = weft_select(x, 1, 1);
    weft_module *silu = wt_own(weft_gate_new(WEFT_SILU)), *gelu = wt_own(weft_gate_new(WEFT_GELU));

    WT_ALL(same(weft_call(silu, x), weft_mul(weft_silu(gate), up)));
    WT_ALL(same(weft_call(gelu, x), weft_mul(weft_gelu(gate), up)));
    WT_ALL(!weft_gate_new(WEFT_ACTIVATIONS));
    weft_error_clear();
}

/* ---- caches ---- */

enum { VOCAB = 13, ROOM = 9 };

static weft_module *new_llama(void)
{
    return weft_llama((weft_llama_config){.vocab = VOCAB,
                                          .width = C,
                                          .heads = H,
                                          .kv_heads = G,
                                          .layers = 2,
                                          .hidden = 10,
                                          .dtype = WEFT_F64});
}

static weft_module *new_gpt(void)
{
    return weft_gpt((weft_gpt_config){
        .vocab = VOCAB, .context = ROOM, .width = C, .heads = H, .layers = 2, .dtype = WEFT_F64});
}

static weft_tensor *tokens(void)
{
    int64_t values[B * T], shape[] = {B, T};

    for (int i = 0; i < B * T; i++) values[i] = (5 * i + 2) % VOCAB;
    return weft_from_data(WEFT_I64, shape, 2, values);
}

/* Three tokens at once, then one after the other, give what all together give. */
static void generate(weft_module *m, weft_tensor *want)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *in = tokens();

    WT_ALL(weft_module_cache(m, ROOM) == WEFT_OK);
    WT_ALL(same(weft_call(m, weft_slice(in, 1, 0, 3)), weft_slice(want, 1, 0, 3)));
    for (int t = 3; t < T; t++)
        WT_ALL(same(weft_call(m, weft_slice(in, 1, t, t + 1)), weft_slice(want, 1, t, t + 1)));
    WT_EQ(weft_module_cached(m), T);
    WT_ALL(weft_module_cache_rewind(m, 2) == WEFT_OK);
    WT_ALL(same(weft_call(m, weft_slice(in, 1, 2, 4)), weft_slice(want, 1, 2, 4)));
    WT_ALL(!weft_call(m, in)); /* 4 + 6 do not fit */
    WT_EQ(weft_error_status(), WEFT_ERR_SHAPE);
    WT_ALL(weft_module_cache_rewind(m, 5) == WEFT_ERR_ARG);
    weft_error_clear();
    WT_ALL(weft_module_cache(m, 4) == WEFT_OK);
    WT_ALL(weft_call(m, weft_slice(in, 1, 0, 3)) != NULL);
    WT_FAILS(weft_call(m, weft_slice(in, 1, 3, 5)), WEFT_ERR_SHAPE,
             "2 tokens behind 3 in a cache for 4");
    WT_EQ(weft_module_cached(m), 3); /* the next goes on where the last good call ended */
    WT_ALL(same(weft_call(m, weft_slice(in, 1, 3, 4)), weft_slice(want, 1, 3, 4)));
    WT_ALL(weft_module_cache(m, 0) == WEFT_OK);
    WT_ALL(same(weft_call(m, in), want));
    weft_scope_close(scope);
}

static void check_cache(weft_module *(*make)(void))
{
    weft_mesh *mesh = wt_own(weft_mesh_new(WEFT_CPU, "tp=%d", wt_ranks()));
    weft_module *m;
    weft_tensor *want;

    weft_manual_seed(7);
    m = wt_own(make());
    weft_no_grad_open();
    want = weft_call(m, tokens());
    generate(m, want);
    WT_ALL(weft_parallelize_module(m, mesh, plan) == WEFT_OK);
    generate(m, want);
    weft_no_grad_close();
    weft_module_cache(m, ROOM);
    WT_ALL(!weft_call(m, tokens()));
    WT_EQ(weft_error_status(), WEFT_ERR_STATE);
    weft_error_clear();
}

WT_TEST(gpt__drops_elements_only_where_it_is_told)
{
    weft_gpt_config config = {.vocab = 7, .context = 4, .width = 8, .heads = 2, .layers = 1};
    weft_module *gpt = wt_own(weft_gpt(config));

    WT_FAILS(weft_module_child(gpt, "drop"), WEFT_ERR_NOT_FOUND, "drop");
    config.dropout = 0.1;
    WT_ALL(weft_module_child(wt_own(weft_gpt(config)), "drop") != NULL);
}

WT_TEST(cache__generation_equals_the_whole_sequence)
{
    check_cache(new_llama);
    check_cache(new_gpt);
}

/* ---- recomputation ---- */

static weft_module *new_block(weft_recompute recompute, weft_mesh *mesh)
{
    weft_module *root = weft_sequential_new(), *blocks = weft_sequential_new();

    weft_manual_seed(3);
    for (int i = 0; i < 2; i++)
        weft_module_add_child(blocks, i ? "1" : "0",
                              weft_block_new((weft_block_config){.width = C,
                                                                 .heads = H,
                                                                 .kv_heads = G,
                                                                 .dropout = 0.4,
                                                                 .dtype = WEFT_F64,
                                                                 .recompute = recompute}));
    weft_module_add_child(root, "blocks", blocks);
    WT_ALL(weft_parallelize_module(root, mesh, plan) == WEFT_OK);
    return wt_own(root);
}

/* Bytes of activations that the tape keeps. */
static int64_t step(weft_module *m, weft_tensor *x, double *draw)
{
    weft_tensor *y;
    int64_t kept;

    weft_manual_seed(11);
    y = weft_mean_all(weft_square(weft_call(m, x)));
    kept = weft_memory_of(WEFT_MEMORY_ACTIVATIONS).live;
    WT_ALL(weft_backward(y) == WEFT_OK);
    *draw = weft_item(NOISE(1));
    return kept;
}

WT_TEST(recompute__draws_the_same_numbers_and_keeps_less)
{
    weft_mesh *mesh = wt_own(weft_mesh_new(WEFT_CPU, "tp=%d", wt_ranks()));
    weft_tensor *x = NOISE(B, T, C), *want = NULL;
    int64_t kept[3];
    double draw[3];

    for (int kind = WEFT_RECOMPUTE_NONE; kind <= WEFT_RECOMPUTE_BLOCK; kind++) {
        weft_module *m;

        wt_row("recompute %d", kind);
        m = new_block((weft_recompute)kind, mesh);
        weft_set_requires_grad(x, true);
        kept[kind] = step(m, x, &draw[kind]);
        if (kind == 0) want = weft_retain(weft_contiguous(weft_grad(x)));
        WT_ALL(same(weft_grad(x), want));
        WT_ALL(draw[kind] == draw[0]); /* what comes after is drawn as ever */
        weft_zero_grad(x);
    }
    WT_ALL(kept[WEFT_RECOMPUTE_MLP] < kept[0] && kept[WEFT_RECOMPUTE_BLOCK] < kept[1]);
    weft_release(want);
}

/* Only inputs that want a gradient get one; a frozen piece is let through. */
static weft_tensor *product(weft_tensor *const *in, int n, void *payload)
{
    (void)n;
    ++*(int *)payload;
    return weft_mul(in[0], in[1]);
}

WT_TEST(recompute__runs_again_only_where_gradients_flow)
{
    weft_tensor *pair[] = {NOISE(3), NOISE(3)}, *w = NOISE(3);
    int runs = 0;

    weft_set_requires_grad(w, true);
    WT_ALL(weft_backward(weft_sum_all(
               weft_mul(w, weft_recomputed(product, pair, 2, &runs, NULL)))) == WEFT_OK);
    WT_ALL(same(weft_grad(w), weft_mul(pair[0], pair[1])));
    weft_set_requires_grad(pair[0], true);
    runs = 0;
    WT_ALL(weft_backward(weft_sum_all(weft_recomputed(product, pair, 2, &runs, NULL))) == WEFT_OK);
    WT_EQ(runs, 2);
    WT_ALL(same(weft_grad(pair[0]), pair[1]));
    WT_ALL(!weft_grad(pair[1]));
    weft_no_grad_open();
    WT_ALL(!weft_requires_grad(weft_recomputed(product, pair, 2, &runs, NULL)));
    weft_no_grad_close();
    WT_ALL(!weft_recomputed(product, (weft_tensor *[]){pair[0], NULL}, 2, &runs, NULL));
    weft_error_clear();
}

int main(int argc, char **argv) { return wt_main(argc, argv, "transformer"); }
