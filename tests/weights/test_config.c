/* test_config.c: config.json, and what it must not say. */
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include <weft/weights.h>

#include "support/mpi_check.h"
#include "support/scratch.h"

static weft_status read_text(weft_gpt_config *config, const char *text)
{
    const char *path = wt_scratch("config.json");

    weft_error_clear();
    wt_write_text(path, text);
    return weft_gpt_config_read(config, path);
}

/* The keys that GPT-2's own file has. */
WT_UNIT(gpt2__a_config_as_it_is_published)
{
    weft_gpt_config c;

    ck_assert_int_eq(
        read_text(&c, "{\n  \"activation_function\": \"gelu_new\",\n  \"architectures\": "
                      "[\"GPT2LMHeadModel\"],\n  \"attn_pdrop\": 0.1,\n  \"bos_token_id\": 50256,\n"
                      "  \"embd_pdrop\": 0.1,\n  \"eos_token_id\": 50256,\n  "
                      "\"initializer_range\": 0.02,\n  \"layer_norm_epsilon\": 1e-05,\n  "
                      "\"model_type\": \"gpt2\",\n  \"n_ctx\": 1024,\n  \"n_embd\": 768,\n  "
                      "\"n_head\": 12,\n  \"n_layer\": 12,\n  \"n_positions\": 1024,\n  "
                      "\"resid_pdrop\": 0.1,\n  \"summary_activation\": null,\n  "
                      "\"task_specific_params\": {\"text-generation\": {\"do_sample\": true}},\n  "
                      "\"vocab_size\": 50257\n}\n"),
        WEFT_OK);
    ck_assert_int_eq(c.vocab, 50257);
    ck_assert_int_eq(c.context, 1024);
    ck_assert_int_eq(c.width, 768);
    ck_assert_int_eq(c.heads, 12);
    ck_assert_int_eq(c.layers, 12);
    ck_assert_int_eq(c.hidden, 0);
    ck_assert_int_eq(c.act, WEFT_GELU_TANH);
    ck_assert(c.dropout == 0.1 && c.attention_dropout == 0.1 && c.eps == 1e-5 && c.tied);
}

static const struct {
    const char *text, *says;
    weft_status status;
} bad[] = {
    {"{\"n_head\":2,\"n_layer\":1}", "\"n_embd\" is missing", WEFT_ERR_ARG},
    {"{\"n_embd\":8,\"n_layer\":1}", "\"n_head\" is missing", WEFT_ERR_ARG},
    {"{\"n_embd\":\"8\",\"n_head\":2,\"n_layer\":1}", "\"n_embd\" is a string, not an integer",
     WEFT_ERR_ARG},
    {"{\"n_embd\":8.5,\"n_head\":2,\"n_layer\":1}", "\"n_embd\" is a number, not an integer",
     WEFT_ERR_ARG},
    {"{\"n_embd\":-8,\"n_head\":2,\"n_layer\":1}", "\"n_embd\" is -8", WEFT_ERR_ARG},
    {"{\"n_embd\":8,\"n_head\":2,\"n_layer\":1,\"activation_function\":\"mish\"}",
     "\"activation_function\" is \"mish\"", WEFT_ERR_ARG},
    {"{\"n_embd\":8,\"n_head\":2,\"n_layer\":1,\"model_type\":\"llama\"}",
     "\"model_type\" is \"llama\", not \"gpt2\"", WEFT_ERR_ARG},
    {"{\"n_embd\":8,\"n_head\":2,\"n_layer\":1,\"scale_attn_by_inverse_layer_idx\":true}",
     "\"scale_attn_by_inverse_layer_idx\" is true, which is not supported", WEFT_ERR_ARG},
    {"{\"n_embd\":8,\"n_head\":2,\"n_layer\":1,\"scale_attn_weights\":false}",
     "\"scale_attn_weights\" is false", WEFT_ERR_ARG},
    {"{\"n_embd\":8,\"n_head\":2,\"n_layer\":1,\"scale_attn_weights\":1}",
     "\"scale_attn_weights\" is a number, not true or false", WEFT_ERR_ARG},
    {"{\"n_embd\":8,\"n_head\":2,\"n_layer\":1,\"embd_pdrop\":0.2}", "\"embd_pdrop\" is 0.2",
     WEFT_ERR_ARG},
    {"{\"n_embd\":8,\"n_embd\":8}", "\"n_embd\" stands twice", WEFT_ERR_IO},
    {"[]", "an array where an object", WEFT_ERR_IO},
    {"", "no value where an object", WEFT_ERR_IO},
};

WT_UNIT_TIMES(gpt2__what_is_not_supported_is_refused_by_name, sizeof bad / sizeof bad[0])
{
    weft_gpt_config c = {.width = 77};

    ck_assert_int_eq(read_text(&c, bad[_i].text), bad[_i].status);
    ck_assert_msg(strstr(weft_error_message(), bad[_i].says), "%s: %s", bad[_i].text,
                  weft_error_message());
    ck_assert_msg(strstr(weft_error_message(), "config.json"), "%s", weft_error_message());
    ck_assert_int_eq(c.width, 77);
    weft_error_clear();
}

#define LLAMA                                                                                      \
    "{\"hidden_size\":16,\"num_attention_heads\":4,\"num_hidden_layers\":1,\"intermediate_size\":" \
    "8"
#define BERT LLAMA

static const struct {
    bool bert;
    const char *text, *says; /* NULL: nothing is wrong */
} others[] = {
    {false, LLAMA "}", NULL},
    {false, LLAMA ",\"rope_scaling\":null,\"rope_theta\":500000.0}", NULL},
    {false, LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.0}}", NULL},
    {false, LLAMA ",\"rope_scaling\":{\"rope_type\":\"yarn\"}}", "\"rope_type\" is \"yarn\""},
    {false, LLAMA ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":\"8\"}}",
     "\"factor\" is a string, not a number"},
    {false, LLAMA ",\"rope_scaling\":2}", "\"rope_scaling\" is a number, not an object"},
    {false, LLAMA ",\"rope_parameters\":{\"rope_theta\":1e6,\"partial_rotary_factor\":1.0}}", NULL},
    {false, LLAMA ",\"rope_parameters\":{\"partial_rotary_factor\":0.25}}",
     "\"partial_rotary_factor\" is 0.25, which is not supported"},
    {false, LLAMA ",\"partial_rotary_factor\":0.5}", "\"partial_rotary_factor\" is 0.5"},
    {false, LLAMA ",\"attention_bias\":true,\"mlp_bias\":true}", NULL},
    {false, LLAMA ",\"attention_bias\":1}", "\"attention_bias\" is a number"},
    {false, LLAMA ",\"hidden_act\":\"gelu\"}", "\"hidden_act\" is \"gelu\", not \"silu\""},
    {false, LLAMA ",\"head_dim\":8,\"attention_dropout\":0.1}", NULL},
    {false, LLAMA ",\"head_dim\":0}", "\"head_dim\" is 0"},
    {false, LLAMA ",\"pad_token_id\":\"0\"}", "\"pad_token_id\" is a string, not an integer"},
    {false, "{\"hidden_size\":16}", "\"num_attention_heads\" is missing"},
    {true, BERT "}", NULL},
    {true, BERT ",\"position_embedding_type\":\"relative_key\"}",
     "\"position_embedding_type\" is \"relative_key\""},
    {true, BERT ",\"is_decoder\":true}", "\"is_decoder\" is true"},
    {true, BERT ",\"hidden_act\":\"mish\"}", "\"hidden_act\" is \"mish\""},
    {true, BERT ",\"model_type\":\"roberta\"}", "\"model_type\" is \"roberta\""},
};

WT_UNIT_TIMES(others__what_is_not_supported_is_refused_by_name, sizeof others / sizeof others[0])
{
    const char *path = wt_scratch("config.json"), *says = others[_i].says;
    weft_llama_config llama;
    weft_bert_config bert;
    weft_status status;

    weft_error_clear();
    wt_write_text(path, others[_i].text);
    status =
        others[_i].bert ? weft_bert_config_read(&bert, path) : weft_llama_config_read(&llama, path);
    ck_assert_int_eq(status, says ? WEFT_ERR_ARG : WEFT_OK);
    ck_assert_msg(!says || strstr(weft_error_message(), says), "%s", weft_error_message());
    weft_error_clear();
}

static const struct {
    const char *text; /* behind the sizes */
    int64_t llama, bert;
} paddings[] = {
    {"}", 0, WEFT_PADDING_ZERO}, /* transformers' own values */
    {",\"pad_token_id\":null}", 0, 0},
    {",\"pad_token_id\":0}", WEFT_PADDING_ZERO, WEFT_PADDING_ZERO},
    {",\"pad_token_id\":5}", 5, 5},
    {",\"pad_token_id\":-1}", -1, -1},
};

/* trial 4.1 */
WT_UNIT_TIMES(others__pad_token_id_is_the_row_without_a_gradient,
              sizeof paddings / sizeof paddings[0])
{
    const char *path = wt_scratch("config.json");
    char text[300];
    weft_llama_config llama;
    weft_bert_config bert;

    snprintf(text, sizeof text, LLAMA "%s", paddings[_i].text);
    wt_write_text(path, text);
    ck_assert_int_eq(weft_llama_config_read(&llama, path), WEFT_OK);
    ck_assert_int_eq(weft_bert_config_read(&bert, path), WEFT_OK);
    ck_assert_int_eq(llama.padding_idx, paddings[_i].llama);
    ck_assert_int_eq(bert.padding_idx, paddings[_i].bert);
}

/* Where a program's locale has a decimal comma; the machine need not know one. */
WT_UNIT(gpt2__numbers_are_read_in_any_locale)
{
    static const char *const with_comma[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de"};
    weft_gpt_config c;
    weft_status status;

    for (size_t i = 0; i < sizeof with_comma / sizeof *with_comma; i++)
        if (setlocale(LC_NUMERIC, with_comma[i])) break;
    status = read_text(&c, "{\"n_embd\":8,\"n_head\":2,\"n_layer\":1,\"attn_pdrop\":0.25}");
    setlocale(LC_NUMERIC, "C");
    ck_assert_int_eq(status, WEFT_OK);
    ck_assert(c.attention_dropout == 0.25);
}

/* A number is read whole or not at all. */
/* What no model has, and what would take all memory before a weight is read. trial 3 */
static const struct {
    char family;
    const char *text, *says;
} absurd[] = {
    {'g', "\"n_embd\":8,\"n_head\":2,\"n_layer\":2147483647", "\"n_layer\" is 2147483647; at most"},
    {'g', "\"n_embd\":8,\"n_head\":2,\"n_layer\":1,\"layer_norm_epsilon\":1e999",
     "\"layer_norm_epsilon\" is 1e999; it must lie in"},
    {'g', "\"n_embd\":8,\"n_head\":2,\"n_layer\":1,\"layer_norm_epsilon\":0",
     "\"layer_norm_epsilon\" is 0"},
    {'g', "\"n_embd\":8,\"n_head\":2,\"n_layer\":1,\"layer_norm_epsilon\":-1e-5",
     "\"layer_norm_epsilon\" is -1e-5"},
    {'g', "\"n_embd\":8,\"n_head\":2,\"n_layer\":1,\"attn_pdrop\":1.5", "\"attn_pdrop\" is 1.5"},
    {'g', "\"n_embd\":2147483647,\"n_head\":1,\"n_layer\":1", "make a model of"},
    {'g', "\"n_embd\":8,\"n_head\":1,\"n_layer\":9999,\"n_inner\":2147483647", "make a model of"},
    {'l', "\"rope_theta\":0", "\"rope_theta\" is 0"},
    {'l', "\"rope_theta\":1e999", "\"rope_theta\" is 1e999"},
    {'l', "\"rope_scaling\":{\"type\":\"linear\",\"factor\":0}", "\"factor\" is 0"},
    {'l', "\"rope_scaling\":{\"type\":\"linear\",\"factor\":-2.0}", "\"factor\" is -2.0"},
    {'l', "\"rope_parameters\":{\"rope_type\":\"llama3\",\"low_freq_factor\":4}",
     "\"low_freq_factor\" is 4, and high_freq_factor 4 is not above it"},
    {'l', "\"rms_norm_eps\":1e999", "\"rms_norm_eps\" is 1e999"},
    {'l', "\"head_dim\":2147483647,\"vocab_size\":2147483647,\"num_key_value_heads\":1",
     "make a model of"},
    {'b', "\"layer_norm_eps\":1e999", "\"layer_norm_eps\" is 1e999"},
    {'b', "\"hidden_dropout_prob\":-1", "\"hidden_dropout_prob\" is -1"},
    {'b',
     "\"vocab_size\":2147483647,\"max_position_embeddings\":2147483647,"
     "\"type_vocab_size\":2147483647",
     "make a model of"},
    {'b',
     "\"hidden_size\":1000000,\"num_attention_heads\":1,\"num_hidden_layers\":2,"
     "\"intermediate_size\":1000000",
     "make a model of 1.2031e+13 parameters"},
};

WT_UNIT_TIMES(configs__absurd_numbers_are_refused_by_name, (int)(sizeof absurd / sizeof absurd[0]))
{
    static const char sizes[] = "\"hidden_size\":4096,\"num_attention_heads\":2,"
                                "\"num_hidden_layers\":1,\"intermediate_size\":8,";
    bool names_sizes = absurd[_i].family == 'g' || strstr(absurd[_i].text, "hidden_size");
    const char *path = wt_scratch("absurd.json");
    weft_status status;
    char text[512];
    weft_llama_config llama;
    weft_bert_config bert;
    weft_gpt_config gpt;

    weft_error_clear();
    snprintf(text, sizeof text, "{%s%s}", names_sizes ? "" : sizes, absurd[_i].text);
    wt_write_text(path, text);
    status = absurd[_i].family == 'g'   ? weft_gpt_config_read(&gpt, path)
             : absurd[_i].family == 'l' ? weft_llama_config_read(&llama, path)
                                        : weft_bert_config_read(&bert, path);
    ck_assert_msg(status == WEFT_ERR_ARG && strstr(weft_error_message(), absurd[_i].says), "%s: %s",
                  text, weft_error_message());
    weft_error_clear();
}

WT_UNIT(gpt2__an_endless_number_is_refused)
{
    char text[600] = "{\"n_embd\":8,\"n_head\":2,\"n_layer\":1,\"layer_norm_epsilon\":0.";
    weft_gpt_config c;

    memset(text + strlen(text), '0', 450);
    strcpy(text + strlen(text), "1e450}");
    ck_assert_int_eq(read_text(&c, text), WEFT_ERR_IO);
    ck_assert_msg(strstr(weft_error_message(), "a number of 457 characters"), "%s",
                  weft_error_message());
    weft_error_clear();
}

WT_UNIT(gpt2__no_file_is_told_by_its_name)
{
    weft_gpt_config c;

    ck_assert_int_eq(weft_gpt_config_read(&c, wt_scratch("none.json")), WEFT_ERR_NOT_FOUND);
    ck_assert(strstr(weft_error_message(), "none.json"));
    weft_error_clear();
}

int main(void) { return wt_scratch_end(wt_unit_main("config")); }
