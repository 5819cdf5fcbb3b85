/*
 * test_rebuilt.c: ready models that a program changes: children replaced by path, plans and tables
 * of names of a part used under a larger model, first values drawn anew.
 */
/* mpi: 3 */
#include <stdio.h>
#include <string.h>

#include "support/given.h"
#include "support/scratch.h"

enum { VOCAB = 11, WIDTH = 12, HEADS = 3, TOKENS = 5, BATCH = 2 };

static weft_module *gpt_new(uint64_t seed, double attention_dropout)
{
    weft_manual_seed(seed);
    return weft_gpt((weft_gpt_config){.vocab = VOCAB,
                                      .context = TOKENS,
                                      .width = WIDTH,
                                      .heads = HEADS,
                                      .layers = 2,
                                      .tied = true,
                                      .attention_dropout = attention_dropout,
                                      .dtype = WEFT_F64});
}

static weft_tensor *tokens(void) { return given_tokens(BATCH, TOKENS, VOCAB, 3); }

/* Twice what its child "base" gives. */
static weft_tensor *twice(weft_module *m, weft_tensor *const *inputs, int n)
{
    return weft_mul_scalar(weft_call_n(weft_module_child(m, "base"), inputs, n), 2);
}

static const weft_module_class class_twice = {.type = "twice", .forward = twice, .optional = 1};

static weft_module *doubled(weft_module *model, const char *path)
{
    weft_module *m = weft_module_new(&class_twice, NULL);
    weft_module *old = weft_module_replace_child(model, path, m);

    WT_ALL(old != NULL && weft_module_path(old)[0] == '\0');
    WT_EQ(weft_module_add_child(m, "base", old), WEFT_OK);
    return m;
}

/* trial 4.2: each child that a model's forward calls by itself */
WT_TEST(replaced__children_are_called_instead)
{
    static const char *const paths[] = {"wte",
                                        "wpe",
                                        "norm_f",
                                        "head",
                                        "blocks",
                                        "blocks.0",
                                        "blocks.1.norm1",
                                        "blocks.1.attn",
                                        "blocks.0.mlp",
                                        "blocks.0.norm2",
                                        "blocks.0.mlp.up",
                                        "blocks.0.mlp.act",
                                        "blocks.1.mlp.down",
                                        "blocks.0.attn.qkv",
                                        "blocks.0.attn.proj"};
    weft_module *before = wt_own(gpt_new(3, 0));

    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        weft_module *gpt;
        char base[64];

        wt_row("%s", paths[i]);
        gpt = wt_own(gpt_new(3, 0));
        doubled(gpt, paths[i]);
        snprintf(base, sizeof base, "%s.base", paths[i]);
        WT_ALL(!strcmp(weft_module_path(weft_module_child(gpt, base)), base));
        WT_ALL(!strcmp(weft_module_type(weft_module_child(gpt, paths[i])), "twice"));
        /* a norm follows wherever the doubled value would go through one alone */
        if (strcmp(paths[i], "blocks"))
            WT_ALL(!wt_near_tensors(weft_call(gpt, tokens()), weft_call(before, tokens()),
                                    WT_WITHIN(1e-9)));
    }
}

/* trial 4.2: in the place of the one that was there */
WT_TEST(replaced__child_has_name_place_and_owner)
{
    weft_module *gpt = wt_own(gpt_new(3, 0)), *act = weft_activation_new(WEFT_RELU), *old;

    old = wt_own(weft_module_replace_child(gpt, "blocks.1.mlp.act", act));
    WT_ALL(weft_module_child_at(weft_module_child(gpt, "blocks.1.mlp"), 1) == act);
    WT_ALL(!strcmp(weft_module_path(act), "blocks.1.mlp.act"));
    WT_ALL(!strcmp(weft_module_name(old), ""));
    WT_FAILS(weft_module_replace_child(gpt, "", weft_activation_new(WEFT_RELU)), WEFT_ERR_ARG,
             "the module itself (gpt '')");
    WT_FAILS(weft_module_replace_child(weft_module_child(gpt, "blocks.1"), "",
                                       weft_activation_new(WEFT_RELU)),
             WEFT_ERR_ARG, "the module itself (block 'blocks.1')");
    WT_ALL(!strcmp(weft_module_type(weft_module_child(gpt, "blocks.1")), "block"));
    WT_FAILS(weft_module_replace_child(gpt, "blocks.7", weft_activation_new(WEFT_RELU)),
             WEFT_ERR_NOT_FOUND, "'7'");
    WT_FAILS(weft_module_replace_child(gpt, "head", act), WEFT_ERR_ARG,
             "part of a tree already (as 'blocks.1.mlp.act')");
    WT_FAILS(weft_module_replace_child(gpt, "head", gpt), WEFT_ERR_ARG, "part of a tree already");
    WT_FAILS(weft_module_replace_child(gpt, "head", NULL), WEFT_ERR_ARG, "NULL");
    WT_ALL(weft_call(gpt, tokens()) != NULL);
}

/* trial 4.2: a replica's part, which would be none any more, is refused */
WT_TEST(replaced__not_in_a_replica)
{
    weft_mesh *mesh = wt_own(weft_mesh_new(WEFT_CPU, "dp=%d", wt_ranks()));
    weft_module *gpt = wt_own(gpt_new(3, 0));

    WT_EQ(weft_data_parallel(gpt, mesh, (weft_data_parallel_config){0}), WEFT_OK);
    WT_FAILS(weft_module_replace_child(gpt, "head", weft_activation_new(WEFT_RELU)), WEFT_ERR_STATE,
             "'head': it is a replica");
}

/* trial 4.2: which weights are dropped still belongs to global heads */
WT_TEST(replaced__qkv_drops_the_same_weights_at_every_number_of_ranks)
{
    static const weft_plan plan[] = {{"blocks.*.attn.qkv.base", {.kind = WEFT_STYLE_COLWISE}},
                                     {"blocks.*.attn.proj", {.kind = WEFT_STYLE_ROWWISE}},
                                     {0}};
    struct wt_world w = wt_world_open();
    weft_module *models[2];
    weft_tensor *results[2];

    for (int i = 0; i < 2; i++) {
        models[i] = wt_own(gpt_new(3, 0.5));
        doubled(models[i], "blocks.0.attn.qkv");
        doubled(models[i], "blocks.1.attn.qkv");
        if (i) WT_EQ(weft_parallelize_module_strict(models[i], w.mesh, plan), WEFT_OK);
        weft_manual_seed(8);
        results[i] = weft_call(models[i], tokens());
    }
    WT_ALL(wt_near_tensors(results[1], results[0], WT_WITHIN(1e-10)));
}

/* trial 4.2 */
WT_TEST(under__a_prefix_plans_and_names_are_those_of_the_part)
{
    struct wt_world w = wt_world_open();
    weft_module *one = wt_own(gpt_new(3, 0)), *top = wt_own(weft_sequential_new());
    weft_plan *plan = wt_own(weft_plan_under(weft_gpt_plan(), "inner.model"));
    weft_weight_names *names =
        weft_weight_names_under(weft_weight_names_of_family("gpt2"), "inner.model");
    const char *path = wt_scratch("gpt2.safetensors");
    weft_module *inner = weft_sequential_new();
    weft_weights *weights;

    weft_module_add_child(inner, "model", gpt_new(4, 0));
    weft_module_add_child(top, "inner", inner);
    WT_EQ(weft_parallelize_module_strict(top, w.mesh, plan), WEFT_OK);
    WT_ALL(
        wt_is_placed(weft_module_parameter(top, "inner.model.blocks.0.attn.qkv.weight"), "S(1)"));
    WT_EQ(weft_weights_save(one, path, weft_weight_names_of_family("gpt2")), WEFT_OK);
    weights = wt_own(weft_weights_open(path));
    WT_EQ(weft_weights_load(top, weights, names), WEFT_OK);
    WT_ALL(wt_near_tensors(weft_gpt_loss(weft_module_child(top, "inner.model"), tokens(), tokens()),
                           weft_gpt_loss(one, tokens(), tokens()), WT_WITHIN(1e-5)));
    WT_ALL(weft_plan_under(NULL, "a") == NULL);
    WT_FAILS(weft_plan_under(weft_gpt_plan(), NULL), WEFT_ERR_ARG, "prefix");
    WT_FAILS(weft_weight_names_under(weft_weight_names_of_family("gpt2"), ""), WEFT_ERR_ARG,
             "prefix");
    weft_weight_names_release(names);
}

/* trial 4.2: "" of a plan is the part itself; an empty prefix changes nothing */
WT_TEST(under__a_prefix_the_module_itself_is_the_part)
{
    weft_plan *under = wt_own(weft_plan_under(weft_bert_plan_sequence(), "bert"));
    weft_plan *same = wt_own(weft_plan_under(weft_bert_plan_sequence(), ""));
    const weft_plan *plan = weft_bert_plan_sequence();
    int i = 0;

    for (; plan[i].pattern; i++) {
        WT_ALL(!strcmp(same[i].pattern, plan[i].pattern));
        WT_ALL(!strncmp(under[i].pattern, "bert", 4));
        WT_EQ(under[i].style.kind, plan[i].style.kind);
    }
    WT_ALL(!strcmp(under[i - 1].pattern, "bert") && !under[i].pattern);
}

/* trial 4 (docs): label i is about token i itself, two of them are ignored */
WT_TEST(shifted__labels_are_compared_with_the_token_before)
{
    weft_module *gpt = wt_own(gpt_new(3, 0));
    int64_t shape[] = {BATCH, TOKENS}, labels[BATCH * TOKENS];
    weft_tensor *logits, *in, *want;

    for (int64_t i = 0; i < BATCH * TOKENS; i++)
        labels[i] = i == 3 || i == 5 ? -100 : (i * 5 + 3) % VOCAB;
    in = weft_from_data(WEFT_I64, shape, 2, labels);
    logits = weft_slice(weft_call(gpt, tokens()), 1, 0, TOKENS - 1);
    want = weft_cross_entropy(logits, weft_slice(in, 1, 1, TOKENS), -100);
    WT_ALL(wt_near_tensors(weft_gpt_loss_shifted(gpt, tokens(), in), want, WT_WITHIN(1e-12)));
    WT_FAILS(weft_gpt_loss_shifted(gpt, weft_slice(tokens(), 1, 0, 1), in), WEFT_ERR_SHAPE,
             "1 tokens and 5 labels");
}

static weft_status same_values(const weft_module_tensor *it, void *payload)
{
    WT_ALL(wt_near_tensors(it->tensor, weft_module_parameter(payload, it->path), WT_EXACT));
    return WEFT_OK;
}

/* trial 4 (seen): first values drawn anew are those of a new model, in any layout */
WT_TEST(reset__is_a_new_model_in_any_layout)
{
    weft_generator *g = wt_own(weft_generator_new(9));
    weft_module *fresh = wt_own(gpt_new(9, 0));

    for (int layout = 0; layout < 4; layout++) {
        struct wt_world w;
        weft_device before;
        weft_module *gpt;

        wt_row("layout %d", layout);
        w = wt_world_open();
        before = weft_set_default_device(layout == 3 ? WEFT_META : WEFT_CPU);
        gpt = wt_own(gpt_new(3, 0));
        weft_set_default_device(before);
        if (layout == 1 || layout == 3)
            WT_EQ(weft_parallelize_module_strict(gpt, w.mesh, weft_gpt_plan()), WEFT_OK);
        if (layout == 2)
            WT_EQ(weft_data_parallel(gpt, wt_own(weft_mesh_new(WEFT_CPU, "dp=%d", wt_ranks())),
                                     (weft_data_parallel_config){.shard = true}),
                  WEFT_OK);
        weft_generator_reseed(g, 9);
        WT_EQ(weft_module_reset_parameters(gpt, g), WEFT_OK);
        if (layout == 3) WT_EQ(weft_module_materialize(gpt, WEFT_CPU), WEFT_OK);
        WT_EQ(weft_module_each_tensor(gpt, same_values, fresh), WEFT_OK);
        WT_ALL(weft_requires_grad(weft_module_parameter(gpt, "wte.weight")));
    }
    weft_manual_seed(9);
    WT_EQ(weft_module_reset_parameters(fresh, NULL), WEFT_OK);
    WT_EQ(weft_module_reset_parameters(NULL, NULL), WEFT_ERR_ARG);
    weft_error_clear();
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "rebuilt")); }
