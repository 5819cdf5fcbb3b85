/* weight_families.c: how Hugging Face's models name their weights, a table per family. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "io/weights/weight_names.h"

/* GPT-2 keeps matrices as [in, out] (its Conv1D), the head is the embedding unless it stands
 * there, and older files have the causal mask among the weights. */
#define GPT2(turned, qkv_rows, proj_rows)                                                          \
    {.parameter = "wte.weight", .name = "[transformer.]wte.weight"},                               \
        {.parameter = "wpe.weight", .name = "[transformer.]wpe.weight"},                           \
        {.parameter = "blocks.*.norm1.*", .name = "[transformer.]h.*.ln_1.*"},                     \
        {.parameter = "blocks.*.attn.qkv.weight",                                                  \
         .name = "[transformer.]h.*.attn.c_attn.weight",                                           \
         .rows = (qkv_rows),                                                                       \
         .transposed = (turned)},                                                                  \
        {.parameter = "blocks.*.attn.qkv.bias",                                                    \
         .name = "[transformer.]h.*.attn.c_attn.bias",                                             \
         .rows = 3},                                                                               \
        {.parameter = "blocks.*.attn.proj.weight",                                                 \
         .name = "[transformer.]h.*.attn.c_proj.weight",                                           \
         .rows = (proj_rows),                                                                      \
         .transposed = (turned)},                                                                  \
        {.parameter = "blocks.*.attn.proj.bias", .name = "[transformer.]h.*.attn.c_proj.bias"},    \
        {.parameter = "blocks.*.norm2.*", .name = "[transformer.]h.*.ln_2.*"},                     \
        {.parameter = "blocks.*.mlp.up.weight",                                                    \
         .name = "[transformer.]h.*.mlp.c_fc.weight",                                              \
         .transposed = (turned)},                                                                  \
        {.parameter = "blocks.*.mlp.up.bias", .name = "[transformer.]h.*.mlp.c_fc.bias"},          \
        {.parameter = "blocks.*.mlp.down.weight",                                                  \
         .name = "[transformer.]h.*.mlp.c_proj.weight",                                            \
         .transposed = (turned)},                                                                  \
        {.parameter = "blocks.*.mlp.down.bias", .name = "[transformer.]h.*.mlp.c_proj.bias"},      \
        {.parameter = "norm_f.*", .name = "[transformer.]ln_f.*"},                                 \
    {                                                                                              \
        .parameter = "head.weight", .name = "lm_head.weight|[transformer.]wte.weight"              \
    }

/* Ours are [out, in] with heads as dims, or lie as the file's do. */
static const weft_weight_rule gpt2_rules[] = {GPT2(true, 3, 1)};
static const weft_weight_rule conv1d_rules[] = {GPT2(false, 1, 2)};
static const char *const gpt2_ignored[] = {"**.attn.bias", "**.attn.masked_bias",
                                           "lm_head.weight", /* of a tied model: the embedding */
                                           NULL};

/* Our groups hold their query heads, their key and their value; gate and up are one matrix. */
static const weft_weight_rule llama_rules[] = {
    {.parameter = "wte.weight", .name = "[model.]embed_tokens.weight"},
    {.parameter = "blocks.*.norm1.weight", .name = "[model.]layers.*.input_layernorm.weight"},
    {.parameter = "blocks.*.attn.qkv.q_*",
     .name = "[model.]layers.*.self_attn.q_proj.*",
     .rows = 2},
    {.parameter = "blocks.*.attn.qkv.kv_*",
     .name = "[model.]layers.*.self_attn.k_proj.* + [model.]layers.*.self_attn.v_proj.*",
     .rows = 3,
     .join = 1},
    {.parameter = "blocks.*.attn.qkv.*",
     .name = "[model.]layers.*.self_attn.q_proj.* + [model.]layers.*.self_attn.k_proj.* "
             "+ [model.]layers.*.self_attn.v_proj.*",
     .rows = 3,
     .join = 1},
    {.parameter = "blocks.*.attn.proj.*", .name = "[model.]layers.*.self_attn.o_proj.*"},
    {.parameter = "blocks.*.norm2.weight",
     .name = "[model.]layers.*.post_attention_layernorm.weight"},
    {.parameter = "blocks.*.mlp.up.*",
     .name = "[model.]layers.*.mlp.gate_proj.* + [model.]layers.*.mlp.up_proj.*",
     .rows = 2},
    {.parameter = "blocks.*.mlp.down.*", .name = "[model.]layers.*.mlp.down_proj.*"},
    {.parameter = "norm_f.weight", .name = "[model.]norm.weight"},
    {.parameter = "head.weight", .name = "lm_head.weight|[model.]embed_tokens.weight"},
};
static const char *const llama_ignored[] = {"**.rotary_emb.inv_freq", "lm_head.weight", NULL};

/* Older files say gamma and beta in norms. A model for a task has layers behind the encoder. */
static const weft_weight_rule bert_rules[] = {
    {.parameter = "wte.weight", .name = "[bert.]embeddings.word_embeddings.weight"},
    {.parameter = "wtt.weight", .name = "[bert.]embeddings.token_type_embeddings.weight"},
    {.parameter = "wpe.weight", .name = "[bert.]embeddings.position_embeddings.weight"},
    {.parameter = "norm_e.weight",
     .name = "[bert.]embeddings.LayerNorm.weight|[bert.]embeddings.LayerNorm.gamma"},
    {.parameter = "norm_e.bias",
     .name = "[bert.]embeddings.LayerNorm.bias|[bert.]embeddings.LayerNorm.beta"},
    {.parameter = "blocks.*.attn.qkv.*",
     .name = "[bert.]encoder.layer.*.attention.self.query.* + "
             "[bert.]encoder.layer.*.attention.self.key.* + "
             "[bert.]encoder.layer.*.attention.self.value.*",
     .rows = 3},
    {.parameter = "blocks.*.attn.proj.*",
     .name = "[bert.]encoder.layer.*.attention.output.dense.*"},
    {.parameter = "blocks.*.norm1.weight",
     .name = "[bert.]encoder.layer.*.attention.output.LayerNorm.weight|"
             "[bert.]encoder.layer.*.attention.output.LayerNorm.gamma"},
    {.parameter = "blocks.*.norm1.bias",
     .name = "[bert.]encoder.layer.*.attention.output.LayerNorm.bias|"
             "[bert.]encoder.layer.*.attention.output.LayerNorm.beta"},
    {.parameter = "blocks.*.mlp.up.*", .name = "[bert.]encoder.layer.*.intermediate.dense.*"},
    {.parameter = "blocks.*.mlp.down.*", .name = "[bert.]encoder.layer.*.output.dense.*"},
    {.parameter = "blocks.*.norm2.weight",
     .name = "[bert.]encoder.layer.*.output.LayerNorm.weight|"
             "[bert.]encoder.layer.*.output.LayerNorm.gamma"},
    {.parameter = "blocks.*.norm2.bias",
     .name = "[bert.]encoder.layer.*.output.LayerNorm.bias|"
             "[bert.]encoder.layer.*.output.LayerNorm.beta"},
    {.parameter = "pooler.*", .name = "[bert.]pooler.dense.*"},
    {.parameter = "transform.*", .name = "cls.predictions.transform.dense.*"},
    {.parameter = "norm_t.weight",
     .name =
         "cls.predictions.transform.LayerNorm.weight|cls.predictions.transform.LayerNorm.gamma"},
    {.parameter = "norm_t.bias",
     .name = "cls.predictions.transform.LayerNorm.bias|cls.predictions.transform.LayerNorm.beta"},
    {.parameter = "head.weight",
     .name = "cls.predictions.decoder.weight|[bert.]embeddings.word_embeddings.weight"},
    {.parameter = "head.bias", .name = "cls.predictions.bias|cls.predictions.decoder.bias"},
};
static const char *const bert_ignored[] = {"**.embeddings.position_ids",
                                           "cls.**",
                                           "**.pooler.dense.**",
                                           "classifier.**",
                                           "qa_outputs.**",
                                           NULL};

#define RULES(list) .n_rules = (int)(sizeof(list) / sizeof(list)[0]), .rules = (list)

static const weft_weight_names families[] = {
    {.family = "gpt2", RULES(gpt2_rules), .ignored = gpt2_ignored},
    {.family = "gpt2-conv1d", RULES(conv1d_rules), .ignored = gpt2_ignored},
    {.family = "llama", RULES(llama_rules), .ignored = llama_ignored},
    {.family = "bert", RULES(bert_rules), .ignored = bert_ignored},
};

const weft_weight_names *weft_weight_names_of_family(const char *family)
{
    char known[128] = "";
    size_t n = sizeof families / sizeof families[0];

    for (size_t i = 0; i < n; i++) {
        if (family && strcmp(families[i].family, family) == 0) return &families[i];
        strncat(known, i ? ", " : "", sizeof known - strlen(known) - 1);
        strncat(known, families[i].family, sizeof known - strlen(known) - 1);
    }
    WF_FAIL(WEFT_ERR_NOT_FOUND, "weight names: no family '%s'; there are %s",
            family ? family : "NULL", known);
    return NULL;
}

/* A table of which everything is in one block: rules, then their new paths. */
struct under {
    weft_weight_names names;
    weft_weight_rule rules[];
};

weft_weight_names *weft_weight_names_under(const weft_weight_names *names, const char *prefix)
{
    size_t room = 0, above, n;
    struct under *under;
    char *text;

    if (!names) return NULL;
    WF_NEED_PTR(prefix && prefix[0], WEFT_ERR_ARG, "weight names: the prefix is empty");
    above = strlen(prefix) + 1;
    n = (size_t)names->n_rules;
    for (size_t i = 0; i < n; i++) room += above + strlen(names->rules[i].parameter) + 1;
    under = wf_calloc(1, sizeof *under + n * sizeof *under->rules + room);
    under->names = *names;
    under->names.rules = under->rules;
    text = (char *)(under->rules + n);
    for (size_t i = 0; i < n; i++) {
        under->rules[i] = names->rules[i];
        under->rules[i].parameter = text;
        text += sprintf(text, "%s.%s", prefix, names->rules[i].parameter) + 1;
    }
    return &under->names;
}

void weft_weight_names_release(weft_weight_names *names) { wf_free(names); }
