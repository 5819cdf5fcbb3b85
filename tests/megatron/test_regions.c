/*
 * test_regions.c: Megatron's region functions are two lines here: say what a plain tensor is
 * (weft_from_local), and what it shall be (weft_redistribute). Forward and backward of each follow
 * from that; the tests have the lines, and the values of Megatron's own tests.
 */
/* ranks: 1 2 3 4 6 8 */
/* mpi: 8 */
#include "megatron/lines.h"

#define AR WEFT_COLL_ALL_REDUCE
#define AG WEFT_COLL_ALL_GATHER
#define RS WEFT_COLL_REDUCE_SCATTER
#define A2A WEFT_COLL_ALL_TO_ALL
#define NO WEFT_COLL_COUNT

static const weft_placement whole = {.kind = WEFT_KIND_REPLICATE};
static const weft_placement terms = {.kind = WEFT_KIND_PARTIAL, .reduce = WEFT_SUM};

static weft_placement part(int dim) { return weft_shard(dim); }

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

static double rank_of_column(int64_t i, const void *payload)
{
    const struct lines *l = payload;

    return (double)(l->first + i % l->ways);
}

static double own_rows(int64_t i, const void *payload)
{
    return 2 * own_place(i, payload) + (double)(i / 4);
}

static double ways_times_own_rows(int64_t i, const void *payload)
{
    return own_rows(i, payload) * ((const struct lines *)payload)->ways;
}

static double one(int64_t i, const void *payload)
{
    (void)i;
    (void)payload;
    return 1;
}

static weft_tensor *wanted(weft_tensor *t) { return weft_set_requires_grad(t, true); }

/* ---- the regions ---- */

/* A plain tensor by its sizes (no columns: a vector; -n: n for each rank of the group) and what is
 * in it: this rank, the number of the row or column, ones. */
struct tensor {
    int rows, columns;
    enum { RANK, ROW, COLUMN, ONES } fill;
};

typedef double value_of(int64_t i, const void *payload);

/* What each rank holds, what it shall hold and is handed on (`terms`: of which each rank goes on by
 * itself), and the same backward. */
struct region {
    const char *name;
    weft_placement from, to;
    bool terms;
    struct tensor x, g; /* the gradient is as large as the output */
    weft_coll forward;
    value_of *y;
    weft_coll backward;
    value_of *grad;
};

static int64_t size_of(int n, const struct lines *l) { return n < 0 ? -n * l->ways : n; }

static weft_tensor *made(const struct tensor *t, const struct lines *l)
{
    int64_t rows = size_of(t->rows, l), columns = size_of(t->columns, l);

    if (t->fill == ROW || t->fill == COLUMN) return lines_counted(rows, columns, t->fill == ROW);
    return lines_full(rows, columns, t->fill == RANK ? wt_rank() : 1);
}

static weft_tensor *through(struct lines *l, const struct region *r, weft_tensor *x)
{
    x = weft_redistribute(weft_from_local(x, l->tp, &r->from, NULL), &r->to);
    return weft_to_local(x, r->terms ? &terms : NULL);
}

static bool as_large(const weft_tensor *t, const weft_tensor *like)
{
    bool same = weft_ndim(t) == weft_ndim(like);

    for (int d = 0; same && d < weft_ndim(t); d++) same = weft_size(t, d) == weft_size(like, d);
    return same;
}

static void check(struct lines *l, const struct region *r)
{
    weft_tensor *x = wanted(made(&r->x, l)), *g = made(&r->g, l), *y;

    weft_ledger_reset(l->ledger);
    y = through(l, r, x);
    LINES_SENT(l, r->forward, r->forward != NO);
    WT_ALL(y && as_large(y, g));
    WT_ALL(lines_are(y, r->y, l));
    WT_EQ(weft_backward_from(y, g), WEFT_OK);
    LINES_SENT(l, r->backward, r->backward != NO);
    WT_ALL(as_large(weft_grad(x), x));
    WT_ALL(lines_are(weft_grad(x), r->grad, l));
}

/* MEG-01 (6 in ranks 0 to 3, 22 in ranks 4 to 7), MEG-02, MEG-04, MEG-05 (rows 2k and 2k + 1),
 * MEG-07 */
WT_TEST(regions__forward_and_backward_are_megatrons)
{
    const weft_placement rows = part(0), columns = part(1), last = part(-1);
    /* clang-format off */
    const struct region regions[] = {
        {"copy to",             whole, whole,   true,  {8, 4, RANK},    {8, 4, RANK},    NO, own_rank,         AR, sum_of_ranks},
        {"reduce from",         terms, whole,   false, {8, 4, RANK},    {8, 4, RANK},    AR, sum_of_ranks,     NO, own_rank},
        {"gather from, vector", last,  whole,   false, {8, 0, RANK},    {-8, 0, RANK},   AG, rank_of_eight,    NO, own_rank},
        {"gather from",         last,  whole,   false, {8, 1, RANK},    {8, -1, COLUMN}, AG, rank_of_column,   NO, own_place},
        {"gather, go on alone", rows,  whole,   true,  {2, 4, RANK},    {-2, 4, ROW},    AG, rank_of_eight,    RS, ways_times_own_rows},
        {"scatter to",          whole, rows,    false, {-2, 4, ROW},    {2, 4, RANK},    NO, own_rows,         AG, rank_of_eight},
        {"scatter to, columns", whole, last,    false, {8, -1, COLUMN}, {8, 1, RANK},    NO, own_place,        AG, rank_of_column},
        {"scatter to, vector",  whole, last,    false, {-8, 0, ONES},   {8, 0, RANK},    NO, one,              AG, rank_of_eight},
        {"reduce-scatter to",   terms, rows,    false, {-1, 4, ROW},    {1, 4, RANK},    RS, place_times_ways, AG, rank_of_row},
        {"all-to-all",          rows,  columns, false, {1, -4, RANK},   {-1, 4, ROW},    A2A, rank_of_row,     A2A, own_place},
    };
    /* clang-format on */
    struct lines l = lines_open();

    for (size_t i = 0; i < sizeof regions / sizeof *regions; i++) {
        wt_row("%s", regions[i].name);
        check(&l, &regions[i]);
    }
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
    const struct region features = {.from = terms, .to = part(-1)};
    weft_tensor *x = weft_add_scalar(lines_counted(2 * l.ways, 2, true), 100 * l.place), *y;

    y = through(&l, &features, weft_transpose(wanted(x), 0, 1));
    LINES_SENT(&l, RS, 1);
    WT_ALL(wt_has_shape(y, 2, (int64_t)2, (int64_t)2));
    WT_ALL(lines_are(y, sum_of_columns, &l));
    WT_EQ(weft_backward_from(y, lines_full(2, 2, wt_rank())), WEFT_OK);
    LINES_SENT(&l, AG, 1);
    WT_ALL(lines_are(weft_grad(x), rank_of_row, &l));
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
        LINES_SENT(&l, AG, 1);
        WT_ALL(!weft_is_in_flight(y) && wt_has_shape(y, 1, (int64_t)(4 * l.ways)));
        WT_ALL(lines_are(y, rank_of_row, &l));
        WT_EQ(weft_backward(weft_sum_all(y)), WEFT_OK);
        LINES_SENT(&l, summed ? RS : NO, summed);
        grad = weft_grad(x);
        WT_ALL(wt_near_tensors(weft_select(grad, 1, 0), lines_full(4, 0, summed ? l.ways : 1),
                               WT_EXACT));
        WT_ALL(wt_near_tensors(weft_select(grad, 1, 1), lines_full(4, 0, 0), WT_EXACT));
    }
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
        LINES_SENT(&l, A2A, 1);
        WT_EQ(weft_size(y, 0), weft_chunk_size(n, l.ways, l.place));
        WT_ALL(lines_are(y, of_token, &tokens));
        WT_EQ(weft_backward_from(y, weft_detach(y)), WEFT_OK);
        LINES_SENT(&l, A2A, 1);
        WT_ALL(wt_near_tensors(weft_grad(x), weft_detach(x), WT_EXACT));
    }
}

/* Megatron needs sizes that divide; these are told. */
WT_TEST(regions__of_uneven_shards)
{
    struct lines l = lines_open();
    int64_t rows = 2 * l.ways + 1, shape[] = {rows, 3};
    const struct region scatter = {.from = whole, .to = part(0)};
    weft_tensor *all = wanted(lines_counted(rows, 3, true)), *mine = through(&l, &scatter, all), *y;

    WT_EQ(weft_size(mine, 0), weft_chunk_size(rows, l.ways, l.place));
    y = weft_to_local(weft_redistribute(weft_from_local(mine, l.tp, &scatter.to, shape), &whole),
                      NULL);
    WT_ALL(wt_near_tensors(y, all, WT_EXACT));
    weft_ledger_reset(l.ledger);
    WT_EQ(weft_backward_from(y, weft_detach(all)), WEFT_OK);
    WT_ALL(wt_near_tensors(weft_grad(all), all, WT_EXACT));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "regions"); }
