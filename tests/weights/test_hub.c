/* test_hub.c: models as the transformers package saves them compute here what they compute there.
 */
/* mpi: 2 */
#include <stdio.h>
#include <string.h>

#include "support/scratch.h"
#include "support/worlds.h"

struct model {
    weft_module *module;
    weft_weights *results;
    weft_tensor *tokens;
};

/* "gpt2-conv1d" is another way to read "gpt2". */
static const char *path_of(const char *family, const char *file)
{
    static _Thread_local char path[512];

    snprintf(path, sizeof path, "%s/tests/golden/hub-%.*s%s", WT_SOURCE_DIR,
             (int)strcspn(family, "-"), family, file);
    return path;
}

/* `transposed`: with weights that lie as the file's do. */
static weft_module *gpt2_with(bool transposed)
{
    weft_gpt_config config;

    WT_EQ(weft_gpt_config_read(&config, path_of("gpt2", "/config.json")), WEFT_OK);
    WT_ALL(config.vocab == 17 && config.dropout == 0.1 && config.tied);
    config.dropout = config.attention_dropout = 0;
    config.transposed = transposed;
    return weft_gpt(config);
}

static weft_module *gpt2(void) { return gpt2_with(false); }
static weft_module *conv1d(void) { return gpt2_with(true); }

/* `by_heads`: for more ranks than keys. */
static weft_module *llama_with(bool by_heads)
{
    weft_llama_config config;

    WT_EQ(weft_llama_config_read(&config, path_of("llama", "/config.json")), WEFT_OK);
    WT_ALL(config.kv_heads == 2 && config.eps == 1e-5 && !config.tied);
    WT_ALL(config.rotary.base == 50 && config.rotary.factor == 4 && config.rotary.length == 8);
    config.by_heads = by_heads;
    return weft_llama(config);
}

static weft_module *llama(void) { return llama_with(false); }
static weft_module *by_heads(void) { return llama_with(true); }

/* Biases everywhere, heads of another size than width / heads, a tied head. */
static weft_module *llama_bias_with(bool by_heads)
{
    weft_llama_config config;

    WT_EQ(weft_llama_config_read(&config, path_of("llama_bias", "/config.json")), WEFT_OK);
    WT_ALL(config.head_dim == 4 && config.attention_bias && config.mlp_bias && config.tied);
    config.by_heads = by_heads;
    return weft_llama(config);
}

static weft_module *llama_bias(void) { return llama_bias_with(false); }
static weft_module *bias_by_heads(void) { return llama_bias_with(true); }

static weft_module *bert(void)
{
    weft_bert_config config;

    WT_EQ(weft_bert_config_read(&config, path_of("bert", "/config.json")), WEFT_OK);
    WT_ALL(config.hidden == 20 && config.types == 2 && config.act == WEFT_GELU);
    config.dropout = config.attention_dropout = 0;
    config.pooler = true;
    return weft_bert(config);
}

/* Heads and features are cut unevenly by most numbers of ranks. */
static void spread(struct wt_world *w, weft_module *m)
{
    WT_EQ(weft_parallelize_module(m, w->mesh,
                                  (weft_plan[]){{"blocks.*.attn.qkv", weft_colwise_parallel()},
                                                {"blocks.*.attn.proj", weft_rowwise_parallel()},
                                                {"blocks.*.mlp.up", weft_colwise_parallel()},
                                                {"blocks.*.mlp.down", weft_rowwise_parallel()},
                                                {0}}),
          WEFT_OK);
}

/* The family whose names a folder has: "llama" of "llama_bias". */
static const weft_weight_names *names_of(const char *folder)
{
    char family[32];

    snprintf(family, sizeof family, "%.*s", (int)strcspn(folder, "_"), folder);
    return weft_weight_names_of_family(family);
}

static struct model open_model(struct wt_world *w, const char *folder, weft_module *module,
                               bool is_spread)
{
    struct model m = {.module = module,
                      .results = weft_weights_open(path_of(folder, "/results.safetensors"))};
    weft_weights *weights = weft_weights_open(path_of(folder, ""));
    weft_status status;

    if (is_spread) spread(w, module);
    status = weft_weights_load(module, weights, names_of(folder));
    wt_note("%s", weft_error_message());
    WT_EQ(status, WEFT_OK);
    weft_weights_close(weights);
    m.tokens = weft_weights_read(m.results, "tokens", 0, NULL, NULL);
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

/* Logits, and the loss, whose gradients are asked for. */
static void run_language_model(const struct model *m)
{
    weft_tensor *targets = result(m, "targets");
    weft_tensor *loss = weft_gpt_loss(m->module, m->tokens, targets);

    WT_ALL(wt_near_tensors(weft_call(m->module, m->tokens), result(m, "logits"), WT_WITHIN(1e-5)));
    WT_ALL(wt_near_tensors(loss, result(m, "loss"), WT_WITHIN(1e-5)));
    WT_EQ(weft_backward(loss), WEFT_OK);
}

/* Five steps of AdamW, from the weights of the file. */
static void trains_alike(const struct model *m)
{
    weft_optim *optim =
        weft_adamw(m->module, (weft_adamw_config){.lr = 0.01, .weight_decay = 0.01});
    weft_tensor *targets = result(m, "targets"), *losses = result(m, "losses");

    weft_optim_zero_grad(optim);
    for (int64_t step = 0; step < weft_size(losses, 0); step++) {
        weft_tensor *loss = weft_gpt_loss(m->module, m->tokens, targets);

        WT_ALL(wt_near_tensors(loss, weft_select(losses, 0, step), WT_WITHIN(3e-5)));
        WT_EQ(weft_backward(loss), WEFT_OK);
        WT_EQ(weft_step(optim), WEFT_OK);
    }
    weft_optim_release(optim);
}

static weft_tensor *grad_of(const struct model *m, const char *path)
{
    return weft_full_tensor(weft_grad(weft_module_parameter(m->module, path)));
}

/* A gradient, seen in the shape that the file's has, is that one. */
static bool is_grad(const struct model *m, weft_tensor *grad, const char *name)
{
    weft_tensor *want = result(m, name);
    int64_t shape[2] = {weft_size(want, 0), weft_ndim(want) > 1 ? weft_size(want, 1) : 1};

    return wt_near_tensors(weft_reshape(grad, shape, weft_ndim(want)), want, WT_WITHIN(2e-5));
}

/* A parameter and what the file calls its gradient, where they lie alike. */
struct same_grad {
    const char *path, *name;
};

static void are_grads(const struct model *m, const struct same_grad *pairs)
{
    for (; pairs->path; pairs++) {
        bool same = is_grad(m, grad_of(m, pairs->path), pairs->name);

        if (!same) wt_note("%s is another", pairs->name);
        WT_ALL(same);
    }
}

/* Transposed and fused weights get their gradients so, too; tied ones that of both uses. */
WT_TEST_TIMES_IN_WORLD(gpt2__computes_what_transformers_computes, w, i, 2)
{
    static const struct same_grad alike[] = {
        {"blocks.0.attn.qkv.bias", "grad.transformer.h.0.attn.c_attn.bias"},
        {"norm_f.weight", "grad.transformer.ln_f.weight"},
        {"wpe.weight", "grad.transformer.wpe.weight"},
        {"wte.weight", "grad.transformer.wte.weight"},
        {0},
    };
    struct model m = open_model(w, "gpt2", gpt2(), i);
    weft_tensor *qkv, *proj, *up;
    int64_t flat[] = {36, 12}, square[] = {12, 12};

    run_language_model(&m);
    qkv = weft_reshape(grad_of(&m, "blocks.0.attn.qkv.weight"), flat, 2);
    proj = weft_reshape(grad_of(&m, "blocks.1.attn.proj.weight"), square, 2);
    up = grad_of(&m, "blocks.1.mlp.up.weight");
    WT_ALL(is_grad(&m, weft_transpose(qkv, 0, 1), "grad.transformer.h.0.attn.c_attn.weight"));
    WT_ALL(is_grad(&m, weft_transpose(proj, 0, 1), "grad.transformer.h.1.attn.c_proj.weight"));
    WT_ALL(is_grad(&m, weft_transpose(up, 0, 1), "grad.transformer.h.1.mlp.c_fc.weight"));
    are_grads(&m, alike);
    trains_alike(&m);
    close_model(&m);
}

/* Weights that lie as in the file: gradients do too, as they are. */
WT_TEST_TIMES_IN_WORLD(gpt2__computes_the_same_with_transposed_weights, w, i, 2)
{
    static const struct same_grad alike[] = {
        {"blocks.0.attn.qkv.weight", "grad.transformer.h.0.attn.c_attn.weight"},
        {"blocks.0.attn.qkv.bias", "grad.transformer.h.0.attn.c_attn.bias"},
        {"blocks.1.attn.proj.weight", "grad.transformer.h.1.attn.c_proj.weight"},
        {"blocks.1.mlp.up.weight", "grad.transformer.h.1.mlp.c_fc.weight"},
        {"wte.weight", "grad.transformer.wte.weight"},
        {0},
    };
    struct model m = open_model(w, "gpt2-conv1d", conv1d(), i);

    run_language_model(&m);
    are_grads(&m, alike);
    trains_alike(&m);
    close_model(&m);
}

/* Groups of heads of which each name has a part; gate and up one matrix; stretched positions. */
WT_TEST_TIMES_IN_WORLD(llama__computes_what_transformers_computes, w, i, 2)
{
    static const struct same_grad alike[] = {
        {"norm_f.weight", "grad.model.norm.weight"},
        {"head.weight", "grad.lm_head.weight"},
        {"wte.weight", "grad.model.embed_tokens.weight"},
        {0},
    };
    struct model m = open_model(w, "llama", llama(), i);
    weft_tensor *qkv[2], *up;

    run_language_model(&m);
    qkv[0] = grad_of(&m, "blocks.0.attn.qkv.weight");
    qkv[1] = grad_of(&m, "blocks.1.attn.qkv.weight");
    up = grad_of(&m, "blocks.1.mlp.up.weight");
    WT_ALL(is_grad(&m, weft_slice(qkv[0], 1, 0, 2), "grad.model.layers.0.self_attn.q_proj.weight"));
    WT_ALL(is_grad(&m, weft_slice(qkv[0], 1, 2, 3), "grad.model.layers.0.self_attn.k_proj.weight"));
    WT_ALL(is_grad(&m, weft_slice(qkv[1], 1, 3, 4), "grad.model.layers.1.self_attn.v_proj.weight"));
    WT_ALL(is_grad(&m, weft_select(up, 0, 0), "grad.model.layers.1.mlp.gate_proj.weight"));
    WT_ALL(is_grad(&m, weft_select(up, 0, 1), "grad.model.layers.1.mlp.up_proj.weight"));
    are_grads(&m, alike);
    trains_alike(&m);
    close_model(&m);
}

/* Both forms of the queries, keys and values. */
WT_TEST_TIMES_IN_WORLD(llama__with_biases_computes_what_transformers_computes, w, i, 4)
{
    static const struct same_grad alike[] = {
        {"blocks.1.attn.proj.weight", "grad.model.layers.1.self_attn.o_proj.weight"},
        {"blocks.1.attn.proj.bias", "grad.model.layers.1.self_attn.o_proj.bias"},
        {"blocks.0.mlp.down.bias", "grad.model.layers.0.mlp.down_proj.bias"},
        {"wte.weight", "grad.model.embed_tokens.weight"},
        {0},
    };
    struct model m = open_model(w, "llama_bias", i / 2 ? bias_by_heads() : llama_bias(), i % 2);
    weft_tensor *q, *k;

    run_language_model(&m);
    if (i / 2) {
        q = grad_of(&m, "blocks.0.attn.qkv.q_weight");
        k = weft_slice(grad_of(&m, "blocks.0.attn.qkv.kv_bias"), 1, 0, 1);
    } else {
        q = weft_slice(grad_of(&m, "blocks.0.attn.qkv.weight"), 1, 0, 3);
        k = weft_slice(grad_of(&m, "blocks.0.attn.qkv.bias"), 1, 3, 4);
    }
    WT_ALL(is_grad(&m, q, "grad.model.layers.0.self_attn.q_proj.weight"));
    WT_ALL(is_grad(&m, k, "grad.model.layers.0.self_attn.k_proj.bias"));
    WT_ALL(is_grad(&m, weft_slice(grad_of(&m, "blocks.1.mlp.up.bias"), 0, 1, 2),
                   "grad.model.layers.1.mlp.up_proj.bias"));
    are_grads(&m, alike);
    trains_alike(&m);
    close_model(&m);
}

WT_TEST_TIMES_IN_WORLD(bert__computes_what_transformers_computes, w, i, 2)
{
    struct model m = open_model(w, "bert", bert(), i);
    weft_tensor *in[] = {m.tokens, result(&m, "mask")};
    weft_tensor *hidden = weft_call_n(m.module, in, 2);

    WT_ALL(wt_near_tensors(hidden, result(&m, "hidden"), WT_WITHIN(1e-5)));
    WT_ALL(
        wt_near_tensors(weft_bert_pooled(m.module, hidden), result(&m, "pooled"), WT_WITHIN(1e-5)));
    close_model(&m);
}

/* Written under the family's names, a model has the names, shapes and numbers of the file it came
 * from. */
WT_TEST_IN_WORLD(hub__a_model_saved_again_is_the_file_it_came_from, w)
{
    static const struct {
        const char *family;
        weft_module *(*make)(void);
    } families[] = {{"gpt2", gpt2},      {"gpt2-conv1d", conv1d},    {"llama", llama},
                    {"llama", by_heads}, {"llama_bias", llama_bias}, {"llama_bias", bias_by_heads},
                    {"bert", bert}};

    for (int i = 0; i < 7; i++) {
        const char *family = families[i].family;
        struct model m = open_model(w, family, families[i].make(), true);
        weft_weights *from = weft_weights_open(path_of(family, "")), *again;
        const char *path = wt_scratch("again.safetensors");

        WT_EQ(weft_weights_save(m.module, path, names_of(family)), WEFT_OK);
        again = weft_weights_open(path);
        WT_EQ(weft_weights_count(again), weft_weights_count(from));
        for (int64_t k = 0; k < weft_weights_count(from); k++) {
            const char *name = weft_weights_at(from, k)->name, *ours = name;
            char longer[128];

            snprintf(longer, sizeof longer, "bert.%s", name);
            if (i == 6) ours = longer; /* a bare encoder has no prefix */
            wt_note("%s", name);
            WT_ALL(weft_weights_find(again, ours) != NULL);
            WT_ALL(wt_near_tensors(weft_weights_read(again, ours, 0, NULL, NULL),
                                   weft_weights_read(from, name, 0, NULL, NULL), WT_EXACT));
        }
        WT_RELEASE(weft_weights_close, from, again);
        close_model(&m);
    }
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "hub")); }
