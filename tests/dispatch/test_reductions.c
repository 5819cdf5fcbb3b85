/*
 * test_reductions.c: reductions over dims that are whole, sharded and partial: which layout comes
 * of them, what they send, and that values are those of one device, for shards that are even,
 * uneven and empty.
 */
/* mpi: 2 4 */
#include <math.h>
#include <string.h>

#include "support/worlds.h"

#define IS_LIKE_PLAIN(got, plain) WT_ALL(wt_near_tensors((got), (plain), WT_WITHIN(1e-5)))

typedef weft_tensor *reduction(weft_tensor *x, const int *dims, int n, bool keep);

/* Numbers near 1, of which products neither vanish nor overflow. */
static weft_tensor *near_one(int64_t a, int64_t b, int64_t c)
{
    return weft_add_scalar(weft_mul_scalar(wt_whole3(WEFT_F32, 3, a, b, c), 0.05), 1);
}

static const char *const places[] = {"S(0)", "S(1)", "S(2)", "R"};
static const int64_t shapes[][3] = {{12, 8, 8}, {5, 3, 7}, {1, 9, 2}};

/* The op over each dim, two of them, and all; x spread in all ways. */
static void check_reduction(struct wt_world *w, reduction *op, weft_tensor *x)
{
    static const int dims[][2] = {{0, 0}, {1, 0}, {2, 0}, {-1, 0}, {0, 2}, {0, 0}};
    static const int counts[] = {1, 1, 1, 1, 2, 0};

    for (int p = 0; p < 4; p++)
        for (int k = 0; k < 6; k++)
            for (int keep = 0; keep < 2; keep++) {
                weft_tensor *want = op(x, dims[k], counts[k], keep), *got;

                wt_note("%s, dims %d, keep %d", places[p], k, keep);
                got = op(wt_spread(w, x, places[p]), dims[k], counts[k], keep);
                WT_ALL(weft_ndim(got) == weft_ndim(want));
                WT_ALL(weft_tensor_dtype(got) == weft_tensor_dtype(want));
                IS_LIKE_PLAIN(got, want);
            }
}

/* MATH-01 */
WT_TEST_TIMES_IN_WORLD(reductions__equal_one_device, w, i, 3)
{
    static reduction *const of_numbers[] = {weft_sum,  weft_prod,   weft_mean,   weft_amax,
                                            weft_amin, weft_nansum, weft_nanmean};
    weft_tensor *x = near_one(shapes[i][0], shapes[i][1], shapes[i][2]);
    weft_tensor *low = weft_lt(wt_whole3(WEFT_F32, 1, shapes[i][0], shapes[i][1], shapes[i][2]),
                               weft_full(WEFT_F32, NULL, 0, 0));
    weft_tensor *ones = weft_logical_or(low, weft_logical_not(low));

    for (size_t k = 0; k < sizeof of_numbers / sizeof *of_numbers; k++) {
        wt_note("op %d", (int)k);
        check_reduction(w, of_numbers[k], x);
    }
    check_reduction(w, weft_any, low);
    check_reduction(w, weft_all, low);
    check_reduction(w, weft_all, ones);
    check_reduction(w, weft_any, weft_logical_not(ones));
    check_reduction(w, weft_amax, low);
    check_reduction(w, weft_sum, low);
}

/* MATH-01: those that give an index too */
WT_TEST_TIMES_IN_WORLD(extremes__with_their_places_equal_one_device, w, i, 3)
{
    weft_tensor *x = wt_whole3(WEFT_F32, 1, shapes[i][0], shapes[i][1], shapes[i][2]);

    for (int p = 0; p < 4; p++)
        for (int dim = 0; dim < 3; dim++)
            for (int k = 0; k < 4; k++) {
                bool most = k & 1, keep = k & 2;
                weft_tensor *(*op)(weft_tensor *, int, bool, weft_tensor **) =
                    most ? weft_max_with_index : weft_min_with_index;
                weft_tensor *at, *want_at, *got = op(wt_spread(w, x, places[p]), dim, keep, &at);
                weft_tensor *want = op(x, dim, keep, &want_at);

                wt_note("%s, dim %d, form %d", places[p], dim, k);
                WT_ALL(wt_near_tensors(got, want, WT_EXACT));
                WT_ALL(wt_near_tensors(at, want_at, WT_EXACT));
                WT_ALL(weft_ndim(at) == weft_ndim(want_at));
            }
}

/* Over a dim that is sharded results are terms of the same reduction, and nothing is sent. */
WT_TEST_IN_WORLD(results__stay_partial, w)
{
    static const struct {
        reduction *op;
        const char *placed;
    } ops[] = {
        {weft_sum, "P"}, {weft_prod, "P(product)"}, {weft_amax, "P(max)"}, {weft_amin, "P(min)"}};
    weft_tensor *x = wt_spread(w, near_one(5, 4, 3), "S(0)");
    int dims[] = {0, 2};

    for (int k = 0; k < 4; k++) {
        weft_tensor *y = ops[k].op(x, dims, 2, false);

        WT_ALL(wt_is_placed(y, ops[k].placed));
        /* and terms of it pass through another of the same */
        WT_ALL(wt_is_placed(ops[k].op(y, NULL, 0, false), ops[k].placed));
    }
    WT_ALL(wt_is_placed(weft_norm(x, 2, dims, 2, false), "P(norm 2)"));
    WT_ALL(wt_is_placed(weft_norm(x, INFINITY, dims, 2, false), "P(max)"));
    WT_ALL(wt_is_placed(weft_count_nonzero(x, dims, 2), "P"));
    WT_STILL(w);
    for (int k = 0; k < 4; k++) {
        weft_tensor *whole = near_one(5, 4, 3);

        IS_LIKE_PLAIN(ops[k].op(ops[k].op(x, dims, 2, false), NULL, 0, false),
                      ops[k].op(ops[k].op(whole, dims, 2, false), NULL, 0, false));
    }
}

static weft_tensor *vector(const double *values, int64_t n)
{
    return weft_from_data(WEFT_F32, &n, 1,
                          (float[]){(float)values[0], (float)values[1], (float)values[2]});
}

/* MATH-28: not-a-number in one shard, and shards without elements */
WT_TEST_IN_WORLD(extremes__see_no_zero_in_an_empty_shard, w)
{
    static const double rows[][3] = {{-3, -1, -2}, {-INFINITY, -5, -INFINITY}, {1, NAN, 2}};
    weft_tensor *fewer = wt_spread(w, wt_constant(1, 4, -2), "S(0)");

    for (int k = 0; k < 3; k++) {
        weft_tensor *x = wt_spread(w, vector(rows[k], 3), "S(0)");
        double most = fmax(rows[k][0], fmax(rows[k][1], rows[k][2]));
        double least = fmin(rows[k][0], fmin(rows[k][1], rows[k][2]));

        if (k == 2) most = least = NAN;
        wt_note("row %d", k);
        WT_ALL(wt_near_full(weft_amax(x, NULL, 0, false), &most, WT_EXACT));
        WT_ALL(wt_near_full(weft_amin(x, NULL, 0, false), &least, WT_EXACT));
        most = 1; /* now their places */
        least = k == 2;
        WT_ALL(wt_near_full(weft_argmax(x, 0), &most, WT_EXACT));
        WT_ALL(wt_near_full(weft_argmin_all(x), &least, WT_EXACT));
    }
    WT_ALL(wt_is_all(weft_amax(fewer, NULL, 0, false), -2));
    WT_ALL(wt_is_all(weft_prod(fewer, NULL, 0, false), 16));
}

/* MATH-26 */
WT_TEST_IN_WORLD(std__of_uneven_shards, w)
{
    static const double mean = 4, std = 2.7386127875258306, small = 1.0;
    float x[9];
    int64_t n = 9;
    weft_tensor *t, *got;

    for (int i = 0; i < 9; i++) x[i] = (float)i;
    t = wt_spread(w, weft_from_data(WEFT_F32, &n, 1, x), "S(0)");
    WT_ALL(wt_near_full(weft_std(t, NULL, 0, 1, false), &std, WT_WITHIN(1e-6)));
    WT_ALL(wt_near_full(weft_var_mean(t, NULL, 0, 1, true, &got), &(double){7.5}, WT_WITHIN(1e-6)));
    WT_ALL(wt_near_full(got, &mean, WT_WITHIN(1e-6)));
    n = 3;
    t = wt_spread(w, weft_from_data(WEFT_F32, &n, 1, x), "S(0)");
    WT_ALL(wt_near_full(weft_std(t, NULL, 0, 1, false), &small, WT_WITHIN(1e-6)));
    /* far from 0 the squares would swamp what differs */
    t = wt_spread(w, weft_add_scalar(weft_from_data(WEFT_F32, &n, 1, x), 1e4), "S(0)");
    WT_ALL(wt_near_full(weft_var(t, NULL, 0, 1, false), &small, WT_WITHIN(1e-5)));
}

/* Two small all-reduces, and the elements stay where they are. */
WT_TEST_IN_WORLD(variance__sends_two_numbers, w)
{
    weft_tensor *x = wt_whole(WEFT_F32, 0, 70, 3), *s = wt_spread(w, x, "S(0)"), *y;
    int rows = 0;

    y = weft_var(s, &rows, 1, 0, true);
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 2);
    IS_LIKE_PLAIN(y, weft_var(x, &rows, 1, 0, true));
    wt_moved(w, WEFT_COLL_COUNT);
    y = weft_std(s, &rows, 1, 1, false);
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 2);
    IS_LIKE_PLAIN(y, weft_std(x, &rows, 1, 1, false));
}

/* The term of this rank: as MATH-14 has it, [rank, 1] and [rank + 1, 2]. */
static weft_tensor *rank_terms(struct wt_world *w, int which)
{
    int64_t n = 2;
    float term[] = {(float)(weft_world_rank() + which), (float)(1 + which)};
    const weft_placement sums = weft_partial(WEFT_SUM);

    return weft_from_local(weft_from_data(WEFT_F32, &n, 1, term), w->mesh, &sums, NULL);
}

/* MATH-14 */
WT_TEST_IN_WORLD(norms__of_a_list, w)
{
    static const int64_t rows[] = {12, 8, 5};
    int ranks = weft_world_size();
    double sum = ranks * (ranks - 1) / 2.0;

    for (int k = 0; k < 3; k++) {
        weft_tensor *x = wt_whole(WEFT_F32, k, rows[k], 8);

        IS_LIKE_PLAIN(weft_norm(wt_spread(w, x, "S(0)"), 2, NULL, 0, false),
                      weft_norm(x, 2, NULL, 0, false));
    }
    for (int which = 0; which < 2; which++) { /* on 4 ranks [6,4] and [10,8] */
        double first = sum + which * ranks, second = ranks * (1 + which);
        double want = sqrt(first * first + second * second);

        WT_ALL(wt_near_full(weft_norm(rank_terms(w, which), 2, NULL, 0, false), &want,
                            WT_WITHIN(1e-6)));
    }
}

/* MATH-23 */
WT_TEST_IN_WORLD(partial_sums__are_added_up_first, w)
{
    int64_t n = 3;
    float term[] = {(float)weft_world_rank() - 1, 1, -(float)weft_world_rank()};
    const weft_placement sums = weft_partial(WEFT_SUM);
    weft_tensor *p = weft_from_local(weft_from_data(WEFT_F32, &n, 1, term), w->mesh, &sums, NULL);
    weft_tensor *whole = weft_full_tensor(p);
    weft_tensor *at, *want;

    for (int k = 0; k < 4; k++) {
        double power[] = {2, 1, INFINITY, 3};

        IS_LIKE_PLAIN(weft_norm(p, power[k], NULL, 0, false),
                      weft_norm(whole, power[k], NULL, 0, false));
    }
    IS_LIKE_PLAIN(weft_amax(p, NULL, 0, false), weft_amax(whole, NULL, 0, false));
    IS_LIKE_PLAIN(weft_amin(p, NULL, 0, false), weft_amin(whole, NULL, 0, false));
    IS_LIKE_PLAIN(weft_prod(p, NULL, 0, false), weft_prod(whole, NULL, 0, false));
    IS_LIKE_PLAIN(weft_std(p, NULL, 0, 1, false), weft_std(whole, NULL, 0, 1, false));
    IS_LIKE_PLAIN(weft_max_with_index(p, 0, false, &at),
                  weft_max_with_index(whole, 0, false, &want));
    WT_ALL(wt_near_tensors(at, want, WT_EXACT));
}

/* MATH-24 */
WT_TEST_IN_WORLD(maximum_of_partial_maxima__stays_one, w)
{
    for (int64_t n = 4; n < 10; n += 5) {
        const weft_placement most = weft_partial(WEFT_MAX);
        weft_tensor *own = weft_add_scalar(
            weft_reshape(wt_whole(WEFT_F32, weft_world_rank(), n, 1), &n, 1), weft_world_rank());
        weft_tensor *p = weft_from_local(own, w->mesh, &most, NULL), *y;

        wt_moved(w, WEFT_COLL_COUNT);
        y = weft_amax(p, NULL, 0, false);
        WT_STILL(w);
        WT_ALL(wt_is_placed(y, "P(max)"));
        WT_ALL(wt_near_tensors(y, weft_amax(wt_to(p, "R"), NULL, 0, false), WT_EXACT));
        /* the least of maxima is none of the ranks' */
        WT_ALL(wt_near_tensors(weft_amin(p, NULL, 0, false),
                               weft_amin(wt_to(p, "R"), NULL, 0, false), WT_EXACT));
    }
}

/* PW-16 */
WT_TEST_IN_WORLD(maximum__of_two_partial_maxima, w)
{
    for (int k = 0; k < 2; k++) {
        weft_reduce reduce = k ? WEFT_MIN : WEFT_MAX;
        weft_tensor *(*op)(weft_tensor *, weft_tensor *) = k ? weft_minimum : weft_maximum;
        weft_tensor *a = wt_partial(w, wt_whole(WEFT_F32, weft_world_rank(), 2, 2), reduce);
        weft_tensor *b = wt_partial(w, wt_whole(WEFT_F32, weft_world_rank() + 9, 2, 2), reduce), *y;

        wt_moved(w, WEFT_COLL_COUNT);
        y = op(a, b);
        WT_STILL(w);
        WT_ALL(wt_is_placed(y, k ? "P(min)" : "P(max)"));
        WT_ALL(wt_near_tensors(y, op(weft_full_tensor(a), weft_full_tensor(b)), WT_EXACT));
    }
}

/* MATH-16 */
WT_TEST_IN_WORLD(dist__equals_one_device, w)
{
    static const double powers[] = {1, 2, INFINITY};
    int rows = 0;

    for (int k = 0; k < 6; k++) {
        weft_tensor *a = wt_whole(WEFT_F32, 0, k < 3 ? 12 : 7, 8);
        weft_tensor *b = wt_whole(WEFT_F32, 1, k < 3 ? 12 : 7, 8);
        weft_tensor *sa = wt_spread(w, a, "S(0)"), *sb = wt_spread(w, b, "S(0)"), *y;
        double p = powers[k % 3];

        wt_moved(w, WEFT_COLL_COUNT);
        y = weft_dist(sa, sb, p);
        WT_STILL(w);
        WT_ALL(weft_is_partial(weft_tensor_placement(y, 0)));
        IS_LIKE_PLAIN(y, weft_dist(a, b, p));
        IS_LIKE_PLAIN(weft_dist(wt_spread(w, a, "R"), wt_spread(w, b, "R"), p), weft_dist(a, b, p));
        IS_LIKE_PLAIN(weft_dist(weft_sum(sa, &rows, 1, true), weft_sum(sb, &rows, 1, true), p),
                      weft_dist(weft_sum(a, &rows, 1, true), weft_sum(b, &rows, 1, true), p));
    }
}

/* MATH-11: here the dim itself is less to send than the candidates */
WT_TEST_IN_WORLD(topk__along_a_small_dim, w)
{
    static const char *const placed[] = {"S(0)", "S(1)", "S(2)", "R"};

    for (int k = 0; k < 8; k++) {
        weft_tensor *x = wt_whole3(WEFT_F32, 0, k < 4 ? 12 : 7, 8, 8), *at, *want_at, *y;

        wt_note("case %d", k);
        y = weft_topk(wt_spread(w, x, placed[k % 4]), 3, 0, &at);
        WT_MOVED(w, WEFT_COLL_ALL_GATHER, k % 4 == 0);
        WT_ALL(wt_near_tensors(y, weft_topk(x, 3, 0, &want_at), WT_EXACT));
        WT_ALL(wt_near_tensors(at, want_at, WT_EXACT));
        wt_moved(w, WEFT_COLL_COUNT);
    }
}

/* MATH-19: along the shards one collective brings the dim together, to all or to other shards
 * (docs/decisions/0005) */
WT_TEST_IN_WORLD(cumsum__along_and_beside_the_shards, w)
{
    for (int64_t rows = 3; rows < 10; rows += 5) {
        weft_tensor *x = wt_whole(WEFT_F32, 0, rows, 5), *s = wt_spread(w, x, "S(0)"), *y;

        wt_moved(w, WEFT_COLL_COUNT);
        y = weft_cumsum(s, 1);
        WT_STILL(w);
        WT_ALL(wt_is_placed(y, "S(0)"));
        IS_LIKE_PLAIN(y, weft_cumsum(x, 1));
        wt_moved(w, WEFT_COLL_COUNT);
        y = weft_cumsum(s, 0);
        if (weft_world_size() > 1) WT_EQ(wt_moved(w, WEFT_COLL_COUNT), 1);
        WT_ALL(weft_world_size() == 1 || !weft_shards(weft_tensor_placement(y, 0), 0));
        IS_LIKE_PLAIN(y, weft_cumsum(x, 0));
        IS_LIKE_PLAIN(weft_cumprod(s, 0), weft_cumprod(x, 0));
        IS_LIKE_PLAIN(weft_cumsum(wt_spread(w, x, "S(1)"), -1), weft_cumsum(x, -1));
    }
}

/* MATH-22 */
WT_TEST_IN_WORLD(histogram__of_any_layout, w)
{
    for (int k = 0; k < 8; k++) {
        weft_tensor *x = wt_whole3(WEFT_F32, 0, k < 4 ? 12 : 5, 8, k < 4 ? 8 : 3), *y;
        weft_tensor *s = wt_spread(w, x, places[k % 4]);

        wt_moved(w, WEFT_COLL_COUNT);
        y = weft_histc(s, 100, -0.5, 0.75);
        WT_STILL(w);
        WT_ALL(wt_near_tensors(y, weft_histc(x, 100, -0.5, 0.75), WT_EXACT));
        wt_moved(w, WEFT_COLL_COUNT);
        y = weft_histc(s, 100, 0, 0);
        WT_MOVED(w, WEFT_COLL_ALL_REDUCE, k % 4 < 3); /* instead of all elements two numbers */
        WT_ALL(wt_near_tensors(y, weft_histc(x, 100, 0, 0), WT_EXACT));
    }
}

/* ---- places ---- */

static const double table[8][8] = {{0, 2, 1, 11, 5, 9, -2, -23}, {3, 5, 7, 9, 0, -1, 4, 2},
                                   {8, 4, 6, -5, -10, 12, 7, 1}, {13, 6, 9, -5, 0, 4, 2, 8},
                                   {4, 9, 2, 1, -6, -3, 5, 7},   {0, -4, -2, 8, 6, 3, 12, -7},
                                   {20, 6, -3, 1, -8, 4, 2, 0},  {5, 9, 11, -1, -4, 2, 3, 8}};
static const double most_at[] = {3, 3, 5, 0, 1, 6, 0, 2}, least_at[] = {7, 5, 4, 3, 4, 7, 4, 4};

static weft_tensor *table_tensor(int64_t rows)
{
    float x[64];

    for (int i = 0; i < 64; i++) x[i] = (float)table[i / 8][i % 8];
    return weft_from_data(WEFT_F32, (int64_t[]){rows, 8}, 2, x);
}

/* x as a sum along the first axis: equal terms. `placed`: "P," and how the second axis cuts it. */
static weft_tensor *share_on_first_axis(struct wt_world *w, weft_tensor *x, const char *placed)
{
    weft_placement p[2], whole[2];
    int64_t shape[] = {weft_size(x, 0), weft_size(x, 1)};

    weft_placements_parse(p, 2, placed);
    whole[0] = weft_replicate();
    whole[1] = p[1];
    x = weft_mul_scalar(x, 1.0 / weft_mesh_axis_size(w->mesh, 0));
    x = weft_to_local(weft_distribute_tensor(x, w->mesh, whole, -1), NULL);
    return weft_from_local(weft_drop_grad_types(x), w->mesh, p, shape);
}

/* TEN-32; on 5 rows too */
WT_TEST_TIMES_IN(places__on_two_axes, w, k, 10, wt_world_open_two_axes())
{
    static const char *const placed[] = {"P,S(1)", "P,S(0)", "S(0),S(1)", "R,S(0)", "R,S(1)"};
    weft_tensor *x = table_tensor(k < 5 ? 8 : 5);

    x = k % 5 < 2 ? share_on_first_axis(w, x, placed[k % 5]) : wt_spread(w, x, placed[k % 5]);

    WT_ALL(wt_near_full(weft_argmax(x, 1), most_at, WT_EXACT));
    WT_ALL(wt_near_full(weft_argmin(x, -1), least_at, WT_EXACT));
}

/* Of equal elements the first in row-major order, wherever shards are cut; integers, halves, bool.
 */
WT_TEST_IN_WORLD(places__of_ties, w)
{
    static const char *const placed[] = {"S(0)",    "S(1)",          "R",
                                         "SS(0,2)", "S(1,balanced)", "SS(1,3)"};
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_BF16, WEFT_I64, WEFT_U8};

    for (int k = 0; k < 24; k++) {
        int64_t n = 0;
        double first = 0, last = 0, columns[12], rows[8];
        float x[8][12];
        weft_tensor *t;

        for (int i = 0; i < 8; i++)
            for (int j = 0; j < 12; j++) x[i][j] = (float)((7 * i + 5 * j + 3) % 4);
        for (n = 95; n >= 0; n--) {
            first = x[n / 12][n % 12] == 3 ? (double)n : first;
            last = x[n / 12][n % 12] == 0 ? (double)n : last;
        }
        for (int i = 7; i >= 0; i--)
            for (int j = 11; j >= 0; j--) {
                if (x[i][j] == 3) rows[i] = j;
                if (x[i][j] == 3) columns[j] = i;
            }
        wt_note("%s, %s", placed[k % 6], weft_dtype_name(dtypes[k / 6]));
        t = weft_cast(weft_from_data(WEFT_F32, (int64_t[]){8, 12}, 2, x), dtypes[k / 6]);
        t = wt_spread(w, t, placed[k % 6]);
        wt_moved(w, WEFT_COLL_COUNT);
        WT_ALL(wt_near_full(weft_argmax_all(t), &first, WT_EXACT));
        WT_ALL(wt_near_full(weft_argmin_all(t), &last, WT_EXACT));
        WT_ALL(wt_near_full(weft_argmax(t, 1), rows, WT_EXACT));
        WT_ALL(wt_near_full(weft_argmax(t, 0), columns, WT_EXACT));
    }
}

/* A column that is sharded twice, as [S(1),R] on two axes was in need of. */
WT_TEST_TIMES_IN(places__along_a_dim_of_two_axes, w, k, 3, wt_world_open_two_axes())
{
    static const char *const placed[] = {"S(1),R", "S(1),S(1)", "S(0),S(1)"};
    weft_tensor *x = wt_whole(WEFT_F32, 4, 8, 12);

    WT_ALL(
        wt_near_tensors(weft_argmax(wt_spread(w, x, placed[k]), 1), weft_argmax(x, 1), WT_EXACT));
    WT_ALL(
        wt_near_tensors(weft_argmax_all(wt_spread(w, x, placed[k])), weft_argmax_all(x), WT_EXACT));
}

WT_TEST_IN_WORLD(places__send_two_numbers, w)
{
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 0, 40, 3), "S(0)");

    (void)weft_argmin(x, 0);
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 2);
}

/* ---- order ---- */

WT_TEST_IN_WORLD(sort__equals_one_device, w)
{
    for (int k = 0; k < 12; k++) {
        weft_tensor *x = weft_round(weft_mul_scalar(wt_whole3(WEFT_F32, 1, 5, 6, 7), 4));
        weft_tensor *at, *want_at, *y;
        int dim = k / 4;

        y = weft_sort(wt_spread(w, x, places[k % 4]), dim, k & 1, &at);
        WT_ALL(wt_near_tensors(y, weft_sort(x, dim, k & 1, &want_at), WT_EXACT));
        WT_ALL(wt_near_tensors(at, want_at, WT_EXACT));
        WT_ALL(wt_near_tensors(weft_argsort(wt_spread(w, x, places[k % 4]), dim, k & 1), want_at,
                               WT_EXACT));
    }
}

WT_TEST_IN_WORLD(sort__puts_nan_last_and_keeps_ties, w)
{
    float x[] = {2, NAN, -1, 2, INFINITY, -1};
    static const double up[] = {2, 5, 0, 3, 4, 1}, down[] = {1, 4, 0, 3, 2, 5};
    weft_tensor *t = weft_from_data(WEFT_F32, (int64_t[]){6}, 1, x);

    WT_ALL(wt_near_full(weft_argsort(wt_spread(w, t, "S(0)"), 0, false), up, WT_EXACT));
    WT_ALL(wt_near_full(weft_argsort(wt_spread(w, t, "S(0)"), 0, true), down, WT_EXACT));
}

/* ---- lists and meshes ---- */

/* MATH-15: members on different parts of a mesh */
WT_TEST_TIMES_IN(lists__on_parts_of_a_mesh, w, k, 2, wt_world_open_two_axes())
{
    weft_tensor *x = wt_whole(WEFT_F32, 0, k ? 5 : 12, 8), *y[2], *sum;
    weft_mesh *part[] = {wt_part(w, "dp"), wt_part(w, "tp")};
    const weft_placement rows = weft_shard(0);

    for (int i = 0; i < 2; i++) {
        y[i] = weft_distribute_tensor(x, part[i], &rows, -1);
        WT_ALL(weft_tensor_mesh(weft_norm(y[i], 2, NULL, 0, false)) == part[i]);
        IS_LIKE_PLAIN(weft_norm(y[i], 2, NULL, 0, false), weft_norm(x, 2, NULL, 0, false));
        IS_LIKE_PLAIN(weft_add(y[i], y[i]), weft_mul_scalar(x, 2));
    }
    sum = weft_add(y[0], y[1]);
    WT_ALL(!sum && weft_error_status() == WEFT_ERR_LAYOUT);
    WT_ALL(strstr(weft_error_message(), "different meshes") != NULL);
    weft_error_clear();
}

/* MATH-06 */
WT_TEST_TIMES_IN(arithmetic__on_two_axes, w, k, 4, wt_world_open_two_axes())
{
    weft_tensor *x = wt_constant(k < 2 ? 4 : 3, 4, 1);
    weft_tensor *s = wt_spread(w, x, k % 2 ? "S(0),S(1)" : "S(0),S(0)");

    weft_tensor *two = weft_full(WEFT_F32, NULL, 0, 2);
    weft_tensor *y[] = {weft_add_scalar(s, 2),   weft_add_scalar(s, -2), weft_mul_scalar(s, 2),
                        weft_mul_scalar(s, 0.5), weft_sub(s, two),       weft_div(s, two)};
    static const double want[] = {3, -1, 2, 0.5, -1, 0.5};

    WT_STILL(w);
    for (int i = 0; i < 6; i++) WT_ALL(wt_is_all(y[i], want[i]));
}

/* ---- gradients that go to one element, or leave one out ---- */

static void check_gradient(struct wt_world *w, weft_tensor *(*f)(weft_tensor *), weft_tensor *x)
{
    static const char *const placed[] = {"S(0)", "S(1)", "R"};
    weft_tensor *plain = weft_set_requires_grad(weft_detach(x), true);

    WT_ALL(weft_backward(f(plain)) == WEFT_OK);
    for (int p = 0; p < 3; p++) {
        weft_tensor *s = weft_set_requires_grad(wt_spread(w, x, placed[p]), true);

        wt_note("%s", placed[p]);
        WT_ALL(weft_backward(f(s)) == WEFT_OK);
        IS_LIKE_PLAIN(weft_grad(s), weft_grad(plain));
    }
}

static weft_tensor *product_by_rows(weft_tensor *x)
{
    int dim = 0;

    return weft_sum_all(weft_square(weft_prod(x, &dim, 1, false)));
}

static weft_tensor *maximum_by_columns(weft_tensor *x)
{
    weft_tensor *y = weft_max_with_index(x, 0, false, NULL);

    return weft_add(weft_sum_all(weft_square(y)),
                    weft_sum_all(weft_square(weft_min_with_index(x, 1, true, NULL))));
}

static weft_tensor *sorted(weft_tensor *x)
{
    weft_tensor *y = weft_sort(x, 0, true, NULL);

    return weft_sum_all(weft_mul(weft_cumsum(y, 1), weft_cumprod(y, 0)));
}

static weft_tensor *variances(weft_tensor *x)
{
    weft_tensor *mean, *var = weft_var_mean(x, (int[]){0}, 1, 1, true, &mean);

    return weft_add(weft_sum_all(weft_mul(var, weft_square(mean))),
                    weft_add(weft_std(x, NULL, 0, 0, false), weft_norm(x, 3, NULL, 0, false)));
}

WT_TEST_IN_WORLD(gradients__equal_one_device, w)
{
    float x[5][4];
    weft_tensor *t;

    for (int i = 0; i < 20; i++) x[i / 4][i % 4] = (float)((7 * i) % 11 - 4) / 3;
    x[1][0] = x[2][1] = x[4][1] = 0; /* a product with one 0, and one with two */
    t = weft_from_data(WEFT_F32, (int64_t[]){5, 4}, 2, x);
    check_gradient(w, product_by_rows, t);
    check_gradient(w, maximum_by_columns, t);
    check_gradient(w, sorted, t);
    check_gradient(w, variances, t);
}

/* By hand: of 2 * 0 * 3 only the zero's is not 0; of two zeros none; of ties the first has all. */
WT_TEST_IN_WORLD(gradients__by_hand, w)
{
    static const double of_zero[] = {0, 6, 0}, of_tie[] = {0, 1, 0};
    float x[] = {2, 0, 3}, y[] = {1, 5, 5};
    int64_t n = 3;
    weft_tensor *a =
        weft_set_requires_grad(wt_spread(w, weft_from_data(WEFT_F32, &n, 1, x), "S(0)"), true);
    weft_tensor *b =
        weft_set_requires_grad(wt_spread(w, weft_from_data(WEFT_F32, &n, 1, y), "S(0)"), true);

    WT_ALL(weft_backward(weft_prod(a, NULL, 0, false)) == WEFT_OK);
    WT_ALL(wt_near_full(weft_grad(a), of_zero, WT_EXACT));
    WT_ALL(weft_backward(weft_max_with_index(b, 0, false, NULL)) == WEFT_OK);
    WT_ALL(wt_near_full(weft_grad(b), of_tie, WT_EXACT));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "reductions"); }
