/* config_gpt.c: GPT-2's config.json. */
#include <weft/weights.h>

#include "io/weights/config.h"
#include "io/weights/config_write.h"

/* What is said about generation, initialisation, heads for other tasks, and the program that wrote
 * the file. */
static const char *const ignored_keys[] = {"architectures",
                                           "bos_token_id",
                                           "eos_token_id",
                                           "pad_token_id",
                                           "initializer_range",
                                           "n_ctx",
                                           "summary_activation",
                                           "summary_first_dropout",
                                           "summary_proj_to_labels",
                                           "summary_type",
                                           "summary_use_proj",
                                           "task_specific_params",
                                           "torch_dtype",
                                           "dtype",
                                           "transformers_version",
                                           "use_cache",
                                           "_name_or_path",
                                           "_attn_implementation_autoset",
                                           NULL};

static void read_gpt_dropout(weft_gpt_config *config, struct wf_model_config *c)
{
    double rest = wf_config_read_probability(c, "resid_pdrop", 0.1);
    double embed = wf_config_read_probability(c, "embd_pdrop", 0.1);

    config->dropout = rest;
    config->attention_dropout = wf_config_read_probability(c, "attn_pdrop", 0.1);
    if (embed != rest)
        wf_config_refuse_key(c, "embd_pdrop", "is %g and resid_pdrop %g; they must be equal", embed,
                             rest);
}

static double count_gpt_parameters(const weft_gpt_config *config)
{
    double width = (double)config->width, tables = (double)config->vocab * (config->tied ? 1 : 2);
    double hidden = config->hidden ? (double)config->hidden : 4 * width;

    return width * (tables + (double)config->context + config->layers * (4 * width + 2 * hidden));
}

static void read_gpt_config(weft_gpt_config *config, struct wf_model_config *c)
{
    wf_config_require_text(c, "model_type", "gpt2");
    config->vocab = wf_config_read_size(c, "vocab_size", 50257);
    config->context = wf_config_read_size(c, "n_positions", 1024);
    config->width = wf_config_read_size(c, "n_embd", 0);
    config->heads = wf_config_read_size(c, "n_head", 0);
    config->layers = wf_config_read_layer_count(c, "n_layer");
    config->hidden = wf_config_read_optional_size(c, "n_inner");
    config->act = wf_config_read_activation(c, "activation_function", "gelu_new");
    config->eps = wf_config_read_eps(c, "layer_norm_epsilon", 1e-5);
    config->tied = wf_config_read_bool(c, "tie_word_embeddings", true);
    wf_config_require_bool(c, "scale_attn_weights", true);
    wf_config_require_bool(c, "scale_attn_by_inverse_layer_idx", false);
    wf_config_require_bool(c, "reorder_and_upcast_attn", false);
    wf_config_require_bool(c, "add_cross_attention", false);
    read_gpt_dropout(config, c);
    wf_config_check_model_size(c, "n_embd", count_gpt_parameters(config));
    wf_config_ignore_keys(c, ignored_keys);
}

WF_CONFIG_READER(gpt, read_gpt_config)

static void write_gpt_config(struct wf_config_writer *c, const weft_gpt_config *config)
{
    wf_config_write_text(c, "model_type", "gpt2");
    wf_config_write_architecture(c, "GPT2LMHeadModel");
    wf_config_write_dtype(c, config->dtype);
    wf_config_write_size(c, "vocab_size", config->vocab);
    wf_config_write_size(c, "n_positions", config->context);
    wf_config_write_size(c, "n_embd", config->width);
    wf_config_write_size(c, "n_head", config->heads);
    wf_config_write_size(c, "n_layer", config->layers);
    wf_config_write_optional_size(c, "n_inner", config->hidden);
    wf_config_write_activation(c, "activation_function", config->act);
    wf_config_write_eps(c, "layer_norm_epsilon", config->eps, 1e-5);
    wf_config_write_bool(c, "tie_word_embeddings", config->tied);
    wf_config_write_bool(c, "scale_attn_weights", true);
    wf_config_write_bool(c, "scale_attn_by_inverse_layer_idx", false);
    wf_config_write_bool(c, "reorder_and_upcast_attn", false);
    wf_config_write_bool(c, "add_cross_attention", false);
    wf_config_write_probability(c, "resid_pdrop", config->dropout);
    wf_config_write_probability(c, "embd_pdrop", config->dropout);
    wf_config_write_probability(c, "attn_pdrop", config->attention_dropout);
}

WF_CONFIG_WRITER(gpt, write_gpt_config)
