/*
 * test_partial.c: values that are terms on several ranks. Traps 6, 7, 8, 9 and 28 and weaknesses
 * 10.4-4, 5, 6, 7, 8 and 14 of other libraries: what passes a partial tensor and what may not,
 * a bias that counts once, embeddings over sharded rows, means over uneven shards.
 */
#include <math.h>
#include <stdlib.h>

#include "support/worlds.h"

static weft_tensor *leaf(weft_tensor *t) { return weft_set_requires_grad(t, true); }

static weft_tensor *vector(weft_dtype dtype, int which, int64_t n)
{
    return weft_reshape(wt_whole(dtype, which, 1, n), &n, 1);
}

/* Leaves may not be views of others. */
static weft_tensor *copy(weft_tensor *t)
{
    return weft_tensor_mesh(t) ? NULL : weft_mul_scalar(weft_detach(t), 1);
}

/* ---- a bias counts once ---- */

/* Trap 6: in value and in gradient, for any sizes, and with two axes that each leave a term. */
static void check_rowwise(struct wt_world *w, const char *x_at, const char *weight_at,
                          const char *bias_at, int64_t in, int64_t out)
{
    weft_tensor *x = wt_whole(WEFT_F64, 0, 3, in), *weight = leaf(wt_whole(WEFT_F64, 1, out, in));
    weft_tensor *bias = leaf(copy(vector(WEFT_F64, 2, out))), *y, *z;
    weft_tensor *spread[] = {wt_spread(w, weight, weight_at), wt_spread(w, bias, bias_at)};

    y = weft_linear(x, weight, bias, 1);
    z = weft_linear(wt_spread(w, x, x_at), spread[0], spread[1], 1);
    WT_ALL(wt_near_tensors(z, y, WT_WITHIN(1e-13)));
    WT_ALL(weft_backward(weft_sum_all(weft_square(y))) == WEFT_OK);
    WT_ALL(weft_backward(weft_sum_all(weft_square(z))) == WEFT_OK);
    WT_ALL(wt_near_tensors(weft_grad(spread[0]), weft_grad(weight), WT_WITHIN(1e-12)));
    WT_ALL(wt_near_tensors(weft_grad(spread[1]), weft_grad(bias), WT_WITHIN(1e-12)));
    WT_ALL(wt_is_placed(weft_grad(spread[1]), bias_at));
}

WT_TEST(bias__of_a_rowwise_layer_counts_once)
{
    const int64_t sizes[][2] = {{8, 4}, {7, 5}, {2, 1}, {1, 3}, {0, 3}};

    for (int i = 0; i < 5; i++) {
        struct wt_world w = wt_world_open();

        check_rowwise(&w, "S(1)", "S(1)", "R", sizes[i][0], sizes[i][1]);
        check_rowwise(&w, "S(1)", "S(1)", "S(0)", sizes[i][0], sizes[i][1]);
        wt_world_close(&w);
        w = wt_world_open_mesh("a=%d,b=%d", wt_ranks() % 2 ? 1 : 2,
                               wt_ranks() / (wt_ranks() % 2 ? 1 : 2));
        check_rowwise(&w, "S(1),S(1)", "S(1),S(1)", "R,R", sizes[i][0], sizes[i][1]);
        check_rowwise(&w, "S(0),S(1)", "R,S(1)", "R,R", sizes[i][0], sizes[i][1]);
        wt_world_close(&w);
    }
}

/* ---- what a partial tensor passes ---- */

enum { FORMS = 16 };

/* Each of them would be wrong if it were done term by term. */
static weft_tensor *form(int i, weft_tensor *p, weft_tensor *q)
{
    switch (i) {
    case 0:
        return weft_add_scalar(p, 3);
    case 1:
        return weft_mul(p, q);
    case 2:
        return weft_mul(p, p);
    case 3:
        return weft_div(p, weft_add_scalar(weft_square(q), 1));
    case 4:
        return weft_rdiv_scalar(weft_add_scalar(weft_square(p), 1), 2);
    case 5:
        return weft_relu(weft_sub(p, q));
    case 6:
        return weft_maximum(p, weft_neg(q));
    case 7:
        return weft_where(weft_gt(p, q), p, weft_mul_scalar(q, -3));
    case 8:
        return weft_softmax(p, 1);
    case 9:
        return weft_amax(weft_mul_scalar(p, -1), (int[]){0}, 1, false);
    case 10:
        return weft_mul_scalar(p, -2);
    case 11:
        return weft_add(p, q);
    case 12:
        return weft_matmul_t(p, q, false, true);
    case 13:
        return weft_sum(p, (int[]){1}, 1, true);
    case 14:
        return weft_cat((weft_tensor *[]){p, q}, 2, 0);
    default:
        return weft_linear(p, q, NULL, 1);
    }
}

/* Trap 7, weakness 10.4-7: sums, averages, maxima, minima and products that are partial, through
 * everything, give what the reduced value gives. */
static void check_forms(struct wt_world *w, weft_reduce reduce)
{
    weft_placement partial[] = {weft_partial(reduce), weft_partial(reduce)};
    weft_tensor *terms[2], *reduced[2];

    for (int i = 0; i < 2; i++) {
        terms[i] = weft_add_scalar(wt_whole(WEFT_F64, 5 * i + wt_rank() + 1, 4, 3), 0.125);
        terms[i] = weft_from_local(terms[i], w->mesh, partial, NULL);
        reduced[i] = wt_to(terms[i], "R,R");
    }
    for (int i = 0; i < FORMS; i++) {
        weft_tensor *y = form(i, terms[0], terms[1]);

        WT_ALL(wt_near_tensors(y, form(i, reduced[0], reduced[1]), WT_WITHIN(1e-12)));
        y = form(i, terms[0], reduced[1]);
        WT_ALL(wt_near_tensors(y, form(i, reduced[0], reduced[1]), WT_WITHIN(1e-12)));
        y = form(i, reduced[0], terms[1]);
        WT_ALL(wt_near_tensors(y, form(i, reduced[0], reduced[1]), WT_WITHIN(1e-12)));
    }
}

WT_TEST_TIMES_IN(partial__is_reduced_where_terms_would_not_do, w, i, 5,
                 wt_world_open_mesh("one=1,tp=%d", wt_ranks()))
{
    static const weft_reduce all[] = {WEFT_SUM, WEFT_AVG, WEFT_MAX, WEFT_MIN, WEFT_PRODUCT};

    check_forms(w, all[i]);
}

/* Trap 7: the average over uneven shards is not the average of the shards' averages. */
WT_TEST_TIMES_IN_WORLD(mean__over_uneven_shards, w, i, 5)
{
    int64_t rows = 1 + 2 * i;
    weft_tensor *plain = leaf(wt_whole(WEFT_F64, 0, rows, 3));
    weft_tensor *x = wt_spread(w, plain, "S(0)");
    weft_tensor *y = weft_mean(x, (int[]){0}, 1, false);

    WT_ALL(wt_near_tensors(y, weft_mean(plain, (int[]){0}, 1, false), WT_WITHIN(1e-14)));
    WT_ALL(weft_backward(weft_mean_all(weft_square(plain))) == WEFT_OK);
    WT_ALL(weft_backward(weft_mean_all(weft_square(x))) == WEFT_OK);
    WT_ALL(wt_near_tensors(weft_grad(x), weft_grad(plain), WT_WITHIN(1e-14)));
}

/* Trap 28: a loss over a batch that splits unevenly, with targets that do not count, which also
 * split unevenly, down to ranks without any. */
WT_TEST_TIMES_IN_WORLD(loss__over_uneven_batches_counts_targets, w, k, 5)
{
    int64_t rows = 1 + 2 * k;
    weft_tensor *plain = leaf(wt_whole(WEFT_F64, 0, rows, 5)), *index, *y, *z;
    weft_tensor *x = wt_spread(w, plain, "S(0)");
    int32_t targets[9];

    for (int i = 0; i < rows; i++) targets[i] = i % 4 == 1 ? -1 : i * 3 % 5;
    index = weft_from_data(WEFT_I32, &rows, 1, targets);
    y = weft_cross_entropy(plain, index, -1);
    z = weft_cross_entropy(x, wt_spread(w, index, "S(0)"), -1);
    WT_ALL(wt_near_tensors(z, y, WT_WITHIN(1e-13)));
    WT_ALL(weft_backward(y) == WEFT_OK && weft_backward(z) == WEFT_OK);
    WT_ALL(wt_near_tensors(weft_grad(x), weft_grad(plain), WT_WITHIN(1e-13)));
}

/* Weakness 10.4-8: integers that are a partial sum stay integers, to the last one. */
WT_TEST_TIMES_IN_WORLD(partial__integers_stay_exact, w, i, 2)
{
    const int64_t big = (1ll << 53) + 1, values[] = {big, -7, 3};
    weft_tensor *t = weft_from_data(WEFT_I64, (int64_t[]){3}, 1, values);

    t = i == 0 ? wt_spread(w, t, "P") : wt_to(wt_spread(w, t, "S(0)"), "P");
    WT_ALL(t && wt_is_placed(t, "P") && weft_tensor_dtype(t) == WEFT_I64);
    t = wt_to(t, "R");
    WT_EQ(weft_tensor_dtype(t), WEFT_I64);
    for (int k = 0; k < 3; k++) WT_EQ(((int64_t *)weft_data(t))[k], values[k]);
}

/* Weakness 10.4-14: views and copies, and casts of maxima, of what is partial send nothing,
 * whatever the reduction. */
WT_TEST_TIMES_IN_WORLD(partial__passes_views_and_copies, w, i, 5)
{
    static const weft_reduce all[] = {WEFT_SUM, WEFT_AVG, WEFT_MAX, WEFT_MIN, WEFT_PRODUCT};
    static const char *const names[] = {"P", "P(avg)", "P(max)", "P(min)", "P(product)"};
    weft_tensor *t = wt_partial(w, wt_whole(WEFT_F64, 1 + wt_rank(), 4, 6), all[i]), *y;

    y = weft_contiguous(weft_transpose(t, 0, 1));
    y = weft_reshape(weft_slice(y, 0, 1, 5), (int64_t[]){2, 2, 4}, 3);
    y = weft_detach(
        weft_expand(weft_reshape(y, (int64_t[]){2, 1, 2, 4}, 4), (int64_t[]){2, 3, 2, 4}, 4));
    WT_ALL(wt_is_placed(y, names[i]));
    y = weft_cat((weft_tensor *[]){y, weft_slice(y, 1, 0, 1)}, 2, 1);
    WT_ALL(wt_is_placed(y, names[i]));
    if (all[i] == WEFT_MAX || all[i] == WEFT_MIN) { /* rounding keeps the order */
        y = weft_cast(weft_cast(y, WEFT_BF16), WEFT_I32);
        WT_ALL(wt_is_placed(y, names[i]));
    }
    WT_STILL(w);
}

/* ---- embeddings over sharded rows ---- */

static weft_tensor *indices(int64_t n, int64_t limit, int step)
{
    int32_t data[32];

    for (int i = 0; i < n; i++) data[i] = (int32_t)((i * step + 1) % limit);
    return weft_from_data(WEFT_I32, &n, 1, data);
}

/* Trap 8, weaknesses 10.4-4 and 6: ranks without rows take part, indices may be sharded, and the
 * gradient has the table's layout: nobody holds all of it. */
WT_TEST_TIMES_IN_WORLD(embedding__over_any_rows, w, k, 5)
{
    int64_t rows = 1 + 2 * k;
    weft_tensor *plain = leaf(wt_whole(WEFT_F64, 0, rows, 3)), *index = indices(7, rows, 3), *y;
    weft_tensor *table = wt_spread(w, plain, "S(0)");

    for (int i = 0; i < 2; i++) {
        y = weft_embedding(table, wt_spread(w, index, i ? "S(0)" : "R"));
        WT_ALL(wt_near_tensors(y, weft_embedding(plain, index), WT_EXACT));
        WT_ALL(weft_backward(weft_sum_all(weft_square(y))) == WEFT_OK);
        WT_ALL(weft_backward(weft_sum_all(weft_square(weft_embedding(plain, index)))) == WEFT_OK);
    }
    WT_EQ(weft_local_size(weft_grad(table), 0), weft_local_size(table, 0));
    WT_ALL(wt_is_placed(weft_grad(table), "S(0)"));
    WT_ALL(wt_near_tensors(weft_grad(table), weft_grad(plain), WT_WITHIN(1e-14)));
}

/* Weakness 10.4-5: two lookups of the same shape that are partial at the same time. */
WT_TEST_IN_WORLD(embedding__two_at_once, w)
{
    weft_tensor *plain = wt_whole(WEFT_F64, 0, 5, 3), *table = wt_spread(w, plain, "S(0)");
    weft_tensor *one = indices(6, 5, 1), *two = indices(6, 5, 2), *a, *b;

    a = weft_embedding(table, wt_spread(w, one, "R"));
    b = weft_embedding(table, wt_spread(w, two, "R"));
    WT_STILL(w);
    WT_ALL(wt_near_tensors(weft_sub(a, b),
                           weft_sub(weft_embedding(plain, one), weft_embedding(plain, two)),
                           WT_EXACT));
    wt_moved(w, WEFT_COLL_COUNT);
    WT_ALL(wt_near_tensors(b, weft_embedding(plain, two), WT_EXACT));
    WT_ALL(wt_near_tensors(a, weft_embedding(plain, one), WT_EXACT));
}

/* ---- empty shards ---- */

/* Weakness 10.4-4: fewer rows than ranks. */
WT_TEST_TIMES_IN_WORLD(empty_shards__in_reductions_and_losses, w, i, 4)
{
    int64_t rows = 1 + i;
    weft_tensor *plain = leaf(wt_whole(WEFT_F64, 0, rows, rows)), *y, *z;
    weft_tensor *x = wt_spread(w, plain, "S(0)"), *columns = wt_spread(w, plain, "S(1)");
    weft_tensor *index = indices(rows, rows, 3);

    WT_ALL(wt_near_tensors(weft_amax(x, (int[]){0}, 1, false),
                           weft_amax(plain, (int[]){0}, 1, false), WT_EXACT));
    y = weft_sum_all(weft_square(weft_amax(plain, (int[]){0}, 1, false)));
    z = weft_sum_all(weft_square(weft_amax(x, (int[]){0}, 1, false)));
    WT_ALL(weft_backward(y) == WEFT_OK && weft_backward(z) == WEFT_OK);
    WT_ALL(wt_near_tensors(weft_grad(x), weft_grad(plain), WT_WITHIN(1e-14)));
    WT_ALL(wt_near_tensors(weft_sum(x, (int[]){0}, 1, false), weft_sum(plain, (int[]){0}, 1, false),
                           WT_WITHIN(1e-14)));
    weft_zero_grad(plain);
    wt_moved(w, WEFT_COLL_COUNT);
    z = weft_cross_entropy(columns, wt_spread(w, index, "R"), -1);
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 2);
    y = weft_cross_entropy(plain, index, -1);
    WT_ALL(wt_near_tensors(z, y, WT_WITHIN(1e-13)));
    wt_moved(w, WEFT_COLL_COUNT);
    WT_ALL(weft_backward(y) == WEFT_OK && weft_backward(z) == WEFT_OK);
    WT_STILL(w);
    WT_ALL(wt_near_tensors(weft_grad(columns), weft_grad(plain), WT_WITHIN(1e-13)));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "partial"); }
