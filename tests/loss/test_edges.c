/*
 * test_edges.c: cross-entropy where something is missing or elsewhere: targets and weights in other
 * layouts, classes that cannot be, tokens that do not count.
 */
/* mpi: 4 */
#include <math.h>
#include <string.h>

#include "loss/check.h"

/* ---- layouts of targets and weights ---- */

struct layouts {
    const char *logits, *target;
    bool in_block; /* the block takes it */
};

/* Inside the block a target that others would have to send is refused; outside it is brought. */
static void check_layouts(struct wt_world *w, const struct layouts *row)
{
    struct check c = {.oracle = {.ndim = 2, .shape = {8, 16}, .class_dim = 1},
                      .weighted = true,
                      .logits = row->logits,
                      .target = row->target};
    weft_tensor *z, *target;

    check_prepare(&c);
    oracle_run(&c.oracle, NULL);
    z = check_logits(w, &c);
    target = check_target(w, &c);
    for (int r = 0; r < 2 * (WEFT_LOSS_NONE + 1); r++) {
        weft_loss_reduction reduction = (weft_loss_reduction)(r / 2);
        weft_cross_entropy_options options = check_options(&c, reduction);
        const double mean = c.oracle.total / c.oracle.weights;
        const double *want[] = {&mean, &c.oracle.total, c.oracle.losses};
        weft_scope *block = r % 2 ? weft_loss_parallel_open() : weft_scope_open();
        weft_tensor *loss;

        options.weight = check_weight(w, &c);
        loss = weft_cross_entropy_with(z, target, options);
        if (r % 2 && !row->in_block) {
            WT_FAILS(loss, WEFT_ERR_LAYOUT, "expected a target that is replicated");
        } else {
            wt_note("%s with a target %s", row->logits, row->target);
            WT_ALL(wt_near_full(loss, want[reduction], WT_WITHIN(1e-5)));
        }
        weft_scope_close(block);
    }
    weft_ledger_reset(w->ledger);
}

/* Tokens of a sharded sequence, flattened: each rank has some of each row, and nothing moves but
 * sums. */
WT_TEST_TIMES_IN_WORLD(tokens__of_flattened_sequence_shards_stay_where_they_are, w, i, 3)
{
    int64_t cube[] = {4, 2 * wt_ranks(), 7}, plane[] = {cube[0], cube[1]};
    int tokens = (int)(cube[0] * cube[1]), classes[4 * 2 * 8];
    weft_tensor *z, *target, *x = weft_reshape(wt_whole(WEFT_F64, 0, tokens, 7), cube, 3), *alone;
    weft_tensor *leaf = weft_set_requires_grad(wt_spread(w, x, "S(1)"), true), *loss;
    weft_cross_entropy_options o = {.reduction = (weft_loss_reduction)i};

    for (int t = 0; t < tokens; t++) classes[t] = t * 5 % 7;
    target = weft_from_data(WEFT_I32, plane, 2, classes);
    x = weft_set_requires_grad(x, true);
    alone = weft_cross_entropy_with(weft_flatten(x, 0, 1), weft_flatten(target, 0, 1), o);
    target = weft_flatten(wt_spread(w, target, "S(1)"), 0, 1);
    z = weft_flatten(leaf, 0, 1);
    WT_STILL(w);
    loss = weft_cross_entropy_with(z, target, o);
    if (i == WEFT_LOSS_MEAN)
        WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
    else
        WT_STILL(w);
    WT_ALL(weft_backward(weft_sum_all(loss)) == WEFT_OK &&
           weft_backward(weft_sum_all(alone)) == WEFT_OK);
    WT_STILL(w);
    WT_ALL(wt_near_tensors(loss, alone, WT_WITHIN(1e-12)));
    WT_ALL(wt_near_tensors(weft_grad(leaf), weft_grad(x), WT_WITHIN(1e-12)));
    weft_ledger_reset(w->ledger);
    loss = weft_nll_loss(weft_log_softmax(z, 1), target, o);
    WT_ALL(weft_ledger_count(w->ledger, WEFT_COLL_ALL_TO_ALL, WEFT_DIRECTION_ANY, NULL) == 0);
    WT_ALL(wt_near_tensors(loss, alone, WT_WITHIN(1e-12)));
    weft_ledger_reset(w->ledger);
}

WT_TEST(target__is_replicated_or_sharded_as_the_logits)
{
    static const struct layouts rows[] = {
        {"S(0),S(1)", "S(0),R", true},  {"S(0),S(1)", "R,R", true},
        {"R,S(1)", "R,R", true},        {"S(1),S(0)", "R,S(0)", true},
        {"S(1),S(1)", "R,R", true},     {"S(0),S(1)", "R,S(0)", false},
        {"R,S(1)", "S(0),R", false},    {"S(0),S(1)", "S(0),S(0)", false},
        {"S(1),S(1)", "R,S(0)", false},
    };
    struct wt_world w = wt_world_open_two_axes();

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check_layouts(&w, &rows[i]);
}

WT_TEST(target__by_tokens_is_no_replica)
{
    struct wt_world w = wt_world_open();

    check_layouts(&w, &(struct layouts){"S(1)", "S(0)", false});
    check_layouts(&w, &(struct layouts){"S(1)", "R", true});
}

WT_TEST(weights__are_replicated_in_the_block)
{
    struct wt_world w = wt_world_open();
    struct check c = {.oracle = {.ndim = 2, .shape = {6, 11}, .class_dim = 1},
                      .weighted = true,
                      .logits = "S(1)",
                      .target = "R"};
    weft_cross_entropy_options options = {.reduction = WEFT_LOSS_SUM};
    weft_tensor *z, *target;
    weft_scope *block;

    check_prepare(&c);
    oracle_run(&c.oracle, NULL);
    z = check_logits(&w, &c);
    target = check_target(&w, &c);
    options.weight =
        wt_spread(&w, weft_from_data(WEFT_F64, &c.oracle.classes, 1, c.oracle.weight), "S(0)");
    WT_ALL(wt_near_full(weft_cross_entropy_with(z, target, options), &c.oracle.total,
                        WT_WITHIN(1e-5)));
    block = weft_loss_parallel_open();
    WT_FAILS(weft_cross_entropy_with(z, target, options), WEFT_ERR_LAYOUT,
             "class weights that are replicated");
    weft_scope_close(block);
}

/* Two axes share the tokens and a third the classes, whichever comes first. */
static void check_three(struct wt_world *w, const char *logits, const char *target,
                        const char *const *placed)
{
    struct check c = {.oracle = {.ndim = 3, .shape = {4, 6, 10}, .class_dim = 2, .smoothing = 0.1},
                      .weighted = true,
                      .logits = logits,
                      .target = target};
    struct oracle *o = &c.oracle;

    check_prepare(&c);
    for (int r = 0; r <= WEFT_LOSS_NONE; r++) {
        weft_cross_entropy_options options = check_options(&c, (weft_loss_reduction)r);
        weft_scope *block = weft_loss_parallel_open();
        const double *want[] = {&o->total, &o->total, o->losses};
        weft_tensor *z = check_logits(w, &c), *loss;

        options.weight = check_weight(w, &c);
        loss = weft_cross_entropy_with(z, check_target(w, &c), options);
        WT_ALL(loss && wt_is_placed(loss, placed[r]));
        WT_ALL(weft_backward(weft_sum_all(loss)) == WEFT_OK);
        oracle_run(o, NULL);
        for (int64_t i = 0; r == WEFT_LOSS_MEAN && i < o->count; i++) o->grad[i] /= o->weights;
        if (r == WEFT_LOSS_MEAN) o->total /= o->weights;
        wt_note("reduction %d of %s", r, logits);
        WT_ALL(wt_near_full(loss, want[r], WT_WITHIN(1e-5)));
        WT_ALL(wt_is_placed(weft_grad(z), logits));
        WT_ALL(wt_near_full(weft_grad(z), o->grad, WT_WITHIN(1e-5)));
        weft_scope_close(block);
    }
}

WT_TEST(tokens__over_two_axes_of_three)
{
    static const char *const last[] = {"R,R,R", "P,P,R", "S(0),S(1),R"};
    static const char *const first[] = {"R,R,R", "R,P,P", "R,S(1),S(0)"};
    int n = wt_ranks(), dp = n % 2 ? 1 : 2, cp = n % 4 ? 1 : 2;
    struct wt_world w = wt_world_open_mesh("a=%d,b=%d,c=%d", dp, cp, n / dp / cp);

    check_three(&w, "S(0),S(1),S(2)", "S(0),S(1),R", last);
    check_three(&w, "S(2),S(1),S(0)", "R,S(1),S(0)", first);
    weft_ledger_reset(w.ledger);
}

/* Numbers of 32 bits name the same classes. */
WT_TEST(target__may_be_i32)
{
    struct wt_world w = wt_world_open();
    struct check c = {
        .oracle = {.ndim = 2, .shape = {7, 9}, .class_dim = 1}, .logits = "S(1)", .target = "R"};
    weft_tensor *z, *target;

    check_prepare(&c);
    z = check_logits(&w, &c);
    target = check_target(&w, &c);
    WT_ALL(wt_near_tensors(weft_cross_entropy(z, weft_cast(target, WEFT_I32), -100),
                           weft_cross_entropy(z, target, -100), WT_EXACT));
}

/* ---- classes that cannot be ---- */

/* As a vocabulary that is padded to a round size: the last classes have logits of minus infinity,
 * also where they are all that a rank has. Their gradient is 0. */
static void pad(struct wt_world *w, int64_t classes, int64_t padded, weft_dtype dtype,
                bool weighted)
{
    struct check c = {.oracle = {.ndim = 2, .shape = {6, padded}, .class_dim = 1},
                      .weighted = weighted,
                      .dtype = dtype,
                      .logits = "S(1)",
                      .target = "R"};
    struct oracle *o = &c.oracle;

    check_prepare(&c);
    for (int64_t i = 0; i < o->count; i++)
        if (i % padded >= classes) o->z[i] = -1e30;
    for (int64_t i = 0; i < o->tokens; i++)
        if (o->target[i] >= classes) o->target[i] %= classes;
    check_round(&c);
    for (int r = 0; r <= WEFT_LOSS_NONE; r++) {
        weft_cross_entropy_options options = check_options(&c, (weft_loss_reduction)r);
        weft_tensor *far, *never, *loss[2];
        double finite[128];

        options.weight = check_weight(w, &c);
        far = check_logits(w, &c);
        memcpy(finite, o->z, (size_t)o->count * sizeof *finite);
        for (int64_t i = 0; i < o->count; i++)
            if (i % padded >= classes) o->z[i] = -INFINITY;
        never = check_logits(w, &c);
        memcpy(o->z, finite, (size_t)o->count * sizeof *finite);
        loss[0] = weft_cross_entropy_with(far, check_target(w, &c), options);
        loss[1] = weft_cross_entropy_with(never, check_target(w, &c), options);
        WT_ALL(wt_near_tensors(loss[1], loss[0], WT_EXACT));
        for (int k = 0; k < 2; k++) WT_ALL(weft_backward(weft_sum_all(loss[k])) == WEFT_OK);
        WT_ALL(wt_near_tensors(weft_grad(never), weft_grad(far), WT_EXACT));
        WT_ALL(wt_is_all(weft_slice(weft_grad(never), 1, classes, padded), 0));
    }
    check_reductions(w, &c);
}

WT_TEST(classes__of_minus_infinity_have_no_share)
{
    struct wt_world w = wt_world_open();

    for (int i = 0; i < 6; i++) {
        pad(&w, 5, 16, (weft_dtype)(i % 3), i / 3);
        pad(&w, 11, 12, (weft_dtype)(i % 3), i / 3);
        pad(&w, 1, 9, (weft_dtype)(i % 3), i / 3);
    }
}

/* Classes that weigh nothing: their tokens count nothing, and with no others the mean is NaN. */
WT_TEST(classes__without_weight_count_nothing)
{
    struct wt_world w = wt_world_open_two_axes();

    for (int i = 0; i < 6; i++) {
        struct check c = {.oracle = {.ndim = 2, .shape = {7, 10}, .class_dim = 1},
                          .weighted = true,
                          .logits = "S(0),S(1)",
                          .target = "S(0),R"};
        weft_cross_entropy_options options = check_options(&c, (weft_loss_reduction)(i % 3));
        bool none = i < 3;
        weft_tensor *loss;

        check_prepare(&c);
        for (int64_t j = 0; j < 10; j++)
            if (none || j % 2) c.oracle.weight[j] = 0;
        if (!none) check_reductions(&w, &c);
        options.weight = check_weight(&w, &c);
        loss = weft_cross_entropy_with(check_logits(&w, &c), check_target(&w, &c), options);
        if (none && i == WEFT_LOSS_MEAN) WT_ALL(isnan(weft_item(loss)));
        if (none && i != WEFT_LOSS_MEAN) WT_ALL(wt_is_all(loss, 0));
    }
}

/* ---- tokens that do not count ---- */

/* What is ignored may be a class, or any other number; smoothing gives that class its share. */
WT_TEST(ignored__is_any_number)
{
    static const int64_t ignored[] = {2, -1, 8, 9, 1000, INT64_MAX};
    struct wt_world w = wt_world_open_two_axes();

    for (int i = 0; i < 12; i++) {
        struct check c = {.oracle = {.ndim = 2, .shape = {8, 9}, .class_dim = 1},
                          .weighted = i % 2,
                          .logits = "S(0),S(1)",
                          .target = "S(0),R"};

        c.oracle.ignored = ignored[i / 2];
        c.oracle.smoothing = i % 4 ? 0.2 : 0;
        check_losses(&w, &c);
    }
}

/* 0 in the options stands for -100; weft_cross_entropy and WEFT_IGNORE_ZERO mean 0 itself. */
WT_TEST(ignored__may_be_class_zero)
{
    struct wt_world w = wt_world_open();
    struct check c = {
        .oracle = {.ndim = 2, .shape = {6, 7}, .class_dim = 1}, .logits = "S(1)", .target = "R"};
    weft_tensor *z, *zero;
    double mean;

    check_prepare(&c);
    c.oracle.target[2] = c.oracle.ignored;
    oracle_run(&c.oracle, NULL);
    mean = c.oracle.total / c.oracle.weights;
    z = check_logits(&w, &c);
    for (int i = 0; i < 6; i++)
        if (c.oracle.target[i] == c.oracle.ignored) c.oracle.target[i] = 0;
    zero = check_target(&w, &c);
    WT_ALL(c.oracle.weights < 6);
    WT_ALL(wt_near_full(weft_cross_entropy(z, zero, 0), &mean, WT_WITHIN(1e-5)));
    WT_ALL(
        wt_near_full(weft_cross_entropy_with(
                         z, zero, (weft_cross_entropy_options){.ignore_index = WEFT_IGNORE_ZERO}),
                     &mean, WT_WITHIN(1e-5)));
    oracle_run(&c.oracle, NULL);
    mean = c.oracle.total / c.oracle.weights;
    WT_ALL(wt_near_full(weft_cross_entropy_with(z, zero, (weft_cross_entropy_options){0}), &mean,
                        WT_WITHIN(1e-5)));
}

/* A mean is over the tokens that count, wherever they are: all of some ranks' may be ignored. */
WT_TEST(ignored__may_be_all_that_a_rank_has)
{
    struct wt_world w = wt_world_open_two_axes();

    for (int i = 0; i < 4; i++) {
        struct check c = {.oracle = {.ndim = 2, .shape = {8, 6}, .class_dim = 1},
                          .weighted = i % 2,
                          .logits = "S(0),S(1)",
                          .target = "S(0),R"};

        check_prepare(&c);
        for (int k = 0; k < 4; k++) c.oracle.target[i / 2 ? 7 - k : k] = c.oracle.ignored;
        check_reductions(&w, &c);
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "loss edges"); }
