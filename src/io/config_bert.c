/* config_bert.c: BERT's config.json. */
#include <weft/weights.h>

#include "io/config.h"
#include "io/config_write.h"

static const char *const beside[] = {
    "architectures",          "bos_token_id",  "eos_token_id",
    "initializer_range",      "torch_dtype",   "dtype",
    "transformers_version",   "use_cache",     "classifier_dropout",
    "gradient_checkpointing", "_name_or_path", NULL};

static double parameters(const weft_bert_config *config)
{
    double width = (double)config->width, hidden = (double)config->hidden;
    double rows = (double)config->vocab + (double)config->context + (double)config->types;

    return width * (rows + config->layers * (4 * width + 2 * hidden));
}

static void read_model(weft_bert_config *config, struct wf_config *c)
{
    wf_config_only_text(c, "model_type", "bert");
    wf_config_only_text(c, "position_embedding_type", "absolute");
    wf_config_only_flag(c, "is_decoder", false);
    wf_config_only_flag(c, "add_cross_attention", false);
    config->vocab = wf_config_size(c, "vocab_size", 30522);
    config->context = wf_config_size(c, "max_position_embeddings", 512);
    config->width = wf_config_size(c, "hidden_size", 0);
    config->heads = wf_config_size(c, "num_attention_heads", 0);
    config->layers = wf_config_layers(c, "num_hidden_layers");
    config->hidden = wf_config_size(c, "intermediate_size", 0);
    config->types = wf_config_size(c, "type_vocab_size", 2);
    config->act = wf_config_activation(c, "hidden_act", "gelu");
    config->padding_idx = wf_config_padding(c, "pad_token_id", WEFT_PADDING_ZERO);
    config->untied = !wf_config_flag(c, "tie_word_embeddings", true);
    config->eps = wf_config_eps(c, "layer_norm_eps", 1e-12);
    config->dropout = wf_config_chance(c, "hidden_dropout_prob", 0.1);
    config->attention_dropout = wf_config_chance(c, "attention_probs_dropout_prob", 0.1);
    wf_config_need_memory(c, "hidden_size", parameters(config));
    wf_config_ignore(c, beside);
}

WF_CONFIG_READER(bert, read_model)

static void write_model(struct wf_config_out *c, const weft_bert_config *config)
{
    wf_config_put_text(c, "model_type", "bert");
    wf_config_put_architecture(c, config->masked_lm ? "BertForMaskedLM" : "BertModel");
    wf_config_put_dtype(c, config->dtype);
    wf_config_put_flag(c, "is_decoder", false);
    wf_config_put_flag(c, "add_cross_attention", false);
    wf_config_put_size(c, "vocab_size", config->vocab);
    wf_config_put_size(c, "max_position_embeddings", config->context);
    wf_config_put_size(c, "hidden_size", config->width);
    wf_config_put_size(c, "num_attention_heads", config->heads);
    wf_config_put_size(c, "num_hidden_layers", config->layers);
    wf_config_put_hidden(c, "intermediate_size", config->hidden, config->width);
    wf_config_put_size(c, "type_vocab_size", config->types ? config->types : 2);
    wf_config_put_activation(c, "hidden_act", config->act);
    wf_config_put_padding(c, "pad_token_id", config->padding_idx);
    wf_config_put_flag(c, "tie_word_embeddings", !config->untied);
    wf_config_put_eps(c, "layer_norm_eps", config->eps, 1e-12);
    wf_config_put_chance(c, "hidden_dropout_prob", config->dropout);
    wf_config_put_chance(c, "attention_probs_dropout_prob", config->attention_dropout);
}

WF_CONFIG_WRITER(bert, write_model)
