/* test_config_write.c: config.json as the transformers package writes it, read again as it was. */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/weights/config.h"
#include "support/scratch.h"
#include "support/worlds.h"

static const char *golden(const char *folder)
{
    static _Thread_local char path[512];

    snprintf(path, sizeof path, "%s/tests/golden/hub-%s/config.json", WT_SOURCE_DIR, folder);
    return path;
}

/* ---- keys and values ---- */

static bool is_one_of(const char *key, const char *const *keys)
{
    while (*keys && strcmp(*keys, key) != 0) keys++;
    return *keys != NULL;
}

/* What transformers writes that a model does not have, and what its older releases look for. */
static const char *const theirs[] = {"transformers_version",
                                     "bos_token_id",
                                     "eos_token_id",
                                     "initializer_range",
                                     "use_cache",
                                     "pretraining_tp",
                                     "classifier_dropout",
                                     "summary_activation",
                                     "summary_first_dropout",
                                     "summary_proj_to_labels",
                                     "summary_type",
                                     "summary_use_proj",
                                     NULL};
static const char *const older[] = {"rope_theta", "rope_scaling", NULL};

static const struct wf_model_config_item *item_of(const struct wf_model_config *c, const char *key)
{
    for (int64_t i = 0; i < c->count; i++)
        if (strcmp(c->items[i].key, key) == 0) return &c->items[i];
    return NULL;
}

/* Nobody asks for keys here; the log need not tell which. */
static void ask_all(struct wf_model_config *c)
{
    for (int64_t i = 0; i < c->count; i++) c->items[i].asked = true;
}

/* Characters, blanks outside of names left out. */
static bool same_text(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += strspn(a, " \n");
        b += strspn(b, " \n");
        if (*a != *b || !*a) return *a == *b;
    }
}

static bool same_config(struct wf_model_config *ours, struct wf_model_config *want);

static bool same_item(struct wf_model_config *ours, struct wf_model_config *want, const char *key)
{
    const struct wf_model_config_item *a = item_of(ours, key), *b = item_of(want, key);
    struct wf_model_config in_ours, in_want;
    bool same;

    if (!a || !b || a->type != b->type) return false;
    if (a->type == WF_JSON_NUMBER)
        return wf_json_parse_double(a->text) == wf_json_parse_double(b->text) &&
               !strpbrk(a->text, ".e") == !strpbrk(b->text, ".e");
    if (a->type != WF_JSON_OBJECT) return same_text(a->text, b->text);
    wf_config_open_object(&in_ours, ours, key);
    wf_config_open_object(&in_want, want, key);
    same = same_config(&in_ours, &in_want);
    ask_all(&in_ours);
    ask_all(&in_want);
    wf_config_close_object(&in_ours, ours);
    wf_config_close_object(&in_want, want);
    return same;
}

static bool same_config(struct wf_model_config *ours, struct wf_model_config *want)
{
    bool same = true;

    for (int64_t i = 0; i < want->count; i++) {
        const char *key = want->items[i].key;
        bool is_null = want->items[i].type == WF_JSON_NULL && !item_of(ours, key);
        bool longest = strcmp(key, "max_position_embeddings") == 0 && !item_of(ours, key);

        if (is_one_of(key, theirs) || is_null || longest || same_item(ours, want, key)) continue;
        wt_note("%s", key);
        same = false;
    }
    for (int64_t i = 0; i < ours->count; i++) {
        if (item_of(want, ours->items[i].key) || is_one_of(ours->items[i].key, older)) continue;
        wt_note("%s is not transformers'", ours->items[i].key);
        same = false;
    }
    return same;
}

static bool same_files(const char *path, const char *want)
{
    struct wf_model_config a, b;
    bool same;

    WT_EQ(wf_model_config_open(&a, path), WEFT_OK);
    WT_EQ(wf_model_config_open(&b, want), WEFT_OK);
    same = same_config(&a, &b);
    ask_all(&a);
    ask_all(&b);
    wf_model_config_close(&a);
    wf_model_config_close(&b);
    return same;
}

/* ---- the three families ---- */

static weft_status copy_gpt(const char *from, const char *to)
{
    weft_gpt_config config;

    WT_EQ(weft_gpt_config_read(&config, from), WEFT_OK);
    return weft_gpt_config_write(&config, to);
}

static weft_status copy_llama(const char *from, const char *to)
{
    weft_llama_config config;

    WT_EQ(weft_llama_config_read(&config, from), WEFT_OK);
    return weft_llama_config_write(&config, to);
}

static weft_status copy_bert(const char *from, const char *to)
{
    weft_bert_config config;

    WT_EQ(weft_bert_config_read(&config, from), WEFT_OK);
    return weft_bert_config_write(&config, to);
}

/* trial 4.6 */
WT_TEST_IN_WORLD(configs__keys_and_values_are_those_of_transformers, w)
{
    static const struct {
        const char *folder;
        weft_status (*copy)(const char *, const char *);
    } families[] = {
        {"gpt2", copy_gpt}, {"llama", copy_llama}, {"llama_bias", copy_llama}, {"bert", copy_bert}};

    for (int i = 0; i < 4; i++) {
        const char *path = wt_scratch("config.json");

        WT_EQ(families[i].copy(golden(families[i].folder), path), WEFT_OK);
        WT_ALL(same_files(path, golden(families[i].folder)));
    }
}

/* trial 4.6: every field that the file has, none of it what is usual */
WT_TEST_IN_WORLD(configs__what_is_written_is_read_again, w)
{
    const char *path = wt_scratch("again.json");
    weft_gpt_config gpt = {.vocab = 9, .context = 7, .width = 6, .heads = 3, .layers = 5}, g;
    weft_llama_config llama = {.vocab = 9, .width = 8, .heads = 4, .layers = 3}, l;
    weft_bert_config bert = {.vocab = 9, .context = 7, .width = 6, .heads = 3, .layers = 5}, b;

    gpt.hidden = 11;
    gpt.act = WEFT_RELU;
    gpt.dropout = 1.0 / 3;
    gpt.attention_dropout = 0.07;
    gpt.eps = 3e-7;
    WT_EQ(weft_gpt_config_write(&gpt, path), WEFT_OK);
    WT_EQ(weft_gpt_config_read(&g, path), WEFT_OK);
    WT_ALL(g.vocab == 9 && g.context == 7 && g.width == 6 && g.heads == 3 && g.layers == 5);
    WT_ALL(g.hidden == 11 && g.act == WEFT_RELU && !g.tied);
    WT_ALL(g.dropout == 1.0 / 3 && g.attention_dropout == 0.07 && g.eps == 3e-7);

    llama.kv_heads = 2;
    llama.head_dim = 10;
    llama.hidden = 13;
    llama.eps = 3e-7;
    llama.tied = llama.attention_bias = llama.mlp_bias = true;
    llama.attention_dropout = 0.07;
    llama.padding_idx = WEFT_PADDING_ZERO;
    llama.rotary = (weft_rotary_options){.base = 5e5, .factor = 2.5};
    for (int i = 0; i < 2; i++) {
        if (i) llama.rotary.low = 0.3, llama.rotary.high = 0.9, llama.rotary.length = 12;
        WT_EQ(weft_llama_config_write(&llama, path), WEFT_OK);
        WT_EQ(weft_llama_config_read(&l, path), WEFT_OK);
        WT_ALL(l.vocab == 9 && l.width == 8 && l.heads == 4 && l.layers == 3 && l.kv_heads == 2);
        WT_ALL(l.head_dim == 10 && l.hidden == 13 && l.eps == 3e-7 && l.tied);
        WT_ALL(l.attention_bias && l.mlp_bias && l.attention_dropout == 0.07);
        WT_ALL(l.padding_idx == WEFT_PADDING_ZERO && l.rotary.base == 5e5);
        WT_ALL(l.rotary.factor == 2.5 && l.rotary.low == llama.rotary.low);
        WT_ALL(l.rotary.high == llama.rotary.high && l.rotary.length == llama.rotary.length);
    }

    bert.types = 4;
    bert.hidden = 13;
    bert.act = WEFT_SILU;
    bert.dropout = 0.3;
    bert.attention_dropout = 0.07;
    bert.eps = 3e-7;
    bert.padding_idx = 5;
    bert.untied = true;
    WT_EQ(weft_bert_config_write(&bert, path), WEFT_OK);
    WT_EQ(weft_bert_config_read(&b, path), WEFT_OK);
    WT_ALL(b.vocab == 9 && b.context == 7 && b.width == 6 && b.heads == 3 && b.layers == 5);
    WT_ALL(b.types == 4 && b.hidden == 13 && b.act == WEFT_SILU && b.dropout == 0.3);
    WT_ALL(b.attention_dropout == 0.07 && b.eps == 3e-7 && b.padding_idx == 5 && b.untied);
}

/* What is 0 by default is written as what it means. */
WT_TEST_IN_WORLD(configs__defaults_are_written_out, w)
{
    const char *path = wt_scratch("default.json");
    weft_llama_config llama = {.vocab = 9, .width = 8, .heads = 4, .layers = 3}, l;
    weft_bert_config bert = {.vocab = 9, .context = 7, .width = 6, .heads = 3, .layers = 5}, b;

    WT_EQ(weft_llama_config_write(&llama, path), WEFT_OK);
    WT_EQ(weft_llama_config_read(&l, path), WEFT_OK);
    WT_ALL(l.hidden == 32 && l.eps == 1e-5 && l.rotary.base == 10000 && l.padding_idx == 0);
    WT_ALL(l.kv_heads == 0 && l.head_dim == 0 && l.rotary.factor == 0);
    WT_EQ(weft_bert_config_write(&bert, path), WEFT_OK);
    WT_EQ(weft_bert_config_read(&b, path), WEFT_OK);
    WT_ALL(b.hidden == 24 && b.eps == 1e-12 && b.types == 2 && b.padding_idx == 0 && !b.untied);
}

WT_TEST_IN_WORLD(configs__have_the_dtype_by_its_name, w)
{
    static const char *const names[] = {[WEFT_F32] = "float32",
                                        [WEFT_F64] = "float64",
                                        [WEFT_BF16] = "bfloat16",
                                        [WEFT_F16] = "float16"};
    weft_gpt_config gpt = {.vocab = 9, .context = 7, .width = 6, .heads = 3, .layers = 5};
    const char *path = wt_scratch("dtype.json");

    for (int i = 0; i < 4; i++) {
        struct wf_model_config c;

        gpt.dtype = (weft_dtype)i;
        WT_EQ(weft_gpt_config_write(&gpt, path), WEFT_OK);
        WT_EQ(wf_model_config_open(&c, path), WEFT_OK);
        WT_ALL(item_of(&c, "dtype") && strcmp(item_of(&c, "dtype")->text, names[i]) == 0);
        ask_all(&c);
        wf_model_config_close(&c);
    }
}

static weft_llama_config with_rotary(weft_rotary_options rotary)
{
    return (weft_llama_config){.vocab = 9, .width = 8, .heads = 4, .layers = 3, .rotary = rotary};
}

/* trial 4.6: and what was there stays */
WT_TEST_IN_WORLD(configs__what_has_no_word_is_refused_by_name, w)
{
    static const weft_rotary_options rotary[] = {{.interleaved = true},
                                                 {.factor = -2},
                                                 {.factor = 2, .low = 3, .high = 2, .length = 8},
                                                 {.factor = 2, .low = 1, .high = 2, .length = 8.5},
                                                 {.base = NAN}};
    static const char *const says[] = {
        "\"rope_parameters\" cannot say that dims are 0, heads 0, interleaved 1",
        "\"factor\" is -2", "\"low_freq_factor\" is 3",
        "\"original_max_position_embeddings\" is 8.5", "\"rope_theta\" is nan"};
    weft_gpt_config gpt = {.vocab = 9, .context = 7, .width = 6, .heads = 3, .layers = 5}, was;
    const char *path = wt_scratch("refused.json");

    WT_EQ(weft_gpt_config_write(&gpt, path), WEFT_OK);
    for (int i = 0; i < 5; i++) {
        weft_llama_config llama = with_rotary(rotary[i]);

        WT_FAILS(weft_llama_config_write(&llama, path), WEFT_ERR_ARG, says[i]);
    }
    gpt.heads = 0;
    gpt.act = WEFT_TANH;
    WT_FAILS(weft_gpt_config_write(&gpt, path), WEFT_ERR_ARG, "refused.json: \"n_head\" is 0");
    gpt.heads = 3;
    WT_EQ(weft_gpt_config_write(&gpt, path), WEFT_ERR_ARG);
    WT_FAILED(WEFT_ERR_ARG, "\"activation_function\" has no word");
    gpt.act = WEFT_GELU;
    WT_FAILS(weft_gpt_config_write(NULL, path), WEFT_ERR_ARG, "nothing to write");
    WT_EQ(weft_gpt_config_write(&gpt, wt_scratch("none/config.json")), WEFT_ERR_IO);
    WT_FAILED(WEFT_ERR_IO, "cannot create");
    if (wt_ranks() > 1) {
        gpt.vocab += wt_rank();
        WT_FAILS(weft_gpt_config_write(&gpt, path), WEFT_ERR_ARG, "config: what is written");
    }
    WT_EQ(weft_gpt_config_read(&was, path), WEFT_OK);
    WT_ALL(was.vocab == 9 && was.heads == 3);
}

/* Where a program's locale has a decimal comma; the machine need not know one. */
WT_TEST_IN_WORLD(configs__numbers_have_a_point_in_any_locale, w)
{
    static const char *const with_comma[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de"};
    weft_gpt_config gpt = {.vocab = 9, .context = 7, .width = 6, .heads = 3, .layers = 5}, g;

    gpt.dropout = 0.25;
    if (wt_ranks() == 1) /* all threads have one locale */
        for (size_t i = 0; i < sizeof with_comma / sizeof *with_comma; i++)
            if (setlocale(LC_NUMERIC, with_comma[i])) break;
    WT_EQ(weft_gpt_config_write(&gpt, wt_scratch("point.json")), WEFT_OK);
    if (wt_ranks() == 1) setlocale(LC_NUMERIC, "C");
    WT_EQ(weft_gpt_config_read(&g, wt_scratch("point.json")), WEFT_OK);
    WT_ALL(g.dropout == 0.25);
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "config_write")); }
