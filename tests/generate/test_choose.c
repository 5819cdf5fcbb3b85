/*
 * test_choose.c: examples/generate's choice of the next token: by what it may choose, how often,
 * and that it is the same wherever the logits lie.
 */
/* ranks: 1 2 3 4 5 8 */
/* mpi: 3 */
#include <math.h>
#include <string.h>

#include "generate/choose.h"
#include "support/worlds.h"

enum { VOCAB = 11, ROWS = 3, MANY = 4000 };

/* Logits of which the largest is at 4 in row 0, at 5 in row 1, .. */
static weft_tensor *logits(int64_t rows, int64_t vocab)
{
    weft_tensor *t = weft_full(WEFT_F32, (int64_t[]){rows, vocab}, 2, 0);
    float *x = weft_data(t);

    for (int64_t i = 0; i < rows * vocab; i++) {
        int64_t row = i / vocab % vocab, away = (i % vocab - row - 4 + 2 * vocab) % vocab;

        x[i] = -0.4f * (float)away;
    }
    return t;
}

static struct choice choice_of(double temperature, int64_t top_k, double top_p)
{
    return (struct choice){temperature, top_k, top_p, wt_own(weft_generator_new(7))};
}

WT_TEST(choose__the_likeliest)
{
    struct wt_world w = wt_world_open();
    struct choice c = choice_of(0, 0, 1);
    int32_t ids[ROWS];

    WT_ALL(choose(wt_spread(&w, logits(ROWS, VOCAB), "S(1)"), &c, ids) == WEFT_OK);
    for (int i = 0; i < ROWS; i++) WT_EQ(ids[i], 4 + i);
    WT_EQ(weft_generator_draws(c.g), 0);
}

WT_TEST(choose__the_same_wherever_logits_lie)
{
    static const struct choice like[] = {{.temperature = 1, .top_p = 1},
                                         {.temperature = 2, .top_k = 4, .top_p = 1},
                                         {.temperature = 0.7, .top_p = 0.8},
                                         {.temperature = 1, .top_k = 6, .top_p = 0.7}};
    struct wt_world w = wt_world_open();
    weft_tensor *whole = logits(ROWS, VOCAB);

    for (size_t i = 0; i < sizeof like / sizeof *like; i++) {
        struct choice a, b;

        wt_row("top %d, %g", (int)like[i].top_k, like[i].top_p);
        a = choice_of(like[i].temperature, like[i].top_k, like[i].top_p);
        b = choice_of(like[i].temperature, like[i].top_k, like[i].top_p);
        for (int draw = 0; draw < 20; draw++) {
            int32_t here[ROWS], there[ROWS];

            WT_EQ(choose(whole, &a, here), WEFT_OK);
            WT_EQ(choose(wt_spread(&w, whole, "S(1)"), &b, there), WEFT_OK);
            WT_ALL(!memcmp(here, there, sizeof here));
        }
    }
}

/* How often each token is chosen, against its probability among the `kept` likeliest: 1, .67, .45,
 * .30, .20 .. of 2.995 are 0.7 by three, and of the first four (2.42) 0.65 by two. */
WT_TEST(choose__as_often_as_it_is_likely)
{
    static const struct {
        const char *name;
        struct choice choice;
        int kept;
    } rows[] = {{"by probability", {1, 0, 1, NULL}, VOCAB},
                {"by temperature", {0.5, 0, 1, NULL}, VOCAB},
                {"among the top k", {1, 4, 1, NULL}, 4},
                {"among the top p", {1, 0, 0.7, NULL}, 3},
                {"among the top p of the top k", {1, 4, 0.65, NULL}, 2},
                {"none but the likeliest", {1, 0, 1e-9, NULL}, 1}};
    struct wt_world w = wt_world_open();
    weft_tensor *spread = wt_spread(&w, logits(MANY, VOCAB), "S(1)");
    static _Thread_local int32_t ids[MANY];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct choice c = rows[i].choice;
        int often[VOCAB] = {0};
        double sum = 0;

        wt_row("%s", rows[i].name);
        c.g = wt_own(weft_generator_new(7));
        WT_EQ(choose(spread, &c, ids), WEFT_OK);
        for (int j = 0; j < MANY; j++) often[(ids[j] - j % VOCAB - 4 + 3 * VOCAB) % VOCAB]++;
        for (int j = 0; j < rows[i].kept; j++) sum += exp(-0.4 * j / c.temperature);
        for (int j = 0; j < VOCAB; j++) {
            double want = j < rows[i].kept ? (double)MANY * exp(-0.4 * j / c.temperature) / sum : 0;

            wt_note("token %d: %d times, not %.1f", j, often[j], want);
            WT_ALL(fabs(often[j] - want) <= 5 * sqrt(want));
        }
    }
}

/* Many equal logits: more candidates are asked for until they make up p. */
WT_TEST(choose__top_p_of_many)
{
    struct wt_world w = wt_world_open();
    struct choice c = choice_of(1, 0, 0.9);
    weft_tensor *flat = wt_spread(&w, weft_full(WEFT_F32, (int64_t[]){2, 700}, 2, 1), "S(1)");
    int32_t ids[2], most = 0;

    for (int i = 0; i < 60; i++) {
        WT_ALL(choose(flat, &c, ids) == WEFT_OK);
        WT_ALL(ids[0] < 631 && ids[1] < 631);
        most = ids[0] > most ? ids[0] : most;
    }
    WT_ALL(most > 300);
}

WT_TEST(choose__of_bf16)
{
    struct wt_world w = wt_world_open();
    struct choice c = choice_of(1, 3, 1);
    int32_t ids[ROWS];

    WT_ALL(choose(wt_spread(&w, weft_cast(logits(ROWS, VOCAB), WEFT_BF16), "S(1)"), &c, ids) ==
           WEFT_OK);
    for (int i = 0; i < ROWS; i++) WT_ALL(ids[i] >= 4 + i && ids[i] < 7 + i);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "choose"); }
