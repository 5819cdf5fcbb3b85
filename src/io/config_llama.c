/* config_llama.c: Llama's config.json. Positions are stretched by an object of its own,
 * "rope_scaling" in older files and "rope_parameters", with the base in it, in newer ones. */
#include <string.h>

#include <weft/weights.h>

#include "io/config.h"

static const char *const beside[] = {"architectures",
                                     "bos_token_id",
                                     "eos_token_id",
                                     "initializer_range",
                                     "max_position_embeddings",
                                     "torch_dtype",
                                     "dtype",
                                     "transformers_version",
                                     "use_cache",
                                     "pretraining_tp",
                                     "_name_or_path",
                                     NULL};

static double ratio(struct wf_config *c, const char *key, double standard)
{
    return wf_config_real(c, key, standard, 1e-6, 1e6);
}

/* The base of the angles. */
static double theta(struct wf_config *c, double standard)
{
    return wf_config_real(c, "rope_theta", standard, 1, 1e15);
}

/* Which rule stretches positions: none, "linear", or Llama 3.1's. */
static void read_rule(weft_rotary_options *rotary, struct wf_config *c)
{
    const char *kind = wf_config_text(c, "rope_type", "");

    if (!kind[0]) kind = wf_config_text(c, "type", "default");
    if (strcmp(kind, "default") == 0) return;
    if (strcmp(kind, "linear") != 0 && strcmp(kind, "llama3") != 0) {
        wf_config_refuse(c, "rope_type", "is \"%.40s\", which is not supported", kind);
        return;
    }
    rotary->factor = ratio(c, "factor", 1);
    if (strcmp(kind, "linear") == 0) return;
    rotary->low = ratio(c, "low_freq_factor", 1);
    rotary->high = ratio(c, "high_freq_factor", 4);
    rotary->length = wf_config_real(c, "original_max_position_embeddings", 8192, 1, INT32_MAX);
    if (rotary->low >= rotary->high)
        wf_config_refuse(c, "low_freq_factor", "is %g, and high_freq_factor %g is not above it",
                         rotary->low, rotary->high);
}

static void read_positions(weft_rotary_options *rotary, struct wf_config *c)
{
    static const char *const places[] = {"rope_parameters", "rope_scaling"};
    struct wf_config inner;

    rotary->base = theta(c, 10000);
    wf_config_only_real(c, "partial_rotary_factor", 1); /* Llama's heads turn as a whole */
    for (int i = 0; i < 2; i++) {
        if (!wf_config_enter(&inner, c, places[i])) continue;
        rotary->base = theta(&inner, rotary->base);
        wf_config_only_real(&inner, "partial_rotary_factor", 1);
        read_rule(rotary, &inner);
        wf_config_leave(&inner, c);
    }
}

static double parameters(const weft_llama_config *config)
{
    double width = (double)config->width, tables = (double)config->vocab * (config->tied ? 1 : 2);
    double heads = config->head_dim ? (double)config->heads * (double)config->head_dim : width;

    return width * (tables + config->layers * (2 * heads + 3 * (double)config->hidden));
}

static void read_model(weft_llama_config *config, struct wf_config *c)
{
    wf_config_only_text(c, "model_type", "llama");
    wf_config_only_text(c, "hidden_act", "silu");
    config->attention_bias = wf_config_flag(c, "attention_bias", false);
    config->mlp_bias = wf_config_flag(c, "mlp_bias", false);
    config->vocab = wf_config_size(c, "vocab_size", 32000);
    config->width = wf_config_size(c, "hidden_size", 0);
    config->heads = wf_config_size(c, "num_attention_heads", 0);
    config->kv_heads = wf_config_optional_size(c, "num_key_value_heads");
    config->layers = wf_config_layers(c, "num_hidden_layers");
    config->hidden = wf_config_size(c, "intermediate_size", 0);
    config->eps = wf_config_eps(c, "rms_norm_eps", 1e-6);
    config->tied = wf_config_flag(c, "tie_word_embeddings", false);
    config->head_dim = wf_config_optional_size(c, "head_dim");
    config->attention_dropout = wf_config_chance(c, "attention_dropout", 0);
    read_positions(&config->rotary, c);
    config->padding_idx = wf_config_padding(c, "pad_token_id", 0);
    wf_config_need_memory(c, "hidden_size", parameters(config));
    wf_config_ignore(c, beside);
}

WF_CONFIG_READER(llama, read_model)
