/* config_llama.c: Llama's config.json. Positions are stretched by an object of its own,
 * "rope_scaling" in older files and "rope_parameters", with the base in it, in newer ones. */
#include <math.h>
#include <string.h>

#include <weft/weights.h>

#include "io/weights/config.h"
#include "io/weights/config_write.h"

static const char *const ignored_keys[] = {"architectures",
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

static double read_ratio(struct wf_model_config *c, const char *key, double standard)
{
    return wf_config_read_real(c, key, standard, least_ratio, most_ratio);
}

/* The base of the angles. */
static double read_rope_theta(struct wf_model_config *c, double standard)
{
    return wf_config_read_real(c, "rope_theta", standard, least_base, most_base);
}

/* Which rule stretches positions: none, "linear", or Llama 3.1's. */
static void read_rope_scaling(weft_rotary_options *rotary, struct wf_model_config *c)
{
    const char *kind = wf_config_read_text(c, "rope_type", "");

    if (!kind[0]) kind = wf_config_read_text(c, "type", "default");
    if (strcmp(kind, "default") == 0) return;
    if (strcmp(kind, "linear") != 0 && strcmp(kind, "llama3") != 0) {
        wf_config_refuse_key(c, "rope_type", "is \"%.40s\", which is not supported", kind);
        return;
    }
    rotary->factor = read_ratio(c, "factor", 1);
    if (strcmp(kind, "linear") == 0) return;
    rotary->low = read_ratio(c, "low_freq_factor", 1);
    rotary->high = read_ratio(c, "high_freq_factor", 4);
    rotary->length = wf_config_read_real(c, "original_max_position_embeddings", 8192, 1, INT32_MAX);
    if (rotary->low >= rotary->high)
        wf_config_refuse_key(c, "low_freq_factor", "is %g, and high_freq_factor %g is not above it",
                             rotary->low, rotary->high);
}

static void read_rope_options(weft_rotary_options *rotary, struct wf_model_config *c)
{
    static const char *const places[] = {"rope_parameters", "rope_scaling"};
    struct wf_model_config inner;

    rotary->base = read_rope_theta(c, usual_base);
    wf_config_require_real(c, "partial_rotary_factor", 1); /* Llama's heads turn as a whole */
    for (int i = 0; i < 2; i++) {
        if (!wf_config_open_object(&inner, c, places[i])) continue;
        rotary->base = read_rope_theta(&inner, rotary->base);
        wf_config_require_real(&inner, "partial_rotary_factor", 1);
        read_rope_scaling(rotary, &inner);
        wf_config_close_object(&inner, c);
    }
}

static double count_llama_parameters(const weft_llama_config *config)
{
    double width = (double)config->width, tables = (double)config->vocab * (config->tied ? 1 : 2);
    double heads = config->head_dim ? (double)config->heads * (double)config->head_dim : width;

    return width * (tables + config->layers * (2 * heads + 3 * (double)config->hidden));
}

static void read_llama_config(weft_llama_config *config, struct wf_model_config *c)
{
    wf_config_require_text(c, "model_type", "llama");
    wf_config_require_text(c, "hidden_act", "silu");
    config->attention_bias = wf_config_read_bool(c, "attention_bias", false);
    config->mlp_bias = wf_config_read_bool(c, "mlp_bias", false);
    config->vocab = wf_config_read_size(c, "vocab_size", 32000);
    config->width = wf_config_read_size(c, "hidden_size", 0);
    config->heads = wf_config_read_size(c, "num_attention_heads", 0);
    config->kv_heads = wf_config_read_optional_size(c, "num_key_value_heads");
    config->layers = wf_config_read_layer_count(c, "num_hidden_layers");
    config->hidden = wf_config_read_size(c, "intermediate_size", 0);
    config->eps = wf_config_read_eps(c, "rms_norm_eps", 1e-6);
    config->tied = wf_config_read_bool(c, "tie_word_embeddings", false);
    config->head_dim = wf_config_read_optional_size(c, "head_dim");
    config->attention_dropout = wf_config_read_probability(c, "attention_dropout", 0);
    read_rope_options(&config->rotary, c);
    config->padding_idx = wf_config_read_padding_idx(c, "pad_token_id", 0);
    wf_config_check_model_size(c, "hidden_size", count_llama_parameters(config));
    wf_config_ignore_keys(c, ignored_keys);
}

WF_CONFIG_READER(llama, read_llama_config)

static void write_ratio(struct wf_config_writer *c, const char *key, double value)
{
    wf_config_write_real(c, key, value, least_ratio, most_ratio);
}

static void write_rope_base(struct wf_config_writer *c, const weft_rotary_options *rotary)
{
    wf_config_write_real(c, "rope_theta", rotary->base == 0 ? usual_base : rotary->base, least_base,
                         most_base);
}

/* Llama 3.1's rule has bounds of its own, the linear one a factor alone. */
static bool is_llama3_rope(const weft_rotary_options *rotary)
{
    return rotary->low != 0 || rotary->high != 0 || rotary->length != 0;
}

static void write_rope_scaling(struct wf_config_writer *c, const char *key,
                               const weft_rotary_options *rotary)
{
    bool llama3 = is_llama3_rope(rotary), plain = !llama3 && rotary->factor == 0;

    wf_json_begin_container(&c->json, key, '{');
    write_rope_base(c, rotary);
    wf_config_write_text(c, "rope_type", llama3 ? "llama3" : plain ? "default" : "linear");
    if (!plain) write_ratio(c, "factor", rotary->factor);
    if (llama3) {
        write_ratio(c, "low_freq_factor", rotary->low);
        write_ratio(c, "high_freq_factor", rotary->high);
        wf_config_write_whole_number(c, "original_max_position_embeddings", rotary->length);
        if (rotary->low >= rotary->high)
            wf_config_write_refuse(c, "low_freq_factor",
                                   "is %g, and high_freq_factor %g is not above it", rotary->low,
                                   rotary->high);
    }
    wf_json_end_container(&c->json, '}');
}

/* In both places, for releases of transformers that know one of them. */
static void write_rope_options(struct wf_config_writer *c, const weft_rotary_options *rotary)
{
    if (rotary->dims || rotary->heads || rotary->interleaved || rotary->offset)
        wf_config_write_refuse(c, "rope_parameters",
                               "cannot say that dims are %lld, heads %lld, interleaved %d or "
                               "offset %lld",
                               (long long)rotary->dims, (long long)rotary->heads,
                               rotary->interleaved, (long long)rotary->offset);
    write_rope_base(c, rotary);
    write_rope_scaling(c, "rope_parameters", rotary);
    if (is_llama3_rope(rotary) || rotary->factor != 0)
        write_rope_scaling(c, "rope_scaling", rotary);
    if (is_llama3_rope(rotary))
        wf_config_write_whole_number(c, "max_position_embeddings",
                                     floor(rotary->length * rotary->factor));
}

static void write_llama_config(struct wf_config_writer *c, const weft_llama_config *config)
{
    wf_config_write_text(c, "model_type", "llama");
    wf_config_write_architecture(c, "LlamaForCausalLM");
    wf_config_write_dtype(c, config->dtype);
    wf_config_write_text(c, "hidden_act", "silu");
    wf_config_write_bool(c, "attention_bias", config->attention_bias);
    wf_config_write_bool(c, "mlp_bias", config->mlp_bias);
    wf_config_write_size(c, "vocab_size", config->vocab);
    wf_config_write_size(c, "hidden_size", config->width);
    wf_config_write_size(c, "num_attention_heads", config->heads);
    if (config->kv_heads) wf_config_write_size(c, "num_key_value_heads", config->kv_heads);
    wf_config_write_size(c, "num_hidden_layers", config->layers);
    wf_config_write_hidden_size(c, "intermediate_size", config->hidden, config->width);
    wf_config_write_eps(c, "rms_norm_eps", config->eps, 1e-5);
    wf_config_write_bool(c, "tie_word_embeddings", config->tied);
    if (config->head_dim) wf_config_write_size(c, "head_dim", config->head_dim);
    wf_config_write_probability(c, "attention_dropout", config->attention_dropout);
    write_rope_options(c, &config->rotary);
    wf_config_write_padding_idx(c, "pad_token_id", config->padding_idx);
}

WF_CONFIG_WRITER(llama, write_llama_config)
