/*
 * test_silent_bugs.c: mistakes that train without a word elsewhere, each written as a user would
 * write it by hand on local shards. Here it is refused, or impossible: then values and gradients
 * are those of one device.
 */
/* mpi: 2 4 */
#include <stdlib.h>

#include "support/worlds.h"

static weft_tensor *leaf(weft_tensor *t) { return weft_set_requires_grad(t, true); }

static weft_tensor *local_of(struct wt_world *w, weft_tensor *whole, const char *placement)
{
    return weft_to_local(wt_spread(w, whole, placement), NULL);
}

static weft_tensor *vector(int which, int64_t n)
{
    return weft_reshape(wt_whole(WEFT_F64, which, 1, n), &n, 1);
}

/* The sum of squares of what a rank has, or of a distributed tensor. */
static weft_tensor *energy(weft_tensor *t) { return weft_sum_all(weft_square(t)); }

/* Refused when it is called and when its plan is cached; one rank alone cannot go wrong. */
#define REFUSED(call, part)                                                                        \
    do {                                                                                           \
        for (int again = 0; again < 2 && wt_ranks() > 1; again++) {                                \
            WT_ALL(!(call));                                                                       \
            WT_FAILED(WEFT_ERR_LAYOUT, (part));                                                    \
        }                                                                                          \
    } while (0)

/* ---- the weight of a norm under sequence parallelism ---- */

static const int64_t rows[] = {8, 5, 3};

WT_TEST_TIMES_IN_WORLD(norm_weight__plain_beside_a_local_shard, w, k, 3)
{
    weft_tensor *x = local_of(w, wt_whole(WEFT_F64, 0, rows[k], 6), "S(0)");
    weft_tensor *weight = leaf(vector(1, 6));

    REFUSED(weft_rms_norm(x, weight, 1e-6),
            "rms_norm, input 1, f64[6]: on axis tp it wants a gradient, and its gradient would "
            "be this rank's share only");
    weft_no_grad_open(); /* without a gradient there is nothing to lose */
    WT_ALL(weft_rms_norm(x, weight, 1e-6) != NULL);
    weft_no_grad_close();
    WT_STILL(w);
}

/* The gradient of one device's norm weight. */
static double *expected_gradient(int64_t n)
{
    weft_tensor *weight = leaf(vector(1, 6));

    WT_ALL(weft_backward(energy(weft_rms_norm(wt_whole(WEFT_F64, 0, n, 6), weight, 1e-6))) ==
           WEFT_OK);
    return wt_values(weft_grad(weight));
}

WT_TEST_TIMES_IN_WORLD(norm_weight__unwrapped_without_saying_whose_gradient, w, k, 3)
{
    const weft_placement partial = weft_partial(WEFT_SUM);
    weft_tensor *x = local_of(w, wt_whole(WEFT_F64, 0, rows[k], 6), "S(0)");
    weft_tensor *weight = leaf(wt_spread(w, vector(1, 6), "R"));
    double *want = expected_gradient(rows[k]);

    REFUSED(weft_rms_norm(x, weft_to_local(weight, NULL), 1e-6), "f64[6] {I} of (tp:");
    WT_STILL(w);
    WT_ALL(weft_backward(energy(weft_rms_norm(x, weft_to_local(weight, &partial), 1e-6))) ==
           WEFT_OK);
    WT_ALL(wt_near_full(weft_grad(weight), want, WT_WITHIN(1e-12)));
    free(want);
}

/* With distributed tensors nobody has to remember anything. */
WT_TEST_TIMES_IN_WORLD(norm_weight__distributed_is_reduced_by_itself, w, k, 3)
{
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F64, 0, rows[k], 6), "S(0)");
    weft_tensor *weight = leaf(wt_spread(w, vector(1, 6), "R"));
    double *want = expected_gradient(rows[k]);

    WT_ALL(weft_backward(energy(weft_rms_norm(x, weight, 1e-6))) == WEFT_OK);
    WT_ALL(wt_near_full(weft_grad(weight), want, WT_WITHIN(1e-12)));
    free(want);
}

/* The module is named: a norm left plain inside a model whose activations are split. */
WT_TEST_IN_WORLD(norm_weight__of_a_plain_module, w)
{
    weft_module *model = weft_sequential_new();
    weft_tensor *x = local_of(w, wt_whole(WEFT_F32, 0, 8, 6), "S(0)");

    WT_ALL(weft_module_add_child(model, "ln",
                                 weft_layer_norm_new((weft_norm_config){.width = 6})) == WEFT_OK);
    REFUSED(weft_call(model, x), "ln: layer_norm, input 1");
    weft_module_release(model);
}

/* ---- gathered logits into a vocabulary-parallel loss ---- */

WT_TEST_TIMES_IN_WORLD(logits__gathered_ones_are_no_shards, w, k, 2)
{
    const int64_t classes[] = {16, 7};
    const weft_placement split = weft_shard(-1);
    weft_tensor *whole = wt_whole(WEFT_F32, 0, 6, classes[k]);
    weft_tensor *logits = weft_to_local(wt_to(wt_spread(w, whole, "S(1)"), "R"), NULL);

    wt_moved(w, WEFT_COLL_COUNT);
    REFUSED(weft_from_local(logits, w->mesh, &split, NULL),
            "as S(1): on axis tp every rank holds all of it, not a part");
    WT_STILL(w);
}

static weft_tensor *targets(int64_t n, int64_t classes)
{
    int64_t index[16];

    for (int64_t i = 0; i < n; i++) index[i] = (3 * i + 1) % classes;
    return weft_from_data(WEFT_I64, &n, 1, index);
}

/* The loss style's input hook goes by the same table, and names the module. */
WT_TEST_IN_WORLD(logits__gathered_before_the_loss_style, w)
{
    weft_module *model = weft_sequential_new(), *loss;
    weft_plan plan[] = {{"loss", weft_cross_entropy_parallel()}, {NULL, {0}}};
    weft_tensor *logits =
        weft_to_local(wt_to(wt_spread(w, wt_whole(WEFT_F32, 0, 6, 16), "S(1)"), "R"), NULL);

    loss = weft_cross_entropy_new((weft_cross_entropy_config){0});
    WT_ALL(weft_module_add_child(model, "loss", loss) == WEFT_OK);
    WT_ALL(weft_parallelize_module(model, w->mesh, plan) == WEFT_OK);
    REFUSED(weft_call_n(loss, (weft_tensor *[]){logits, targets(6, 16)}, 2), "from_local, input 0");
    weft_module_release(model);
}

/* Gathered or not, a distributed tensor knows what it is: the loss is one device's. */
WT_TEST_TIMES_IN_WORLD(logits__distributed_know_what_they_are, w, k, 4)
{
    const int64_t classes[] = {16, 7};
    weft_tensor *whole = leaf(wt_whole(WEFT_F64, 0, 6, classes[k / 2])), *want;
    weft_tensor *logits = wt_spread(w, whole, "S(1)"), *loss;
    weft_tensor *target = targets(6, classes[k / 2]);

    want = weft_cross_entropy(whole, target, -100);
    loss = weft_cross_entropy(k % 2 ? wt_to(logits, "R") : logits, wt_spread(w, target, "R"), -100);
    WT_ALL(weft_backward(loss) == WEFT_OK && weft_backward(want) == WEFT_OK);
    WT_ALL(wt_near_tensors(loss, want, WT_WITHIN(1e-12)));
    WT_ALL(wt_near_tensors(weft_grad(logits), weft_grad(whole), WT_WITHIN(1e-12)));
}

/* ---- a bias counted once per rank ---- */

WT_TEST_TIMES_IN_WORLD(bias__added_to_every_rank_s_term, w, k, 2)
{
    const int64_t inner[] = {8, 5};
    weft_tensor *x = local_of(w, wt_whole(WEFT_F64, 0, 4, inner[k]), "S(1)");
    weft_tensor *weight = local_of(w, wt_whole(WEFT_F64, 1, inner[k], 6), "S(0)");
    weft_tensor *bias = local_of(w, vector(2, 6), "R"), *y = weft_matmul(x, weight);
    static const char once[] = "be counted once per rank";

    REFUSED(weft_add(y, bias), once);
    REFUSED(weft_add(y, vector(2, 6)), once);
    REFUSED(weft_linear(x, weft_transpose(weight, 0, 1), bias, 1), once);
    WT_STILL(w);
}

WT_TEST_TIMES_IN_WORLD(bias__added_after_the_reduction, w, k, 2)
{
    const int64_t inner[] = {8, 5};
    const weft_placement partial = weft_partial(WEFT_SUM);
    weft_tensor *x = wt_whole(WEFT_F64, 0, 4, inner[k]);
    weft_tensor *weight = wt_whole(WEFT_F64, 1, inner[k], 6), *bias = leaf(vector(2, 6));
    weft_tensor *want = weft_add(weft_matmul(x, weight), bias), *spread, *y;

    spread = leaf(wt_spread(w, vector(2, 6), "R"));
    y = weft_matmul(local_of(w, x, "S(1)"), local_of(w, weight, "S(0)"));
    y = weft_add(weft_from_local(y, w->mesh, &partial, NULL), spread);
    WT_ALL(wt_near_tensors(y, want, WT_WITHIN(1e-12)));
    WT_ALL(weft_backward(energy(y)) == WEFT_OK && weft_backward(energy(want)) == WEFT_OK);
    WT_ALL(wt_near_tensors(weft_grad(spread), weft_grad(bias), WT_WITHIN(1e-12)));
}

WT_TEST_IN_WORLD(bias__called_a_term, w)
{
    const weft_placement partial = weft_partial(WEFT_SUM);

    REFUSED(weft_from_local(local_of(w, vector(0, 6), "R"), w->mesh, &partial, NULL),
            "a sum would count it once per rank");
}

/* ---- a mean where a sum belongs, and the other way round ---- */

WT_TEST_IN_WORLD(mean__of_terms_of_a_product, w)
{
    const weft_placement average = weft_partial(WEFT_AVG);
    weft_tensor *x = local_of(w, wt_whole(WEFT_F64, 0, 4, 8), "S(1)");
    weft_tensor *y = weft_matmul(x, local_of(w, wt_whole(WEFT_F64, 1, 8, 6), "S(0)"));

    REFUSED(weft_from_local(y, w->mesh, &average, NULL),
            "as P(avg): on axis tp ranks hold terms of another reduction");
    WT_STILL(w);
}

WT_TEST_IN_WORLD(mean__of_parts_summed, w)
{
    const weft_placement sum = weft_partial(WEFT_SUM), average = weft_partial(WEFT_AVG);
    weft_tensor *whole = wt_whole(WEFT_F64, 0, 2 * wt_ranks(), 3);
    weft_tensor *mean = weft_mean_all(local_of(w, whole, "S(0)"));

    REFUSED(weft_from_local(mean, w->mesh, &sum, NULL), "another reduction");
    WT_ALL(wt_near_tensors(weft_from_local(mean, w->mesh, &average, NULL), weft_mean_all(whole),
                           WT_WITHIN(1e-12)));
}

/* Each rank divides by its own number of tokens instead of everybody's. */
WT_TEST_IN_WORLD(mean__by_the_count_of_one_rank, w)
{
    weft_tensor *losses = local_of(w, vector(0, 12), "S(0)");
    weft_tensor *counted = local_of(w, weft_full(WEFT_F64, (int64_t[]){12}, 1, 1), "S(0)");

    REFUSED(weft_div(weft_sum_all(losses), weft_sum_all(counted)),
            "div, input 1, f64[] {P} of (tp:");
}

/* ---- a reduction that nobody made ---- */

WT_TEST_IN_WORLD(term__used_as_the_value, w)
{
    const weft_placement whole = weft_replicate();
    weft_tensor *x = local_of(w, wt_whole(WEFT_F64, 0, 4, 8), "S(1)");
    weft_tensor *y = weft_matmul(x, local_of(w, wt_whole(WEFT_F64, 1, 8, 6), "S(0)"));

    REFUSED(weft_relu(y), "relu, input 0, f64[4,6] {P} of (tp:");
    REFUSED(weft_from_local(y, w->mesh, &whole, NULL), "ranks hold terms that nobody has reduced");
    REFUSED(weft_from_local(x, w->mesh, &whole, NULL), "ranks hold different parts");
    WT_ALL(weft_relu(weft_drop_grad_types(y)) != NULL); /* the program takes it upon itself */
    WT_ALL(weft_mul_scalar(y, 2) && weft_add(y, y) && weft_neg(y));
    WT_STILL(w);
}

/* A part handed to every rank as if it were the whole. */
WT_TEST_IN_WORLD(shards__distributed_as_the_whole, w)
{
    const weft_placement split = weft_shard(0), whole = weft_replicate();
    weft_tensor *part = local_of(w, wt_whole(WEFT_F32, 0, 8, 3), "S(0)");

    REFUSED(weft_distribute_tensor(part, w->mesh, &split, -1), "ranks hold different parts");
    part = weft_to_local(wt_spread(w, wt_whole(WEFT_F32, 0, 8, 3), "R"), NULL);
    WT_ALL(weft_distribute_tensor(part, w->mesh, &whole, -1) != NULL);
}

/* The table holds on two axes, and between a mesh and its slices. */
WT_TEST(shards__known_by_slices_of_its_mesh)
{
    int dp = wt_ranks() % 2 == 0 ? 2 : 1;
    struct wt_world w = wt_world_open_mesh("dp=%d,tp=%d", dp, wt_ranks() / dp);
    const weft_placement whole = weft_replicate(), partial = weft_partial(WEFT_SUM);
    weft_mesh *tp = weft_mesh_sub(w.mesh, "tp");
    weft_tensor *x = local_of(&w, wt_whole(WEFT_F32, 0, 8, 6), "R,S(1)"), *y;

    WT_ALL(tp != NULL);
    if (weft_mesh_size(tp) > 1) {
        WT_ALL(!weft_from_local(x, tp, &whole, NULL));
        WT_FAILED(WEFT_ERR_LAYOUT, "as R: on axis tp ranks hold different parts");
    }
    y = weft_matmul(x, local_of(&w, wt_whole(WEFT_F32, 1, 6, 3), "R,S(0)"));
    y = weft_from_local(y, tp, &partial, NULL);
    WT_ALL(wt_near_tensors(y, weft_matmul(wt_whole(WEFT_F32, 0, 8, 6), wt_whole(WEFT_F32, 1, 6, 3)),
                           WT_WITHIN(1e-5)));
    weft_mesh_release(tp);
    wt_world_close(&w);
}

/* ---- the right programs pass, forward and backward ---- */

/* Column-wise then row-wise by hand: the conjugate pairs as conversions, gradients as one device's.
 */
WT_TEST_TIMES_IN_WORLD(pairs__a_block_by_hand, w, k, 2)
{
    const int64_t hidden[] = {8, 5};
    const weft_placement partial = weft_partial(WEFT_SUM);
    weft_tensor *x = leaf(wt_whole(WEFT_F64, 0, 4, 6)), *sx = leaf(wt_spread(w, x, "R"));
    weft_tensor *up = leaf(wt_whole(WEFT_F64, 1, 6, hidden[k])), *sup;
    weft_tensor *down = leaf(wt_whole(WEFT_F64, 2, hidden[k], 6)), *sdown, *want, *y;

    sup = leaf(wt_spread(w, up, "S(1)"));
    sdown = leaf(wt_spread(w, down, "S(0)"));
    want = energy(weft_matmul(weft_gelu(weft_matmul(x, up)), down));
    y = weft_gelu(weft_matmul(weft_to_local(sx, &partial), weft_to_local(sup, NULL)));
    y = weft_from_local(weft_matmul(y, weft_to_local(sdown, NULL)), w->mesh, &partial, NULL);
    y = energy(weft_to_local(wt_to(y, "R"), NULL));
    WT_ALL(weft_backward(y) == WEFT_OK && weft_backward(want) == WEFT_OK);
    WT_ALL(wt_near_tensors(y, want, WT_WITHIN(1e-10)));
    WT_ALL(wt_near_tensors(weft_grad(sx), weft_grad(x), WT_WITHIN(1e-10)));
    WT_ALL(wt_near_tensors(weft_grad(sup), weft_grad(up), WT_WITHIN(1e-10)));
    WT_ALL(wt_near_tensors(weft_grad(sdown), weft_grad(down), WT_WITHIN(1e-10)));
}

/* A replicated input whose gradient is not declared partial is the bug of a missing all-reduce. */
WT_TEST_IN_WORLD(pairs__input_of_a_column_wise_layer, w)
{
    weft_tensor *x = leaf(wt_spread(w, wt_whole(WEFT_F64, 0, 4, 6), "R"));
    weft_tensor *up = local_of(w, wt_whole(WEFT_F64, 1, 6, 8), "S(1)");

    REFUSED(weft_matmul(weft_to_local(x, NULL), up), "matmul, input 0, f64[4,6] {I} of (tp:");
}

/* LMAP-08: which gradients a part may have is a table. */
WT_TEST_IN_WORLD(pairs__gradients_that_no_tensor_has, w)
{
    const weft_placement split = weft_shard(0), other = weft_shard(1), whole = weft_replicate();
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 0, 8, 8), "R");

    REFUSED(weft_to_local(x, &split), "the tensor is R, and its gradient cannot come back as S(0)");
    x = wt_to(x, "S(0)");
    REFUSED(weft_to_local(x, &other), "is S(0), and its gradient cannot come back as S(1)");
    REFUSED(weft_to_local(x, &whole), "is S(0), and its gradient cannot come back as R");
    WT_STILL(w);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "silent_bugs"); }
