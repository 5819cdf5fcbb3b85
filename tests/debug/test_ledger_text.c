/* test_ledger_text.c: the ledger's tables and JSON. */
/* ranks: 1 4 */
#include <stdlib.h>
#include <string.h>

#include "debug/models.h"
#include "debug/text.h"
#include "support/worlds.h"

/* The text's own test: what is no JSON is not taken for it. */
WT_TEST(json__is_told_from_other_text)
{
    static const char *const good[] = {"{}", " [1, -2.5e-3, \"a\\u00e9\\\"\", null] ",
                                       "{\"a\": {\"b\": [true, false, []]}}", "0"};
    static const char *const bad[] = {"",    "{",      "[1,]",    "{\"a\" 1}", "[1 2]",
                                      "01",  "nan",    "\"\\x\"", "\"\n\"",    "{} {}",
                                      "'a'", "[1,,2]", "{1:2}"};

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) WT_ALL(wt_is_json(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) WT_ALL(!wt_is_json(bad[i]));
}

static char *table(const weft_ledger *ledger, weft_noise noise)
{
    struct wt_text t;

    wt_text_begin(&t);
    weft_ledger_table_print(ledger, noise, t.out);
    return (char *)wt_text_end(&t);
}

/* Each level says more; what it says first is the same. */
WT_TEST_IN_WORLD(ledger_table__has_four_noise_levels, w)
{
    weft_module *mlp = wt_split_mlp(w->mesh);
    char *text[4];

    weft_call(mlp, wt_whole(WEFT_F32, 0, 20, 10));
    weft_relu(wt_constant(2, 2, 1));
    for (int noise = 0; noise < 4; noise++) text[noise] = table(w->ledger, (weft_noise)noise);
    for (int noise = 0; noise < 4; noise++) {
        wt_note("noise %d:\n%s", noise, text[noise]);
        WT_ALL(strncmp(text[noise], "Global\n", 7) == 0);
        WT_EQ(wt_occurrences(text[noise], "    MLP.net2 (linear), 1 call\n"), 1);
        WT_EQ(wt_occurrences(text[noise], "forward all-reduce tp: 1, 800 bytes, 1200 sent"),
              wt_ranks() == 4 ? 3 : 0);
        WT_EQ(wt_occurrences(text[noise], "parameter weight: f32[16,10] [S(0)]"), noise >= 1);
        WT_EQ(wt_occurrences(text[noise], "forward op linear: 1\n"), noise >= 1 ? 2 : 0);
        WT_EQ(wt_occurrences(text[noise], "op relu: 1 plain\n"), noise >= 2 ? 2 : 0);
        WT_EQ(wt_occurrences(text[noise], "op from_local: 1\n"), noise >= 3 ? 2 : 0);
        if (noise) WT_ALL(strlen(text[noise]) > strlen(text[noise - 1]));
    }
    for (int noise = 0; noise < 4; noise++) free(text[noise]);
    weft_module_release(mlp);
}

WT_TEST_IN_WORLD(ledger_json__is_valid_and_complete, w)
{
    weft_module *mlp = wt_split_mlp(w->mesh);
    struct wt_text t;
    const char *text;

    WT_ALL(weft_backward(weft_sum_all(weft_call(mlp, wt_whole(WEFT_F32, 0, 20, 10)))) == WEFT_OK);
    wt_text_begin(&t);
    weft_ledger_json_print(w->ledger, t.out);
    text = wt_text_end(&t);
    wt_note("%.900s", text);
    WT_ALL(wt_is_json(text));
    WT_EQ(wt_occurrences(text, "\"name\":\"MLP.net2\""), 1);
    WT_EQ(wt_occurrences(text, "\"layout\":\"f32[10,16] [S(1)] on (tp:"), 1);
    WT_EQ(wt_occurrences(text, "\"name\":\"all-reduce\",\"direction\":\"forward\",\"count\":1"),
          wt_ranks() > 1);
    WT_EQ(wt_occurrences(text, "\"name\":\"linear_dw\",\"direction\":\"backward\""), 2);
    free(t.text);
    weft_module_release(mlp);
}

WT_TEST_IN_WORLD(ledger_print__has_a_line_per_kind, w)
{
    struct wt_text t;
    weft_module *mlp = wt_split_mlp(w->mesh);

    weft_call(mlp, wt_whole(WEFT_F32, 0, 20, 10));
    wt_text_begin(&t);
    weft_ledger_print(w->ledger, t.out);
    WT_EQ(wt_occurrences(wt_text_end(&t), "\n"), wt_ranks() > 1 ? 2 : 1);
    free(t.text);
    weft_module_release(mlp);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "ledger_text"); }
