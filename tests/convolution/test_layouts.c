/*
 * test_layouts.c: which layout convolutions and pooling give, what they send, training along a
 * sharded width, and what backward leaves out.
 */
/* mpi: 2 4 */
#include <math.h>

#include "support/worlds.h"
#include "tensor/tensor.h"

static weft_tensor *tensor(int which, const int64_t *shape, int ndim)
{
    int64_t n = 1;

    for (int d = 0; d < ndim; d++) n *= shape[d];
    return weft_reshape(wt_whole(WEFT_F32, which, 1, n), shape, ndim);
}

#define TENSOR(which, ...)                                                                         \
    tensor((which), (int64_t[]){__VA_ARGS__}, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8))

#define LIKE(got, plain) WT_ALL(wt_near_tensors((got), (plain), WT_WITHIN(2e-5)))

static weft_tensor *leaf(weft_tensor *t) { return weft_set_requires_grad(t, true); }

/* ---- what stays where it is ---- */

WT_TEST_IN_WORLD(conv__sends_nothing, w)
{
    static const char *const rows[][4] = {{"S(0)", "R", "R", "S(0)"},
                                          {"R", "S(0)", "S(0)", "S(1)"},
                                          {"S(1)", "S(1)", "R", "P"},
                                          {"R", "R", "R", "R"}};
    weft_conv_options o = {.padding = {1, 1}};
    weft_tensor *x = TENSOR(0, 5, 8, 4, 6), *weight = TENSOR(1, 12, 8, 3, 3), *bias = TENSOR(2, 12);
    weft_tensor *want = weft_conv2d(x, weight, bias, o);

    for (int k = 0; k < 4; k++) {
        weft_tensor *y, *in[] = {wt_spread(w, x, rows[k][0]), wt_spread(w, weight, rows[k][1]),
                                 wt_spread(w, bias, rows[k][2])};

        weft_ledger_reset(w->ledger);
        y = weft_conv2d(in[0], in[1], in[2], o);
        WT_STILL(w);
        WT_ALL(wt_is_placed(y, rows[k][3]));
        LIKE(y, want);
    }
}

/* Of groups that are channels each rank has some, also unevenly; of more, where groups divide. */
WT_TEST_TIMES_IN_WORLD(conv__of_groups_sends_nothing, w, k, 3)
{
    int64_t channels = k == 0 ? 24 : k == 1 ? 5 : 48, groups = k == 2 ? 24 : channels;
    weft_conv_options o = {.padding = {3}, .groups = groups, .causal = true};
    weft_tensor *x = leaf(TENSOR(0, 2, channels, 9)), *y, *want;
    weft_tensor *weight = leaf(TENSOR(1, channels, channels / groups, 4)),
                *bias = leaf(TENSOR(2, channels));
    weft_tensor *in[] = {leaf(wt_spread(w, weft_detach(x), "S(1)")),
                         leaf(wt_spread(w, weft_detach(weight), "S(0)")),
                         leaf(wt_spread(w, weft_detach(bias), "S(0)"))};
    weft_tensor *up = TENSOR(3, 2, channels, 9), *spread_up = wt_spread(w, up, "S(1)");

    weft_ledger_reset(w->ledger);
    y = weft_conv1d(in[0], in[1], in[2], o);
    WT_ALL(wt_is_placed(y, "S(1)"));
    WT_EQ(weft_backward_from(y, spread_up), WEFT_OK);
    WT_STILL(w);
    want = weft_conv1d(x, weight, bias, o);
    WT_EQ(weft_backward_from(want, up), WEFT_OK);
    LIKE(y, want);
    WT_ALL(wt_is_placed(in[0]->grad, "S(1)") && wt_is_placed(in[1]->grad, "S(0)"));
    LIKE(weft_grad(in[0]), weft_grad(x));
    LIKE(weft_grad(in[1]), weft_grad(weight));
    LIKE(weft_grad(in[2]), weft_grad(bias));
}

/* Terms go through, and the bias counts once. */
WT_TEST_IN_WORLD(conv__of_terms_stays_terms, w)
{
    weft_tensor *x = TENSOR(0, 2, 3, 8), *weight = TENSOR(1, 4, 3, 3), *bias = TENSOR(2, 4), *y;
    weft_tensor *terms = wt_partial(w, x, WEFT_SUM);
    weft_tensor *in[] = {wt_spread(w, weight, "R"), wt_spread(w, bias, "R")};

    weft_ledger_reset(w->ledger);
    y = weft_conv1d(terms, in[0], in[1], (weft_conv_options){.stride = {2}});
    WT_STILL(w);
    WT_ALL(wt_is_placed(y, "P"));
    LIKE(y, weft_conv1d(weft_mul_scalar(x, wt_ranks()), weight, bias,
                        (weft_conv_options){.stride = {2}}));
    weft_ledger_reset(w->ledger);
    y = weft_avg_pool1d(terms, (weft_pool_options){.kernel = {2}});
    WT_ALL(wt_is_placed(y, "P"));
    y = weft_interpolate(terms, (weft_interpolate_options){.scale = {2}, .mode = WEFT_LINEAR});
    WT_ALL(wt_is_placed(y, "P"));
    WT_STILL(w);
}

/* Means of all places need no place of another rank. */
WT_TEST_IN_WORLD(adaptive__of_all_places_sends_nothing, w)
{
    weft_tensor *x = TENSOR(0, 2, 3, 4, 13), *y;

    y = weft_adaptive_avg_pool2d(wt_spread(w, x, "S(3)"), (int64_t[]){1, 1});
    WT_STILL(w);
    WT_ALL(wt_is_placed(y, "P"));
    WT_ALL(wt_has_shape(y, 4, (int64_t)2, (int64_t)3, (int64_t)1, (int64_t)1));
    LIKE(y, weft_mean(x, (int[]){2, 3}, 2, true));
}

/* ---- a sharded width ---- */

struct model {
    weft_tensor *weight, *bias;
};

static weft_tensor *step_from(weft_tensor *parameter)
{
    weft_tensor *by = weft_mul_scalar(weft_grad(parameter), -0.01);

    return leaf(weft_detach(weft_add(weft_detach(parameter), by)));
}

/* TEN-38: patches along a sharded width: each rank has whole ones, and the gradients are terms */
WT_TEST_TIMES_IN_WORLD(conv__trains_along_a_sharded_width, w, k, 2)
{
    int64_t wide = k ? 96 : 32, high = k ? 8 : 16, ranks = wt_ranks();
    weft_conv_options o = {.stride = {4, 4}};
    weft_tensor *weight = TENSOR(1, 8, 3, 4, 4), *bias = TENSOR(2, 8);
    struct model one = {leaf(weft_detach(weight)), leaf(weft_detach(bias))};
    struct model many = {leaf(wt_spread(w, weight, "R")), leaf(wt_spread(w, bias, "R"))};
    bool even = wide / 4 % ranks == 0;

    for (int step = 0; step < 3; step++) {
        weft_tensor *x = TENSOR(3 + step, 2, 3, high, wide),
                    *up = TENSOR(7, 2, 8, high / 4, wide / 4);
        weft_tensor *spread_x = wt_spread(w, x, "S(3)"), *spread_up = wt_spread(w, up, "S(3)"), *y;

        weft_ledger_reset(w->ledger);
        y = weft_conv2d(spread_x, many.weight, many.bias, o);
        WT_EQ(weft_backward_from(y, spread_up), WEFT_OK);
        if (even) {
            WT_STILL(w);
            WT_ALL(wt_is_placed(y, "S(3)"));
            WT_ALL(wt_is_placed(many.weight->grad, ranks > 1 ? "P" : "R"));
            WT_ALL(wt_is_placed(many.bias->grad, ranks > 1 ? "P" : "R"));
        }
        WT_EQ(weft_backward_from(weft_conv2d(x, one.weight, one.bias, o), up), WEFT_OK);
        one = (struct model){step_from(one.weight), step_from(one.bias)};
        many = (struct model){step_from(many.weight), step_from(many.bias)};
    }
    LIKE(many.weight, one.weight);
    LIKE(many.bias, one.bias);
}

/* TEN-38: a window of 7 reads places of its neighbours; OPDB-03: the peer gives wrong numbers */
WT_TEST_TIMES_IN_WORLD(conv__reads_beyond_its_shard, w, k, 4)
{
    int64_t wide = k & 1 ? 13 : 32, stride = k & 2 ? 2 : 1;
    weft_conv_options o = {.padding = {3, 3}, .stride = {1, stride}, .groups = 3};
    weft_tensor *x = leaf(TENSOR(0, 2, 3, 8, wide)), *weight = leaf(TENSOR(1, 3, 1, 7, 7)), *y,
                *want;
    weft_tensor *in[] = {leaf(wt_spread(w, weft_detach(x), "S(3)")),
                         leaf(wt_spread(w, weft_detach(weight), "R"))};

    y = weft_conv2d(in[0], in[1], NULL, o);
    want = weft_conv2d(x, weight, NULL, o);
    LIKE(y, want);
    WT_EQ(weft_backward(weft_sum_all(weft_square(y))), WEFT_OK);
    WT_EQ(weft_backward(weft_sum_all(weft_square(want))), WEFT_OK);
    WT_ALL(wt_near_tensors(weft_grad(in[0]), weft_grad(x), WT_WITHIN(2e-4)));
    WT_ALL(wt_near_tensors(weft_grad(in[1]), weft_grad(weight), WT_WITHIN(2e-3)));
}

/* Only the places at the borders are sent, forward once and backward three times: less than half of
 * what bringing the dim together would. */
WT_TEST_TIMES_IN_WORLD(conv__sends_the_borders_alone, w, k, 5)
{
    int64_t ranks = wt_ranks(), wide = 16 * ranks;
    weft_conv_options options[] = {{.padding = {2, 1}},
                                   {.padding = {3}, .causal = true, .groups = 4},
                                   {.padding = {1, 3}, .stride = {1, 2}},
                                   {.padding = {2, 2}, .dilation = {1, 2}, .groups = 2},
                                   {.padding = {1, 2}}};
    weft_conv_options o = options[k];
    bool one_dim = k == 1, high = k == 4; /* the height is sharded */
    weft_tensor *x =
        one_dim ? TENSOR(0, 2, 4, wide) : TENSOR(0, 2, 4, high ? wide : 5, high ? 5 : wide);
    weft_tensor *want, *y, *up;
    weft_tensor *weight =
        one_dim ? TENSOR(1, 4, 1, 4) : TENSOR(1, 6, 4 / (k == 3 ? 2 : 1), 3, k == 2 ? 7 : 3);
    weft_tensor *bias = TENSOR(2, one_dim ? 4 : 6), *one[] = {leaf(x), leaf(weight), leaf(bias)};
    const char *layout = one_dim || high ? "S(2)" : "S(3)";
    weft_tensor *many[] = {leaf(wt_spread(w, weft_detach(x), layout)),
                           leaf(wt_spread(w, weft_detach(weight), "R")),
                           leaf(wt_spread(w, weft_detach(bias), "R"))};
    int64_t whole = weft_numel(x) / ranks * 4, sent;

    want = one_dim ? weft_conv1d(x, weight, bias, o) : weft_conv2d(x, weight, bias, o);
    weft_ledger_reset(w->ledger);
    y = one_dim ? weft_conv1d(many[0], many[1], many[2], o)
                : weft_conv2d(many[0], many[1], many[2], o);
    sent = weft_ledger_total(w->ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL).sent;
    WT_ALL(wt_is_placed(y, ranks > 1 ? layout : "R"));
    WT_ALL(2 * sent <= whole * (ranks - 1));
    WT_MOVED(w, WEFT_COLL_ALL_GATHER, 1);
    LIKE(y, want);
    up = weft_square(weft_detach(want));
    WT_EQ(weft_backward_from(want, up), WEFT_OK);
    up = weft_square(weft_detach(y));
    weft_ledger_reset(w->ledger);
    WT_EQ(weft_backward_from(y, up), WEFT_OK);
    sent = weft_ledger_total(w->ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL).sent;
    WT_ALL(2 * sent <= whole * (ranks - 1));
    WT_ALL(wt_moved(w, WEFT_COLL_COUNT) <= 3);
    WT_ALL(wt_is_placed(many[1]->grad, ranks > 1 ? "P" : "R"));
    for (int i = 0; i < 3; i++) {
        wt_note("gradient %d", i);
        WT_ALL(wt_near_tensors(weft_grad(many[i]), weft_grad(one[i]), WT_WITHIN(1e-3)));
    }
}

/* Over two axes: the batch over one, the width over the other. */
WT_TEST_IN(conv__sends_the_borders_along_one_axis, w, wt_world_open_two_axes())
{
    weft_conv_options o = {.padding = {1, 1}};
    weft_tensor *x = leaf(TENSOR(0, 4, 3, 5, 48)), *weight = leaf(TENSOR(1, 6, 3, 3, 3)), *y, *want;
    weft_tensor *in[] = {leaf(wt_spread(w, weft_detach(x), "S(0),S(3)")),
                         leaf(wt_spread(w, weft_detach(weight), "R,R"))};

    weft_ledger_reset(w->ledger);
    y = weft_conv2d(in[0], in[1], NULL, o);
    if (weft_mesh_axis_size(w->mesh, 1) > 1) {
        WT_MOVED(w, WEFT_COLL_ALL_GATHER, 1);
        WT_ALL(wt_is_placed(y, "S(0),S(3)"));
    }
    want = weft_conv2d(x, weight, NULL, o);
    LIKE(y, want);
    WT_EQ(weft_backward(weft_sum_all(weft_square(y))), WEFT_OK);
    WT_EQ(weft_backward(weft_sum_all(weft_square(want))), WEFT_OK);
    WT_ALL(wt_near_tensors(weft_grad(in[0]), weft_grad(x), WT_WITHIN(1e-4)));
    WT_ALL(wt_near_tensors(weft_grad(in[1]), weft_grad(weight), WT_WITHIN(1e-3)));
}

/* ---- what there is not ---- */

/* TEN-38: without a gradient of the input those of weight and bias alone; shapes in one and three
 * dims */
WT_TEST_IN_WORLD(conv__gives_the_gradients_that_are_wanted, w)
{
    weft_tensor *x = wt_spread(w, TENSOR(0, 2, 3, 5, 6), "R"), *y;
    weft_tensor *weight = leaf(wt_spread(w, TENSOR(1, 4, 3, 3, 3), "R"));
    weft_tensor *bias = leaf(wt_spread(w, TENSOR(2, 4), "R"));

    y = weft_conv2d(x, weight, bias, (weft_conv_options){.stride = {1}});
    WT_EQ(weft_backward(weft_sum_all(y)), WEFT_OK);
    WT_ALL(weft_grad(x) == NULL && weft_grad(weight) != NULL && weft_grad(bias) != NULL);
    y = weft_conv1d(wt_spread(w, TENSOR(0, 4, 6, 11), "R"), wt_spread(w, TENSOR(1, 5, 6, 3), "R"),
                    NULL, (weft_conv_options){.dilation = {2}});
    WT_ALL(wt_has_shape(y, 3, (int64_t)4, (int64_t)5, (int64_t)7) && wt_is_placed(y, "R"));
    y = weft_conv3d(wt_spread(w, TENSOR(0, 2, 3, 4, 5, 6), "R"),
                    wt_spread(w, TENSOR(1, 4, 3, 2, 2, 2), "R"), NULL,
                    (weft_conv_options){.groups = 1});
    WT_ALL(wt_has_shape(y, 5, (int64_t)2, (int64_t)4, (int64_t)3, (int64_t)4, (int64_t)5));
    WT_ALL(wt_is_placed(y, "R"));
    y = weft_conv1d(wt_spread(w, TENSOR(0, 6, 11), "R"), wt_spread(w, TENSOR(1, 5, 6, 3), "R"),
                    NULL, (weft_conv_options){.groups = 1});
    WT_ALL(wt_has_shape(y, 2, (int64_t)5, (int64_t)9));
}

WT_TEST_IN_WORLD(conv__refuses_what_does_not_fit, w)
{
    weft_conv_options o = {.groups = 1}, two = {.groups = 2}, negative = {.padding = {-1}};
    weft_tensor *x = wt_spread(w, TENSOR(0, 2, 3, 8), "R"),
                *weight = wt_spread(w, TENSOR(1, 4, 3, 3), "R");
    weft_tensor *large = wt_spread(w, TENSOR(1, 4, 3, 9), "R"),
                *other = wt_spread(w, TENSOR(1, 4, 2, 3), "R");
    weft_tensor *refused[] = {
        weft_conv1d(x, large, NULL, o),
        weft_conv1d(x, other, NULL, o),
        weft_conv1d(x, weight, NULL, two),
        weft_conv1d(x, weight, NULL, negative),
        weft_conv2d(x, weight, NULL, o),
        weft_conv1d(x, weight, wt_spread(w, TENSOR(2, 3), "R"), o),
        weft_max_pool1d(x, (weft_pool_options){.kernel = {9}}, NULL),
        weft_max_pool1d(x, (weft_pool_options){.kernel = {0}}, NULL),
        weft_avg_pool1d(x, (weft_pool_options){.kernel = {2}, .padding = {2}}),
        weft_interpolate(x, (weft_interpolate_options){.mode = WEFT_LINEAR})};

    for (int i = 0; i < 10; i++) {
        wt_note("case %d", i);
        WT_ALL(refused[i] == NULL);
    }
    weft_error_clear();
}

/* Where the largest is, and not-a-number is larger; a rank's rows alone. */
WT_TEST_IN_WORLD(max_pool__says_where, w)
{
    weft_tensor *x =
        weft_from_data(WEFT_F32, (int64_t[]){1, 1, 9}, 3, (float[]){1, 3, 3, 0, -1, -2, NAN, 5, 7});
    weft_tensor *y, *at;

    y = weft_max_pool1d(wt_spread(w, x, "R"),
                        (weft_pool_options){.kernel = {2}, .stride = {2}, .ceil = true}, &at);
    WT_ALL(wt_near_full(y, (double[]){3, 3, -1, NAN, 7}, WT_EXACT));
    WT_ALL(wt_near_full(at, (double[]){1, 2, 4, 6, 8}, WT_EXACT));
    WT_ALL(weft_tensor_dtype(at) == WEFT_I64);
}

/* A second call of the same shapes makes no plan, so no primitive of oneDNN. */
WT_TEST_IN_WORLD(conv__plans_once, w)
{
    weft_tensor *x = wt_spread(w, TENSOR(0, 4, 6, 8), "S(0)"),
                *weight = wt_spread(w, TENSOR(1, 4, 3, 3), "R");
    weft_conv_options o = {.groups = 2, .padding = {1}};
    int64_t misses;

    WT_ALL(weft_conv1d(x, weight, NULL, o) != NULL);
    misses = weft_plan_cache_statistics().plan_misses;
    WT_ALL(weft_conv1d(x, weight, NULL, o) != NULL);
    WT_ALL(weft_plan_cache_statistics().plan_misses == misses);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "layouts"); }
