/*
 * test_embedding_layouts.c: tables cut by columns and by rows: forward and backward send nothing,
 * results and gradients are those of one device.
 */
/* mpi: 4 */
#include <stdlib.h>

#include "support/worlds.h"

struct lookup {
    int64_t rows, columns;
    int ndim;
    int64_t shape[5];
    int64_t padding; /* -1: none */
};

static weft_tensor *table_of(const struct lookup *l)
{
    return wt_whole(WEFT_F32, 0, l->rows, l->columns);
}

static weft_tensor *index_of(const struct lookup *l, int64_t below)
{
    int64_t n = 1, *data;
    weft_tensor *t;

    for (int d = 0; d < l->ndim; d++) n *= l->shape[d];
    data = malloc(((size_t)n + 1) * sizeof *data);
    for (int64_t i = 0; i < n; i++) data[i] = (7 * i * i + 3 * i + 1) % below;
    t = weft_from_data(WEFT_I64, l->shape, l->ndim, data);
    free(data);
    return t;
}

static weft_tensor *look_up(const struct lookup *l, weft_tensor *table, weft_tensor *index)
{
    weft_embedding_options options = {.padding_idx = l->padding < 0 ? 0 : l->padding};

    return weft_embedding_with(table, index, options);
}

/* The gradient of the table from weights that are the result of one device. */
static void check_gradients(struct wt_world *w, weft_tensor *table, weft_tensor *got,
                            weft_tensor *plain_table, weft_tensor *plain)
{
    weft_tensor *weights = weft_detach(plain);

    WT_EQ(weft_backward(weft_sum_all(weft_mul(plain, weights))), WEFT_OK);
    weights = wt_spread(w, weights, "R");
    weft_ledger_reset(w->ledger);
    WT_EQ(weft_backward_from(got, weights), WEFT_OK);
    WT_STILL(w);
    WT_ALL(wt_near_tensors(weft_grad(table), weft_grad(plain_table), WT_WITHIN(2e-5)));
}

static void check(struct wt_world *w, const struct lookup *l, const char *placed,
                  const char *result)
{
    weft_tensor *whole = weft_set_requires_grad(table_of(l), true), *index = index_of(l, l->rows);
    weft_tensor *plain = look_up(l, whole, index), *table, *got;

    table = weft_set_requires_grad(weft_detach(wt_spread(w, table_of(l), placed)), true);
    index = wt_spread(w, index, "R");
    weft_ledger_reset(w->ledger);
    got = look_up(l, table, index);
    WT_STILL(w);
    if (wt_ranks() > 1) WT_ALL(wt_is_placed(got, result));
    WT_ALL(wt_near_tensors(got, plain, WT_EXACT));
    check_gradients(w, table, got, whole, plain);
}

/* EMB-01; on three ranks 16 columns are uneven too */
WT_TEST_TIMES_IN_WORLD(embedding__by_columns, w, i, 5)
{
    static const struct lookup lookups[] = {{17, 12, 2, {5, 4}, -1},
                                            {21, 11, 3, {6, 7, 6}, -1},
                                            {23, 13, 4, {8, 6, 5, 4}, -1},
                                            {23, 16, 5, {8, 6, 5, 4, 7}, -1},
                                            {15, 14, 1, {4}, -1}};
    char result[8];

    snprintf(result, sizeof result, "S(%d)", lookups[i].ndim);
    check(w, &lookups[i], "S(1)", result);
}

/* EMB-04; OPDB-03: of 5 rows over 4 and 8 ranks some have none */
WT_TEST_TIMES_IN_WORLD(embedding__by_rows, w, i, 5)
{
    static const struct lookup lookups[] = {{16, 22, 2, {5, 12}, -1},
                                            {13, 22, 3, {6, 7, 6}, -1},
                                            {15, 14, 1, {34}, 10},
                                            {5, 3, 2, {4, 6}, -1},
                                            {2, 3, 1, {9}, -1}};

    if (wt_ranks() == 4 && i < 3) {
        static const int64_t local[3][4] = {{4, 4, 4, 4}, {4, 4, 4, 1}, {4, 4, 4, 3}};

        WT_ALL(weft_local_size(wt_spread(w, table_of(&lookups[i]), "S(0)"), 0) ==
               local[i][weft_world_rank()]);
    }
    check(w, &lookups[i], "S(0)", "P(masked)");
}

/* EMB-05, EMB-07, also 11 rows */
WT_TEST_TIMES_IN_WORLD(embedding__by_rows_is_reduced_once, w, i, 2)
{
    struct lookup l = {i ? 11 : 10, 20, 2, {8, 8}, -1};
    weft_tensor *index = wt_spread(w, index_of(&l, l.rows), "R"), *got, *once, *again;

    got = weft_embedding(wt_spread(w, table_of(&l), "S(0)"), index);
    if (wt_ranks() > 1) WT_ALL(wt_is_placed(got, "P(masked)"));
    weft_ledger_reset(w->ledger);
    once = weft_full_tensor(got);
    if (wt_ranks() > 1) WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
    again = weft_full_tensor(got);
    WT_ALL(wt_near_tensors(once, weft_embedding(table_of(&l), index_of(&l, l.rows)), WT_EXACT));
    WT_ALL(wt_near_tensors(again, once, WT_EXACT));
}

/* EMB-09: what the other ranks add is 0; a row that stands twice has twice the gradient. Also 20
 * rows */
WT_TEST_TIMES_IN_WORLD(embedding__of_one_ranks_rows, w, i, 2)
{
    int64_t rows = i ? 20 : 16, at[] = {0, 3, 3, 1, 3};
    weft_tensor *table = weft_set_requires_grad(
        weft_detach(wt_spread(w, wt_whole(WEFT_F32, 0, rows, 4), "S(0)")), true);
    weft_tensor *index = wt_spread(w, weft_from_data(WEFT_I64, (int64_t[]){5}, 1, at), "R"), *got;
    int64_t own = weft_chunk_size(rows, wt_ranks(), weft_world_rank());
    int64_t first = weft_chunk_offset(rows, wt_ranks(), weft_world_rank());
    double want[20 * 4] = {0};

    got = weft_embedding(table, index);
    if (first > 3 || own == 0)
        WT_ALL(wt_ranks() == 1 || wt_local_is_all(got, 0));
    else
        WT_ALL(wt_ranks() == 1 || !wt_local_is_all(got, 0) || first > 0);
    WT_EQ(weft_backward_from(got, wt_spread(w, weft_full(WEFT_F32, (int64_t[]){5, 4}, 2, 1), "R")),
          WEFT_OK);
    for (int k = 0; k < 5; k++)
        for (int c = 0; c < 4; c++) want[4 * at[k] + c] += 1;
    WT_ALL(wt_near_full(weft_grad(table), want, WT_EXACT));
}

/* EMB-12, at other sizes too */
WT_TEST_TIMES_IN(embedding__of_a_batch_over_a_vocabulary, w, i, 2, wt_world_open_two_axes())
{
    struct lookup l = {i ? 13 : 16, 6, 2, {i ? 7 : 4, 5}, -1};
    weft_tensor *whole = weft_set_requires_grad(table_of(&l), true), *got, *table;
    weft_tensor *plain = weft_embedding(whole, index_of(&l, l.rows)), *weights;

    table = weft_set_requires_grad(weft_detach(wt_spread(w, table_of(&l), "R S(0)")), true);
    got = wt_spread(w, index_of(&l, l.rows), "S(0) R");
    weft_ledger_reset(w->ledger);
    got = weft_embedding(table, got);
    WT_STILL(w);
    if (wt_ranks() == 4) WT_ALL(wt_is_placed(got, "S(0) P(masked)"));
    WT_ALL(wt_near_tensors(got, plain, WT_EXACT));
    weights = wt_spread(w, weft_detach(plain), "S(0) R");
    WT_EQ(weft_backward(weft_sum_all(weft_mul(plain, weft_detach(plain)))), WEFT_OK);
    weft_ledger_reset(w->ledger);
    WT_EQ(weft_backward_from(got, weights), WEFT_OK);
    WT_STILL(w);
    WT_ALL(weft_grad(table) != NULL); /* reading it reduces what was partial over the batch */
    if (wt_ranks() == 4) WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
    WT_ALL(wt_near_tensors(weft_grad(table), weft_grad(whole), WT_WITHIN(2e-5)));
}

/* EMB-03, of plain tables too */
WT_TEST_IN_WORLD(embedding__with_max_norm_is_refused, w)
{
    weft_embedding_options options = {.max_norm = 2};
    weft_tensor *table = wt_whole(WEFT_F32, 0, 8, 4);
    weft_tensor *index = weft_from_data(WEFT_I64, (int64_t[]){2}, 1, (int64_t[]){1, 2});

    for (int k = 0; k < 3; k++) {
        static const char *const names[] = {"S(0)", "S(1)", "R"};

        WT_FAILS(
            weft_embedding_with(wt_spread(w, table, names[k]), wt_spread(w, index, "R"), options)
                ? WEFT_OK
                : weft_error_status(),
            WEFT_ERR_ARG, "does not have a sharding strategy");
        weft_error_clear();
    }
    WT_FAILS(weft_embedding_with(table, index, options) ? WEFT_OK : weft_error_status(),
             WEFT_ERR_ARG, "max_norm");
    weft_error_clear();
}

int main(int argc, char **argv) { return wt_main(argc, argv, "embedding layouts"); }
