/* config_bert.c: BERT's config.json. */
#include <weft/weights.h>

#include "io/weights/config.h"
#include "io/weights/config_write.h"

static const char *const ignored_keys[] = {
    "architectures",          "bos_token_id",  "eos_token_id",
    "initializer_range",      "torch_dtype",   "dtype",
    "transformers_version",   "use_cache",     "classifier_dropout",
    "gradient_checkpointing", "_name_or_path", NULL};

static double count_bert_parameters(const weft_bert_config *config)
{
    double width = (double)config->width, hidden = (double)config->hidden;
    double rows = (double)config->vocab + (double)config->context + (double)config->types;

    return width * (rows + config->layers * (4 * width + 2 * hidden));
}

static void read_bert_config(weft_bert_config *config, struct wf_model_config *c)
{
    wf_config_require_text(c, "model_type", "bert");
    wf_config_require_text(c, "position_embedding_type", "absolute");
    wf_config_require_bool(c, "is_decoder", false);
    wf_config_require_bool(c, "add_cross_attention", false);
    config->vocab = wf_config_read_size(c, "vocab_size", 30522);
    config->context = wf_config_read_size(c, "max_position_embeddings", 512);
    config->width = wf_config_read_size(c, "hidden_size", 0);
    config->heads = wf_config_read_size(c, "num_attention_heads", 0);
    config->layers = wf_config_read_layer_count(c, "num_hidden_layers");
    config->hidden = wf_config_read_size(c, "intermediate_size", 0);
    config->types = wf_config_read_size(c, "type_vocab_size", 2);
    config->act = wf_config_read_activation(c, "hidden_act", "gelu");
    config->padding_idx = wf_config_read_padding_idx(c, "pad_token_id", WEFT_PADDING_ZERO);
    config->untied = !wf_config_read_bool(c, "tie_word_embeddings", true);
    config->eps = wf_config_read_eps(c, "layer_norm_eps", 1e-12);
    config->dropout = wf_config_read_probability(c, "hidden_dropout_prob", 0.1);
    config->attention_dropout = wf_config_read_probability(c, "attention_probs_dropout_prob", 0.1);
    wf_config_check_model_size(c, "hidden_size", count_bert_parameters(config));
    wf_config_ignore_keys(c, ignored_keys);
}

WF_CONFIG_READER(bert, read_bert_config)

static void write_bert_config(struct wf_config_writer *c, const weft_bert_config *config)
{
    wf_config_write_text(c, "model_type", "bert");
    wf_config_write_architecture(c, config->masked_lm ? "BertForMaskedLM" : "BertModel");
    wf_config_write_dtype(c, config->dtype);
    wf_config_write_bool(c, "is_decoder", false);
    wf_config_write_bool(c, "add_cross_attention", false);
    wf_config_write_size(c, "vocab_size", config->vocab);
    wf_config_write_size(c, "max_position_embeddings", config->context);
    wf_config_write_size(c, "hidden_size", config->width);
    wf_config_write_size(c, "num_attention_heads", config->heads);
    wf_config_write_size(c, "num_hidden_layers", config->layers);
    wf_config_write_hidden_size(c, "intermediate_size", config->hidden, config->width);
    wf_config_write_size(c, "type_vocab_size", config->types ? config->types : 2);
    wf_config_write_activation(c, "hidden_act", config->act);
    wf_config_write_padding_idx(c, "pad_token_id", config->padding_idx);
    wf_config_write_bool(c, "tie_word_embeddings", !config->untied);
    wf_config_write_eps(c, "layer_norm_eps", config->eps, 1e-12);
    wf_config_write_probability(c, "hidden_dropout_prob", config->dropout);
    wf_config_write_probability(c, "attention_probs_dropout_prob", config->attention_dropout);
}

WF_CONFIG_WRITER(bert, write_bert_config)
