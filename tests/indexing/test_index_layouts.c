/*
 * test_index_layouts.c: index tensors, gather and scatter over layouts: values of one device, what
 * is sent, and where the result lies.
 */
/* mpi: 4 */
#include <stdlib.h>
#include <string.h>

#include "support/worlds.h"

#define SIZES(...) (const int64_t[]){__VA_ARGS__}, (int)(sizeof(int64_t[]){__VA_ARGS__} / 8)
#define INDEX(x, ...)                                                                              \
    weft_index((x), (weft_tensor *[]){__VA_ARGS__},                                                \
               (int)(sizeof(weft_tensor *[]){__VA_ARGS__} / sizeof(weft_tensor *)))

static weft_tensor *whole(const int64_t *shape, int ndim)
{
    int64_t n = 1;
    float *data;
    weft_tensor *t;

    for (int d = 0; d < ndim; d++) n *= shape[d];
    data = malloc(((size_t)n + 1) * sizeof *data);
    for (int64_t i = 0; i < n; i++) data[i] = (float)wt_element(0, i);
    t = weft_from_data(WEFT_F32, shape, ndim, data);
    free(data);
    return t;
}

/* Numbers below `below`, of i32 or i64. */
static weft_tensor *indices(weft_dtype dtype, int64_t below, const int64_t *shape, int ndim)
{
    int64_t n = 1, *data;
    weft_tensor *t;

    for (int d = 0; d < ndim; d++) n *= shape[d];
    data = malloc(((size_t)n + 1) * sizeof *data);
    for (int64_t i = 0; i < n; i++) data[i] = (7 * i * i + 3 * i + 1) % below;
    t = weft_from_data(WEFT_I64, shape, ndim, data);
    free(data);
    return weft_cast(t, dtype);
}

static weft_tensor *list(const int64_t *values, int64_t n)
{
    return weft_from_data(WEFT_I64, &n, 1, values);
}

static weft_tensor *on(struct wt_world *w, weft_tensor *t, int dim)
{
    weft_placement p[WEFT_MAX_AXES] = {dim < 0 ? weft_replicate() : weft_shard(dim)};

    return weft_distribute_tensor(t, w->mesh, p, -1);
}

static weft_tensor *sum_of_terms(struct wt_world *w, weft_tensor *whole_)
{
    const weft_placement p = weft_partial(WEFT_SUM);

    return weft_from_local(weft_drop_grad_types(weft_mul_scalar(whole_, weft_world_rank() == 0)),
                           w->mesh, &p, NULL);
}

/* ---- advanced indexing ---- */

typedef weft_tensor *indexing(weft_tensor *x, weft_tensor *y, weft_tensor *z);
#define EXPRESSION(name, expression)                                                               \
    static weft_tensor *name(weft_tensor *x, weft_tensor *y, weft_tensor *z)                       \
    {                                                                                              \
        (void)z;                                                                                   \
        return expression;                                                                         \
    }
EXPRESSION(first, INDEX(x, y))
EXPRESSION(select_0, weft_index_select(x, 0, y))
EXPRESSION(select_1, weft_index_select(x, 1, y))
EXPRESSION(second, INDEX(x, NULL, y))
EXPRESSION(last, INDEX(x, NULL, NULL, y))
EXPRESSION(two, INDEX(x, z, y))
EXPRESSION(two_apart, INDEX(x, z, NULL, y))
EXPRESSION(two_last, INDEX(x, NULL, z, NULL, y))
EXPRESSION(two_first_of_4, INDEX(x, z, y, NULL, NULL))
EXPRESSION(apart_of_4, INDEX(x, z, NULL, y, NULL))
EXPRESSION(ends_of_4, INDEX(x, z, NULL, NULL, y))

static const struct row {
    const char *name;
    indexing *f;
    int x_ndim, y_ndim, z_ndim;
    int64_t y[3], z[3];
    int64_t y_below, z_below;
} rows[] = {
    {"x[y]", first, 3, 2, 0, {4, 8}, {0}, 16, 1},
    {"index_select 0", select_0, 3, 1, 0, {4}, {0}, 16, 1},
    {"index_select 1", select_1, 3, 1, 0, {4}, {0}, 32, 1},
    {"x[y] list", first, 3, 1, 0, {12}, {0}, 16, 1},
    {"x[:,y]", second, 3, 2, 0, {4, 8}, {0}, 32, 1},
    {"x[...,y]", last, 3, 2, 0, {4, 12}, {0}, 16, 1},
    {"x[...,y] 3", last, 3, 3, 0, {4, 8, 16}, {0}, 16, 1},
    {"x[z,y]", two, 3, 3, 3, {12, 8, 12}, {12, 8, 12}, 32, 16},
    {"x[z,:,y]", two_apart, 3, 3, 3, {12, 8, 12}, {12, 8, 12}, 16, 16},
    {"x[:,z,:,y]", two_last, 4, 3, 3, {12, 8, 12}, {12, 8, 12}, 12, 32},
    {"x[z,y] broadcast", two, 3, 3, 3, {12, 8, 12}, {12, 1, 12}, 32, 16},
    {"x[z,y] padded", two, 3, 3, 2, {12, 8, 12}, {8, 12}, 32, 16},
    {"x[z,y,:,:]", two_first_of_4, 4, 3, 2, {12, 8, 12}, {8, 12}, 32, 16},
    {"x[z,:,y,:]", apart_of_4, 4, 3, 2, {12, 8, 12}, {8, 12}, 16, 16},
    {"x[z,:,:,y]", ends_of_4, 4, 3, 2, {12, 8, 12}, {8, 1}, 12, 16},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* TEN-22: all placements of all operands; on other numbers of ranks shards are uneven, which is
 * every third of them there */
WT_TEST_TIMES_IN_WORLD(index__is_that_of_one_device, w, i, ROWS)
{
    static const int64_t x_shape[] = {16, 32, 16, 12};
    const struct row *r = &rows[i];
    int64_t small[] = {8, 32, 16, 12};
    weft_tensor *x, *y, *z, *plain;
    double *want;
    int number = 0;

    memcpy(small, x_shape, sizeof small);
    x = whole(small, r->x_ndim);
    y = indices(i % 2 ? WEFT_I32 : WEFT_I64, r->y_below, r->y, r->y_ndim);
    z = indices(WEFT_I64, r->z_below, r->z, r->z_ndim);
    plain = r->f(x, y, z);
    want = wt_values(plain);
    for (int a = -1; a < r->x_ndim; a++)
        for (int b = -1; b < r->y_ndim; b++)
            for (int c = -1; c < r->z_ndim; c++) {
                weft_scope *scope;
                weft_tensor *got;

                if (c >= 0 && r->z[c] == 1) continue;
                if (weft_numel(plain) > 400000 && number++ % 5) continue;
                if (wt_ranks() != 4 && number++ % 3) continue;
                scope = weft_scope_open();
                wt_note("%s, placements %d %d %d", r->name, a, b, c);
                got = r->f(on(w, x, a), on(w, y, b), on(w, z, c));
                WT_ALL(got && weft_numel(got) == weft_numel(plain));
                WT_ALL(wt_near_full(got, want, WT_EXACT));
                weft_scope_close(scope);
            }
    free(want);
}

/* Of a dim that is cut each rank gives its elements; index dims are cut as a batch is. */
WT_TEST_IN_WORLD(index__sends_nothing, w)
{
    weft_tensor *x = whole(SIZES(13, 6, 5)), *y = indices(WEFT_I64, 13, SIZES(7, 2)), *got;
    weft_tensor *bytes = weft_cast(weft_ge(x, weft_full(WEFT_F32, NULL, 0, 0)), WEFT_U8);

    got = INDEX(on(w, x, 0), on(w, y, -1));
    WT_STILL(w);
    if (wt_ranks() > 1) WT_ALL(wt_is_placed(got, "P(masked)"));
    WT_ALL(wt_near_tensors(got, INDEX(x, y), WT_EXACT));
    weft_ledger_reset(w->ledger);
    got = INDEX(on(w, x, 2), on(w, y, -1));
    WT_STILL(w);
    WT_ALL(wt_is_placed(got, "S(3)"));
    got = INDEX(on(w, x, -1), on(w, y, 0));
    WT_STILL(w);
    WT_ALL(wt_is_placed(got, "S(0)"));
    got = INDEX(sum_of_terms(w, x), on(w, y, -1));
    WT_STILL(w);
    WT_ALL(wt_is_placed(got, "P"));
    got = INDEX(on(w, bytes, 0), on(w, y, -1)); /* bytes cannot be added up */
    if (wt_ranks() > 1) WT_EQ(wt_moved(w, WEFT_COLL_COUNT), 1);
    WT_ALL(wt_near_tensors(got, INDEX(bytes, y), WT_EXACT));
}

/* ---- gather and scatter ---- */

/* TEN-18: also cut in the other dim, and along the dim itself */
WT_TEST_IN_WORLD(scatter__puts_in_order, w)
{
    weft_tensor *zeros = weft_full(WEFT_I64, (int64_t[]){3, 5}, 2, 0), *src, *index, *got;
    int64_t numbers[10];

    for (int i = 0; i < 10; i++) numbers[i] = i + 1;
    src = weft_from_data(WEFT_I64, (int64_t[]){2, 5}, 2, numbers);
    for (int x = -1; x < 2; x++) {
        int64_t rows_[] = {0, 1, 2, 0}, columns[] = {0, 1, 2, 0, 1, 4};

        wt_note("placement %d", x);
        weft_ledger_reset(w->ledger);
        index = on(w, weft_from_data(WEFT_I64, (int64_t[]){1, 4}, 2, rows_), -1);
        got = weft_scatter(on(w, zeros, x), 0, index, on(w, src, -1));
        if (x <= 0)
            WT_STILL(w); /* values cover a part of dim 1 alone, so that is brought together */
        if (x < 0) WT_ALL(wt_is_placed(got, "R"));
        WT_ALL(
            wt_near_full(got, (double[]){1, 0, 0, 4, 0, 0, 2, 0, 0, 0, 0, 0, 3, 0, 0}, WT_EXACT));
        weft_ledger_reset(w->ledger);
        index = on(w, weft_from_data(WEFT_I64, (int64_t[]){2, 3}, 2, columns), -1);
        got = weft_scatter(on(w, zeros, x), 1, index, on(w, src, -1));
        if (x != 0) WT_STILL(w);
        WT_ALL(
            wt_near_full(got, (double[]){1, 2, 3, 0, 0, 6, 7, 0, 0, 8, 0, 0, 0, 0, 0}, WT_EXACT));
        weft_ledger_reset(w->ledger);
        got = weft_scatter_value(on(w, zeros, x), 1, index, 4);
        if (x != 0) WT_STILL(w);
        WT_ALL(
            wt_near_full(got, (double[]){4, 4, 4, 0, 0, 4, 4, 0, 0, 4, 0, 0, 0, 0, 0}, WT_EXACT));
    }
}

/* TEN-19, TEN-21, and the input cut along the dim */
WT_TEST_TIMES_IN_WORLD(gather__keeps_the_layout_of_the_index, w, dim, 3)
{
    weft_tensor *x = whole(SIZES(12, 8, 16)), *index = indices(WEFT_I64, 8, SIZES(4, 4, 8)), *got;
    char placed[16];

    got = weft_gather(on(w, x, -1), dim, on(w, index, -1));
    WT_STILL(w);
    WT_ALL(wt_is_placed(got, "R"));
    WT_ALL(wt_near_tensors(got, weft_gather(x, dim, index), WT_EXACT));
    weft_ledger_reset(w->ledger);
    got = weft_gather(on(w, x, -1), dim, on(w, index, dim));
    WT_STILL(w);
    snprintf(placed, sizeof placed, "S(%d)", dim);
    WT_ALL(wt_is_placed(got, placed));
    WT_ALL(wt_near_tensors(got, weft_gather(x, dim, index), WT_EXACT));
    weft_ledger_reset(w->ledger);
    index = indices(WEFT_I64, 8, (int64_t[]){12, 8, 16}, 3);
    got = weft_gather(on(w, x, dim), dim, on(w, index, -1));
    if (wt_ranks() > 1) WT_ALL(wt_is_placed(got, "P(masked)") || wt_is_placed(got, "R"));
    WT_ALL(wt_near_tensors(got, weft_gather(x, dim, index), WT_EXACT));
}

/* What is added may be cut along the dim: terms of a sum, in which x counts once. */
WT_TEST_IN_WORLD(scatter_add__of_shards_of_values_is_a_sum, w)
{
    weft_tensor *x = whole(SIZES(4, 6)), *v = whole(SIZES(4, 12)),
                *index = indices(WEFT_I64, 6, SIZES(4, 12)), *got;

    got = weft_scatter_add(on(w, x, -1), 1, on(w, index, 1), on(w, v, 1));
    WT_STILL(w);
    if (wt_ranks() > 1) WT_ALL(wt_is_placed(got, "P"));
    WT_ALL(wt_near_tensors(got, weft_scatter_add(x, 1, index, v), WT_WITHIN(1e-6)));
}

/* OPDB-03: reductions that PyTorch has no strategy for, with every operand cut in either dim */
WT_TEST_TIMES_IN_WORLD(scatter_reduce__is_that_of_one_device, w, i, 5 * 4)
{
    static const weft_reduce reductions[] = {WEFT_SUM, WEFT_AVG, WEFT_PRODUCT, WEFT_MAX, WEFT_MIN};
    weft_tensor *x = whole(SIZES(5, 6)), *v = whole(SIZES(5, 9)), *got, *plain;
    weft_tensor *index = indices(WEFT_I64, 6, SIZES(5, 9));
    weft_reduce reduce = reductions[i / 4];
    bool self = i % 2;
    int dim = i / 2 % 2;

    got = weft_scatter_reduce(on(w, x, dim), 1, on(w, index, dim), on(w, v, dim), reduce, self);
    plain = weft_scatter_reduce(x, 1, index, v, reduce, self);
    WT_ALL(wt_near_tensors(got, plain, WT_WITHIN(1e-6)));
}

/* ---- index_put ---- */

static struct wt_world two_axes(void)
{
    return wt_ranks() == 4 ? wt_world_open_mesh("dp=2,tp=2") : wt_world_open_two_axes();
}

static weft_tensor *on_two(struct wt_world *w, weft_tensor *t, const char *placements)
{
    return wt_spread(w, t, placements);
}

/* TEN-23: a single element, all nine pairs. The result keeps the shards, where PyTorch makes it
 * [R,R]: fewer messages, none at all (docs/decisions/0053). */
WT_TEST_IN(index_put__of_a_single_element_sends_nothing, w, two_axes())
{
    static const char *const names[] = {"S(0)", "S(1)", "R"};
    weft_tensor *x = whole(SIZES(2, 4, 8)), *plain, *got;
    weft_tensor *at[] = {list((int64_t[]){1}, 1), list((int64_t[]){2}, 1), list((int64_t[]){5}, 1)};
    weft_tensor *value = weft_full(WEFT_F32, NULL, 0, 7);

    plain = weft_index_put(x, at, 3, value, false);
    WT_ALL(weft_item(weft_select(weft_select(weft_select(plain, 0, 1), 0, 2), 0, 5)) == 7);
    for (int k = 0; k < 9; k++) {
        char placements[16];
        weft_tensor *index[3];

        snprintf(placements, sizeof placements, "%s %s", names[k / 3], names[k % 3]);
        wt_note("%s", placements);
        for (int i = 0; i < 3; i++) index[i] = on_two(w, at[i], "R R");
        got = on_two(w, x, placements);
        weft_ledger_reset(w->ledger);
        got = weft_index_put(got, index, 3, value, false);
        WT_STILL(w);
        WT_ALL(wt_is_placed(got, placements));
        WT_ALL(wt_near_tensors(got, plain, WT_EXACT));
    }
}

/* TEN-24: whole rows; a shard of the result is on the values' dims, or on the one that is indexed,
 * which needs no message (docs/decisions/0053) */
WT_TEST_IN(index_put__of_rows, w, two_axes())
{
    weft_tensor *x = whole(SIZES(2, 4, 8)), *got;
    weft_tensor *zeros = weft_full(WEFT_F32, (int64_t[]){4, 8}, 2, 0);

    for (int add = 0; add < 2; add++) {
        weft_tensor *row = list((int64_t[]){1}, 1);
        weft_tensor *plain = weft_index_put(x, &row, 1, zeros, add);
        weft_tensor *on_mesh = on_two(w, row, "R R");

        got = weft_index_put(on_two(w, x, "S(0) R"), &on_mesh, 1, on_two(w, zeros, "S(1) R"), add);
        WT_ALL(got && !weft_is_partial(weft_tensor_placement(got, 0)));
        WT_ALL(wt_near_tensors(got, plain, WT_EXACT));
    }
}

/* TEN-25: a sharded list of indices; the input cut in the dim that it counts */
WT_TEST_IN_WORLD(index_put__brings_indices_together, w)
{
    weft_tensor *x = whole(SIZES(6, 5)), *v = whole(SIZES(2, 5)), *row, *got;
    weft_tensor *at = list((int64_t[]){0, 1}, 2), *plain = weft_index_put(x, &at, 1, v, false);

    for (int k = 0; k < 2 * 3; k++) {
        wt_note("x %d, add %d", k % 3 - 1, k / 3);
        row = on(w, at, 0);
        got = weft_index_put(on(w, x, k % 3 - 1), &row, 1, on(w, v, -1), k / 3);
        WT_ALL(wt_near_tensors(got, k / 3 ? weft_index_put(x, &at, 1, v, true) : plain, WT_EXACT));
    }
}

/* TEN-27, and the last of several in every layout */
WT_TEST_IN_WORLD(index_put__of_one_place_twice, w)
{
    weft_tensor *zeros = weft_full(WEFT_F32, (int64_t[]){4, 8}, 2, 0), *row, *got;
    weft_tensor *ones = weft_full(WEFT_F32, (int64_t[]){3, 8}, 2, 1);
    weft_tensor *values =
        weft_mul(ones, weft_from_data(WEFT_F32, (int64_t[]){3, 1}, 2, (float[]){5, 6, 7}));
    double want[32] = {0};

    row = on(w, list((int64_t[]){1, 1, 2}, 3), -1);
    for (int i = 8; i < 24; i++) want[i] = 1;
    got = weft_index_put(on(w, zeros, 1), &row, 1, on(w, ones, 1), false);
    WT_STILL(w);
    WT_ALL(wt_is_placed(got, "S(1)"));
    WT_ALL(wt_near_full(got, want, WT_EXACT));
    for (int i = 8; i < 16; i++) want[i] = 2;
    got = weft_index_put(on(w, zeros, 1), &row, 1, on(w, ones, 1), true);
    WT_ALL(wt_near_full(got, want, WT_EXACT));
    for (int i = 8; i < 24; i++) want[i] = i < 16 ? 6 : 7;
    for (int k = 0; k < 9; k++) {
        wt_note("layouts %d", k);
        got = weft_index_put(on(w, zeros, k % 3 - 1), &row, 1, on(w, values, k / 3 - 1), false);
        WT_ALL(wt_near_full(got, want, WT_EXACT));
    }
}

/* ---- dtypes and refusals ---- */

/* Every dtype goes through; sums of 16-bit floats are rounded once. */
WT_TEST_TIMES_IN_WORLD(dtypes__all_are_taken, w, dtype, WEFT_C64)
{
    weft_tensor *x = weft_cast(weft_mul_scalar(whole(SIZES(5, 6)), 9), (weft_dtype)dtype);
    weft_tensor *index = indices(WEFT_I64, 5, SIZES(7, 6)), *at = indices(WEFT_I64, 5, SIZES(4)),
                *t;
    double sum = dtype == WEFT_BOOL ? 1 : 257;
    weft_tensor *many = weft_full((weft_dtype)dtype, (int64_t[]){257}, 1, 1);
    weft_tensor *zero = weft_full((weft_dtype)dtype, (int64_t[]){1}, 1, 0);
    weft_tensor *places = weft_full(WEFT_I64, (int64_t[]){257}, 1, 0);

    for (int d = -1; d < 2; d++) {
        wt_note("%s, dim %d", weft_dtype_name((weft_dtype)dtype), d);
        t = weft_gather(on(w, x, d), 0, on(w, index, -1));
        WT_ALL(wt_near_tensors(t, weft_gather(x, 0, index), WT_EXACT));
        t = weft_index_select(on(w, x, d), 0, on(w, at, -1));
        WT_ALL(wt_near_tensors(t, weft_index_select(x, 0, at), WT_EXACT));
        t = weft_scatter(on(w, x, d), 0, on(w, index, -1), on(w, weft_gather(x, 0, index), -1));
        WT_ALL(t && weft_tensor_dtype(t) == (weft_dtype)dtype);
    }
    if (dtype == WEFT_BF16) sum = 256;                 /* 257 has nine bits */
    if (dtype == WEFT_U8 || dtype == WEFT_I8) sum = 1; /* 257 modulo 256 */
    WT_ALL(wt_is_all(weft_scatter_add(zero, 0, places, many), sum));
    WT_ALL(wt_is_all(weft_index_add(zero, 0, places, many), sum));
}

/* OPDB-04 is a row of test_torch_values.c; here that the classes may be cut. */
WT_TEST_IN_WORLD(one_hot__of_shards, w)
{
    weft_tensor *index = indices(WEFT_I32, 9, SIZES(7, 4)), *got;

    for (int d = -1; d < 2; d++) {
        got = weft_one_hot(on(w, index, d), 9);
        WT_STILL(w);
        WT_ALL(wt_has_shape(got, 3, 7, 4, 9) && weft_tensor_dtype(got) == WEFT_I64);
        WT_ALL(wt_near_tensors(got, weft_one_hot(index, 9), WT_EXACT));
        weft_ledger_reset(w->ledger);
    }
}

/* Counts of the parts of a sorted row add up. */
WT_TEST_IN_WORLD(search_sorted__in_a_row_that_is_cut, w)
{
    int64_t numbers[11] = {-9, -4, -4, 0, 1, 1, 1, 5, 8, 8, 30}, values[] = {-10, -4, 1, 2, 8, 31};
    weft_tensor *row = list(numbers, 11), *v = list(values, 6), *got;

    got = weft_search_sorted(on(w, row, 0), on(w, v, -1), false);
    WT_STILL(w);
    if (wt_ranks() > 1) WT_ALL(wt_is_placed(got, "P"));
    WT_ALL(wt_near_full(got, (double[]){0, 1, 4, 7, 8, 11}, WT_EXACT));
    got = weft_bucketize(on(w, v, 0), on(w, row, -1), true);
    WT_ALL(wt_near_full(got, (double[]){0, 3, 7, 7, 10, 11}, WT_EXACT));
}

/* Tensors without elements go the same ways, and so do their gradients. */
WT_TEST_IN_WORLD(meta__has_the_same_layouts, w)
{
    weft_device before = weft_set_default_device(WEFT_META);
    weft_tensor *x = weft_empty(WEFT_F32, (int64_t[]){6, 5}, 2), *y, *index;

    index = on(w, weft_empty(WEFT_I64, (int64_t[]){4}, 1), -1);
    weft_set_default_device(before);
    for (int d = -1; d < 2; d++) {
        weft_tensor *s = weft_set_requires_grad(weft_detach(on(w, x, d)), true);

        wt_note("dim %d", d);
        y = weft_index_select(weft_flip(s, (int[]){0}, 1), 1, index);
        WT_ALL(wt_has_shape(y, 2, 6, 4) && weft_tensor_device(y) == WEFT_META);
        y = weft_index_put(y, &index, 1, weft_select(y, 0, 0), false);
        y = weft_pad(y, (int64_t[]){1, 1}, 1, WEFT_PAD_REFLECT, 0);
        y = weft_scatter_value(y, 0, weft_unsqueeze(index, 1), 2);
        WT_ALL(wt_has_shape(y, 2, 6, 6));
        WT_EQ(weft_backward(weft_sum_all(y)), WEFT_OK);
        WT_ALL(wt_has_shape(weft_grad(s), 2, 6, 5));
        WT_ALL(wt_has_shape(weft_one_hot(index, 3), 2, 4, 3));
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "index layouts"); }
