/*
 * test_normalization.c: softmax and norms over dims that are whole and sharded: layouts, what is
 * sent, and values and gradients of one device.
 */
/* mpi: 2 4 */
#include <math.h>

#include "support/worlds.h"

#define IS_LIKE_PLAIN(got, plain) WT_ALL(wt_near_tensors((got), (plain), WT_WITHIN(2e-5)))

static const char *const places[] = {"S(0)", "S(1)", "S(2)", "R"};

/* A function of x, and the gradient of its elements weighed by `weights`; x is spread as told. */
static weft_tensor *gradient_of(weft_tensor *(*f)(weft_tensor *, int), int argument, weft_tensor *x,
                                weft_tensor *weights, weft_tensor **y)
{
    x = weft_set_requires_grad(x, true);
    *y = f(x, argument);
    return *y && weft_backward(weft_sum_all(weft_mul(*y, weights))) == WEFT_OK ? weft_grad(x)
                                                                               : NULL;
}

/*
 * MATH-03, MATH-04 at the figures and a second size. The peer gathers the dim and gives R; here it
 * stays sharded, by two all-reduces of one number per row (the requirement is not to gather), and
 * one in backward. Values and gradients are the same.
 */
WT_TEST_TIMES_IN_WORLD(softmax__of_any_dim_and_shard, w, k, 2)
{
    static const int64_t sizes[][3] = {{8, 12, 16}, {5, 3, 7}};
    weft_tensor *x = wt_whole3(WEFT_F32, 0, sizes[k][0], sizes[k][1], sizes[k][2]);
    weft_tensor *weights = wt_whole3(WEFT_F32, 1, sizes[k][0], sizes[k][1], sizes[k][2]);

    for (int log = 0; log < 2; log++)
        for (int dim = -1; dim < 3; dim++)
            for (int p = 0; p < 4; p++) {
                weft_tensor *(*f)(weft_tensor *, int) = log ? weft_log_softmax : weft_softmax;
                weft_tensor *want, *got, *s, *dx;
                weft_tensor *want_dx = gradient_of(f, dim, weft_detach(x), weights, &want);
                bool own = p == (dim < 0 ? 2 : dim);

                wt_note("dim %d, %s", dim, places[p]);
                s = wt_spread(w, x, places[p]);
                wt_moved(w, WEFT_COLL_COUNT);
                got = f(s, dim);
                WT_MOVED(w, WEFT_COLL_ALL_REDUCE, own ? 2 : 0);
                WT_ALL(wt_is_placed(got, places[p]));
                IS_LIKE_PLAIN(got, want);
                dx = gradient_of(f, dim, s, wt_spread(w, weights, places[p]), &got);
                WT_ALL(wt_is_placed(dx, places[p]));
                IS_LIKE_PLAIN(dx, want_dx);
                wt_moved(w, WEFT_COLL_COUNT);
            }
}

/* Rows without any number but infinities, and numbers far from 0, over shards some of which are
 * empty; halves keep what f32 computed. */
WT_TEST_IN_WORLD(softmax__of_infinities_and_large_numbers, w)
{
    static const double third[] = {0.25, 0.25, 0.5, 0, 0.5, 0.5};
    float x[] = {1e4f, 1e4f, 1e4f + 0.6931f, -INFINITY, 7, 7};
    weft_tensor *t = weft_from_data(WEFT_F32, (int64_t[]){2, 3}, 2, x), *low;

    WT_ALL(wt_near_full(weft_softmax(wt_spread(w, t, "S(1)"), 1), third, WT_WITHIN(5e-4)));
    t = weft_cast(wt_whole(WEFT_BF16, 0, 3, 40), WEFT_BF16);
    WT_ALL(wt_near_tensors(weft_softmax(wt_spread(w, t, "S(1)"), 1), weft_softmax(t, 1),
                           WT_WITHIN(8e-3)));
    low = weft_full(WEFT_F32, (int64_t[]){5}, 1, -INFINITY);
    WT_ALL(wt_is_all(weft_logsumexp(wt_spread(w, low, "S(0)"), NULL, 0, false), -INFINITY));
    low = weft_full(WEFT_F32, (int64_t[]){5}, 1, INFINITY);
    WT_ALL(wt_is_all(weft_logsumexp(wt_spread(w, low, "S(0)"), NULL, 0, false), INFINITY));
}

static weft_tensor *logsumexp_of_dim(weft_tensor *x, int dim)
{
    return weft_logsumexp(x, &dim, 1, true);
}

/* MATH-20: two small all-reduces where the peer gathers */
WT_TEST_IN_WORLD(logsumexp__along_and_beside_the_shards, w)
{
    for (int64_t rows = 3; rows < 10; rows += 5)
        for (int dim = 0; dim < 2; dim++) {
            weft_tensor *x = wt_whole(WEFT_F32, 0, rows, 5), *s = wt_spread(w, x, "S(0)"), *y;
            weft_tensor *weights = wt_whole(WEFT_F32, 1, dim ? rows : 1, dim ? 1 : 5), *want;
            weft_tensor *want_dx =
                gradient_of(logsumexp_of_dim, dim, weft_detach(x), weights, &want);

            wt_moved(w, WEFT_COLL_COUNT);
            y = weft_logsumexp(s, &dim, 1, true);
            WT_MOVED(w, WEFT_COLL_ALL_REDUCE, dim == 0 ? 2 : 0);
            WT_ALL(wt_is_placed(y, dim == 0 ? "R" : "S(0)"));
            IS_LIKE_PLAIN(y, want);
            IS_LIKE_PLAIN(gradient_of(logsumexp_of_dim, dim, s, wt_spread(w, weights, "R"), &y),
                          want_dx);
            WT_ALL(weft_ndim(weft_logsumexp(s, &dim, 1, false)) == 1);
            IS_LIKE_PLAIN(weft_logsumexp(s, NULL, 0, false), weft_logsumexp(x, NULL, 0, false));
            wt_moved(w, WEFT_COLL_COUNT);
        }
}

static _Thread_local weft_tensor *weight, *bias; /* of the norms below, NULL: none */

static weft_tensor *layer_norm_from(weft_tensor *x, int first)
{
    int64_t shape[] = {1, 1}, back[3];

    for (int d = 0; d < 3; d++) back[d] = weft_size(x, d);
    for (int d = 0; d < 3; d++) shape[d >= first] *= weft_size(x, d);
    return weft_reshape(weft_layer_norm(weft_reshape(x, shape, 2), weight, bias, 1e-5), back, 3);
}

static weft_tensor *layer_norm_of_last(weft_tensor *x, int k)
{
    (void)k;
    return weft_layer_norm(x, weight, bias, 1e-5);
}

static weft_tensor *rms_norm_of_last(weft_tensor *x, int k)
{
    (void)k;
    return weft_rms_norm(x, weight, 1e-5);
}

/* MATH-07, over the last dim: nothing moves where another dim is sharded; where it is sharded
 * itself its statistics are all-reduced, two for layer norm, one for RMS norm. */
WT_TEST_TIMES_IN_WORLD(norms__over_the_last_dim, w, k, 8)
{
    bool rms = k & 1, affine = k & 2;
    weft_tensor *x = wt_whole3(WEFT_F32, 0, k < 4 ? 20 : 3, 5, k < 4 ? 10 : 7);
    weft_tensor *weights = wt_whole3(WEFT_F32, 1, k < 4 ? 20 : 3, 5, k < 4 ? 10 : 7);
    weft_tensor *(*f)(weft_tensor *, int) = rms ? rms_norm_of_last : layer_norm_of_last;

    for (int p = 0; p < 4; p++) {
        int64_t n = weft_size(x, 2);
        weft_tensor *plain[] = {weft_reshape(wt_whole(WEFT_F32, 2, n, 1), &n, 1),
                                weft_reshape(wt_whole(WEFT_F32, 3, n, 1), &n, 1)};
        weft_tensor *want, *want_dx, *got, *s = wt_spread(w, x, places[p]);

        wt_note("%s, %s", rms ? "rms" : "layer", places[p]);
        weight = affine ? plain[0] : NULL;
        bias = affine ? plain[1] : NULL;
        want_dx = gradient_of(f, 0, weft_detach(x), weights, &want);
        weight = affine ? wt_spread(w, plain[0], "R") : NULL;
        bias = affine ? wt_spread(w, plain[1], "R") : NULL;
        wt_moved(w, WEFT_COLL_COUNT);
        got = f(s, 0);
        WT_MOVED(w, WEFT_COLL_ALL_REDUCE, p != 2 ? 0 : rms ? 1 : 2);
        WT_ALL(wt_is_placed(got, places[p]));
        IS_LIKE_PLAIN(got, want);
        IS_LIKE_PLAIN(gradient_of(f, 0, s, wt_spread(w, weights, places[p]), &got), want_dx);
        wt_moved(w, WEFT_COLL_COUNT);
    }
}

/* The same over several dims, which are one row when reshaped. */
WT_TEST_IN_WORLD(norms__over_several_dims, w)
{
    weight = bias = NULL;
    for (int k = 0; k < 12; k++) {
        weft_tensor *x = wt_whole3(WEFT_F32, 0, 20, 5, 10), *y;

        wt_moved(w, WEFT_COLL_COUNT);
        y = layer_norm_from(wt_spread(w, x, places[k % 4]), k / 4);
        if (k % 4 < k / 4 && weft_world_size() <= 4 && weft_size(x, k % 4) % weft_world_size() == 0)
            WT_STILL(w);
        IS_LIKE_PLAIN(y, layer_norm_from(x, k / 4));
    }
}

/* ---- batches ---- */

enum { N = 6, C = 4, L = 3 };

static double element_of(const double *x, int n, int c, int l) { return x[(n * C + c) * L + l]; }

static weft_tensor *channel_numbers(int which)
{
    int64_t n = C;

    return weft_add_scalar(weft_reshape(wt_whole(WEFT_F64, which, C, 1), &n, 1), 2);
}

static const char *const batches[] = {"S(0)", "S(1)", "S(2)", "R"};

/* Against plain loops: this batch's statistics, and what they leave in the running ones. */
WT_TEST_TIMES_IN_WORLD(batch_norm__trains_on_the_whole_batch, w, k, 4)
{
    weft_tensor *x = wt_whole3(WEFT_F64, 0, N, C, L), *scale = channel_numbers(1);
    weft_tensor *shift = channel_numbers(2), *mean = channel_numbers(3), *var = channel_numbers(4);
    double *values = wt_values(x), *scales = wt_values(scale), *shifts = wt_values(shift);
    double *means = wt_values(mean), *vars = wt_values(var), want[N * C * L];
    weft_batch_norm_options options = {.training = true, .momentum = 0.3};
    weft_tensor *y;

    for (int c = 0; c < C; c++) {
        double sum = 0, squares = 0;

        for (int i = 0; i < N * L; i++) sum += element_of(values, i / L, c, i % L) / (N * L);
        for (int i = 0; i < N * L; i++)
            squares += pow(element_of(values, i / L, c, i % L) - sum, 2);
        for (int i = 0; i < N * L; i++)
            want[(i / L * C + c) * L + i % L] = (element_of(values, i / L, c, i % L) - sum) /
                                                    sqrt(squares / (N * L) + 1e-3) * scales[c] +
                                                shifts[c];
        means[c] = 0.7 * means[c] + 0.3 * sum;
        vars[c] = 0.7 * vars[c] + 0.3 * squares / (N * L - 1);
    }
    options.running_mean = wt_spread(w, mean, "R");
    options.running_var = wt_spread(w, var, "R");
    x = wt_spread(w, x, batches[k]);
    wt_moved(w, WEFT_COLL_COUNT);
    y = weft_batch_norm(x, wt_spread(w, scale, "R"), wt_spread(w, shift, "R"), 1e-3, options);
    if (k == 0 || k == 2) WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 2);
    if (k == 3) WT_STILL(w);
    WT_ALL(wt_is_placed(y, batches[k]));
    WT_ALL(wt_near_full(y, want, WT_WITHIN(1e-12)));
    WT_ALL(wt_near_full(options.running_mean, means, WT_WITHIN(1e-12)));
    WT_ALL(wt_near_full(options.running_var, vars, WT_WITHIN(1e-12)));
    /* outside training: by the running statistics, which stay */
    options.training = false;
    y = weft_batch_norm(x, NULL, NULL, 1e-3, options);
    for (int i = 0; i < N * C * L; i++)
        want[i] = (values[i] - means[i / L % C]) / sqrt(vars[i / L % C] + 1e-3);
    WT_ALL(wt_near_full(y, want, WT_WITHIN(1e-12)));
    WT_ALL(wt_near_full(options.running_mean, means, WT_WITHIN(1e-12)));
    free(values), free(scales), free(shifts), free(means), free(vars);
}

static weft_tensor *batch_norm(weft_tensor *x, int k)
{
    (void)k;
    return weft_batch_norm(x, weight, bias, 1e-3, (weft_batch_norm_options){.training = true});
}

static weft_tensor *group_norm(weft_tensor *x, int groups)
{
    return weft_group_norm(x, groups, weight, bias, 1e-3);
}

/* Against plain loops, and that channels which are sharded by whole groups stay so. */
WT_TEST_TIMES_IN_WORLD(group_norm__equals_plain_loops, w, k, 4)
{
    weft_tensor *x = wt_whole3(WEFT_F64, 0, N, C, L);
    double *values = wt_values(x), want[N * C * L];
    enum { ROW = C / 2 * L };

    for (int r = 0; r < N * 2; r++) {
        double sum = 0, squares = 0;

        for (int i = 0; i < ROW; i++) sum += values[r * ROW + i] / (double)ROW;
        for (int i = 0; i < ROW; i++) squares += pow(values[r * ROW + i] - sum, 2) / (double)ROW;
        for (int i = 0; i < ROW; i++)
            want[r * ROW + i] = (values[r * ROW + i] - sum) / sqrt(squares + 1e-3);
    }
    weight = bias = NULL;
    x = wt_spread(w, x, batches[k]);
    wt_moved(w, WEFT_COLL_COUNT);
    WT_ALL(wt_near_full(group_norm(x, 2), want, WT_WITHIN(1e-12)));
    free(values);
    if (k == 1 && weft_world_size() == 2) {
        wt_moved(w, WEFT_COLL_COUNT);
        WT_ALL(wt_is_placed(group_norm(x, 2), "S(1)"));
        WT_STILL(w);
    }
}

WT_TEST_TIMES_IN_WORLD(batch_and_group_norm__have_the_gradients_of_one_device, w, k, 8)
{
    weft_tensor *(*f)(weft_tensor *, int) = k < 4 ? batch_norm : group_norm;
    weft_tensor *x = wt_whole3(WEFT_F64, 0, N, C, L), *weights = wt_whole3(WEFT_F64, 1, N, C, L);
    weft_tensor *want, *got, *plain[] = {channel_numbers(1), channel_numbers(2)}, *want_dx;

    weight = weft_set_requires_grad(plain[0], true);
    bias = weft_set_requires_grad(plain[1], true);
    want_dx = gradient_of(f, 2, weft_detach(x), weights, &want);
    weight = weft_set_requires_grad(wt_spread(w, weft_detach(plain[0]), "R"), true);
    bias = weft_set_requires_grad(wt_spread(w, weft_detach(plain[1]), "R"), true);
    WT_ALL(wt_near_tensors(gradient_of(f, 2, wt_spread(w, x, batches[k % 4]),
                                       wt_spread(w, weights, batches[k % 4]), &got),
                           want_dx, WT_WITHIN(1e-11)));
    WT_ALL(wt_near_tensors(got, want, WT_WITHIN(1e-12)));
    WT_ALL(wt_near_tensors(weft_grad(weight), weft_grad(plain[0]), WT_WITHIN(1e-11)));
    WT_ALL(wt_near_tensors(weft_grad(bias), weft_grad(plain[1]), WT_WITHIN(1e-11)));
}

/* ---- refusals ---- */

#define REFUSES(call, status)                                                                      \
    do {                                                                                           \
        WT_ALL(!(call) && weft_error_status() == (status));                                        \
        weft_error_clear();                                                                        \
    } while (0)

WT_TEST_IN_WORLD(norms__refuse_what_does_not_fit, w)
{
    weft_tensor *x = wt_spread(w, wt_whole3(WEFT_F32, 0, N, C, L), "S(2)");
    int64_t two = 2;
    weft_tensor *wrong = weft_full(WEFT_F32, &two, 1, 1);
    weft_batch_norm_options none = {0};

    REFUSES(weft_layer_norm(x, wrong, NULL, 1e-5), WEFT_ERR_SHAPE);
    REFUSES(weft_rms_norm(x, wrong, 1e-5), WEFT_ERR_SHAPE);
    REFUSES(weft_batch_norm(x, NULL, NULL, 1e-5, none), WEFT_ERR_ARG);
    none.training = true;
    REFUSES(weft_batch_norm(x, wrong, NULL, 1e-5, none), WEFT_ERR_SHAPE);
    REFUSES(weft_batch_norm(weft_full(WEFT_F32, (int64_t[]){1, 4}, 2, 0), NULL, NULL, 1e-5, none),
            WEFT_ERR_SHAPE);
    REFUSES(weft_group_norm(x, 3, NULL, NULL, 1e-5), WEFT_ERR_ARG);
    REFUSES(weft_argmax(weft_full(WEFT_F32, (int64_t[]){2, 0}, 2, 0), 1), WEFT_ERR_SHAPE);
    REFUSES(weft_norm(weft_full(WEFT_I32, &two, 1, 0), 2, NULL, 0, false), WEFT_ERR_DTYPE);
    REFUSES(weft_norm(x, NAN, NULL, 0, false), WEFT_ERR_ARG);
    REFUSES(weft_histc(x, 0, 0, 1), WEFT_ERR_ARG);
    REFUSES(weft_histc(x, 3, 1, 0), WEFT_ERR_ARG);
    REFUSES(weft_sort(weft_full(WEFT_F32, NULL, 0, 0), 1, false, NULL), WEFT_ERR_ARG);
    REFUSES(weft_logsumexp(weft_full(WEFT_I32, &two, 1, 0), NULL, 0, false), WEFT_ERR_DTYPE);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "normalization"); }
