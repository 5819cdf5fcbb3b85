/* test_hub.c: models as the transformers package saves them compute here what they compute there.
 */
/* mpi: 2 */
#include "ranks/worlds.h"

#define FOLDER                                                                                     \
    WT_SOURCE_DIR "/"                                                                              \
                  "tests/golden/gpt2"

struct model {
    weft_module *module;
    weft_weights *results;
    weft_tensor *tokens, *targets;
};

static struct model open_model(struct wt_world *w, bool spread)
{
    struct model m = {.results = weft_weights_open(FOLDER "/results.safetensors")};
    weft_weights *weights = weft_weights_open(FOLDER);
    weft_gpt_config config;

    WT_EQ(weft_gpt_config_read(&config, FOLDER "/config.json"), WEFT_OK);
    WT_EQ(config.vocab, 17);
    WT_ALL(config.dropout == 0.1 && config.tied);
    config.dropout = 0;
    m.module = weft_gpt(config);
    if (spread)
        WT_EQ(weft_parallelize_module(
                  m.module, w->mesh,
                  (weft_plan[]){{"wte", weft_rowwise_parallel()},
                                {"blocks.*.attn.qkv", weft_colwise_parallel()},
                                {"blocks.*.attn.proj", weft_rowwise_parallel()},
                                {"blocks.*.mlp.up", weft_colwise_parallel()},
                                {"blocks.*.mlp.down", weft_rowwise_parallel()},
                                {"head", weft_colwise_parallel_with(
                                             (weft_style_options){.output_layouts = "R"})},
                                {0}}),
              WEFT_OK);
    WT_EQ(weft_weights_load(m.module, weights, weft_weight_family("gpt2")), WEFT_OK);
    weft_weights_close(weights);
    m.tokens = weft_weights_read(m.results, "tokens", 0, NULL, NULL);
    m.targets = weft_weights_read(m.results, "targets", 0, NULL, NULL);
    return m;
}

static void close_model(struct model *m)
{
    weft_weights_close(m->results);
    weft_module_release(m->module);
}

static weft_tensor *result(const struct model *m, const char *name)
{
    return weft_weights_read(m->results, name, 0, NULL, NULL);
}

WT_TEST(gpt2__logits_and_loss_are_those_of_transformers)
{
    struct wt_world w = wt_world_open();

    for (int spread = 0; spread < 2; spread++) {
        struct model m = open_model(&w, spread);
        weft_tensor *logits = weft_call(m.module, m.tokens);

        WT_ALL(wt_near_tensors(logits, result(&m, "logits"), WT_WITHIN(1e-5)));
        WT_ALL(wt_near_tensors(weft_gpt_loss(m.module, m.tokens, m.targets), result(&m, "loss"),
                               WT_WITHIN(1e-5)));
        close_model(&m);
    }
    wt_world_close(&w);
}

static weft_tensor *grad_of(const struct model *m, const char *path)
{
    return weft_full_tensor(weft_grad(weft_module_parameter(m->module, path)));
}

/* Transposed and fused weights get their gradients in that form, too. */
WT_TEST(gpt2__gradients_are_those_of_transformers)
{
    struct wt_world w = wt_world_open();
    const struct wt_tolerance near = WT_WITHIN(2e-5);

    for (int spread = 0; spread < 2; spread++) {
        struct model m = open_model(&w, spread);
        weft_tensor *qkv, *bias, *proj, *fc;

        WT_EQ(weft_backward(weft_gpt_loss(m.module, m.tokens, m.targets)), WEFT_OK);
        qkv = weft_transpose(result(&m, "grad.transformer.h.0.attn.c_attn.weight"), 0, 1);
        bias = result(&m, "grad.transformer.h.0.attn.c_attn.bias");
        proj = weft_transpose(result(&m, "grad.transformer.h.1.attn.c_proj.weight"), 0, 1);
        fc = weft_transpose(result(&m, "grad.transformer.h.1.mlp.c_fc.weight"), 0, 1);
        WT_ALL(wt_near_tensors(grad_of(&m, "blocks.0.attn.qkv.weight"),
                               weft_reshape(qkv, 4, (int64_t[]){3, 3, 4, 12}), near));
        WT_ALL(wt_near_tensors(grad_of(&m, "blocks.0.attn.qkv.bias"),
                               weft_reshape(bias, 3, (int64_t[]){3, 3, 4}), near));
        WT_ALL(wt_near_tensors(grad_of(&m, "blocks.1.attn.proj.weight"),
                               weft_reshape(proj, 3, (int64_t[]){12, 3, 4}), near));
        WT_ALL(wt_near_tensors(grad_of(&m, "blocks.1.mlp.up.weight"), fc, near));
        WT_ALL(wt_near_tensors(grad_of(&m, "norm_f.weight"),
                               result(&m, "grad.transformer.ln_f.weight"), near));
        WT_ALL(wt_near_tensors(grad_of(&m, "wpe.weight"), result(&m, "grad.transformer.wpe.weight"),
                               near));
        /* Tied: the sum of both uses. */
        WT_ALL(wt_near_tensors(grad_of(&m, "wte.weight"), result(&m, "grad.transformer.wte.weight"),
                               near));
        close_model(&m);
    }
    wt_world_close(&w);
}

int main(int argc, char **argv)
{
    static const struct wt_case cases[] = {
        WT_CASE(gpt2__logits_and_loss_are_those_of_transformers),
        WT_CASE(gpt2__gradients_are_those_of_transformers),
        WT_END,
    };

    return wt_main(argc, argv, "hub", cases);
}
