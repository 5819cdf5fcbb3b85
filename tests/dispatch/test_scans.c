/*
 * test_scans.c: linear recurrences over time that is whole, sharded, uneven and empty on some
 * ranks: values and gradients of plain loops, and what is sent.
 */
/* mpi: 2 4 */
#include <stdlib.h>

#include "support/worlds.h"

enum { ROWS = 3, MOST = 13 };

static const char *const places[] = {"S(0)", "S(1)", "R"};

/* h and the gradients of sum (h^2) / 2, of a recurrence along dim 1 of [ROWS, n]. */
struct wanted {
    double h[ROWS * MOST], da[ROWS * MOST], db[ROWS * MOST], before[ROWS];
};

static void scan_by_hand(struct wanted *want, const double *a, const double *b,
                         const double *before, int n)
{
    for (int r = 0; r < ROWS; r++) {
        double h = before ? before[r] : 0, e = 0;

        for (int t = 0; t < n; t++) want->h[r * n + t] = h = a[r * n + t] * h + b[r * n + t];
        for (int t = n - 1; t >= 0; t--) {
            e = want->h[r * n + t] + (t + 1 < n ? a[r * n + t + 1] * e : 0);
            want->db[r * n + t] = e;
            want->da[r * n + t] = e * (t ? want->h[r * n + t - 1] : before ? before[r] : 0);
        }
        want->before[r] = n ? e * a[r * n] : 0;
    }
}

WT_TEST_TIMES_IN_WORLD(recurrence__equals_plain_loops, w, k, 24)
{
    static const int sizes[] = {12, 13, 5, 1};
    int n = sizes[k / 6];
    bool with_before = k % 6 >= 3;
    const char *placed = places[k % 3];
    weft_tensor *a = wt_whole(WEFT_F64, 0, ROWS, n), *b = wt_whole(WEFT_F64, 1, ROWS, n);
    weft_tensor *before = wt_whole(WEFT_F64, 2, ROWS, 1), *h;
    double *values[] = {wt_values(a), wt_values(b), wt_values(before)};
    struct wanted want;

    scan_by_hand(&want, values[0], values[1], with_before ? values[2] : NULL, n);
    for (int i = 0; i < 3; i++) free(values[i]);
    a = weft_set_requires_grad(wt_spread(w, a, placed), true);
    b = weft_set_requires_grad(wt_spread(w, b, placed), true);
    before = weft_set_requires_grad(wt_spread(w, before, "R"), true);
    wt_moved(w, WEFT_COLL_COUNT);
    h = weft_linear_scan(a, b, with_before ? before : NULL, 1);
    if (!with_before) WT_MOVED(w, WEFT_COLL_ALL_GATHER, k % 3 == 1);
    if (!with_before) WT_ALL(wt_is_placed(h, placed));
    WT_ALL(wt_near_full(h, want.h, WT_WITHIN(1e-12)));
    WT_ALL(weft_backward(weft_mul_scalar(weft_sum_all(weft_square(h)), 0.5)) == WEFT_OK);
    WT_ALL(wt_near_full(weft_grad(a), want.da, WT_WITHIN(1e-11)));
    WT_ALL(wt_near_full(weft_grad(b), want.db, WT_WITHIN(1e-11)));
    if (with_before) WT_ALL(wt_near_full(weft_grad(before), want.before, WT_WITHIN(1e-11)));
}

/* Along the first dim and the middle one, of three; on two axes, one of which cuts time. */
WT_TEST_TIMES_IN(recurrence__on_two_axes, w, k, 6, wt_world_open_two_axes())
{
    static const char *const placed[] = {"S(0),S(1)", "R,S(1)", "S(1),S(1)"};
    weft_tensor *a = wt_whole3(WEFT_F64, 0, 4, 9, 2), *b = wt_whole3(WEFT_F64, 1, 4, 9, 2);
    int dim = k / 3;
    weft_tensor *want = weft_linear_scan(a, b, NULL, dim);

    WT_ALL(wt_near_tensors(
        weft_linear_scan(wt_spread(w, a, placed[k % 3]), wt_spread(w, b, placed[k % 3]), NULL, dim),
        want, WT_WITHIN(1e-12)));
    /* operands that lie differently */
    WT_ALL(wt_near_tensors(
        weft_linear_scan(wt_spread(w, a, placed[k % 3]), wt_spread(w, b, "R,S(0)"), NULL, dim),
        want, WT_WITHIN(1e-12)));
}

WT_TEST_IN_WORLD(recurrence__refuses_what_does_not_fit, w)
{
    weft_tensor *a = wt_spread(w, wt_whole(WEFT_F32, 0, 3, 4), "S(1)");

    WT_ALL(!weft_linear_scan(a, wt_spread(w, wt_whole(WEFT_F32, 0, 3, 5), "S(1)"), NULL, 1));
    WT_ALL(weft_error_status() == WEFT_ERR_SHAPE);
    WT_ALL(!weft_linear_scan(a, a, NULL, 2));
    weft_error_clear();
}

int main(int argc, char **argv) { return wt_main(argc, argv, "scans"); }
