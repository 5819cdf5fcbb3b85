/* config_llama.c: Llama's config.json. Positions are stretched by an object of its own,
 * "rope_scaling" in older files and "rope_parameters", with the base in it, in newer ones. */
#include <math.h>
#include <string.h>

#include <weft/weights.h>

#include "io/config.h"
#include "io/config_write.h"

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

static const double least_ratio = 1e-6, most_ratio = 1e6, least_base = 1, most_base = 1e15,
                    usual_base = 10000;

static double ratio(struct wf_config *c, const char *key, double standard)
{
    return wf_config_real(c, key, standard, least_ratio, most_ratio);
}

/* The base of the angles. */
static double theta(struct wf_config *c, double standard)
{
    return wf_config_real(c, "rope_theta", standard, least_base, most_base);
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

    rotary->base = theta(c, usual_base);
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

static void put_ratio(struct wf_config_out *c, const char *key, double value)
{
    wf_config_put_real(c, key, value, least_ratio, most_ratio);
}

static void put_base(struct wf_config_out *c, const weft_rotary_options *rotary)
{
    wf_config_put_real(c, "rope_theta", rotary->base == 0 ? usual_base : rotary->base, least_base,
                       most_base);
}

/* Llama 3.1's rule has bounds of its own, the linear one a factor alone. */
static bool is_llama3(const weft_rotary_options *rotary)
{
    return rotary->low != 0 || rotary->high != 0 || rotary->length != 0;
}

static void put_rule(struct wf_config_out *c, const char *key, const weft_rotary_options *rotary)
{
    bool llama3 = is_llama3(rotary), plain = !llama3 && rotary->factor == 0;

    wf_json_open(&c->json, key, '{');
    put_base(c, rotary);
    wf_config_put_text(c, "rope_type", llama3 ? "llama3" : plain ? "default" : "linear");
    if (!plain) put_ratio(c, "factor", rotary->factor);
    if (llama3) {
        put_ratio(c, "low_freq_factor", rotary->low);
        put_ratio(c, "high_freq_factor", rotary->high);
        wf_config_put_whole(c, "original_max_position_embeddings", rotary->length);
        if (rotary->low >= rotary->high)
            wf_config_refuse_value(c, "low_freq_factor",
                                   "is %g, and high_freq_factor %g is not above it", rotary->low,
                                   rotary->high);
    }
    wf_json_close(&c->json, '}');
}

/* In both places, for releases of transformers that know one of them. */
static void write_positions(struct wf_config_out *c, const weft_rotary_options *rotary)
{
    if (rotary->dims || rotary->heads || rotary->interleaved || rotary->offset)
        wf_config_refuse_value(c, "rope_parameters",
                               "cannot say that dims are %lld, heads %lld, interleaved %d or "
                               "offset %lld",
                               (long long)rotary->dims, (long long)rotary->heads,
                               rotary->interleaved, (long long)rotary->offset);
    put_base(c, rotary);
    put_rule(c, "rope_parameters", rotary);
    if (is_llama3(rotary) || rotary->factor != 0) put_rule(c, "rope_scaling", rotary);
    if (is_llama3(rotary))
        wf_config_put_whole(c, "max_position_embeddings", floor(rotary->length * rotary->factor));
}

static void write_model(struct wf_config_out *c, const weft_llama_config *config)
{
    wf_config_put_text(c, "model_type", "llama");
    wf_config_put_architecture(c, "LlamaForCausalLM");
    wf_config_put_dtype(c, config->dtype);
    wf_config_put_text(c, "hidden_act", "silu");
    wf_config_put_flag(c, "attention_bias", config->attention_bias);
    wf_config_put_flag(c, "mlp_bias", config->mlp_bias);
    wf_config_put_size(c, "vocab_size", config->vocab);
    wf_config_put_size(c, "hidden_size", config->width);
    wf_config_put_size(c, "num_attention_heads", config->heads);
    if (config->kv_heads) wf_config_put_size(c, "num_key_value_heads", config->kv_heads);
    wf_config_put_size(c, "num_hidden_layers", config->layers);
    wf_config_put_hidden(c, "intermediate_size", config->hidden, config->width);
    wf_config_put_eps(c, "rms_norm_eps", config->eps, 1e-5);
    wf_config_put_flag(c, "tie_word_embeddings", config->tied);
    if (config->head_dim) wf_config_put_size(c, "head_dim", config->head_dim);
    wf_config_put_chance(c, "attention_dropout", config->attention_dropout);
    write_positions(c, &config->rotary);
    wf_config_put_padding(c, "pad_token_id", config->padding_idx);
}

WF_CONFIG_WRITER(llama, write_model)
