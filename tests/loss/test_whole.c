/* test_whole.c: a loss of tensors that every rank has whole: nothing is sent, all are alike. */
#include "support/worlds.h"

/* All ranks have the same elements. */
static bool is_same_on_all(struct wt_world *w, weft_tensor *t)
{
    weft_tensor *own = weft_drop_grad_types(weft_to_local(t, NULL));
    const weft_placement average = weft_partial(WEFT_AVG);
    weft_tensor *mean = wt_to(weft_from_local(own, w->mesh, &average, NULL), "R");

    return wt_near_tensors(mean, own, WT_WITHIN(1e-7));
}

/* TEN-35 */
WT_TEST_TIMES_IN_WORLD(cross_entropy__of_whole_logits, w, k, 2)
{
    int64_t rows = k ? 7 : 1024, classes = k ? 3 : 10;
    weft_tensor *logits = wt_whole(WEFT_F32, 0, rows, classes), *loss, *want;
    weft_tensor *target = weft_full(WEFT_I64, &rows, 1, 0), *one, *many;

    for (int64_t i = 0; i < rows; i++) ((int64_t *)weft_data(target))[i] = (5 * i + 1) % classes;
    one = weft_set_requires_grad(weft_detach(logits), true);
    many = weft_set_requires_grad(wt_spread(w, logits, "R"), true);
    want = weft_cross_entropy(one, target, -100);
    loss = weft_cross_entropy(many, wt_spread(w, target, "R"), -100);
    WT_EQ(weft_backward(want), WEFT_OK);
    WT_EQ(weft_backward(loss), WEFT_OK);
    WT_STILL(w);
    WT_ALL(wt_near_tensors(loss, want, WT_EXACT));
    WT_ALL(wt_near_tensors(weft_grad(many), weft_grad(one), WT_EXACT));
}

/* TEN-35 */
WT_TEST_TIMES_IN_WORLD(bernoulli__of_whole_chances, w, k, 2)
{
    weft_tensor *p = wt_spread(w, weft_sigmoid(wt_whole(WEFT_F32, 0, k ? 5 : 32, 6)), "R"), *drawn;

    weft_manual_seed(3);
    weft_set_requires_grad(p, true);
    drawn = weft_bernoulli(p, NULL);
    WT_EQ(weft_backward(weft_sum_all(weft_mul(drawn, weft_square(p)))), WEFT_OK);
    WT_STILL(w);
    WT_ALL(is_same_on_all(w, drawn));
    WT_ALL(is_same_on_all(w, weft_grad(p)));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "whole"); }
