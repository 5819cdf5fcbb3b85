/*
 * test_heads.c: attention whose query heads are split over ranks also within the groups that share
 * a key and a value: with more ranks than groups, with heads that do not divide, with more ranks
 * than heads. One device is the yardstick.
 */
/* mpi: 4 */
#include <math.h>

#include "support/given.h"
#include "support/near_modules.h"
#include "support/scratch.h"

enum { D = 4, VOCAB = 13, BATCH = 2, TOKENS = 5, STEPS = 3 };

static const struct {
    int64_t heads, groups;
} cases[] = {{8, 2}, {8, 1}, {6, 2}, {5, 5}, {5, 1}, {12, 4}, {4, 2}, {3, 1}, {0, 0}};

/* A row for case i; false: there is none. */
static bool begin(int i)
{
    if (!cases[i].heads) return false;
    wt_row("%d heads, %d groups", (int)cases[i].heads, (int)cases[i].groups);
    return true;
}

/* Two layers. */
static weft_llama_config shape(int64_t heads, int64_t groups)
{
    return (weft_llama_config){.vocab = VOCAB,
                               .width = heads * D,
                               .heads = heads,
                               .kv_heads = groups,
                               .by_heads = true,
                               .layers = 2,
                               .hidden = 10,
                               .dtype = WEFT_F64};
}

static weft_module *made(weft_llama_config config)
{
    weft_manual_seed(7);
    return wt_own(weft_llama(config));
}

static weft_module *llama(int64_t heads, int64_t groups) { return made(shape(heads, groups)); }

static weft_tensor *tokens(int64_t shift) { return given_tokens(BATCH, TOKENS, VOCAB, shift); }

static weft_tensor *loss_of(weft_module *m) { return weft_gpt_loss(m, tokens(3), tokens(8)); }

/* ---- balance ---- */

/* Query heads of this rank, and the groups that they reach into. */
static int64_t heads_here(int64_t heads) { return weft_chunk_size(heads, wt_ranks(), wt_rank()); }

/* What a rank computes: its query heads, and keys and values for no more than these. */
WT_TEST(heads__are_split_evenly_and_keys_computed_where_they_are_used)
{
    weft_mesh *mesh = wt_own(given_mesh());

    for (int i = 0; begin(i); i++) {
        int64_t h = cases[i].heads, g = cases[i].groups;
        weft_module *m = llama(h, g), *qkv = weft_module_child(m, "blocks.0.attn.qkv");
        weft_tensor *q, *y;

        WT_EQ(weft_parallelize_module_strict(m, mesh, weft_gpt_plan()), WEFT_OK);
        q = weft_to_local(weft_module_parameter(qkv, "q_weight"), NULL);
        WT_EQ(weft_size(q, 0), heads_here(h));
        y = weft_call(qkv, given(0, BATCH, TOKENS, h * D));
        WT_ALL(y && !weft_tensor_mesh(y));
        WT_EQ(weft_size(y, 2) * (weft_size(y, 3) - 2), heads_here(h));
        WT_ALL(weft_size(y, 2) <= heads_here(h));
        if (g % wt_ranks() == 0) WT_EQ(weft_size(y, 2), g / wt_ranks());
        if (h % wt_ranks() == 0 && wt_ranks() % g == 0) WT_EQ(weft_size(y, 2), 1);
    }
}

/* ---- training ---- */

/* Loss, every gradient, the global norm, and weights after some clipped steps. */
static void trains_alike(weft_module *one, weft_module *many)
{
    weft_sgd_config config = {.lr = 0.3, .momentum = 0.9};
    weft_optim *a = wt_own(weft_sgd(one, config)), *b = wt_own(weft_sgd(many, config));

    for (int step = 0; step < STEPS; step++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *want = loss_of(one), *got = loss_of(many);
        double norm_one, norm_many;

        WT_ALL(wt_near_tensors(got, want, WT_WITHIN(1e-11)));
        WT_EQ(weft_backward(want), WEFT_OK);
        WT_EQ(weft_backward(got), WEFT_OK);
        WT_NEAR_GRADIENTS(many, one, WT_WITHIN(1e-11));
        WT_EQ(weft_clip_grad_norm(one, 0.01, &norm_one), WEFT_OK);
        WT_EQ(weft_clip_grad_norm(many, 0.01, &norm_many), WEFT_OK);
        WT_ALL(fabs(norm_many - norm_one) <= 1e-11 * norm_one);
        WT_EQ(weft_step(a), WEFT_OK);
        WT_EQ(weft_step(b), WEFT_OK);
        weft_optim_zero_grad(a);
        weft_optim_zero_grad(b);
        weft_scope_close(scope);
    }
    WT_NEAR_PARAMETERS(many, one, WT_WITHIN(1e-10));
}

static void train_under(const weft_plan *plan)
{
    weft_mesh *mesh = wt_own(given_mesh());

    for (int i = 0; begin(i); i++) {
        weft_module *one = llama(cases[i].heads, cases[i].groups);
        weft_module *many = llama(cases[i].heads, cases[i].groups);

        WT_EQ(weft_parallelize_module_strict(many, mesh, plan), WEFT_OK);
        trains_alike(one, many);
    }
}

WT_TEST(heads__more_ranks_than_groups_train_as_one_device) { train_under(weft_gpt_plan()); }

WT_TEST(heads__with_sequence_parallelism_train_as_one_device)
{
    train_under(weft_gpt_plan_sequence());
}

/* ---- computed again ---- */

static weft_module *dropping(weft_recompute recompute)
{
    weft_llama_config config = shape(8, 2);

    config.tied = true;
    config.attention_dropout = 0.3;
    config.recompute = recompute;
    return made(config);
}

static void check_again(weft_recompute recompute, const weft_plan *plan, bool parts)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = dropping(WEFT_RECOMPUTE_NONE), *many = dropping(recompute);
    weft_module *blocks = weft_module_child(many, "blocks");
    weft_tensor *want, *got;

    WT_EQ(weft_parallelize_module_strict(many, mesh, plan), WEFT_OK);
    for (int i = 0; i < weft_module_child_count(blocks) && parts; i++)
        WT_EQ(weft_module_use_saved_shards(weft_module_child_at(blocks, i), mesh), WEFT_OK);
    weft_manual_seed(5);
    want = loss_of(one);
    weft_manual_seed(5);
    got = loss_of(many);
    WT_ALL(wt_near_tensors(got, want, WT_WITHIN(1e-11)));
    WT_EQ(weft_backward(want), WEFT_OK);
    WT_EQ(weft_backward(got), WEFT_OK);
    WT_NEAR_GRADIENTS(many, one, WT_WITHIN(1e-11));
}

/* With weights dropped, embeddings tied, and what is kept as shards. */
WT_TEST(heads__computed_again_train_as_one_device)
{
    for (int kind = WEFT_RECOMPUTE_MLP; kind <= WEFT_RECOMPUTE_BLOCK; kind++) {
        check_again((weft_recompute)kind, weft_gpt_plan(), false);
        check_again((weft_recompute)kind, weft_gpt_plan(), true);
        check_again((weft_recompute)kind, weft_gpt_plan_sequence(), false);
    }
}

/* Frozen keys and values: no gradient, and nothing is sent for them. */
WT_TEST(heads__frozen_keys_stay_frozen)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = llama(8, 2);
    weft_tensor *frozen = weft_module_parameter(m, "blocks.0.attn.qkv.kv_weight");
    weft_optim *sgd;

    weft_set_requires_grad(frozen, false);
    WT_EQ(weft_parallelize_module_strict(m, mesh, weft_gpt_plan()), WEFT_OK);
    frozen = weft_module_parameter(m, "blocks.0.attn.qkv.kv_weight");
    WT_ALL(!weft_requires_grad(frozen));
    sgd = wt_own(weft_sgd(m, (weft_sgd_config){.lr = 0.1}));
    WT_EQ(weft_backward(loss_of(m)), WEFT_OK);
    WT_ALL(weft_grad(frozen) == NULL);
    WT_ALL(weft_grad(weft_module_parameter(m, "blocks.1.attn.qkv.kv_weight")) != NULL);
    WT_EQ(weft_step(sgd), WEFT_OK);
}

/* The gradients of keys and values that ranks share wait for one all-reduce, all together. */
WT_TEST(heads__shared_gradients_are_reduced_once)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = llama(8, 2);
    weft_tensor *shared[2];
    weft_ledger *ledger;

    WT_EQ(weft_parallelize_module_strict(m, mesh, weft_gpt_plan()), WEFT_OK);
    for (int i = 0; i < 2; i++)
        shared[i] = weft_module_parameter(m, i ? "blocks.1.attn.qkv.kv_weight"
                                               : "blocks.0.attn.qkv.kv_weight");
    WT_EQ(weft_backward(loss_of(m)), WEFT_OK);
    WT_ALL(given_is(shared[0], wt_ranks() > 2 ? "R" : "S(0)"));
    ledger = wt_own(weft_ledger_open());
    WT_EQ(weft_reduce_gradients(shared, 2), WEFT_OK);
    if (wt_ranks() > 2) {
        int64_t bytes = 2 * weft_numel(shared[0]) * (int64_t)sizeof(double);

        WT_EQ(weft_ledger_bytes(ledger, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_ANY, NULL), bytes);
        GIVEN_MOVED(ledger, WEFT_COLL_ALL_REDUCE, 1);
    } else {
        GIVEN_STILL(ledger);
    }
    WT_ALL(weft_grad(shared[0]) != NULL && weft_grad(shared[1]) != NULL);
    GIVEN_STILL(ledger);
}

/* ---- without elements ---- */

/* Made on the meta device, spread, planned, and only then filled: the model made in one piece. */
WT_TEST(heads__models_are_planned_without_elements)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_tensor *x, *in[2];
    weft_module *one = llama(8, 2), *many;
    weft_forecast forecast;

    weft_set_default_device(WEFT_META);
    many = llama(8, 2);
    x = tokens(3);
    WT_EQ(weft_parallelize_module_strict(many, mesh, weft_gpt_plan()), WEFT_OK);
    weft_set_default_device(WEFT_CPU);
    in[0] = in[1] = x;
    WT_EQ(weft_forecast_step(&forecast, many, NULL, in, 2), WEFT_OK);
    WT_EQ(forecast.parameters, weft_module_numel(one));
    WT_EQ(weft_module_materialize(many, WEFT_CPU), WEFT_OK);
    WT_NEAR_PARAMETERS(many, one, WT_WITHIN(1e-10));
    WT_ALL(wt_near_tensors(loss_of(many), loss_of(one), WT_WITHIN(1e-11)));
}

/* ---- generation ---- */

WT_TEST(heads__a_cache_holds_the_keys_that_a_rank_uses)
{
    weft_mesh *mesh = wt_own(given_mesh());

    for (int i = 0; begin(i); i++) {
        weft_module *one = llama(cases[i].heads, cases[i].groups);
        weft_module *many = llama(cases[i].heads, cases[i].groups);
        weft_tensor *want = weft_call(one, tokens(3)), *in = tokens(3);

        WT_EQ(weft_parallelize_module_strict(many, mesh, weft_gpt_plan()), WEFT_OK);
        weft_no_grad_open();
        WT_EQ(weft_module_cache(many, TOKENS), WEFT_OK);
        WT_ALL(wt_near_tensors(weft_call(many, weft_slice(in, 1, 0, 3)), weft_slice(want, 1, 0, 3),
                               WT_WITHIN(1e-11)));
        for (int t = 3; t < TOKENS; t++)
            WT_ALL(wt_near_tensors(weft_call(many, weft_slice(in, 1, t, t + 1)),
                                   weft_slice(want, 1, t, t + 1), WT_WITHIN(1e-11)));
        weft_no_grad_close();
    }
}

/* ---- files ---- */

static void store(const char *path, weft_module *m, bool load)
{
    weft_state *state = wt_own(weft_state_new());

    WT_EQ(weft_state_add_module(state, "model", m), WEFT_OK);
    if (load)
        WT_EQ(weft_checkpoint_load(path, state), WEFT_OK);
    else
        WT_EQ(weft_checkpoint_save(path, state), WEFT_OK);
}

/* A parameter is one entry however many ranks hold it; any mesh reads what another wrote; the
 * family's names are those of packed attention. */
WT_TEST(heads__files_have_each_weight_once)
{
    weft_mesh *mesh = wt_own(given_mesh());

    for (int i = 0; begin(i); i += 2) {
        int64_t h = cases[i].heads, g = cases[i].groups;
        weft_module *many = llama(h, g), *again = llama(h, g);
        weft_llama_config joined = shape(h, g);
        const char *path = wt_scratch("heads.weft"), *hub = wt_scratch("heads.safetensors");
        weft_module *packed;
        weft_weights *file;

        joined.by_heads = false;
        packed = made(joined);
        WT_EQ(weft_parallelize_module_strict(many, mesh, weft_gpt_plan()), WEFT_OK);
        WT_EQ(weft_fill_(weft_module_parameter(again, "blocks.0.attn.qkv.kv_weight"), 0), WEFT_OK);
        store(path, many, false);
        store(path, again, true);
        WT_NEAR_PARAMETERS(many, again, WT_WITHIN(1e-10));
        WT_EQ(weft_weights_save(many, hub, weft_weight_names_of_family("llama")), WEFT_OK);
        file = wt_own(weft_weights_open(hub));
        WT_EQ(weft_size(
                  weft_weights_read(file, "model.layers.0.self_attn.k_proj.weight", 0, NULL, NULL),
                  0),
              g * D);
        WT_EQ(weft_weights_load(packed, file, weft_weight_names_of_family("llama")), WEFT_OK);
        WT_ALL(wt_near_tensors(loss_of(packed), loss_of(many), WT_WITHIN(1e-11)));
        WT_EQ(weft_weights_load(again, file, weft_weight_names_of_family("llama")), WEFT_OK);
        WT_NEAR_PARAMETERS(many, again, WT_WITHIN(1e-10));
    }
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "heads")); }
