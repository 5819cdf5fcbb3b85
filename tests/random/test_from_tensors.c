/*
 * test_from_tensors.c: dropout, and draws whose chances are themselves tensors: bernoulli,
 * multinomial.
 */
/* mpi: 4 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random/draws.h"
#include "tensor/tensor.h"

enum { SEED = 1234 };

/* RNG-12 */
WT_TEST_TIMES_IN_WORLD(dropout__of_a_gathered_tensor_is_equal_everywhere, w, i, 2)
{
    const int64_t shape[] = {i ? 5 : 4, i ? 7 : 4};
    int64_t n = shape[0] * shape[1];
    weft_tensor *t = wt_placed(w, WEFT_F32, 2, shape, "S(1)");
    double *all;

    weft_manual_seed(SEED);
    WT_ALL(weft_uniform_(t, 0, 1, NULL) == WEFT_OK);
    all = wt_local_rows(weft_dropout(wt_to(t, "R"), 0.2, NULL), n);
    for (int r = 1; r < wt_ranks(); r++)
        WT_ALL(memcmp(all, all + r * n, (size_t)n * sizeof *all) == 0);
    free(all);
}

static double *dropped_plain(const int64_t *shape, double **grad)
{
    weft_tensor *x = weft_set_requires_grad(weft_full(WEFT_F64, shape, 2, 1), true), *y;

    weft_manual_seed(99);
    y = weft_dropout(x, 0.4, NULL);
    weft_backward(weft_sum_all(y));
    *grad = wt_values(weft_grad(x));
    return wt_values(y);
}

/* RNG-22: the mask is the element's own, forward and backward, in any placement. */
WT_TEST_TIMES_IN_WORLD(dropout__mask_does_not_depend_on_the_placement, w, i, 15)
{
    static const int64_t shapes[][2] = {{8, 16}, {5, 7}, {1, 3}};
    static const char *const layouts[] = {"R", "S(0)", "S(1)", "S(1,balanced)", "SS(0,2)"};
    const int64_t *shape = shapes[i / 5];
    double *grad, *want = dropped_plain(shape, &grad);
    weft_tensor *x = wt_placed(w, WEFT_F64, 2, shape, layouts[i % 5]), *y;

    weft_fill_(weft_set_requires_grad(x, true), 1);
    weft_manual_seed(99);
    y = weft_dropout(x, 0.4, NULL);
    WT_STILL(w);
    WT_ALL(wt_is_placed(y, layouts[i % 5]) && wt_is_part_of(y, want));
    WT_ALL(weft_backward(weft_sum_all(y)) == WEFT_OK);
    WT_ALL(wt_is_part_of(weft_grad(x), grad));
    free(want);
    free(grad);
}

/* The way to drop inside code that works on plain shards: say where the part lies. */
WT_TEST_TIMES_IN_WORLD(dropout__of_a_plain_part_uses_the_whole_tensors_mask, w, i, 3)
{
    static const int64_t shapes[][2] = {{8, 16}, {5, 7}, {1, 3}};
    weft_placement rows = weft_shard(0);
    double *grad, *want = dropped_plain(shapes[i], &grad);
    weft_tensor *x = wt_placed(w, WEFT_F64, 2, shapes[i], "S(0)"), *part, *y;

    weft_fill_(weft_set_requires_grad(x, true), 1);
    part = weft_to_local(x, NULL);
    weft_manual_seed(99);
    y = weft_to_local(weft_dropout(weft_from_local(part, w->mesh, &rows, shapes[i]), 0.4, NULL),
                      NULL);
    WT_STILL(w);
    y = weft_from_local(y, w->mesh, &rows, shapes[i]);
    WT_ALL(wt_is_part_of(y, want));
    WT_ALL(weft_backward(weft_sum_all(y)) == WEFT_OK);
    WT_ALL(wt_is_part_of(weft_grad(x), grad));
    free(want);
    free(grad);
}

/* Kept elements of `repeats` masks, doubled where kept, and gradients nonzero exactly there. */
static double kept_share(struct wt_world *w, const int64_t *shape, int repeats)
{
    double kept = 0, n = (double)(shape[0] * shape[1]);

    for (int i = 0; i < repeats; i++) {
        weft_tensor *x = wt_placed(w, WEFT_F32, 2, shape, "S(0)"), *y;
        double *out, *grad;

        weft_fill_(weft_set_requires_grad(x, true), 3);
        y = weft_dropout(x, 0.5, NULL);
        weft_backward(weft_sum_all(y));
        out = wt_values(y);
        grad = wt_values(weft_grad(x));
        for (int64_t j = 0; j < shape[0] * shape[1]; j++) {
            if ((out[j] != 0 && out[j] != 6) || grad[j] != out[j] / 3) return -1;
            kept += out[j] / 6;
        }
        free(out);
        free(grad);
    }
    return kept / n / repeats;
}

/* RNG-23 */
WT_TEST_TIMES_IN_WORLD(dropout__keeps_the_expected_share, w, i, 6)
{
    static const int64_t shapes[][2] = {{8, 16}, {9, 11}};
    const int64_t *shape = shapes[i % 2], rows = shape[0] / wt_ranks();
    double sigma = 0.5 / sqrt((double)(shape[0] * shape[1] * 64)), share;
    weft_tensor *x;

    weft_manual_seed((uint64_t)(i / 2));
    share = kept_share(w, shape, 64);
    wt_note("share %g", share);
    WT_ALL(fabs(share - 0.5) < 3 * sigma);
    x = wt_placed(w, WEFT_F32, 2, shape, "S(0)");
    weft_fill_(x, 1);
    if (i % 2 == 0 && shape[0] % wt_ranks() == 0)
        wt_parts_differ(weft_dropout(x, 0.5, NULL), rows * shape[1], "mask");
}

/* RNG-24, PW-05: the terms of a partial sum are no numbers to draw or to drop; the generator stays.
 */
WT_TEST_IN_WORLD(random__refuses_partial_sums, w)
{
    static const int64_t shapes[][2] = {{8, 4}, {3, 5}};

    weft_manual_seed(SEED);
    for (int i = 0; i < 2 * wt_draw_count; i++) {
        const struct wt_draw *draw = &wt_draws[i / 2];
        weft_tensor *sum = wt_partial(w, weft_full(draw->dtype, shapes[i % 2], 2, 1), WEFT_SUM);

        wt_note("%s", draw->name);
        WT_ALL(draw->fill(sum, NULL) == WEFT_ERR_LAYOUT && wt_local_is_all(sum, 1));
        WT_FAILED(WEFT_ERR_LAYOUT, "partial");
        if (!weft_dtype_is_float(draw->dtype)) continue;
        WT_FAILS(weft_dropout(sum, 0.5, NULL), WEFT_ERR_LAYOUT, "supported");
    }
    WT_STILL(w);
    WT_ALL(wt_generator_is(SEED, 0));
}

/* A leaf may be filled; what the tape made may not, and NULL is no tensor. TEN-11: a constant may
 * fill the terms of a partial sum. */
WT_TEST_IN_WORLD(fill__refuses_what_the_tape_holds, w)
{
    weft_tensor *x = weft_set_requires_grad(weft_full(WEFT_F32, (int64_t[]){4}, 1, 1), true);
    weft_tensor *sum = wt_partial(w, weft_full(WEFT_F32, (int64_t[]){4}, 1, 1), WEFT_SUM);

    weft_manual_seed(SEED);
    WT_FAILS(weft_normal_(weft_square(x), 0, 1, NULL), WEFT_ERR_STATE, "in place");
    WT_FAILS(weft_fill_(weft_square(x), 1), WEFT_ERR_STATE, "in place");
    WT_FAILS(weft_normal_(NULL, 0, 1, NULL), WEFT_ERR_ARG, "no tensor");
    WT_FAILS(weft_normal_(weft_full(WEFT_I32, NULL, 0, 1), 0, 1, NULL), WEFT_ERR_DTYPE, "i32");
    WT_ALL(wt_generator_is(SEED, 0));
    WT_ALL(weft_normal_(x, 0, 1, NULL) == WEFT_OK && wt_generator_is(SEED, 1));
    WT_ALL(weft_fill_(sum, 8) == WEFT_OK && wt_is_all(sum, 8 * wt_ranks()));
}

/* RNG-24: like a partial sum is a replicated tensor. */
WT_TEST_TIMES_IN_WORLD(like__of_a_partial_sum_is_replicated, w, i, 2)
{
    static const int64_t shapes[][2] = {{8, 4}, {3, 5}};
    weft_tensor *sum = wt_partial(w, weft_full(WEFT_F32, shapes[i], 2, 1), WEFT_SUM);
    weft_tensor *like[] = {weft_rand_like(sum, NULL), weft_randn_like(sum, NULL),
                           weft_randint_like(sum, 0, 10, NULL), weft_zeros_like(sum)};

    WT_STILL(w);
    for (int j = 0; j < 4; j++) {
        double *all;

        WT_ALL(wt_is_placed(like[j], "R") && wt_has_shape(like[j], 2, shapes[i][0], shapes[i][1]));
        all = wt_local_rows(like[j], shapes[i][0] * shapes[i][1]);
        WT_ALL(wt_ranks() == 1 || !wt_rows_differ(all, 2, shapes[i][0] * shapes[i][1]));
        free(all);
    }
}

/* RNG-24: partial chances are reduced by one all-reduce first. */
WT_TEST_TIMES_IN_WORLD(bernoulli__reduces_partial_chances, w, i, 2)
{
    static const int64_t shapes[][2] = {{8, 16}, {5, 7}};
    weft_tensor *chances = weft_full(WEFT_F64, shapes[i], 2, 0.5), *sum, *y;
    double *want;

    weft_manual_seed(SEED);
    want = wt_values(weft_bernoulli(chances, NULL));
    sum = wt_partial(w, weft_mul_scalar(chances, 1.0 / wt_ranks()), WEFT_SUM);
    weft_manual_seed(SEED);
    y = weft_bernoulli(sum, NULL);
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
    WT_ALL(wt_is_placed(y, "R") && wt_generator_is(SEED, 1) && wt_is_part_of(y, want));
    free(want);
}

/* Each element by its own chance, in any placement. */
WT_TEST_TIMES_IN_WORLD(bernoulli__takes_chances_from_a_tensor, w, i, 15)
{
    static const char *const layouts[] = {"R", "S(0)", "S(1)", "S(1,balanced)", "SS(0,3)"};
    const int64_t shape[] = {40, 25};
    weft_dtype dtype = (weft_dtype)(i / 5);
    weft_tensor *p = weft_make_linspace((weft_spec){.ndim = 1, .shape = {1000}}, 0, 1), *y;
    double *want, right = 0, expected = 0;

    p = weft_reshape(weft_cast(p, dtype), shape, 2);
    weft_manual_seed(SEED);
    want = wt_values(weft_bernoulli(p, NULL));
    for (int j = 0; j < 1000; j++) {
        right += want[j] * j / 999;
        expected += (double)j / 999 * j / 999;
    }
    WT_ALL(want[0] == 0 && want[999] == 1 && fabs(right - expected) < 25);
    weft_manual_seed(SEED);
    y = weft_bernoulli(wt_spread(w, p, layouts[i % 5]), NULL);
    WT_STILL(w);
    WT_ALL(wt_is_placed(y, layouts[i % 5]) && wt_is_part_of(y, want));
    free(want);
}

/* RNG-02 */
WT_TEST_TIMES_IN_WORLD(multinomial__shards_rows_and_gathers_columns, w, i, 8)
{
    static const struct {
        int64_t rows, columns, n;
    } sizes[] = {{8, 4, 2}, {5, 9, 3}};
    int64_t rows = sizes[i / 4].rows, n = sizes[i / 4].n;
    bool by_row = i % 2 == 0, put_back = i / 2 % 2 == 0;
    weft_tensor *p = weft_add_scalar(wt_whole(WEFT_F32, 0, rows, sizes[i / 4].columns), 1.5), *y;
    double *want;

    weft_manual_seed(SEED);
    want = wt_values(weft_multinomial(p, n, put_back, NULL));
    weft_manual_seed(SEED);
    y = weft_multinomial(wt_spread(w, p, by_row ? "S(0)" : "S(1)"), n, put_back, NULL);
    if (by_row)
        WT_STILL(w);
    else
        WT_ALL(wt_ranks() == 1 || wt_moved(w, WEFT_COLL_COUNT) >= 1);
    WT_ALL(wt_is_placed(y, by_row ? "S(0)" : "R") && wt_has_shape(y, 2, rows, n));
    WT_ALL(weft_tensor_dtype(y) == WEFT_I64 && wt_generator_is(SEED, 1));
    WT_ALL(wt_is_part_of(y, want));
    free(want);
}

WT_TEST_IN_WORLD(multinomial__refuses, w)
{
    weft_tensor *p = wt_spread(w, wt_constant(8, 4, 1), "S(0)");

    weft_manual_seed(SEED);
    WT_FAILS(weft_multinomial(p, 5, false, NULL), WEFT_ERR_ARG, "without replacement");
    WT_FAILS(weft_multinomial(p, -1, true, NULL), WEFT_ERR_ARG, "-1");
    WT_ALL(!weft_multinomial(weft_full(WEFT_F32, NULL, 0, 1), 1, true, NULL));
    WT_FAILED(WEFT_ERR_SHAPE, "no dims");
    WT_ALL(!weft_multinomial(weft_full(WEFT_I32, (int64_t[]){3}, 1, 1), 1, true, NULL));
    WT_FAILED(WEFT_ERR_DTYPE, "i32");
    WT_FAILS(weft_dropout(p, 1.5, NULL), WEFT_ERR_ARG, "probability");
    WT_ALL(wt_generator_is(SEED, 0) && !weft_multinomial(NULL, 1, true, NULL));
}

/* RNG-24: a rank outside the mesh draws nothing: its generator stays, and its numbers go on. */
WT_TEST(random__changes_nothing_outside_the_mesh)
{
    for (int i = 0; wt_ranks() > 1 && i < 2 * wt_draw_count; i++) {
        weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", wt_ranks() - 1);
        bool inside = wt_rank() < wt_ranks() - 1;
        weft_spec spec = {.dtype = wt_draws[i / 2].dtype, .ndim = 2, .shape = {6, 5}, .mesh = mesh};
        weft_tensor *t;
        bool good;

        weft_manual_seed(SEED);
        if (i % 2) spec.placements[0] = weft_shard(0);
        t = weft_make_empty(spec);
        good = wt_draws[i / 2].fill(t, NULL) == WEFT_OK && wt_generator_is(SEED, inside);
        if (weft_dtype_is_float(spec.dtype))
            good = good && weft_dropout(t, 0.5, NULL) && wt_generator_is(SEED, 2 * inside);
        WT_ALL(good && (inside || weft_local_numel(t) == 0));
        weft_mesh_release(mesh);
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "from_tensors"); }
