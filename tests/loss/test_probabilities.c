/*
 * test_probabilities.c: distributions over the classes as targets, which PyTorch's loss parallel
 * refuses: values, gradients to logits and targets, collectives.
 */
/* mpi: 2 */
#include <math.h>
#include <stdlib.h>

#include "loss/check.h"

static struct check given(int64_t tokens, int64_t classes, int i, const char *logits,
                          const char *target)
{
    struct check c = {.oracle = {.ndim = 2, .shape = {tokens, classes}, .class_dim = 1},
                      .weighted = i & 1,
                      .logits = logits,
                      .target = target,
                      .totals = 1};
    struct oracle *o = &c.oracle;

    o->smoothing = i & 2 ? 0.3 : 0;
    o->z_loss = i & 4 ? 0.2 : 0;
    check_prepare(&c);
    o->probability = oracle_zeros(o->count);
    for (int64_t at = 0; at < o->count; at++)
        o->probability[at] = (double)((at * 53 + 7) % 97) / 48 / (double)classes;
    return c;
}

WT_TEST(probabilities__equal_one_device)
{
    static const int64_t shapes[][2] = {{8, 16}, {5, 7}, {3, 2}};
    struct wt_world w = wt_world_open();

    for (int i = 0; i < 24; i++)
        for (int split = 0; split < 2; split++) {
            struct check c =
                given(shapes[i / 8][0], shapes[i / 8][1], i % 8, "S(1)", split ? "S(1)" : "R");

            c.sums = split ? 3 : 2;
            check_reductions(&w, &c);
        }
}

WT_TEST(probabilities__on_two_axes_and_in_the_block)
{
    int dp = wt_ranks() % 2 == 0 ? 2 : 1;
    struct wt_world w = wt_world_open_mesh("dp=%d,tp=%d", dp, wt_ranks() / dp);

    for (int i = 0; i < 8; i++) {
        struct check c = given(7, 10, i, "S(0),S(1)", "S(0),S(1)");

        c.sums = 3;
        c.dtype = i % 3 == 2 ? WEFT_BF16 : i % 3 ? WEFT_F64 : WEFT_F32;
        c.block = i % 2;
        check_round(&c);
        check_reductions(&w, &c);
    }
}

/* One class as a certainty is that class as a target. */
WT_TEST(probabilities__of_certain_classes_are_targets)
{
    struct wt_world w = wt_world_open();
    struct check c = given(6, 9, 3, "S(1)", "R");
    weft_cross_entropy_options options = check_options(&c, WEFT_LOSS_NONE);
    weft_tensor *soft, *hard;

    for (int64_t at = 0; at < c.oracle.count; at++)
        c.oracle.probability[at] = c.oracle.target[at / 9] == at % 9;
    options.weight = check_weight(&w, &c);
    soft = weft_cross_entropy_with(check_logits(&w, &c), check_target(&w, &c), options);
    c.oracle.probability = NULL;
    hard = weft_cross_entropy_with(check_logits(&w, &c), check_target(&w, &c), options);
    for (int i = 0; i < 6; i++) /* an ignored target is no distribution */
        if (i % 5 != 3)
            WT_ALL(wt_near_tensors(weft_slice(soft, 0, i, i + 1), weft_slice(hard, 0, i, i + 1),
                                   WT_WITHIN(1e-5)));
}

/* d loss / d p_j = - w_j (1 - eps) log softmax(z)_j, sharded as the target is. */
WT_TEST(probabilities__have_a_gradient)
{
    struct wt_world w = wt_world_open();

    for (int i = 0; i < 4; i++) {
        struct check c = given(4, 7, i, "S(1)", "S(1)");
        struct oracle *o = &c.oracle;
        weft_cross_entropy_options options = check_options(&c, WEFT_LOSS_SUM);
        weft_tensor *z = weft_detach(check_logits(&w, &c)), *p;
        double want[28];

        options.weight = check_weight(&w, &c);
        p = weft_set_requires_grad(check_target(&w, &c), true);
        WT_ALL(weft_backward(weft_cross_entropy_with(z, p, options)) == WEFT_OK);
        for (int64_t at = 0; at < 28; at++) {
            double sum = 0;

            for (int64_t j = 0; j < 7; j++) sum += exp(o->z[at / 7 * 7 + j]);
            want[at] = -o->weight[at % 7] * (1 - o->smoothing) * (o->z[at] - log(sum));
        }
        WT_ALL(wt_is_placed(weft_grad(p), "S(1)"));
        WT_ALL(wt_near_full(weft_grad(p), want, WT_WITHIN(1e-5)));
    }
}

WT_TEST(probabilities__refuse_what_does_not_fit)
{
    struct wt_world w = wt_world_open();
    struct check c = given(4, 7, 0, "S(1)", "R");
    weft_tensor *z = check_logits(&w, &c), *target = check_target(&w, &c);

    WT_FAILS(weft_cross_entropy(z, target, 3), WEFT_ERR_ARG, "no index 3 to be ignored");
    WT_FAILS(weft_cross_entropy(z, weft_slice(target, 1, 0, 6), -100), WEFT_ERR_SHAPE,
             "as the logits are");
    WT_FAILS(weft_cross_entropy(z, weft_select(target, 1, 0), -100), WEFT_ERR_SHAPE,
             "as the logits are");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "probabilities"); }
