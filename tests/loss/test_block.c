/*
 * test_block.c: what cross-entropy refuses, and the scope in which it must be computed in parallel.
 * A refusal is the same on all ranks, and collectives work after it.
 */
/* mpi: 4 */
#include <setjmp.h>

#include "base/error.h"
#include "loss/check.h"

static struct check plain_check(int64_t tokens, int64_t classes)
{
    struct check c = {.oracle = {.ndim = 2, .shape = {tokens, classes}, .class_dim = 1},
                      .logits = "S(1)",
                      .target = "R"};

    check_prepare(&c);
    return c;
}

/* Ranks still meet, and a loss is still right. */
static void still_works(struct wt_world *w)
{
    int axes = weft_mesh_ndim(w->mesh);

    check_losses(w, &(struct check){.oracle = {.ndim = 2, .shape = {3, 5}, .class_dim = 1},
                                    .logits = axes == 1 ? "S(1)" : "R,S(1)",
                                    .target = axes == 1 ? "R" : "R,R"});
}

/* Refused inside the block, for every reduction. */
static void refused(struct wt_world *w, struct check *c, const char *text)
{
    weft_tensor *z = check_logits(w, c), *target = check_target(w, c);

    weft_ledger_reset(w->ledger);
    for (int r = 0; r <= WEFT_LOSS_NONE; r++) {
        weft_scope *block = weft_loss_parallel_open();
        weft_cross_entropy_options options = check_options(c, (weft_loss_reduction)r);

        WT_FAILS(weft_cross_entropy_with(z, target, options), WEFT_ERR_LAYOUT, text);
        weft_scope_close(block);
    }
    WT_STILL(w);
    still_works(w);
}

/* A plain target and plain weights are replicas there, as beside cross-entropy. */
WT_TEST(block__takes_plain_targets_of_nll_loss)
{
    struct wt_world w = wt_world_open();
    weft_tensor *x = wt_whole(WEFT_F64, 0, 4, 6),
                *target = weft_from_data(WEFT_I64, (int64_t[]){4}, 1, (int64_t[]){5, 0, 3, 1}),
                *weight = weft_from_data(WEFT_F64, (int64_t[]){6}, 1, (double[]){1, 2, 3, 4, 5, 6});
    weft_tensor *z = weft_set_requires_grad(wt_spread(&w, x, "S(1)"), true), *loss, *alone;

    x = weft_set_requires_grad(x, true);
    for (int r = 0; r <= WEFT_LOSS_NONE; r++) {
        weft_cross_entropy_options o = {.weight = weight, .reduction = (weft_loss_reduction)r};
        weft_scope *block = weft_loss_parallel_open();

        loss = weft_nll_loss(weft_log_softmax(z, 1), target, o);
        loss = weft_scope_return(block, loss);
        alone = weft_nll_loss(weft_log_softmax(x, 1), target, o);
        WT_ALL(loss && wt_near_tensors(loss, alone, WT_WITHIN(1e-12)));
    }
    WT_ALL(weft_backward(weft_sum_all(loss)) == WEFT_OK &&
           weft_backward(weft_sum_all(alone)) == WEFT_OK);
    WT_ALL(wt_near_tensors(weft_grad(z), weft_grad(x), WT_WITHIN(1e-12)));
    wt_world_close(&w);
}

/* LOSS-03: sharded, but not over the classes; whole; plain. */
WT_TEST(block__refuses_logits_that_are_not_sharded_over_their_classes)
{
    static const char *const layouts[] = {"S(0)", "R", NULL};
    struct wt_world w = wt_world_open();

    for (int i = 0; i < 6; i++) {
        struct check c = plain_check(i % 2 ? 8 : 5, i % 2 ? 16 : 7);

        c.logits = layouts[i / 2];
        c.target = layouts[i / 2] ? "R" : NULL;
        refused(&w, &c, "loss_parallel");
    }
}

/* LOSS-03 with the class dim in the middle: sharded along the last. */
WT_TEST(block__goes_by_the_class_dim)
{
    struct wt_world w = wt_world_open();
    struct check c = {
        .oracle = {.ndim = 3, .shape = {4, 6, 8}, .class_dim = 1}, .logits = "S(2)", .target = "R"};

    check_prepare(&c);
    refused(&w, &c, "loss_parallel");
}

/* LOSS-11 */
WT_TEST(block__refuses_partial_logits)
{
    struct wt_world w = wt_world_open_two_axes();
    const weft_placement layout[] = {weft_partial(WEFT_SUM), weft_shard(1)};
    struct check c = plain_check(8, 16);
    weft_tensor *term = weft_to_local(wt_spread(&w, wt_whole(WEFT_F32, 0, 8, 16), "R,S(1)"), NULL);
    weft_tensor *z =
        weft_from_local(weft_drop_grad_types(term), w.mesh, layout, (int64_t[]){8, 16});

    c.target = "R,R";
    for (int r = 0; r <= WEFT_LOSS_NONE; r++) {
        weft_scope *block = weft_loss_parallel_open();
        weft_cross_entropy_options options = check_options(&c, (weft_loss_reduction)r);

        WT_FAILS(weft_cross_entropy_with(z, check_target(&w, &c), options), WEFT_ERR_LAYOUT,
                 "Shard or Replicate");
        weft_scope_close(block);
    }
    still_works(&w);
}

/* LOSS-12: which part of the tokens a plain target has, nobody has said. */
WT_TEST(block__refuses_a_plain_target_for_sharded_tokens)
{
    struct wt_world w = wt_world_open_two_axes();

    for (int i = 0; i < 2; i++) {
        struct check c = plain_check(i ? 7 : 8, i ? 10 : 16);

        c.logits = "S(0),S(1)";
        c.target = NULL;
        refused(&w, &c, "requires a DTensor");
    }
}

/*
 * LOSS-21: outside the block logits over their classes stay where they are too (two all-reduces of
 * 12 bytes per token, not an all-gather of the logits, and a gradient that is sharded as they are);
 * what ends with the block is that everything else is refused and that plain targets are taken.
 */
static void is_outside(struct wt_world *w)
{
    struct check c = plain_check(8, 16);
    weft_tensor *z, *loss;

    check_reductions(w, &c);
    z = check_logits(w, &c);
    WT_FAILS(weft_cross_entropy(z, weft_to_local(check_target(w, &c), NULL), -100), WEFT_ERR_LAYOUT,
             "plain");
    c.logits = "S(0)";
    c.target = "S(0)";
    z = check_logits(w, &c);
    loss = weft_cross_entropy(z, check_target(w, &c), -100);
    WT_ALL(loss != NULL && weft_backward(loss) == WEFT_OK);
    c.logits = "R";
    c.target = "R";
    check_reductions(w, &c);
}

static weft_tensor *step_that_fails(weft_tensor *z, weft_tensor *target, bool inner)
{
    weft_scope *block = weft_loss_parallel_open();
    weft_tensor *loss;

    if (inner) weft_scope_open();
    loss = weft_cross_entropy(weft_matmul(z, z), target, -100); /* [8,16] x [8,16] */
    if (!loss) return NULL;                                     /* without closing anything */
    return weft_scope_return(block, loss);
}

/* LOSS-21 */
WT_TEST(block__ends_with_its_scope_however_that_closes)
{
    struct wt_world w = wt_world_open();
    struct check c = plain_check(8, 16);
    weft_tensor *z = check_logits(&w, &c), *target = check_target(&w, &c), *loss;
    weft_scope *block;

    is_outside(&w);
    block = weft_loss_parallel_open();
    loss = weft_scope_return(block, weft_cross_entropy(z, target, -100));
    WT_ALL(loss != NULL);
    is_outside(&w);
    wt_moved(&w, WEFT_COLL_COUNT);
    WT_ALL(weft_backward(loss) == WEFT_OK); /* outside, as well as inside */
    WT_STILL(&w);
    for (int inner = 0; inner < 2; inner++) {
        weft_scope *step = weft_scope_open();

        WT_FAILS(step_that_fails(z, target, inner), WEFT_ERR_SHAPE, "matmul");
        weft_scope_close(step); /* what a step ends with in any case */
        is_outside(&w);
    }
}

/* A scope inside belongs to the block, and one that is opened after it does not. */
WT_TEST(block__holds_in_scopes_inside_it)
{
    struct wt_world w = wt_world_open();
    struct check c = plain_check(4, 6);
    weft_scope *block = weft_loss_parallel_open(), *inner = weft_scope_open();
    weft_tensor *plain = weft_to_local(check_target(&w, &c), NULL);

    WT_ALL(weft_cross_entropy(check_logits(&w, &c), plain, -100) != NULL);
    weft_scope_close(inner);
    WT_ALL(weft_cross_entropy(check_logits(&w, &c), check_target(&w, &c), -100) != NULL);
    c.logits = "R";
    WT_FAILS(weft_cross_entropy(check_logits(&w, &c), check_target(&w, &c), -100), WEFT_ERR_LAYOUT,
             "loss_parallel");
    weft_scope_close(block);
    WT_ALL(weft_cross_entropy(check_logits(&w, &c), check_target(&w, &c), -100) != NULL);
}

/* ---- targets that are no class ---- */

/* LOSS-22 */
WT_TEST(target__that_is_no_class_is_an_error_on_all_ranks)
{
    static const int64_t bad[] = {7, -1, INT64_MAX, -99};
    struct wt_world w = wt_world_open();

    for (int i = 0; i < 12; i++) {
        struct check c = {.oracle = {.ndim = 2, .shape = {5, 7}, .class_dim = 1},
                          .logits = "S(1)",
                          .target = "R"};
        weft_cross_entropy_options options = check_options(&c, (weft_loss_reduction)(i / 4));
        weft_tensor *z, *loss;

        check_prepare(&c);
        c.oracle.target[i % 5] = bad[i % 4];
        z = check_logits(&w, &c);
        loss = weft_cross_entropy_with(z, check_target(&w, &c), options);
        WT_FAILS(loss, WEFT_ERR_ARG, "outside the 7 classes");
        still_works(&w);
    }
}

/* LOSS-22: one token, C = 6 and 8; the class of any index may be ignored. */
WT_TEST(target__of_one_token_that_is_no_class)
{
    struct wt_world w = wt_world_open();

    for (int64_t classes = 6; classes <= 8; classes += 2) {
        struct check c = {
            .oracle = {.ndim = 1, .shape = {classes}}, .logits = "S(0)", .target = "R"};
        weft_tensor *z, *target;

        check_prepare(&c);
        c.oracle.target[0] = classes;
        z = check_logits(&w, &c);
        target = check_target(&w, &c);
        WT_FAILS(weft_cross_entropy(z, target, -100), WEFT_ERR_ARG, "no class");
        WT_ALL(weft_cross_entropy(z, target, classes) != NULL);
        still_works(&w);
    }
}

/* A mean over sharded tokens: the ranks of one part know, and all are told with the totals. */
WT_TEST(target__in_a_part_of_the_tokens_is_an_error_on_all_ranks)
{
    struct wt_world w = wt_world_open_two_axes();

    for (int64_t at = 0; at < 7; at += 6) {
        struct check c = {.oracle = {.ndim = 2, .shape = {7, 9}, .class_dim = 1},
                          .logits = "S(0),S(1)",
                          .target = "S(0),R"};

        check_prepare(&c);
        c.oracle.target[at] = 9;
        WT_FAILS(weft_cross_entropy(check_logits(&w, &c), check_target(&w, &c), -100), WEFT_ERR_ARG,
                 "1 target is no class");
        still_works(&w);
    }
}

static _Thread_local jmp_buf died;
static void jump(void) { longjmp(died, 1); }

/* Compute a loss with a bad second target; true when this rank ended the job. */
static bool dies(struct wt_world *w, struct check *c, weft_mesh *mesh, weft_loss_reduction r)
{
    weft_cross_entropy_options options = check_options(c, r);
    struct wt_world own = *w;
    volatile bool dead = false;
    weft_tensor *z, *target, *loss = NULL;

    own.mesh = mesh;
    check_prepare(c);
    c->oracle.target[1] = 9;
    z = check_logits(&own, c);
    target = check_target(&own, c);
    wf_die_set_handler(jump);
    WT_ALL(true);
    if (setjmp(died) == 0) {
        loss = weft_cross_entropy_with(z, target, options);
    } else {
        dead = true;
        weft_no_grad_close();
    }
    WT_ALL(true);
    wf_die_set_handler(NULL);
    if (!dead && !loss && !wt_failed_with(WEFT_ERR_ARG, "no class")) wt_note("another failure");
    return dead;
}

/* A sum of which each part stays where it is, a mesh of some ranks, and plain tensors: the others
 * will never hear of it. */
WT_TEST(target__that_some_ranks_alone_know_of_ends_the_job)
{
    struct wt_world w = wt_world_open_two_axes();
    struct check parts = {.oracle = {.ndim = 2, .shape = {8, 9}, .class_dim = 1},
                          .logits = "S(0),S(1)",
                          .target = "S(0),R"};
    struct check line = {
        .oracle = {.ndim = 2, .shape = {8, 9}, .class_dim = 1}, .logits = "S(1)", .target = "R"};
    struct check plain = {.oracle = {.ndim = 2, .shape = {8, 9}, .class_dim = 1}};
    weft_mesh *tp = wt_own(weft_mesh_sub(w.mesh, "tp"));
    bool alone = weft_mesh_axis_size(w.mesh, 0) == 1;

    WT_EQ(dies(&w, &parts, w.mesh, WEFT_LOSS_SUM), !alone && weft_mesh_coordinate(w.mesh, 0) == 0);
    WT_EQ(dies(&w, &line, tp, WEFT_LOSS_MEAN), !alone);
    WT_EQ(dies(&w, &plain, NULL, WEFT_LOSS_MEAN), wt_ranks() > 1);
}

/* ---- arguments ---- */

WT_TEST(options__out_of_range_are_refused)
{
    struct wt_world w = wt_world_open();
    struct check c = plain_check(4, 6);
    weft_tensor *z = check_logits(&w, &c), *target = check_target(&w, &c);
    weft_tensor *weight = weft_full(WEFT_F32, (int64_t[]){5}, 1, 1);
    const struct {
        weft_cross_entropy_options options;
        weft_status status;
        const char *text;
    } rows[] = {
        {{.smoothing = -0.1}, WEFT_ERR_ARG, "smoothing is -0.1"},
        {{.smoothing = 1.5}, WEFT_ERR_ARG, "smoothing is 1.5"},
        {{.z_loss = -1}, WEFT_ERR_ARG, "z_loss is -1"},
        {{.reduction = (weft_loss_reduction)3}, WEFT_ERR_ARG, "no reduction 3"},
        {{.class_dim = 2}, WEFT_ERR_ARG, "cross_entropy: dim 2"},
        {{.class_dim = -3}, WEFT_ERR_ARG, "cross_entropy: dim -3"},
        {{.weight = wt_spread(&w, weight, "R")}, WEFT_ERR_SHAPE, "class weights are [V]"},
        {{.weight = weft_set_requires_grad(wt_spread(&w, weight, "R"), true)},
         WEFT_ERR_ARG,
         "no gradient"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        WT_FAILS(weft_cross_entropy_with(z, target, rows[i].options), rows[i].status, rows[i].text);
    WT_ALL(weft_cross_entropy_with(NULL, target, (weft_cross_entropy_options){0}) == NULL);
    WT_ALL(weft_cross_entropy_with(z, NULL, (weft_cross_entropy_options){0}) == NULL);
    still_works(&w);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "loss block"); }
