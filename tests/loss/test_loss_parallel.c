/*
 * test_loss_parallel.c: cross-entropy on logits that are sharded over their classes, as other
 * libraries' loss_parallel cases have it. Where the peer needs three all-reduces (the maximum, the
 * sum of exponentials, the picked value) two are needed here, since the last two travel together.
 */
/* mpi: 4 */
#include <math.h>
#include <string.h>

#include "loss/check.h"

/* Nothing more; class weights; smoothing; z-loss; all of it. */
static struct check with_terms(int i, struct check c)
{
    c.weighted = i % 5 == 1 || i % 5 == 4;
    c.oracle.smoothing = i % 5 == 2 ? 0.1 : i % 5 == 4 ? 0.4 : 0;
    c.oracle.z_loss = i % 5 == 3 ? 1e-2 : i % 5 == 4 ? 0.5 : 0;
    return c;
}

/* ---- values, gradients, collectives ---- */

/* With all terms, in every shape; with `block` inside it too, where targets are plain. */
static void check_shapes(struct wt_world *w, struct check c, const int64_t (*shapes)[3], int n,
                         bool block)
{
    for (int i = 0; i < 5 * n; i++) {
        struct check own = with_terms(i, c);

        wt_row("%s, shape %d, terms %d", c.logits, i / 5, i % 5);
        memcpy(own.oracle.shape, shapes[i / 5], sizeof *shapes);
        check_losses(w, &own);
        if (!block) continue;
        own.target = NULL;
        own.block = true;
        check_losses(w, &own);
    }
}

static struct check matrix(const char *logits, const char *target)
{
    return (struct check){
        .oracle = {.ndim = 2, .class_dim = 1}, .logits = logits, .target = target};
}

/* LOSS-01, LOSS-18: even and uneven classes, fewer classes than ranks, no tokens. */
WT_TEST(loss_parallel__equals_one_device_with_two_all_reduces)
{
    static const int64_t shapes[][3] = {{8, 16}, {8, 10}, {5, 7}, {3, 2}, {0, 6}};
    struct wt_world w = wt_world_open();

    check_shapes(&w, matrix("S(1)", "R"), shapes, 5, true);
}

/* LOSS-02: the class dim need not be the last. */
WT_TEST(loss_parallel__with_classes_in_the_middle)
{
    static const int64_t shapes[][3] = {{8, 16, 12}, {3, 5, 7}, {2, 3, 1}};
    struct wt_world w = wt_world_open();
    struct check middle = matrix("S(1)", "R");
    struct check first = {
        .oracle = {.ndim = 2, .shape = {9, 4}, .class_dim = 0}, .logits = "S(0)", .target = "R"};

    middle.oracle.ndim = 3;
    check_shapes(&w, middle, shapes, 3, false);
    check_losses(&w, &first);
}

/* LOSS-04, LOSS-06, LOSS-07: tokens over dp, classes over tp; a mean is that of all ranks' tokens.
 */
WT_TEST(loss_parallel__on_two_axes)
{
    static const int64_t shapes[][3] = {{8, 16}, {7, 10}, {1, 5}, {13, 3}};
    struct wt_world w = wt_world_open_two_axes();
    struct check middle = {.oracle = {.ndim = 3, .shape = {4, 6, 5}, .class_dim = 1},
                           .logits = "S(2),S(1)",
                           .target = "S(1),R"};
    struct check turned = {.oracle = {.ndim = 2, .shape = {6, 9}, .class_dim = 1},
                           .logits = "S(1),S(0)",
                           .target = "R,S(0)",
                           .block = true};

    check_shapes(&w, matrix("S(0),S(1)", "S(0),R"), shapes, 4, false);
    check_losses(&w, &middle);
    check_losses(&w, &turned);
}

/* LOSS-08; and classes over both axes of a mesh: the rank's run of classes is a part of a part. */
WT_TEST(loss_parallel__with_a_replicated_axis_or_over_two_at_once)
{
    static const int64_t shapes[][3] = {{8, 16}, {5, 11}, {4, 13}};
    struct wt_world w = wt_world_open_two_axes();

    check_shapes(&w, matrix("R,S(1)", "R,R"), shapes, 2, true);
    check_shapes(&w, matrix("S(1),S(1)", "R,R"), shapes + 2, 1, false);
}

/* LOSS-22: one token without a dim of its own. */
WT_TEST(loss_parallel__of_one_token)
{
    static const int64_t shapes[][3] = {{1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}};
    struct wt_world w = wt_world_open();
    struct check one = {.oracle = {.ndim = 1}, .logits = "S(0)", .target = "R"};

    check_shapes(&w, one, shapes, 8, false);
}

/* ---- figures ---- */

static const double given_losses[] = {4.463503, 0, 0.944418, 4.483108};

/* x[i][j] = ((7i + 3j) mod 5) - 2, [4,6], and targets 0, -100, 5, 3 or all -100. */
static weft_tensor *given_loss(struct wt_world *w, bool all_ignored, weft_loss_reduction reduction,
                               weft_tensor **x)
{
    static const int64_t targets[2][4] = {{0, -100, 5, 3}, {-100, -100, -100, -100}};
    double values[24];

    for (int i = 0; i < 24; i++) values[i] = (7 * (i / 6) + 3 * (i % 6)) % 5 - 2;
    *x = weft_cast(weft_from_data(WEFT_F64, (int64_t[]){4, 6}, 2, values), WEFT_F32);
    *x = weft_set_requires_grad(wt_spread(w, *x, "S(1)"), true);
    return weft_cross_entropy_with(
        *x, wt_spread(w, weft_from_data(WEFT_I64, (int64_t[]){4}, 1, targets[all_ignored]), "R"),
        (weft_cross_entropy_options){.reduction = reduction});
}

/* LOSS-13: at 4 ranks the classes are 2, 2, 2, 0. */
WT_TEST(loss_parallel__ignores_targets)
{
    struct wt_world w = wt_world_open();
    const double sum = 9.891029, mean = 3.297010;
    weft_tensor *x, *grad;

    WT_ALL(wt_near_full(given_loss(&w, false, WEFT_LOSS_NONE, &x), given_losses, WT_WITHIN(1e-6)));
    WT_ALL(wt_near_full(given_loss(&w, false, WEFT_LOSS_SUM, &x), &sum, WT_WITHIN(1e-6)));
    WT_MOVED(&w, WEFT_COLL_ALL_REDUCE, 4);
    x = NULL;
    WT_ALL(weft_backward(given_loss(&w, false, WEFT_LOSS_MEAN, &x)) == WEFT_OK);
    grad = weft_grad(x);
    WT_MOVED(&w, WEFT_COLL_ALL_REDUCE, 2);
    WT_ALL(wt_is_placed(grad, "S(1)"));
    WT_ALL(wt_is_all(weft_slice(grad, 0, 1, 2), 0));
    WT_ALL(!wt_is_all(weft_slice(grad, 0, 0, 1), 0));
    WT_ALL(wt_near_full(given_loss(&w, false, WEFT_LOSS_MEAN, &x), &mean, WT_WITHIN(1e-6)));
}

/* LOSS-16: nothing is left to take the mean of; every gradient is 0, that of the mean too. */
WT_TEST(loss_parallel__of_ignored_targets_only)
{
    struct wt_world w = wt_world_open();

    for (int i = 0; i < 3; i++) {
        weft_loss_reduction reduction = (weft_loss_reduction)i;
        weft_tensor *x, *loss = given_loss(&w, true, reduction, &x);

        if (reduction == WEFT_LOSS_MEAN)
            WT_ALL(isnan(weft_item(loss)));
        else
            WT_ALL(wt_is_all(loss, 0));
        WT_ALL(weft_backward(weft_sum_all(loss)) == WEFT_OK);
        WT_MOVED(&w, WEFT_COLL_ALL_REDUCE, 2);
        WT_ALL(wt_is_all(weft_grad(x), 0));
        wt_moved(&w, WEFT_COLL_COUNT);
    }
}

/* LOSS-20: exponentials neither overflow nor vanish, whichever rank has the large logits; bf16 is
 * computed in f32, and the loss is f32 as it is on one device. */
WT_TEST(loss_parallel__of_large_logits)
{
    struct wt_world w = wt_world_open();

    for (int i = 0; i < 3 * wt_ranks(); i++) {
        struct check c = {.oracle = {.ndim = 2, .shape = {6, 4 * wt_ranks() - 1}, .class_dim = 1},
                          .dtype = (weft_dtype)(i % 3), /* f32, f64, bf16 */
                          .logits = "S(1)",
                          .target = "R"};

        check_prepare(&c);
        for (int64_t at = 0; at < c.oracle.count; at++)
            c.oracle.z[at] = at % c.oracle.classes / 4 == i / 3 ? 1e4
                             : at % 2                           ? -1e4
                                                                : c.oracle.z[at];
        check_round(&c);
        check_reductions(&w, &c);
    }
}

/* Logits of 16 bits over classes and tokens: the maximum travels as such, the rest as f32. */
WT_TEST(loss_parallel__of_other_dtypes)
{
    struct wt_world w = wt_world_open_two_axes();

    for (int i = 0; i < 15; i++) {
        struct check c = with_terms(
            i % 10, (struct check){.oracle = {.ndim = 2, .shape = {7, 10}, .class_dim = 1},
                                   .dtype = i < 5    ? WEFT_F64
                                            : i < 10 ? WEFT_BF16
                                                     : WEFT_F16,
                                   .logits = "S(0),S(1)",
                                   .target = "S(0),R"});
        weft_tensor *loss;

        check_losses(&w, &c);
        check_prepare(&c);
        loss = weft_cross_entropy(check_logits(&w, &c), check_target(&w, &c), -100);
        WT_ALL(weft_tensor_dtype(loss) == (i < 5 ? WEFT_F64 : WEFT_F32));
    }
}

/* Class weights of any dtype become the losses' own. */
WT_TEST(loss_parallel__with_weights_of_another_dtype)
{
    static const weft_dtype dtypes[][2] = {
        {WEFT_F32, WEFT_F64}, {WEFT_F32, WEFT_BF16}, {WEFT_F64, WEFT_F32}, {WEFT_BF16, WEFT_BF16}};
    struct wt_world w = wt_world_open();

    for (int i = 0; i < 4; i++) {
        struct check c = {.oracle = {.ndim = 2, .shape = {5, 7}, .class_dim = 1},
                          .weighted = true,
                          .dtype = dtypes[i][0],
                          .logits = "S(1)",
                          .target = "R"};
        weft_cross_entropy_options options = {.smoothing = 0.1};
        weft_tensor *z, *same = NULL;

        check_prepare(&c);
        for (int j = 0; j < 7; j++) c.oracle.weight[j] = 0.5 + j; /* exact in each of them */
        for (int k = 0; k < 2; k++) {
            weft_tensor *weight = check_weight(&w, &c), *loss;

            options.weight = k ? weft_cast(weight, dtypes[i][1]) : weight;
            z = check_logits(&w, &c);
            loss = weft_cross_entropy_with(z, check_target(&w, &c), options);
            WT_ALL(weft_backward(loss) == WEFT_OK);
            if (k) WT_ALL(wt_near_tensors(weft_grad(z), same, WT_EXACT));
            same = weft_grad(z);
        }
    }
}

/* What the first rank has. */
static double first_of_all(struct wt_world *w, double value)
{
    const weft_placement everywhere = weft_replicate();
    weft_tensor *t = weft_full(WEFT_F64, NULL, 0, value);

    return weft_item(weft_distribute_tensor(t, w->mesh, &everywhere, 0));
}

/* A token's loss has the same bits wherever it is computed from all its classes, and every rank has
 * the same bits of a loss whose classes are sharded. */
WT_TEST(loss_parallel__has_the_same_bits)
{
    struct wt_world w = wt_world_open();

    for (int i = 0; i < 15; i++) {
        struct check c = with_terms(
            i % 10, (struct check){.oracle = {.ndim = 2, .shape = {7, 300}, .class_dim = 1},
                                   .logits = i < 5 ? "S(0)" : "S(1)",
                                   .target = i < 5 ? "S(0)" : "R"});
        weft_cross_entropy_options options;
        weft_tensor *loss, *again, *whole;
        double mine;

        check_prepare(&c);
        options = check_options(&c, i < 5 ? WEFT_LOSS_NONE : WEFT_LOSS_MEAN);
        options.weight = check_weight(&w, &c);
        loss = weft_cross_entropy_with(check_logits(&w, &c), check_target(&w, &c), options);
        again = weft_cross_entropy_with(check_logits(&w, &c), check_target(&w, &c), options);
        WT_ALL(wt_near_tensors(loss, again, WT_EXACT));
        if (i < 5) {
            c.logits = c.target = NULL;
            options.weight = check_weight(&w, &c);
            whole = weft_cross_entropy_with(check_logits(&w, &c), check_target(&w, &c), options);
            WT_ALL(wt_near_tensors(loss, whole, WT_EXACT));
        } else {
            mine = weft_item(loss);
            WT_EQ((int64_t)(mine * 0x1p40), (int64_t)(first_of_all(&w, mine) * 0x1p40));
        }
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "loss_parallel"); }
