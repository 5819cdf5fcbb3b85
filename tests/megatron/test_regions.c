/*
 * test_regions.c: Megatron's region functions are two lines here: say what a plain tensor is
 * (weft_from_local), and what it shall be (weft_redistribute). Forward and backward of each follow
 * from that; the tests have the lines, and the values of Megatron's own tests.
 */
/* ranks: 1 2 3 4 6 8 */
/* mpi: 8 */
#include "megatron/lines.h"

static const weft_placement whole = {.kind = WEFT_KIND_REPLICATE};
static const weft_placement terms = {.kind = WEFT_KIND_PARTIAL, .reduce = WEFT_SUM};

static weft_placement part(int dim) { return weft_shard(dim); }

/* ---- the regions ---- */

/* Copy to: nothing forward; each rank goes on by itself, so backward sums their gradients. */
static weft_tensor *copy_to(struct lines *l, weft_tensor *x)
{
    return weft_to_local(weft_from_local(x, l->tp, &whole, NULL), &terms);
}

/* Reduce from: a sum forward, nothing backward. */
static weft_tensor *reduce_from(struct lines *l, weft_tensor *x)
{
    return weft_to_local(weft_redistribute(weft_from_local(x, l->tp, &terms, NULL), &whole), NULL);
}

/* From parts of a dim to all of it, or back: each is the other's backward. */
static weft_tensor *gather_from(struct lines *l, weft_tensor *x, int dim)
{
    weft_placement p = part(dim);

    return weft_to_local(weft_redistribute(weft_from_local(x, l->tp, &p, NULL), &whole), NULL);
}

static weft_tensor *scatter_to(struct lines *l, weft_tensor *x, int dim)
{
    weft_placement p = part(dim);

    return weft_to_local(weft_redistribute(weft_from_local(x, l->tp, &whole, NULL), &p), NULL);
}

/* From a term on each rank to a part of the sum; backward gathers. */
static weft_tensor *reduce_scatter_to(struct lines *l, weft_tensor *x, int dim)
{
    weft_placement p = part(dim);

    return weft_to_local(weft_redistribute(weft_from_local(x, l->tp, &terms, NULL), &p), NULL);
}

/* ---- what is expected: of an element, for the group that begins at `first` ---- */

static double sum_of_ranks(int64_t i, const void *payload)
{
    const struct lines *l = payload;

    (void)i;
    return (double)(l->ways * l->first + l->ways * (l->ways - 1) / 2);
}

static double own_rank(int64_t i, const void *payload)
{
    const struct lines *l = payload;

    (void)i;
    return l->first + l->place;
}

/* Eight elements of each rank in turn. */
static double rank_of_eight(int64_t i, const void *payload)
{
    return ((const struct lines *)payload)->first + (double)(i / 8);
}

static double own_place(int64_t i, const void *payload)
{
    (void)i;
    return ((const struct lines *)payload)->place;
}

static double place_times_ways(int64_t i, const void *payload)
{
    return own_place(i, payload) * ((const struct lines *)payload)->ways;
}

/* Rows of four: in a gathered tensor row k is of rank k. */
static double rank_of_row(int64_t i, const void *payload)
{
    return ((const struct lines *)payload)->first + (double)(i / 4);
}

static double own_rows(int64_t i, const void *payload)
{
    const struct lines *l = payload;

    return (double)(2 * l->place + i / 4);
}

static weft_tensor *wanted(weft_tensor *t) { return weft_set_requires_grad(t, true); }

/* MEG-01: 6 in ranks 0 to 3, 22 in ranks 4 to 7. */
WT_TEST(copy_to__sums_gradients)
{
    struct lines l = lines_open();
    weft_tensor *x = wanted(lines_full(8, 4, wt_rank())), *y = copy_to(&l, x);

    WT_ALL(lines_are(y, own_rank, &l));
    LINES_STILL(&l);
    WT_EQ(weft_backward_from(y, lines_full(8, 4, wt_rank())), WEFT_OK);
    LINES_SENT(&l, WEFT_COLL_ALL_REDUCE, 1);
    WT_ALL(lines_are(weft_grad(x), sum_of_ranks, &l));
    lines_close(&l);
}

/* MEG-02 */
WT_TEST(reduce_from__sums_values)
{
    struct lines l = lines_open();
    weft_tensor *x = wanted(lines_full(8, 4, wt_rank())), *y = reduce_from(&l, x);

    WT_ALL(lines_are(y, sum_of_ranks, &l));
    LINES_SENT(&l, WEFT_COLL_ALL_REDUCE, 1);
    WT_EQ(weft_backward_from(y, lines_full(8, 4, wt_rank())), WEFT_OK);
    LINES_STILL(&l);
    WT_ALL(lines_are(weft_grad(x), own_rank, &l));
    lines_close(&l);
}

/* MEG-04: the last dim; backward cuts a rank's column out. */
WT_TEST(gather_from__is_cut_again)
{
    struct lines l = lines_open();
    weft_tensor *x = wanted(lines_full(8, 1, wt_rank())), *y;

    y = gather_from(&l, lines_full(8, 0, wt_rank()), -1);
    WT_EQ(weft_numel(y), 8 * l.ways);
    WT_ALL(lines_are(y, rank_of_eight, &l));
    LINES_SENT(&l, WEFT_COLL_ALL_GATHER, 1);
    y = gather_from(&l, x, -1);
    WT_ALL(wt_has_shape(y, 2, (int64_t)8, (int64_t)l.ways));
    LINES_SENT(&l, WEFT_COLL_ALL_GATHER, 1);
    WT_EQ(weft_backward_from(y, lines_counted(8, l.ways, false)), WEFT_OK);
    LINES_STILL(&l);
    WT_ALL(wt_has_shape(weft_grad(x), 2, (int64_t)8, (int64_t)1));
    WT_ALL(lines_are(weft_grad(x), own_place, &l));
    lines_close(&l);
}

/* MEG-05: rows 2k and 2k + 1; backward gathers. */
WT_TEST(scatter_to__is_gathered_again)
{
    struct lines l = lines_open();
    weft_tensor *x = wanted(lines_counted(2 * l.ways, 4, true)), *y = scatter_to(&l, x, 0);

    LINES_STILL(&l);
    WT_ALL(wt_has_shape(y, 2, (int64_t)2, (int64_t)4));
    WT_ALL(lines_are(y, own_rows, &l));
    WT_EQ(weft_backward_from(y, weft_detach(y)), WEFT_OK);
    LINES_SENT(&l, WEFT_COLL_ALL_GATHER, 1);
    WT_ALL(wt_near_tensors(weft_grad(x), x, WT_EXACT));
    lines_close(&l);
}

static double rank_of_column(int64_t i, const void *payload)
{
    const struct lines *l = payload;

    return (double)(l->first + i % l->ways);
}

/* The last dim, of matrices and of vectors; backward gathers. */
WT_TEST(scatter_to__features_are_gathered_again)
{
    struct lines l = lines_open();
    weft_tensor *x = wanted(lines_counted(8, l.ways, false)), *y = scatter_to(&l, x, -1);

    LINES_STILL(&l);
    WT_ALL(wt_has_shape(y, 2, (int64_t)8, (int64_t)1));
    WT_ALL(lines_are(y, own_place, &l));
    WT_EQ(weft_backward_from(y, lines_full(8, 1, wt_rank())), WEFT_OK);
    LINES_SENT(&l, WEFT_COLL_ALL_GATHER, 1);
    WT_ALL(wt_has_shape(weft_grad(x), 2, (int64_t)8, (int64_t)l.ways));
    WT_ALL(lines_are(weft_grad(x), rank_of_column, &l));
    x = wanted(lines_full(8 * l.ways, 0, 1));
    y = scatter_to(&l, x, -1);
    WT_ALL(wt_has_shape(y, 1, (int64_t)8));
    WT_EQ(weft_backward_from(y, lines_full(8, 0, wt_rank())), WEFT_OK);
    LINES_SENT(&l, WEFT_COLL_ALL_GATHER, 1);
    WT_ALL(lines_are(weft_grad(x), rank_of_eight, &l));
    lines_close(&l);
}

/* MEG-07 */
WT_TEST(reduce_scatter_to__is_gathered_again)
{
    struct lines l = lines_open();
    weft_tensor *x = wanted(lines_counted(l.ways, 4, true)), *y = reduce_scatter_to(&l, x, 0);

    LINES_SENT(&l, WEFT_COLL_REDUCE_SCATTER, 1);
    WT_ALL(wt_has_shape(y, 2, (int64_t)1, (int64_t)4));
    WT_ALL(lines_are(y, place_times_ways, &l));
    WT_EQ(weft_backward_from(y, lines_full(1, 4, wt_rank())), WEFT_OK);
    LINES_SENT(&l, WEFT_COLL_ALL_GATHER, 1);
    WT_ALL(lines_are(weft_grad(x), rank_of_row, &l));
    lines_close(&l);
}

static double sum_of_columns(int64_t i, const void *payload)
{
    const struct lines *l = payload;

    return 50.0 * l->ways * (l->ways - 1) + (double)(l->ways * (2 * l->place + i % 2));
}

/* Along the last dim of a matrix that lies by columns. */
WT_TEST(reduce_scatter_to__features_of_a_transposed_matrix)
{
    struct lines l = lines_open();
    weft_tensor *x = weft_add_scalar(lines_counted(2 * l.ways, 2, true), 100 * l.place), *y;

    y = reduce_scatter_to(&l, weft_transpose(wanted(x), 0, 1), -1);
    LINES_SENT(&l, WEFT_COLL_REDUCE_SCATTER, 1);
    WT_ALL(wt_has_shape(y, 2, (int64_t)2, (int64_t)2));
    WT_ALL(lines_are(y, sum_of_columns, &l));
    WT_EQ(weft_backward_from(y, lines_full(2, 2, wt_rank())), WEFT_OK);
    LINES_SENT(&l, WEFT_COLL_ALL_GATHER, 1);
    WT_ALL(lines_are(weft_grad(x), rank_of_row, &l));
    lines_close(&l);
}

/* A gradient that is the same on all ranks is cut, one that each rank has a term of is
 * summed; a strided column, on its way while the program goes on. */
WT_TEST(gather_from__a_sequence_without_waiting)
{
    const weft_redistribute_options flying = {.async = true};
    const weft_placement rows = part(0);
    struct lines l = lines_open();

    for (int summed = 0; summed < 2; summed++) {
        weft_tensor *x = wanted(lines_full(4, 2, wt_rank())), *y = weft_select(x, 1, 0), *grad;

        y = weft_redistribute_with(weft_from_local(y, l.tp, &rows, NULL), &whole, &flying);
        y = weft_wait(weft_to_local(y, summed ? &terms : NULL));
        LINES_SENT(&l, WEFT_COLL_ALL_GATHER, 1);
        WT_ALL(!weft_is_in_flight(y) && wt_has_shape(y, 1, (int64_t)(4 * l.ways)));
        WT_ALL(lines_are(y, rank_of_row, &l));
        WT_EQ(weft_backward(weft_sum_all(y)), WEFT_OK);
        LINES_SENT(&l, summed ? WEFT_COLL_REDUCE_SCATTER : WEFT_COLL_COUNT, summed);
        grad = weft_grad(x);
        WT_ALL(wt_near_tensors(weft_select(grad, 1, 0), lines_full(4, 0, summed ? l.ways : 1),
                               WT_EXACT));
        WT_ALL(wt_near_tensors(weft_select(grad, 1, 1), lines_full(4, 0, 0), WT_EXACT));
    }
    lines_close(&l);
}

/* Where each rank goes on by itself after the gather, backward sums what they made of it. */
WT_TEST(gather_from__sequence_before_a_tensor_parallel_region)
{
    struct lines l = lines_open();
    const weft_placement rows = part(0);
    weft_tensor *x = wanted(lines_full(2, 4, wt_rank())), *y;

    y = weft_redistribute(weft_from_local(x, l.tp, &rows, NULL), &whole);
    y = weft_to_local(y, &terms);
    LINES_SENT(&l, WEFT_COLL_ALL_GATHER, 1);
    WT_ALL(wt_has_shape(y, 2, (int64_t)(2 * l.ways), (int64_t)4));
    WT_ALL(lines_are(y, rank_of_eight, &l));
    WT_EQ(weft_backward_from(y, lines_counted(2 * l.ways, 4, true)), WEFT_OK);
    LINES_SENT(&l, WEFT_COLL_REDUCE_SCATTER, 1);
    for (int row = 0; row < 2; row++)
        WT_ALL(wt_near_tensors(weft_select(weft_grad(x), 0, row),
                               lines_full(4, 0, l.ways * (2 * l.place + row)), WT_EXACT));
    lines_close(&l);
}

/* From parts of the sequence to parts of the features, and back by the same. */
WT_TEST(all_to_all__between_sequence_and_features)
{
    struct lines l = lines_open();
    const weft_placement rows = part(0), columns = part(1);
    weft_tensor *x = wanted(lines_full(1, 4 * l.ways, wt_rank())), *y;

    y = weft_redistribute(weft_from_local(x, l.tp, &rows, NULL), &columns);
    y = weft_to_local(y, NULL);
    LINES_SENT(&l, WEFT_COLL_ALL_TO_ALL, 1);
    WT_ALL(wt_has_shape(y, 2, (int64_t)l.ways, (int64_t)4));
    WT_ALL(lines_are(y, rank_of_row, &l));
    WT_EQ(weft_backward_from(y, weft_detach(y)), WEFT_OK);
    LINES_SENT(&l, WEFT_COLL_ALL_TO_ALL, 1);
    WT_ALL(lines_are(weft_grad(x), own_rank, &l));
    lines_close(&l);
}

struct tokens {
    const struct lines *lines;
    int64_t first; /* of this rank's */
};

/* Of rank s, token t and its feature c: 100 s + 10 t + c. */
static double of_token(int64_t i, const void *payload)
{
    const struct tokens *tokens = payload;
    int64_t width = 2 * tokens->lines->ways;

    return (double)(100 * (i % width / 2) + 10 * (tokens->first + i / width) + i % 2);
}

/* From parts of the features to parts of the sequence, also when tokens do not divide. */
WT_TEST(all_to_all__from_features_to_sequence)
{
    const weft_placement rows = part(0), columns = part(1);
    struct lines l = lines_open();

    for (int64_t n = l.ways; n <= l.ways + 1; n++) {
        weft_tensor *x = lines_full(n, 2, 0), *y;
        struct tokens tokens = {&l, weft_chunk_offset(n, l.ways, l.place)};
        double *at = weft_data(x);

        for (int64_t i = 0; i < 2 * n; i++) at[i] = (double)(100 * l.place + 10 * (i / 2) + i % 2);
        y = weft_redistribute(weft_from_local(wanted(x), l.tp, &columns, NULL), &rows);
        y = weft_to_local(y, NULL);
        LINES_SENT(&l, WEFT_COLL_ALL_TO_ALL, 1);
        WT_EQ(weft_size(y, 0), weft_chunk_size(n, l.ways, l.place));
        WT_ALL(lines_are(y, of_token, &tokens));
        WT_EQ(weft_backward_from(y, weft_detach(y)), WEFT_OK);
        LINES_SENT(&l, WEFT_COLL_ALL_TO_ALL, 1);
        WT_ALL(wt_near_tensors(weft_grad(x), weft_detach(x), WT_EXACT));
    }
    lines_close(&l);
}

/* Megatron needs sizes that divide; these are told. */
WT_TEST(regions__of_uneven_shards)
{
    struct lines l = lines_open();
    int64_t rows = 2 * l.ways + 1, shape[] = {rows, 3};
    weft_placement p = part(0);
    weft_tensor *all = wanted(lines_counted(rows, 3, true)), *mine = scatter_to(&l, all, 0), *y;

    WT_EQ(weft_size(mine, 0), weft_chunk_size(rows, l.ways, l.place));
    y = weft_to_local(weft_redistribute(weft_from_local(mine, l.tp, &p, shape), &whole), NULL);
    WT_ALL(wt_near_tensors(y, all, WT_EXACT));
    weft_ledger_reset(l.ledger);
    WT_EQ(weft_backward_from(y, weft_detach(all)), WEFT_OK);
    WT_ALL(wt_near_tensors(weft_grad(all), all, WT_EXACT));
    lines_close(&l);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "regions"); }
