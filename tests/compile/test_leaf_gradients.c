/*
 * test_leaf_gradients.c: gradients that leaves have when a call begins: two in one block, given as
 * an input too, final already, left by a warm-up.
 */
/* ranks: 1 2 3 */
#include "as_immediate.h"
#include "support/near_modules.h"

static weft_tensor *leaf(struct wt_world *w, int which)
{
    return weft_set_requires_grad(
        weft_detach(wt_spread(w, wt_whole(WEFT_F32, which, 6, 4), "S(0)")), true);
}

/* ---- in one block ---- */

struct pair {
    weft_tensor *a, *b;
};

static weft_tensor *loss_of_sum(const struct pair *p, weft_tensor *x)
{
    return weft_full_tensor(
        weft_sum_all(weft_mul(weft_square(weft_add(p->a, p->b)), x ? x : p->a)));
}

/* Its gradients are added to those that are there. */
FUNCTION(accumulate)
{
    out[0] = loss_of_sum(state, in[0]);
    return out[0] ? weft_backward(out[0]) : weft_error_status();
}

/* What backward leaves in a and b lies in one block: that of their sum, or its halves. */
static void fill_gradients(const struct pair *p, weft_tensor *x, int halves)
{
    weft_tensor *both =
        halves ? weft_cat((weft_tensor *[]){p->a, p->b}, 2, 1) : weft_add(p->a, p->b);
    weft_tensor *by = halves ? weft_cat((weft_tensor *[]){x, weft_mul_scalar(x, 3)}, 2, 1) : x;

    weft_zero_grad(p->a);
    weft_zero_grad(p->b);
    WT_ALL(weft_backward(weft_full_tensor(weft_sum_all(weft_mul(both, by)))) == WEFT_OK);
}

WT_TEST_TIMES_IN_WORLD(two_gradients_in_one_block__are_added_to, w, i, 4)
{
    int halves = i / 2, fullgraph = i % 2;
    struct pair by[2] = {{leaf(w, 1), leaf(w, 2)}, {leaf(w, 1), leaf(w, 2)}};
    weft_compiled *compiled = wt_compile(accumulate, &by[0], fullgraph);

    for (int k = 0; k < 5; k++) {
        weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 5 + k, 6, 4), "S(0)"), *y;

        for (int n = 0; n < 2; n++) fill_gradients(&by[n], x, halves);
        WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
        WT_ALL(accumulate(&x, 1, &y, 1, &by[1]) == WEFT_OK);
        WT_ALL(wt_near_tensors(weft_grad(by[0].a), weft_grad(by[1].a), WT_EXACT));
        WT_ALL(wt_near_tensors(weft_grad(by[0].b), weft_grad(by[1].b), WT_EXACT));
    }
    wt_note("%s", weft_compiled_reason(compiled));
    WT_EQ(weft_compiled_get_counts(compiled).replays, 4);
}

/* The first step changes one leaf, the second the other: each where the gradient lies in its call.
 */
struct steps {
    weft_module *modules[2];
    weft_optim *optims[2];
};

FUNCTION(step_both)
{
    struct steps *s = state;

    for (int i = 0; i < 2; i++)
        if (weft_step(s->optims[i]) != WEFT_OK) return weft_error_status();
    GIVE(weft_mul_scalar(in[0], 1));
}

static struct steps new_steps(void)
{
    struct steps s;

    for (int i = 0; i < 2; i++) {
        weft_manual_seed(7 + (uint64_t)i);
        s.modules[i] = wt_own(weft_linear_new((weft_linear_config){.in = {4}, .out = {6}}));
        s.optims[i] = wt_own(weft_sgd(s.modules[i], (weft_sgd_config){.lr = 0.1}));
    }
    return s;
}

static struct pair weights_of(const struct steps *s)
{
    return (struct pair){weft_module_parameter(s->modules[0], "weight"),
                         weft_module_parameter(s->modules[1], "weight")};
}

WT_TEST_TIMES_IN_WORLD(steps__find_gradients_that_lie_in_one_block, w, halves, 2)
{
    struct steps by[2] = {new_steps(), new_steps()};
    weft_compiled *compiled = wt_compile(step_both, &by[0], true);

    (void)w;
    for (int k = 0; k < 5; k++) {
        weft_tensor *x = wt_whole(WEFT_F32, k, 6, 4), *y;

        for (int n = 0; n < 2; n++) {
            struct pair weights = weights_of(&by[n]);

            fill_gradients(&weights, x, halves && k != 3);
        }
        WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
        WT_ALL(step_both(&x, 1, &y, 1, &by[1]) == WEFT_OK);
        for (int i = 0; i < 2; i++)
            WT_NEAR_PARAMETERS(by[0].modules[i], by[1].modules[i], WT_EXACT);
    }
    WT_ALL(weft_compiled_get_counts(compiled).replays >= 2);
}

/* ---- as an input too ---- */

FUNCTION(step_by_hand)
{
    struct pair *p = state;

    weft_no_grad_open();
    out[0] = weft_sub_(p->a, weft_mul(in[0], in[1]));
    if (weft_no_grad_close() != WEFT_OK || !out[0]) return weft_error_status();
    weft_zero_grad(p->a);
    out[0] = weft_mul_scalar(in[1], 2);
    return out[0] ? WEFT_OK : weft_error_status();
}

WT_TEST_IN_WORLD(gradient_given_as_an_input_too__is_refused_in_one_list, w)
{
    WT_BOTH_WAYS(fullgraph)
    {
        struct pair by[2] = {{leaf(w, 1), leaf(w, 2)}, {leaf(w, 1), leaf(w, 2)}};
        weft_compiled *compiled = wt_compile(step_by_hand, &by[0], fullgraph);

        for (int k = 0; k < 4; k++) {
            weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, k, 6, 4), "S(0)"), *in[2], *y;

            for (int n = 0; n < 2; n++) fill_gradients(&by[n], x, false);
            in[0] = wt_whole(WEFT_F32, 9, 1, 1);
            in[1] = weft_detach(weft_grad(by[0].a));
            if (fullgraph) {
                WT_FAILS(weft_compiled_call(compiled, in, 2, &y, 1), WEFT_ERR_STATE,
                         "is also an input");
                break;
            }
            WT_ALL(weft_compiled_call(compiled, in, 2, &y, 1) == WEFT_OK);
            in[1] = weft_detach(weft_grad(by[1].a));
            WT_ALL(step_by_hand(in, 2, &y, 1, &by[1]) == WEFT_OK);
            WT_ALL(wt_near_tensors(by[0].a, by[1].a, WT_EXACT));
        }
    }
}

/* ---- hooks ---- */

struct training {
    weft_module *model;
    weft_optim *optim;
    bool zeroes;
};

FUNCTION(train)
{
    const struct training *t = state;

    if (t->zeroes) weft_optim_zero_grad(t->optim);
    out[0] = weft_sum_all(weft_square(weft_call(t->model, in[0])));
    return out[0] ? weft_backward(out[0]) : weft_error_status();
}

static struct training new_training(bool zeroes)
{
    struct training t = {.zeroes = zeroes};

    weft_manual_seed(5);
    t.model = wt_own(weft_linear_new((weft_linear_config){.in = {4}, .out = {8}}));
    t.optim = wt_own(weft_sgd(t.model, (weft_sgd_config){.lr = 0.01}));
    WT_EQ(weft_optim_update_in_backward(t.optim, true), WEFT_OK);
    return t;
}

/* A warm-up leaves no parameter updated; a call that drops gradients first may come without a step
 * before it. */
WT_TEST_TIMES_IN_WORLD(updates_in_backward__follow_a_warm_up, w, i, 4)
{
    bool zeroes = i % 2, warm_up = i / 2;
    struct training by[2] = {new_training(zeroes), new_training(zeroes)};
    weft_compiled *compiled = wt_compile(train, &by[0], true);
    weft_tensor *y;

    (void)w;
    for (int k = 0; k < 5; k++) {
        weft_tensor *x = wt_whole(WEFT_F32, k, 5, 4);

        if (k == 0 && warm_up) WT_ALL(weft_compiled_warm_up(compiled, &x, 1, 1) == WEFT_OK);
        WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
        WT_ALL(train(&x, 1, &y, 1, &by[1]) == WEFT_OK);
        for (int n = 0; n < 2 && !zeroes; n++) WT_EQ(weft_step(by[n].optim), WEFT_OK);
        for (int n = 0; n < 2 && !zeroes; n++) weft_optim_zero_grad(by[n].optim);
        WT_NEAR_PARAMETERS(by[0].model, by[1].model, WT_EXACT);
    }
    wt_note("%s", weft_compiled_reason(compiled));
    WT_ALL(weft_compiled_get_counts(compiled).replays >= 3);
}

/* Replicas' gradients were made final between two calls: the second backward is refused, as without
 * a list. */
WT_TEST_IN_WORLD(gradients_that_are_final__are_not_added_to, w)
{
    struct training t = {0};
    weft_compiled *compiled = wt_compile(train, &t, true);
    weft_tensor *x = wt_whole(WEFT_F32, wt_rank(), 5, 4), *y;

    weft_manual_seed(5);
    t.model = wt_own(weft_linear_new((weft_linear_config){.in = {4}, .out = {8}}));
    WT_ALL(weft_data_parallel(t.model, w->mesh, (weft_data_parallel_config){.shard = true}) ==
           WEFT_OK);
    t.optim = wt_own(weft_sgd(t.model, (weft_sgd_config){.lr = 0.01}));
    for (int k = 0; k < 4; k++) {
        WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
        if (k == 3) break;
        WT_EQ(weft_step(t.optim), WEFT_OK);
        weft_optim_zero_grad(t.optim);
    }
    wt_note("%s", weft_compiled_reason(compiled));
    WT_ALL(weft_compiled_get_counts(compiled).replays >= 2);
    WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK); /* one more is added */
    WT_ALL(weft_grad(weft_module_parameter(t.model, "weight")) != NULL);
    WT_FAILS(weft_compiled_call(compiled, &x, 1, &y, 1), WEFT_ERR_STATE,
             "reduced over the replicas");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "leaf_gradients"); }
