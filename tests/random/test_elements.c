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

enum { SEED = 1234, MOST = 2048 };

/* ---- every fill in every layout ---- */

/* A fill's second draw after SEED, as a plain tensor has it. */
static double *drawn_plain(const struct wt_draw *draw, int ndim, const int64_t *shape)
{
    weft_tensor *t = weft_empty(draw->dtype, ndim, shape);

    weft_manual_seed(SEED);
    draw->fill(weft_empty(draw->dtype, 1, (int64_t[]){3}), NULL);
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

/* RNG-22: even, uneven and empty parts, cut by any rule. */
WT_TEST(random__does_not_depend_on_the_placement)
{
    static const struct sample samples[] = {{2, {8, 16}}, {2, {5, 7}}, {3, {4, 1, 6}}, {2, {1, 2}}};
    static const char *const layouts[] = {"R",       "S(0)",   "S(1)", "S(1,balanced)",
                                          "SS(1,2)", "SS(0,3)"};
    struct wt_world w = wt_world_open();

    check_layouts(&w, samples, 4, layouts, 6);
    wt_world_close(&w);
}

/* RNG-22, RNG-06: several axes on one dim, left to right and in other turns, and strided. */
WT_TEST(random__does_not_depend_on_the_mesh)
{
    static const struct sample samples[] = {{2, {8, 16}}, {2, {5, 3}}, {2, {13, 9}}};
    static const char *const layouts[] = {"S(0),S(1)",    "S(1),S(0)",       "S(0),S(0)",
                                          "SS(0,2),S(0)", "S(1)[1],S(1)[0]", "R,S(1)"};
    struct wt_world w;

    if (wt_ranks() % 2) return;
    w = wt_world_open_mesh("dp=2,tp=%d", wt_ranks() / 2);
    check_layouts(&w, samples, 3, layouts, 6);
    wt_world_close(&w);
}

/* RNG-15: where the peer starts its ranks at offsets 0, 64, 0, 64, 32, .. and ends at 128, each
 * rank has exactly its elements' numbers, and all generators end one draw further. */
WT_TEST(random__does_not_depend_on_three_axes)
{
    static const struct sample samples[] = {{2, {8, 16}}, {2, {9, 5}}};
    static const char *const layouts[] = {"S(1),R,S(0)", "S(0),S(0),S(0)", "S(0),S(1),S(0)"};
    struct wt_world w;

    if (wt_ranks() != 8) return;
    w = wt_world_open_mesh("a=2,b=2,c=2");
    check_layouts(&w, samples, 2, layouts, 3);
    wt_world_close(&w);
}

/* RNG-22: parts of segments (a fused weight). */
WT_TEST(random__does_not_depend_on_segments)
{
    static const struct sample samples[] = {{2, {12, 5}}, {2, {6, 3}}, {3, {12, 2, 2}}};
    static const char *const layouts[] = {"S(0|4,1,1)", "S(0,balanced|4,1,1)", "S(0|1,1)"};
    struct wt_world w = wt_world_open();

    check_layouts(&w, samples, 3, layouts, 3);
    wt_world_close(&w);
}

WT_TEST(random__fills_tensors_without_dims_or_elements)
{
    static const struct sample samples[] = {{0, {0}}, {1, {0}}, {2, {0, 3}}};
    struct wt_world w = wt_world_open();

    check_layouts(&w, samples, 3, (const char *const[]){"R"}, 1);
    check_layouts(&w, samples + 1, 2, (const char *const[]){"S(0)"}, 1);
    wt_world_close(&w);
}

/* A view's elements are numbered in the view; what lies between them is left alone. */
WT_TEST(random__fills_strided_views)
{
    struct wt_world w = wt_world_open();

    for (int i = 0; i < wt_draw_count; i++) {
        const int64_t shape[] = {6, 5}, turned[] = {5, 6};
        double *want = drawn_plain(&wt_draws[i], 2, turned);

        for (int l = 0; l < 3; l++) {
            weft_tensor *x =
                wt_placed(&w, wt_draws[i].dtype, 2, shape, l ? l > 1 ? "S(0)" : "S(1)" : "R");
            weft_tensor *view = weft_transpose(x, 0, 1);

            weft_manual_seed(SEED);
            wt_draws[i].fill(weft_empty(wt_draws[i].dtype, 1, (int64_t[]){3}), NULL);
            WT_ALL(wt_draws[i].fill(view, NULL) == WEFT_OK);
            wt_note("%s", wt_draws[i].name);
            WT_ALL(wt_is_part_of(view, want));
        }
        free(want);
    }
    wt_world_close(&w);
}

WT_TEST(random__leaves_gaps_of_views_alone)
{
    struct wt_world w = wt_world_open();
    weft_tensor *x = wt_spread(&w, wt_constant(4, 10, 7), "S(0)");
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
    wt_world_close(&w);
}

/* Shards of width 1 and 2 leave many short runs, more than one batch of blocks. */
WT_TEST(random__fills_many_short_runs)
{
    const int64_t shape[] = {700, 2 * wt_ranks() + 1};
    struct wt_world w = wt_world_open();
    weft_tensor *t[3], *plain[3];
    double *want;

    for (int i = 0; i < 3; i++) {
        weft_dtype dtype = (weft_dtype)i;

        t[i] = wt_placed(&w, dtype, 2, shape, "S(1)");
        plain[i] = weft_empty(dtype, 2, shape);
        weft_manual_seed(SEED);
        WT_ALL(weft_normal_(plain[i], 0, 1, NULL) == WEFT_OK);
        want = wt_values(plain[i]);
        weft_manual_seed(SEED);
        WT_ALL(weft_normal_(t[i], 0, 1, NULL) == WEFT_OK && wt_is_part_of(t[i], want));
        free(want);
    }
    wt_world_close(&w);
}

/* RNG-22: a permutation of few and of many elements. */
WT_TEST(randperm__does_not_depend_on_the_placement)
{
    static const int64_t sizes[] = {0, 1, 2, 9, 1000, 5000};
    struct wt_world w = wt_world_open();

    for (int i = 0; i < 12; i++) {
        weft_dtype dtype = i % 2 ? WEFT_I32 : WEFT_I64;
        const int64_t *n = &sizes[i / 2];
        weft_tensor *plain = weft_empty(dtype, 1, n), *t;
        double *want;

        weft_manual_seed(SEED);
        WT_ALL(weft_randperm_(plain, NULL) == WEFT_OK);
        want = wt_values(plain);
        for (int p = 0; p < 3; p++) {
            t = wt_placed(&w, dtype, 1, n, p ? p > 1 ? "SS(0,3)" : "S(0)" : "R");
            weft_manual_seed(SEED);
            WT_ALL(weft_randperm_(t, NULL) == WEFT_OK && wt_generator_is(SEED, 1));
            WT_ALL(wt_is_part_of(t, want));
        }
        WT_STILL(&w);
        free(want);
    }
    wt_world_close(&w);
}

/* ---- what ranks hold ---- */

static double *local_rows(weft_tensor *t, int64_t n)
{
    double mine[MOST];

    WT_ALL(weft_local_numel(t) == n && weft_read_f64(t, mine, MOST) == WEFT_OK);
    return wt_of_all_ranks(mine, n);
}

static void check_rows(weft_tensor *t, int64_t n, const char *what)
{
    double *all = local_rows(t, n);

    wt_note("%s", what);
    WT_ALL(wt_rows_differ(all, wt_ranks(), n));
    free(all);
}

/* RNG-01: no two ranks hold the same numbers; at 8 columns and at ws columns of more rows. */
WT_TEST(random__parts_differ)
{
    struct wt_world w = wt_world_open();

    weft_manual_seed(SEED);
    for (int i = 0; i < 2 * wt_draw_count; i++) {
        const int64_t shape[] = {i % 2 ? 40 : 8, wt_ranks()};
        const struct wt_draw *draw = &wt_draws[i / 2];
        weft_tensor *t = wt_placed(&w, draw->dtype, 2, shape, "S(1)"), *like;
        bool is_float = weft_dtype_is_float(draw->dtype);

        if (i % 2 == 0 && !draw->continuous) continue;
        WT_ALL(draw->fill(t, NULL) == WEFT_OK);
        check_rows(t, shape[0], draw->name);
        if (!is_float) continue;
        check_rows(weft_rand_like(t, NULL), shape[0], "rand_like");
        check_rows(weft_randn_like(t, NULL), shape[0], "randn_like");
        like = weft_randint_like(t, 0, 100, NULL);
        WT_ALL(wt_is_placed(like, "S(1)") && weft_tensor_dtype(like) == draw->dtype);
        check_rows(like, shape[0], "randint_like");
    }
    wt_world_close(&w);
}

/* RNG-13 */
WT_TEST(factories__parts_differ_and_replicas_are_equal)
{
    struct wt_world w = wt_world_open();

    for (int i = 0; i < 4; i++) {
        int64_t columns = 4 * wt_ranks(), rows = i % 2 ? 3 : 4;
        weft_spec spec = {.ndim = 2, .shape = {rows, columns}, .mesh = w.mesh};
        weft_tensor *(*make)(weft_spec, weft_generator *) =
            i < 2 ? weft_make_rand : weft_make_randn;
        double *all;

        weft_manual_seed(0);
        all = local_rows(make(spec, NULL), rows * columns);
        for (int r = 1; r < wt_ranks(); r++)
            WT_ALL(memcmp(all, all + r * rows * columns, (size_t)(rows * columns) * sizeof *all) ==
                   0);
        free(all);
        spec.placements[0] = weft_shard(1);
        check_rows(make(spec, NULL), 4 * rows, "factory");
    }
    wt_world_close(&w);
}

/* RNG-08: making and distributing tensors draws nothing, and no random op ever communicates. */
WT_TEST(random__communicates_never)
{
    struct wt_world w = wt_world_open();
    weft_tensor *t;

    weft_manual_seed(SEED);
    t = wt_spread(&w, weft_empty(WEFT_F32, 2, (int64_t[]){8, 3}), "S(0)");
    WT_ALL(wt_generator_is(SEED, 0));
    WT_ALL(weft_uniform_(t, 0, 1, NULL) == WEFT_OK && wt_generator_is(SEED, 1)); /* the first one */
    WT_STILL(&w);
    for (int i = 0; i < wt_draw_count; i++)
        WT_ALL(wt_draws[i].fill(wt_placed(&w, wt_draws[i].dtype, 2, (int64_t[]){5, 3}, "S(0)"),
                                NULL) == WEFT_OK);
    WT_STILL(&w);
    WT_ALL(wt_generator_is(SEED, 1 + (uint64_t)wt_draw_count));
    wt_world_close(&w);
}

/* ---- dropout ---- */

/* RNG-12 */
WT_TEST(dropout__of_a_gathered_tensor_is_equal_everywhere)
{
    struct wt_world w = wt_world_open();

    for (int i = 0; i < 2; i++) {
        const int64_t shape[] = {i ? 5 : 4, i ? 7 : 4};
        int64_t n = shape[0] * shape[1];
        weft_tensor *t = wt_placed(&w, WEFT_F32, 2, shape, "S(1)");
        double *all;

        weft_manual_seed(SEED);
        WT_ALL(weft_uniform_(t, 0, 1, NULL) == WEFT_OK);
        all = local_rows(weft_dropout(wt_to(t, "R"), 0.2, NULL), n);
        for (int r = 1; r < wt_ranks(); r++)
            WT_ALL(memcmp(all, all + r * n, (size_t)n * sizeof *all) == 0);
        free(all);
    }
    wt_world_close(&w);
}

static double *dropped_plain(const int64_t *shape, double **grad)
{
    weft_tensor *x = weft_set_requires_grad(weft_full(WEFT_F64, 2, shape, 1), true), *y;

    weft_manual_seed(99);
    y = weft_dropout(x, 0.4, NULL);
    weft_backward(weft_sum_all(y));
    *grad = wt_values(weft_grad(x));
    return wt_values(y);
}

/* RNG-22: the mask is the element's own, forward and backward, in any placement. */
WT_TEST(dropout__mask_does_not_depend_on_the_placement)
{
    static const int64_t shapes[][2] = {{8, 16}, {5, 7}, {1, 3}};
    static const char *const layouts[] = {"R", "S(0)", "S(1)"};

    for (int i = 0; i < 9; i++) {
        struct wt_world w = wt_world_open();
        const int64_t *shape = shapes[i / 3];
        double *grad, *want = dropped_plain(shape, &grad);
        weft_tensor *x = wt_placed(&w, WEFT_F64, 2, shape, layouts[i % 3]), *y;

        weft_fill_(weft_set_requires_grad(x, true), 1);
        weft_manual_seed(99);
        y = weft_dropout(x, 0.4, NULL);
        WT_STILL(&w);
        WT_ALL(wt_is_placed(y, layouts[i % 3]) && wt_is_part_of(y, want));
        WT_ALL(weft_backward(weft_sum_all(y)) == WEFT_OK);
        WT_ALL(wt_is_part_of(weft_grad(x), grad));
        free(want);
        free(grad);
        wt_world_close(&w);
    }
}

/* The way to drop inside code that works on plain parts: say where the part lies. */
WT_TEST(dropout__of_a_plain_part_uses_the_whole_tensors_mask)
{
    static const int64_t shapes[][2] = {{8, 16}, {5, 7}, {1, 3}};

    for (int i = 0; i < 3; i++) {
        struct wt_world w = wt_world_open();
        weft_placement rows = weft_shard(0);
        double *grad, *want = dropped_plain(shapes[i], &grad);
        weft_tensor *x = wt_placed(&w, WEFT_F64, 2, shapes[i], "S(0)"), *part, *y;

        weft_fill_(weft_set_requires_grad(x, true), 1);
        part = weft_to_local(x, NULL);
        weft_manual_seed(99);
        y = weft_to_local(weft_dropout(weft_from_local(part, w.mesh, &rows, shapes[i]), 0.4, NULL),
                          NULL);
        WT_STILL(&w);
        y = weft_from_local(y, w.mesh, &rows, shapes[i]);
        WT_ALL(wt_is_part_of(y, want));
        WT_ALL(weft_backward(weft_sum_all(y)) == WEFT_OK);
        WT_ALL(wt_is_part_of(weft_grad(x), grad));
        free(want);
        free(grad);
        wt_world_close(&w);
    }
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
WT_TEST(dropout__keeps_the_expected_share)
{
    static const int64_t shapes[][2] = {{8, 16}, {9, 11}};

    for (int i = 0; i < 6; i++) {
        struct wt_world w = wt_world_open();
        const int64_t *shape = shapes[i % 2], rows = shape[0] / wt_ranks();
        double sigma = 0.5 / sqrt((double)(shape[0] * shape[1] * 64)), share;
        weft_tensor *x;

        weft_manual_seed((uint64_t)(i / 2));
        share = kept_share(&w, shape, 64);
        wt_note("share %g", share);
        WT_ALL(fabs(share - 0.5) < 3 * sigma);
        x = wt_placed(&w, WEFT_F32, 2, shape, "S(0)");
        weft_fill_(x, 1);
        if (i % 2 == 0 && shape[0] % wt_ranks() == 0)
            check_rows(weft_dropout(x, 0.5, NULL), rows * shape[1], "mask");
        wt_world_close(&w);
    }
}

/* ---- modules ---- */

/* Undefined parameters of a module get elements and first values where they are. */
static weft_status reset(weft_module *m, const char *name)
{
    weft_tensor *real = weft_empty_like(weft_module_parameter(m, name), WEFT_CPU);

    WT_ALL(real && weft_kaiming_uniform_(real, sqrt(5), WEFT_FAN_IN, NULL) == WEFT_OK);
    return weft_module_set_parameter(m, name, real);
}

static weft_module *meta_linear(int64_t in, int64_t out)
{
    weft_device before = weft_set_default_device(WEFT_META);
    weft_module *m =
        weft_linear_new((weft_linear_config){.in = {in}, .out = {out}, .no_bias = true});

    weft_set_default_device(before);
    return m;
}

static weft_status colwise(weft_module *m, weft_mesh *mesh)
{
    const weft_plan plan[] = {{"", weft_colwise_parallel()}, {0}};

    return weft_parallelize_module(m, mesh, plan);
}

/* RNG-05: a column-wise weight made on the meta device; one row and three rows per rank. */
WT_TEST(colwise__weights_differ_between_ranks)
{
    for (int per_rank = 1; per_rank < 4; per_rank += 2) {
        struct wt_world w = wt_world_open();
        weft_module *m = meta_linear(wt_ranks(), per_rank * wt_ranks());

        weft_manual_seed(SEED);
        WT_ALL(colwise(m, w.mesh) == WEFT_OK && reset(m, "weight") == WEFT_OK);
        check_rows(weft_module_parameter(m, "weight"), per_rank * wt_ranks(), "weight");
        weft_module_release(m);
        wt_world_close(&w);
    }
}

/* RNG-06: column-wise on tp, then sharded on dp too: a strided shard and a shard of one dim. */
WT_TEST(colwise__weights_differ_on_two_axes)
{
    for (int rows = 4; wt_ranks() == 4 && rows < 9; rows += 4) {
        struct wt_world w = wt_world_open_mesh("dp=2,tp=2");
        const int64_t shape[] = {rows, 4};
        weft_tensor *t = wt_placed(&w, WEFT_F32, 2, shape, "SS(0,2),S(0)");

        weft_manual_seed(SEED);
        WT_ALL(weft_kaiming_uniform_(t, sqrt(5), WEFT_FAN_IN, NULL) == WEFT_OK);
        check_rows(t, rows, "weight");
        wt_world_close(&w);
    }
}

/* Weights net1 [16,10] and net2 [10,16], column-wise on tp; equal between ranks r and s? */
static void check_nets(struct wt_world *w, bool by_element)
{
    static const int64_t sizes[][2] = {{10, 16}, {16, 10}};
    weft_mesh *tp = weft_mesh_sub(w->mesh, "tp");

    weft_manual_seed(0);
    for (int i = 0; i < 2; i++) {
        weft_module *m = meta_linear(sizes[i][0], sizes[i][1]);
        int64_t n = sizes[i][0] * sizes[i][1] / 2;
        double *all;

        if (!by_element) weft_local_random_begin();
        WT_ALL(colwise(m, tp) == WEFT_OK && reset(m, "weight") == WEFT_OK);
        if (!by_element) weft_local_random_end();
        all = local_rows(weft_module_parameter(m, "weight"), n);
        for (int r = 0; r < 4; r++)
            for (int s = 0; s < r; s++) {
                bool equal = memcmp(all + r * n, all + s * n, (size_t)n * sizeof *all) == 0;

                WT_ALL(equal == (!by_element || r % 2 == s % 2));
            }
        free(all);
        weft_module_release(m);
    }
    weft_mesh_release(tp);
}

/* RNG-21 */
WT_TEST(colwise__weights_are_equal_over_data_parallel_ranks)
{
    struct wt_world w;

    if (wt_ranks() != 4) return;
    w = wt_world_open_mesh("dp=2,tp=2");
    check_nets(&w, true);
    check_nets(&w, false);
    wt_world_close(&w);
}

/* RNG-04: replicas are equal, numbered by element or by part. */
WT_TEST(uniform__is_equal_on_all_replicas)
{
    static const int64_t shapes[][2] = {{1024, 2048}, {31, 7}};

    for (int i = 0; i < 4; i++) {
        struct wt_world w = wt_world_open();
        const int64_t *shape = shapes[i / 2];
        weft_device before = weft_set_default_device(WEFT_META);
        weft_tensor *t = wt_placed(&w, WEFT_F32, 2, shape, "R"), *real;
        double *all;

        weft_set_default_device(before);
        real = weft_empty_like(t, WEFT_CPU);
        weft_manual_seed(SEED);
        if (i % 2) weft_local_random_begin();
        WT_ALL(weft_uniform_(real, 0, 1, NULL) == WEFT_OK);
        if (i % 2) weft_local_random_end();
        WT_STILL(&w);
        /* enough of it to see: a row in the middle */
        all =
            local_rows(weft_contiguous(weft_to_local(weft_slice(real, 0, 9, 10), NULL)), shape[1]);
        for (int r = 1; r < wt_ranks(); r++)
            WT_ALL(memcmp(all, all + r * shape[1], (size_t)shape[1] * sizeof *all) == 0);
        free(all);
        wt_world_close(&w);
    }
}

/* By parts, equal parts are filled alike; dropout and bernoulli follow the same numbering. */
WT_TEST(local_random__numbers_each_part_from_0)
{
    struct wt_world w = wt_world_open();
    const int64_t shape[] = {2 * wt_ranks(), 3}, part[] = {2, 3};
    weft_tensor *plain = weft_full(WEFT_F32, 2, part, 0.5), *t, *y;
    double want[3][6], got[6];

    weft_manual_seed(SEED);
    WT_ALL(weft_uniform_(plain, 0, 1, NULL) == WEFT_OK);
    weft_read_f64(plain, want[0], 6);
    weft_read_f64(weft_dropout(weft_full(WEFT_F32, 2, part, 1), 0.5, NULL), want[1], 6);
    weft_read_f64(weft_bernoulli(weft_full(WEFT_F32, 2, part, 0.5), NULL), want[2], 6);
    weft_manual_seed(SEED);
    weft_local_random_begin();
    t = wt_placed(&w, WEFT_F32, 2, shape, "S(0)");
    WT_ALL(weft_uniform_(t, 0, 1, NULL) == WEFT_OK);
    WT_ALL(weft_read_f64(t, got, 6) == WEFT_OK && memcmp(got, want[0], sizeof got) == 0);
    weft_fill_(t, 1);
    y = weft_dropout(t, 0.5, NULL);
    WT_ALL(weft_read_f64(y, got, 6) == WEFT_OK && memcmp(got, want[1], sizeof got) == 0);
    weft_fill_(t, 0.5);
    y = weft_bernoulli(t, NULL);
    WT_ALL(weft_read_f64(y, got, 6) == WEFT_OK && memcmp(got, want[2], sizeof got) == 0);
    WT_ALL(wt_is_placed(y, "S(0)") && wt_generator_is(SEED, 3));
    weft_local_random_end();
    wt_world_close(&w);
}

int main(int argc, char **argv)
{
    static const struct wt_case cases[] = {
        WT_CASE(random__does_not_depend_on_the_placement),
        WT_CASE(random__does_not_depend_on_the_mesh),
        WT_CASE(random__does_not_depend_on_three_axes),
        WT_CASE(random__does_not_depend_on_segments),
        WT_CASE(random__fills_tensors_without_dims_or_elements),
        WT_CASE(random__fills_strided_views),
        WT_CASE(random__leaves_gaps_of_views_alone),
        WT_CASE(random__fills_many_short_runs),
        WT_CASE(randperm__does_not_depend_on_the_placement),
        WT_CASE(random__parts_differ),
        WT_CASE(factories__parts_differ_and_replicas_are_equal),
        WT_CASE(random__communicates_never),
        WT_CASE(dropout__of_a_gathered_tensor_is_equal_everywhere),
        WT_CASE(dropout__mask_does_not_depend_on_the_placement),
        WT_CASE(dropout__of_a_plain_part_uses_the_whole_tensors_mask),
        WT_CASE(dropout__keeps_the_expected_share),
        WT_CASE(colwise__weights_differ_between_ranks),
        WT_CASE(colwise__weights_differ_on_two_axes),
        WT_CASE(colwise__weights_are_equal_over_data_parallel_ranks),
        WT_CASE(uniform__is_equal_on_all_replicas),
        WT_CASE(local_random__numbers_each_part_from_0),
        WT_END,
    };

    return wt_main(argc, argv, "elements", cases);
}
