/*
 * test_elements.c: a random number belongs to an element of the whole tensor: the same bits for
 * every mesh, placement and number of ranks, no communication, and generators that stay in step.
 */
/* mpi: 4 8 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random/draws.h"
#include "tensor/tensor.h"

enum { SEED = 1234 };

/* ---- every fill in every layout ---- */

/* A fill's second draw after SEED, as a plain tensor has it. */
static double *drawn_plain(const struct wt_draw *draw, int ndim, const int64_t *shape)
{
    weft_tensor *t = weft_empty(draw->dtype, shape, ndim);

    weft_manual_seed(SEED);
    draw->fill(weft_empty(draw->dtype, (int64_t[]){3}, 1), NULL);
    draw->fill(t, NULL);
    return wt_values(t);
}

static bool good_in(struct wt_world *w, const struct wt_draw *draw, int ndim, const int64_t *shape,
                    const char *placements, const double *want)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *t = wt_placed(w, draw->dtype, ndim, shape, placements);
    bool good;

    weft_manual_seed(SEED);
    draw->fill(wt_placed(w, draw->dtype, ndim, shape, "R,R,R"), NULL);
    wt_note("%s in %s", draw->name, placements);
    good =
        t && draw->fill(t, NULL) == WEFT_OK && wt_is_part_of(t, want) && wt_generator_is(SEED, 2);
    weft_scope_close(scope);
    return good;
}

struct sample {
    int ndim;
    int64_t shape[3];
};

static void check_layouts(struct wt_world *w, const struct sample *samples, int n_samples,
                          const char *const *layouts, int n_layouts)
{
    for (int i = 0; i < n_samples * wt_draw_count; i++) {
        const struct sample *s = &samples[i % n_samples];
        const struct wt_draw *draw = &wt_draws[i / n_samples];
        double *want = drawn_plain(draw, s->ndim, s->shape);
        bool good = true;

        for (int l = 0; l < n_layouts && good; l++)
            good = good_in(w, draw, s->ndim, s->shape, layouts[l], want);
        WT_ALL(good);
        free(want);
    }
    WT_STILL(w);
}

/* RNG-22: even, uneven and empty shards, cut by any rule. */
WT_TEST_IN_WORLD(random__does_not_depend_on_the_placement, w)
{
    static const struct sample samples[] = {{2, {8, 16}}, {2, {5, 7}}, {3, {4, 1, 6}}, {2, {1, 2}}};
    static const char *const layouts[] = {"R",       "S(0)",   "S(1)", "S(1,balanced)",
                                          "SS(1,2)", "SS(0,3)"};

    check_layouts(w, samples, 4, layouts, 6);
}

/* RNG-22, RNG-06: several axes on one dim, left to right and in other turns, and strided. */
WT_TEST_IN_IF(random__does_not_depend_on_the_mesh, w, wt_ranks() % 2 == 0,
              wt_world_open_mesh("dp=2,tp=%d", wt_ranks() / 2))
{
    static const struct sample samples[] = {{2, {8, 16}}, {2, {5, 3}}, {2, {13, 9}}};
    static const char *const layouts[] = {"S(0),S(1)",    "S(1),S(0)",       "S(0),S(0)",
                                          "SS(0,2),S(0)", "S(1)[1],S(1)[0]", "R,S(1)"};

    check_layouts(w, samples, 3, layouts, 6);
}

/* RNG-15: where the peer starts its ranks at offsets 0, 64, 0, 64, 32, .. and ends at 128, each
 * rank has exactly its elements' numbers, and all generators end one draw further. */
WT_TEST_IN_IF(random__does_not_depend_on_three_axes, w, wt_ranks() == 8,
              wt_world_open_mesh("a=2,b=2,c=2"))
{
    static const struct sample samples[] = {{2, {8, 16}}, {2, {9, 5}}};
    static const char *const layouts[] = {"S(1),R,S(0)", "S(0),S(0),S(0)", "S(0),S(1),S(0)"};

    check_layouts(w, samples, 2, layouts, 3);
}

/* RNG-22: parts of segments (a fused weight). */
WT_TEST_IN_WORLD(random__does_not_depend_on_segments, w)
{
    static const struct sample samples[] = {{2, {12, 5}}, {2, {6, 3}}, {3, {12, 2, 2}}};
    static const char *const layouts[] = {"S(0|4,1,1)", "S(0,balanced|4,1,1)", "S(0|1,1)"};

    check_layouts(w, samples, 3, layouts, 3);
}

/* The formula that docs/concepts/random.md promises, from the public block function. */
WT_TEST_TIMES_IN_WORLD(random__bits_are_those_of_philox, w, s, 2)
{
    static const uint64_t seeds[] = {0x123456789abcdef0u, ((uint64_t)1 << 63) + 42};
    const uint32_t key[2] = {(uint32_t)seeds[s], (uint32_t)(seeds[s] >> 32)};
    weft_tensor *t = wt_placed(w, WEFT_F32, 2, (int64_t[]){15, 7}, "S(0)");
    double want[105];

    weft_manual_seed(seeds[s]);
    WT_ALL(weft_uniform_(t, 0, 1, NULL) == WEFT_OK && weft_uniform_(t, 0, 1, NULL) == WEFT_OK);
    for (uint32_t i = 0; i < 105; i++) {
        const uint32_t counter[4] = {i / 4, 0, 1, 0};
        uint32_t words[4];

        weft_philox(words, counter, key);
        want[i] = (words[i % 4] >> 8) * 0x1p-24;
    }
    WT_ALL(wt_is_part_of(t, want));
}

WT_TEST_IN_WORLD(random__fills_tensors_without_dims_or_elements, w)
{
    static const struct sample samples[] = {{0, {0}}, {1, {0}}, {2, {0, 3}}};

    check_layouts(w, samples, 3, (const char *const[]){"R"}, 1);
    check_layouts(w, samples + 1, 2, (const char *const[]){"S(0)"}, 1);
}

/* A view's elements are numbered in the view; what lies between them is left alone. */
WT_TEST_TIMES_IN_WORLD(random__fills_strided_views, w, i, wt_draw_count)
{
    const int64_t shape[] = {6, 5}, turned[] = {5, 6};
    double *want = drawn_plain(&wt_draws[i], 2, turned);

    for (int l = 0; l < 3; l++) {
        weft_tensor *x =
            wt_placed(w, wt_draws[i].dtype, 2, shape, l ? l > 1 ? "S(0)" : "S(1)" : "R");
        weft_tensor *view = weft_transpose(x, 0, 1);

        weft_manual_seed(SEED);
        wt_draws[i].fill(weft_empty(wt_draws[i].dtype, (int64_t[]){3}, 1), NULL);
        WT_ALL(wt_draws[i].fill(view, NULL) == WEFT_OK);
        wt_note("%s", wt_draws[i].name);
        WT_ALL(wt_is_part_of(view, want));
    }
    free(want);
}

WT_TEST_IN_WORLD(random__leaves_gaps_of_views_alone, w)
{
    weft_tensor *x = wt_spread(w, wt_constant(4, 10, 7), "S(0)");
    double values[40];
    bool good = true;

    WT_ALL(weft_uniform_(weft_slice(x, 1, 2, 5), 0, 1, NULL) == WEFT_OK);
    WT_ALL(weft_fill_(weft_slice(x, 1, 7, 9), 3) == WEFT_OK);
    weft_read_f64(x, values, 40);
    for (int64_t i = 0; i < weft_local_numel(x); i++) {
        int64_t column = i % 10;

        if (column >= 2 && column < 5)
            good &= values[i] < 1;
        else
            good &= values[i] == (column == 7 || column == 8 ? 3 : 7);
    }
    WT_ALL(good);
}

/* Shards of width 1 and 2 leave many short runs, more than one batch of blocks. */
WT_TEST_IN_WORLD(random__fills_many_short_runs, w)
{
    const int64_t shape[] = {700, 2 * wt_ranks() + 1};
    weft_tensor *t[3], *plain[3];
    double *want;

    for (int i = 0; i < 3; i++) {
        weft_dtype dtype = (weft_dtype)i;

        t[i] = wt_placed(w, dtype, 2, shape, "S(1)");
        plain[i] = weft_empty(dtype, shape, 2);
        weft_manual_seed(SEED);
        WT_ALL(weft_normal_(plain[i], 0, 1, NULL) == WEFT_OK);
        want = wt_values(plain[i]);
        weft_manual_seed(SEED);
        WT_ALL(weft_normal_(t[i], 0, 1, NULL) == WEFT_OK && wt_is_part_of(t[i], want));
        free(want);
    }
}

/* RNG-22: a permutation of few and of many elements. */
WT_TEST_TIMES_IN_WORLD(randperm__does_not_depend_on_the_placement, w, i, 12)
{
    static const int64_t sizes[] = {0, 1, 2, 9, 1000, 5000};
    weft_dtype dtype = i % 2 ? WEFT_I32 : WEFT_I64;
    const int64_t *n = &sizes[i / 2];
    weft_tensor *plain = weft_empty(dtype, n, 1), *t;
    double *want;

    weft_manual_seed(SEED);
    WT_ALL(weft_randperm_(plain, NULL) == WEFT_OK);
    want = wt_values(plain);
    for (int p = 0; p < 3; p++) {
        t = wt_placed(w, dtype, 1, n, p ? p > 1 ? "SS(0,3)" : "S(0)" : "R");
        weft_manual_seed(SEED);
        WT_ALL(weft_randperm_(t, NULL) == WEFT_OK && wt_generator_is(SEED, 1));
        WT_ALL(wt_is_part_of(t, want));
    }
    WT_STILL(w);
    free(want);
}

/* ---- what ranks hold ---- */

/* RNG-01: no two ranks hold the same numbers; at 8 columns and at ws columns of more rows. */
WT_TEST_IN_WORLD(random__parts_differ, w)
{
    weft_manual_seed(SEED);
    for (int i = 0; i < 2 * wt_draw_count; i++) {
        const int64_t shape[] = {i % 2 ? 40 : 8, wt_ranks()};
        const struct wt_draw *draw = &wt_draws[i / 2];
        weft_tensor *t = wt_placed(w, draw->dtype, 2, shape, "S(1)"), *like;
        bool is_float = weft_dtype_is_float(draw->dtype);

        if (i % 2 == 0 && draw->coin) continue;
        WT_ALL(draw->fill(t, NULL) == WEFT_OK);
        wt_parts_differ(t, shape[0], draw->name);
        if (!is_float) continue;
        wt_parts_differ(weft_rand_like(t, NULL), shape[0], "rand_like");
        wt_parts_differ(weft_randn_like(t, NULL), shape[0], "randn_like");
        like = weft_randint_like(t, 0, 100, NULL);
        WT_ALL(wt_is_placed(like, "S(1)") && weft_tensor_dtype(like) == draw->dtype);
        wt_parts_differ(like, shape[0], "randint_like");
    }
}

/* Where the peer's next op starts among the numbers of the one before (two axes on one dim, uneven
 * parts): no number comes twice, in an op or in the next one. */
static void check_no_repeats(struct wt_world *w, const int64_t *shape, const char *placements)
{
    enum { OPS = 3 };
    int64_t n = shape[0] * shape[1];
    double all[OPS * 64];

    for (int i = 0; i < OPS; i++) {
        weft_tensor *t = wt_placed(w, WEFT_F64, 2, shape, placements);
        double *values;

        WT_ALL(weft_uniform_(t, 0, 1, NULL) == WEFT_OK);
        values = wt_values(t);
        memcpy(all + i * n, values, (size_t)n * sizeof *all);
        free(values);
    }
    WT_ALL(wt_rows_differ(all, OPS * n, 1));
}

WT_TEST(draws__never_repeat_numbers)
{
    struct wt_world w = wt_world_open();

    weft_manual_seed(SEED);
    check_no_repeats(&w, (int64_t[]){5, 3}, "S(0)");
    check_no_repeats(&w, (int64_t[]){8, 4}, "S(1)");
    wt_world_close(&w);
    if (wt_ranks() % 2) return;
    w = wt_world_open_mesh("a=2,b=%d", wt_ranks() / 2);
    check_no_repeats(&w, (int64_t[]){8, 4}, "S(0),S(0)");
    check_no_repeats(&w, (int64_t[]){9, 7}, "S(1),S(1)");
    wt_world_close(&w);
}

/* RNG-13 */
WT_TEST_TIMES_IN_WORLD(factories__parts_differ_and_replicas_are_equal, w, i, 4)
{
    int64_t columns = 4 * wt_ranks(), rows = i % 2 ? 3 : 4;
    weft_spec spec = {.ndim = 2, .shape = {rows, columns}, .mesh = w->mesh};
    weft_tensor *(*make)(weft_spec, weft_generator *) = i < 2 ? weft_make_rand : weft_make_randn;
    double *all;

    weft_manual_seed(0);
    all = wt_local_rows(make(spec, NULL), rows * columns);
    for (int r = 1; r < wt_ranks(); r++)
        WT_ALL(memcmp(all, all + r * rows * columns, (size_t)(rows * columns) * sizeof *all) == 0);
    free(all);
    spec.placements[0] = weft_shard(1);
    wt_parts_differ(make(spec, NULL), 4 * rows, "factory");
}

/* RNG-08: making and distributing tensors draws nothing, and no random op ever communicates. */
WT_TEST_IN_WORLD(random__communicates_never, w)
{
    weft_tensor *t;

    weft_manual_seed(SEED);
    t = wt_spread(w, weft_empty(WEFT_F32, (int64_t[]){8, 3}, 2), "S(0)");
    WT_ALL(wt_generator_is(SEED, 0));
    WT_ALL(weft_uniform_(t, 0, 1, NULL) == WEFT_OK && wt_generator_is(SEED, 1)); /* the first one */
    WT_STILL(w);
    for (int i = 0; i < wt_draw_count; i++)
        WT_ALL(wt_draws[i].fill(wt_placed(w, wt_draws[i].dtype, 2, (int64_t[]){5, 3}, "S(0)"),
                                NULL) == WEFT_OK);
    WT_STILL(w);
    WT_ALL(wt_generator_is(SEED, 1 + (uint64_t)wt_draw_count));
}

/* ---- a generator of cuRAND's kind ---- */

/* The first numbers of cuRAND's sequence with seed 42; tests/random/test_curand.c has more. */
static const float curand_42[] = {0x1.39d5ep-1f, 0x1.dfd524p-2f, 0x1.2bf50ap-4f, 0x1.5d0adp-2f};

WT_TEST_IN_WORLD(curand__numbers_belong_to_elements, w)
{
    static const char *const layouts[] = {"R", "S(0)", "S(1)"};
    static const int64_t shape[] = {5, 7};
    double want[35];

    for (int l = 0; l < 3; l++) {
        weft_generator *g = wt_own(weft_generator_new_curand(42));
        weft_tensor *plain = weft_empty(WEFT_F32, shape, 2),
                    *t = wt_placed(w, WEFT_F32, 2, shape, layouts[l]);

        WT_EQ(weft_uniform_(plain, 0, 1, g), WEFT_OK);
        WT_EQ(weft_read_f64(plain, want, 35), WEFT_OK);
        for (int i = 0; i < 4; i++) WT_ALL(want[i] == (double)curand_42[i]);
        WT_EQ(weft_normal_(plain, 0, 1, g), WEFT_OK); /* numbers 35 to 69: half a pair first */
        WT_EQ(weft_read_f64(plain, want, 35), WEFT_OK);
        weft_generator_reseed(g, 42);
        WT_EQ(weft_uniform_(weft_empty(WEFT_F32, shape, 2), 0, 1, g), WEFT_OK);
        WT_EQ(weft_normal_(t, 0, 1, g), WEFT_OK);
        WT_ALL(wt_is_part_of(t, want) && weft_generator_draws(g) == 70);
    }
    WT_STILL(w);
}

WT_TEST_IN_WORLD(curand__refuses_what_it_does_not_draw, w)
{
    weft_generator *g = wt_own(weft_generator_new_curand(42));
    weft_tensor *x = wt_placed(w, WEFT_F32, 1, (int64_t[]){8}, "S(0)");

    WT_FAILS(weft_exponential_(x, 1, g), WEFT_ERR_ARG, "uniform and normal numbers only");
    WT_FAILS(weft_uniform_(wt_placed(w, WEFT_BF16, 1, (int64_t[]){8}, "S(0)"), 0, 1, g),
             WEFT_ERR_DTYPE, "bf16");
    WT_ALL(weft_dropout(x, 0.5, g) == NULL);
    WT_FAILED(WEFT_ERR_ARG, "uniform and normal numbers only");
    WT_ALL(weft_generator_draws(g) == 0);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "elements"); }
