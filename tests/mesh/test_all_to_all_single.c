/* test_all_to_all_single.c: exchanges of rows whose numbers follow from data: values, gradients,
 * what is sent, and errors that all ranks of a line see. */
/* ranks: 1 2 3 4 8 */
/* mpi: 3 4 */
#include "support/worlds.h"

enum { WIDTH = 3, MOST = 8 };

/* Rows from rank `from` to rank `to`: none for some, and none at all from rank 1. */
static int64_t rows_between(int from, int to) { return from == 1 ? 0 : (2 * from + to) % 4; }

static double value_of(int from, int to, int64_t i) { return from * 8 + to + 0.25 * (double)i; }

/* What `from` has for everybody, or what comes to `to`: rows in the order of the peers. */
static weft_tensor *rows_of(weft_dtype dtype, int ways, int from, int to, double factor)
{
    weft_tensor *pieces[MOST];

    for (int r = 0; r < ways; r++) {
        int f = from < 0 ? r : from, t = to < 0 ? r : to;
        weft_tensor *rows[4] = {weft_full(dtype, (int64_t[]){0, WIDTH}, 2, 0)};

        for (int64_t i = 0; i < rows_between(f, t); i++)
            rows[i] = weft_full(dtype, (int64_t[]){1, WIDTH}, 2, factor * value_of(f, t, i));
        pieces[r] = weft_cat(rows, rows_between(f, t) ? (int)rows_between(f, t) : 1, 0);
    }
    return weft_cat(pieces, ways, 0);
}

static bool are_equal(weft_tensor *a, weft_tensor *b)
{
    return a && b && weft_size(a, 0) == weft_size(b, 0) && wt_near_tensors(a, b, WT_EXACT);
}

/* A mesh of one line, or of two side by side: the line's number of ranks and this one's place. */
struct line {
    weft_mesh *mesh;
    int axis, ways, me;
};

static struct line line_open(bool two)
{
    struct line l = {.axis = two};

    l.mesh = two ? weft_mesh_new(WEFT_CPU, "dp=2,ep=%d", wt_ranks() / 2)
                 : weft_mesh_new(WEFT_CPU, "ep=%d", wt_ranks());
    l.ways = weft_mesh_axis_size(l.mesh, l.axis);
    l.me = weft_mesh_coordinate(l.mesh, l.axis);
    return l;
}

static void goes_and_comes_back(const struct line *l, weft_dtype dtype)
{
    int64_t send[MOST], recv[MOST];
    weft_tensor *x = rows_of(dtype, l->ways, l->me, -1, 1), *y, *back;
    weft_tensor *g = rows_of(dtype, l->ways, -1, l->me, 2);
    weft_ledger *ledger = weft_ledger_open();

    for (int r = 0; r < l->ways; r++) send[r] = rows_between(l->me, r);
    weft_set_requires_grad(x, weft_dtype_is_float(dtype));
    y = weft_mesh_all_to_all_single(x, send, recv, l->mesh, l->axis);
    WT_ALL(are_equal(y, rows_of(dtype, l->ways, -1, l->me, 1)));
    for (int r = 0; r < l->ways; r++) WT_EQ(recv[r], rows_between(r, l->me));
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_ALL_GATHER, WEFT_DIRECTION_FORWARD, NULL), 1);
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_ALL_TO_ALL, WEFT_DIRECTION_FORWARD, NULL), 1);
    if (weft_dtype_is_float(dtype)) {
        WT_ALL(weft_backward_from(y, g) == WEFT_OK);
        WT_ALL(are_equal(weft_grad(x), rows_of(dtype, l->ways, l->me, -1, 2)));
        WT_EQ(weft_ledger_count(ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_BACKWARD, NULL), 1);
    } else {
        WT_ALL(!weft_requires_grad(y));
    }
    weft_ledger_reset(ledger);
    back = weft_mesh_all_to_all_known(y, recv, send, l->mesh, l->axis);
    WT_ALL(are_equal(back, x));
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL), 1);
    weft_ledger_close(ledger);
}

/* trial 4.3 */
WT_TEST(all_to_all_single__rows_go_by_their_number_and_gradients_return)
{
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_F16, WEFT_I64};

    for (int two = 0; two < (wt_ranks() % 2 ? 1 : 2); two++) {
        struct line l = line_open(two);

        for (int i = 0; i < 5; i++) goes_and_comes_back(&l, dtypes[i]);
        weft_mesh_release(l.mesh);
    }
}

/* There and back, with a factor per rank between: as a mixture of experts does it. */
WT_TEST(all_to_all_single__gradients_pass_a_round_trip)
{
    struct line l = line_open(false);
    int64_t send[MOST], recv[MOST];
    weft_tensor *x = rows_of(WEFT_F64, l.ways, l.me, -1, 1), *y, *g;

    for (int r = 0; r < l.ways; r++) send[r] = rows_between(l.me, r);
    weft_set_requires_grad(x, true);
    y = weft_mesh_all_to_all_single(x, send, recv, l.mesh, 0);
    y = weft_mul_scalar(y, l.me + 1);
    y = weft_mesh_all_to_all_known(y, recv, send, l.mesh, 0);
    WT_ALL(weft_backward(weft_sum_all(weft_square(y))) == WEFT_OK);
    g = weft_grad(x);
    for (int64_t at = 0, r = 0; r < l.ways; at += send[r++]) {
        double factor = 2.0 * (double)((r + 1) * (r + 1));
        weft_tensor *own = weft_slice(weft_detach(x), 0, at, at + send[r]);

        WT_ALL(are_equal(weft_slice(g, 0, at, at + send[r]), weft_mul_scalar(own, factor)));
    }
    weft_mesh_release(l.mesh);
}

/* What one rank's input wants is an exchange in backward for all. */
WT_TEST(all_to_all_single__is_recorded_when_one_rank_wants_a_gradient)
{
    struct line l = line_open(false);
    int64_t send[MOST];
    weft_tensor *x = rows_of(WEFT_F32, l.ways, l.me, -1, 1), *y;

    for (int r = 0; r < l.ways; r++) send[r] = rows_between(l.me, r);
    weft_set_requires_grad(x, l.me == l.ways - 1);
    y = weft_mesh_all_to_all_single(x, send, NULL, l.mesh, 0);
    WT_ALL(weft_requires_grad(y));
    WT_ALL(weft_backward(weft_sum_all(y)) == WEFT_OK);
    WT_ALL((weft_grad(x) != NULL) == (l.me == l.ways - 1));
    WT_ALL(!weft_grad(x) || wt_local_is_all(weft_grad(x), 1));
    weft_no_grad_open();
    WT_ALL(!weft_requires_grad(weft_mesh_all_to_all_single(x, send, NULL, l.mesh, 0)));
    weft_no_grad_close();
    weft_mesh_release(l.mesh);
}

/* What the last rank alone does wrong all are told, in the same words. */
static void is_refused(const struct line *l, weft_tensor *x, const int64_t *send, const char *why)
{
    int64_t even[MOST] = {0};
    bool last = l->me == l->ways - 1;
    weft_tensor *right = weft_full(WEFT_F32, (int64_t[]){2, WIDTH}, 2, 1);

    even[0] = 2;
    WT_ALL(weft_mesh_all_to_all_single(last ? x : right, last ? send : even, NULL, l->mesh, 0) ==
           NULL);
    WT_FAILED(WEFT_ERR_SHAPE, why);
}

/* trial 4.3 */
WT_TEST(all_to_all_single__all_ranks_are_told_what_one_does_wrong)
{
    struct line l = line_open(false);
    weft_tensor *x = weft_full(WEFT_F32, (int64_t[]){2, WIDTH}, 2, 1);
    int64_t more[MOST] = {3}, fewer[MOST] = {1}, negative[MOST] = {-1}, right[MOST] = {2};

    is_refused(&l, x, more, "do not add up to its 2 rows");
    is_refused(&l, x, fewer, "do not add up to its 2 rows");
    is_refused(&l, x, negative, "do not add up to its 2 rows");
    is_refused(&l, weft_full(WEFT_F32, NULL, 0, 1), right, "has no dims");
    if (wt_ranks() > 1) {
        is_refused(&l, weft_full(WEFT_F64, (int64_t[]){2, WIDTH}, 2, 1), right, "has f64 of 2");
        is_refused(&l, weft_full(WEFT_F32, (int64_t[]){2, WIDTH, 1}, 3, 1), right, "of 3 dims");
        is_refused(&l, weft_full(WEFT_F32, (int64_t[]){2, 4}, 2, 1), right, "another shape");
    }
    WT_ALL(weft_mesh_all_to_all_single(x, NULL, NULL, l.mesh, 0) == NULL);
    WT_FAILED(WEFT_ERR_ARG, "no splits");
    WT_ALL(weft_mesh_all_to_all_single(NULL, right, NULL, l.mesh, 0) == NULL);
    weft_error_clear();
    WT_ALL(weft_mesh_all_to_all_single(x, right, NULL, l.mesh, 0) != NULL);
    weft_mesh_release(l.mesh);
}

WT_TEST(all_to_all_single__on_meta_only_what_is_known_has_a_shape)
{
    struct line l = line_open(false);
    int64_t send[MOST] = {0}, recv[MOST] = {0};
    weft_tensor *x = weft_full(WEFT_F32, (int64_t[]){5, WIDTH}, 2, 0);

    x = weft_to_device(x, WEFT_META);
    send[0] = 5;
    recv[l.ways - 1] = 7;
    WT_ALL(weft_mesh_all_to_all_single(x, send, NULL, l.mesh, 0) == NULL);
    WT_FAILED(WEFT_ERR_ARG, "no elements");
    x = weft_mesh_all_to_all_known(x, send, recv, l.mesh, 0);
    WT_ALL(wt_has_shape(x, 2, (int64_t)7, (int64_t)WIDTH));
    weft_mesh_release(l.mesh);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "all_to_all_single"); }
