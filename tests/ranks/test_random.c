/*
 * test_random.c: a random number belongs to a global element (RNG-22, RNG-12, RNG-23): the same
 * bits for every placement and number of ranks, and generators that stay in step without
 * communication.
 */
#include <math.h>
#include <string.h>

#include "ranks/worlds.h"
#include "tensor/tensor.h"

enum { DRAWS = 3 };

static const int64_t shapes[][3] = {{8, 16, 1}, {5, 7, 3}, {1, 2, 3}, {13, 1, 1}};
static const char *const placements[] = {"R", "S(0)", "S(1)", "S(2)"};

typedef weft_status fill(weft_tensor *t, double a, double b, weft_generator *g);

static weft_tensor *empty(weft_dtype dtype, const int64_t *shape)
{
    return weft_full(dtype, 3, shape, 7);
}

/* The plain tensor after the generator's second draw. */
static double *drawn_plain(fill *draw, weft_dtype dtype, const int64_t *shape)
{
    weft_tensor *t = empty(dtype, shape);

    weft_manual_seed(1234);
    draw(empty(dtype, shapes[0]), 0, 1, NULL);
    draw(t, -0.5, 2, NULL);
    return wt_values(t);
}

static void check_draw(fill *draw, weft_dtype dtype, const int64_t *shape)
{
    double *want = drawn_plain(draw, dtype, shape);

    for (int p = 0; p < 4; p++) {
        struct wt_world w = wt_world_open();
        weft_tensor *t = wt_spread(&w, empty(dtype, shape), placements[p]);

        weft_manual_seed(1234);
        draw(wt_spread(&w, empty(dtype, shapes[0]), placements[(p + 1) % 4]), 0, 1, NULL);
        WT_ALL(draw(t, -0.5, 2, NULL) == WEFT_OK);
        WT_STILL(&w);
        WT_ALL(wt_near_local(t, want, WT_EXACT));
        WT_ALL(wt_near_full(t, want, WT_EXACT));
        wt_world_close(&w);
    }
    free(want);
}

WT_TEST(random__fill_does_not_depend_on_placement_or_ranks)
{
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F64, WEFT_BF16};

    for (int s = 0; s < 4; s++)
        for (int d = 0; d < 3; d++) {
            check_draw(weft_uniform_, dtypes[d], shapes[s]);
            check_draw(weft_normal_, dtypes[d], shapes[s]);
        }
}

/* The formula that docs/concepts/random.md promises, from the public block function. */
WT_TEST(random__bits_are_those_of_philox)
{
    struct wt_world w = wt_world_open();
    const uint64_t seed = 0x123456789abcdef0u;
    weft_tensor *t = wt_spread(&w, empty(WEFT_F32, shapes[1]), "S(0)");
    double want[105];

    weft_manual_seed(seed);
    WT_ALL(weft_uniform_(t, 0, 1, NULL) == WEFT_OK && weft_uniform_(t, 0, 1, NULL) == WEFT_OK);
    for (uint32_t i = 0; i < 105; i++) {
        const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                       counter[4] = {i / 4, 0, 1, 0};
        uint32_t words[4];

        weft_philox(words, counter, key);
        want[i] = (words[i % 4] >> 8) * 0x1p-24;
    }
    WT_ALL(wt_near_full(t, want, WT_EXACT));
    wt_world_close(&w);
}

static double *dropped_plain(const int64_t *shape, double **grad)
{
    weft_tensor *x = weft_set_requires_grad(weft_full(WEFT_F64, 3, shape, 1), true), *y;

    weft_manual_seed(99);
    y = weft_dropout(x, 0.4, NULL);
    weft_backward(weft_sum_all(y));
    *grad = wt_values(weft_grad(x));
    return wt_values(y);
}

/* The mask is the element's own, forward and backward. */
WT_TEST(dropout__mask_does_not_depend_on_placement_or_ranks)
{
    for (int s = 0; s < 4; s++) {
        double *want_grad, *want = dropped_plain(shapes[s], &want_grad);

        for (int p = 0; p < 4; p++) {
            struct wt_world w = wt_world_open();
            weft_tensor *ones = weft_full(WEFT_F64, 3, shapes[s], 1), *y;
            weft_tensor *x = wt_spread(&w, ones, placements[p]);

            weft_set_requires_grad(x, true);
            weft_manual_seed(99);
            y = weft_dropout(x, 0.4, NULL);
            WT_STILL(&w);
            WT_ALL(wt_near_full(y, want, WT_WITHIN(1e-14)));
            WT_ALL(weft_backward(weft_sum_all(y)) == WEFT_OK);
            WT_ALL(wt_near_full(weft_grad(x), want_grad, WT_WITHIN(1e-14)));
            wt_world_close(&w);
        }
        free(want);
        free(want_grad);
    }
}

/* RNG-23: kept fraction within three standard deviations, kept elements scaled. */
WT_TEST(dropout__keeps_the_expected_share)
{
    enum { ROWS = 80, COLUMNS = 128 };
    struct wt_world w = wt_world_open();
    weft_tensor *x = wt_spread(&w, weft_full(WEFT_F32, 2, (int64_t[]){ROWS, COLUMNS}, 1), "S(0)");
    double *got, kept = 0;
    bool scaled = true;

    weft_manual_seed(5);
    got = wt_values(weft_dropout(x, 0.5, NULL));
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        scaled &= got[i] == 0 || got[i] == 2;
        kept += got[i] / 2;
    }
    WT_ALL(scaled);
    WT_ALL(fabs(kept / (ROWS * COLUMNS) - 0.5) < 3 * 0.5 / sqrt(ROWS * COLUMNS));
    free(got);
    wt_world_close(&w);
}

/* Each draw is another, each seed is another, and the same seed starts again. */
WT_TEST(generator__draws_differ_and_repeat)
{
    struct wt_world w = wt_world_open();
    weft_tensor *t[2 * DRAWS];
    double *values[2 * DRAWS];

    for (int i = 0; i < 2 * DRAWS; i++) {
        if (i % DRAWS == 0) weft_manual_seed(17);
        t[i] = wt_spread(&w, empty(WEFT_F32, shapes[1]), "S(1)");
        WT_ALL(weft_normal_(t[i], 0, 1, NULL) == WEFT_OK);
        values[i] = wt_values(t[i]);
    }
    WT_ALL(memcmp(values[0], values[1], 105 * sizeof(double)) != 0);
    for (int i = 0; i < DRAWS; i++)
        WT_ALL(memcmp(values[i], values[i + DRAWS], 105 * sizeof(double)) == 0);
    weft_manual_seed(((uint64_t)1 << 63) + 17); /* RNG-18: the high word counts */
    WT_ALL(weft_normal_(t[0], 0, 1, NULL) == WEFT_OK && !wt_near_full(t[0], values[0], WT_EXACT));
    for (int i = 0; i < 2 * DRAWS; i++) free(values[i]);
    wt_world_close(&w);
}

/* RNG-24: a random fill of terms would not be a random value. TEN-11: a constant may fill them. */
WT_TEST(random__refuses)
{
    struct wt_world w = wt_world_open();
    weft_tensor *sum = wt_pending(&w, weft_full(WEFT_F32, 1, (int64_t[]){4}, 1), WEFT_SUM);
    weft_tensor *whole = weft_full(WEFT_I32, 1, (int64_t[]){4}, 1);
    weft_tensor *x = weft_set_requires_grad(weft_full(WEFT_F32, 1, (int64_t[]){4}, 1), true);

    WT_ALL(weft_uniform_(sum, 0, 1, NULL) == WEFT_ERR_LAYOUT);
    WT_FAILED(WEFT_ERR_LAYOUT, "pending");
    WT_ALL(weft_normal_(whole, 0, 1, NULL) == WEFT_ERR_DTYPE);
    WT_FAILED(WEFT_ERR_DTYPE, "i32");
    WT_ALL(weft_normal_(weft_square(x), 0, 1, NULL) == WEFT_ERR_STATE);
    WT_FAILED(WEFT_ERR_STATE, "in place");
    WT_ALL(!weft_dropout(x, 1.5, NULL));
    WT_FAILED(WEFT_ERR_ARG, "probability");
    WT_ALL(weft_normal_(NULL, 0, 1, NULL) == WEFT_ERR_ARG);
    WT_FAILED(WEFT_ERR_ARG, "no tensor");
    WT_ALL(weft_fill_(sum, 8) == WEFT_OK);
    WT_ALL(wt_near_full(
        sum, (double[]){8.0 * wt_ranks(), 8.0 * wt_ranks(), 8.0 * wt_ranks(), 8.0 * wt_ranks()},
        WT_EXACT));
    wt_world_close(&w);
}

int main(int argc, char **argv)
{
    static const struct wt_case cases[] = {
        WT_CASE(random__fill_does_not_depend_on_placement_or_ranks),
        WT_CASE(random__bits_are_those_of_philox),
        WT_CASE(dropout__mask_does_not_depend_on_placement_or_ranks),
        WT_CASE(dropout__keeps_the_expected_share),
        WT_CASE(generator__draws_differ_and_repeat),
        WT_CASE(random__refuses),
        WT_END,
    };

    return wt_main(argc, argv, "random", cases);
}
