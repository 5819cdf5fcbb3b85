/*
 * test_bias.c: a bias of the scores beside heads and batches that ranks share: values, gradients,
 * what is sent, and how much memory the gradient takes; attention to another sequence under styles.
 */
/* mpi: 2 3 */
#include <stdlib.h>

#include "support/given.h"
#include "support/near_modules.h"
#include "support/worlds.h"

enum { BATCH = 5, TOKENS = 6, KEYS = 7, HEADS = 6, DIM = 4, WIDTH = 10 };

static weft_tensor *noise(int which, int ndim, const int64_t *shape)
{
    int64_t n = 1;
    weft_tensor *t;

    for (int d = 0; d < ndim; d++) n *= shape[d];
    t = weft_empty(WEFT_F64, shape, ndim);
    for (int64_t i = 0; t && i < n; i++) ((double *)weft_data(t))[i] = wt_element(which, i);
    return t;
}

/* ---- the op ---- */

struct operands {
    weft_tensor *q, *k, *v, *bias;
};

static struct operands operands_new(int64_t batch, int64_t heads)
{
    int64_t q[] = {BATCH, TOKENS, HEADS, DIM}, k[] = {BATCH, KEYS, HEADS, DIM};
    int64_t bias[] = {batch, heads, TOKENS, KEYS};

    return (struct operands){noise(1, 4, q), noise(2, 4, k), noise(3, 4, k), noise(4, 4, bias)};
}

static struct operands spread(struct wt_world *w, struct operands o, const char *how,
                              const char *bias)
{
    return (struct operands){wt_spread(w, o.q, how), wt_spread(w, o.k, how), wt_spread(w, o.v, how),
                             wt_spread(w, o.bias, bias)};
}

static weft_tensor *attend(struct operands o)
{
    weft_tensor *all[] = {o.q, o.k, o.v, o.bias};

    for (int i = 0; i < 4; i++) weft_set_requires_grad(all[i], true);
    return weft_attention_with(o.q, o.k, o.v,
                               (weft_attention_options){.causal = true, .bias = o.bias});
}

/* Whole and spread; neither direction sends anything. */
static void check_spread(int64_t batch, int64_t heads, const char *how, const char *bias,
                         bool summed)
{
    struct wt_world w = wt_world_open();
    struct operands one = operands_new(batch, heads), many = spread(&w, one, how, bias);
    weft_tensor *want = attend(one), *got;

    wt_moved(&w, WEFT_COLL_COUNT);
    got = attend(many);
    WT_ALL(got && wt_is_placed(got, how));
    WT_STILL(&w);
    WT_ALL(wt_near_tensors(got, want, WT_WITHIN(1e-12)));
    WT_EQ(weft_backward(weft_sum_all(weft_square(want))), WEFT_OK);
    wt_moved(&w, WEFT_COLL_COUNT);
    WT_EQ(weft_backward(weft_sum_all(weft_square(got))), WEFT_OK);
    WT_STILL(&w);
    WT_ALL(wt_near_tensors(weft_grad(many.q), weft_grad(one.q), WT_WITHIN(1e-12)));
    WT_ALL(wt_near_tensors(weft_grad(many.k), weft_grad(one.k), WT_WITHIN(1e-12)));
    wt_moved(&w, WEFT_COLL_COUNT);
    WT_ALL(wt_near_tensors(weft_grad(many.bias), weft_grad(one.bias), WT_WITHIN(1e-12)));
    WT_ALL(summed || wt_is_placed(weft_grad(many.bias), bias));
    wt_world_close(&w);
}

/* trial 4.4 */
WT_TEST(bias__split_as_heads_are_stays_where_it_is)
{
    check_spread(1, HEADS, "S(2)", "S(1)", false);
    check_spread(BATCH, HEADS, "S(2)", "S(1)", false);
    check_spread(BATCH, HEADS, "S(0)", "S(0)", false);
}

/* One bias for what several ranks hold: its gradient is a sum that waits for whoever reads it. */
/* trial 4.4 */
WT_TEST(bias__shared_by_ranks_has_a_gradient_that_is_their_sum)
{
    check_spread(1, HEADS, "S(0)", "R", true);
    check_spread(1, 1, "S(2)", "R", true);
    check_spread(1, 1, "S(0)", "R", true);
}

/* A mask takes none, and is told apart from a bias in the text of the error. */
WT_TEST(bias__is_where_a_mask_that_wants_a_gradient_belongs)
{
    struct operands o = operands_new(1, HEADS);
    weft_tensor *mask = noise(5, 3, (int64_t[]){1, TOKENS, KEYS});

    weft_set_requires_grad(mask, true);
    WT_FAILS(weft_attention_with(o.q, o.k, o.v, (weft_attention_options){.mask = mask}),
             WEFT_ERR_ARG, "give it as the bias");
    o.bias = noise(5, 4, (int64_t[]){1, HEADS - 1, TOKENS, KEYS});
    WT_FAILS(attend(o), WEFT_ERR_SHAPE, "a bias is [B or 1, H or 1, Tq or 1, Tk]");
}

/* The gradient of a bias for a whole batch is as large as the bias, not as all scores. */
/* trial 4.4 */
WT_TEST(bias__gradient_takes_the_memory_of_the_bias)
{
    enum { MANY = 16, LONG = 64, TWO = 2, D = 4 };
    int64_t shape[] = {MANY, LONG, TWO, D}, one[] = {1, TWO, LONG, LONG};
    weft_tensor *x[4], *y;
    int64_t before;

    for (int i = 0; i < 4; i++) {
        x[i] = i == 3 ? noise(i, 4, one) : noise(i, 4, shape);
        weft_set_requires_grad(x[i], true);
    }
    y = weft_sum_all(weft_attention_with(x[0], x[1], x[2], (weft_attention_options){.bias = x[3]}));
    weft_memory_reset_peak();
    before = weft_memory_of(WEFT_MEMORY_CATEGORIES).live;
    WT_EQ(weft_backward(y), WEFT_OK);
    /* dq, dk, dv, a few of the output's size, and the bias' */
    WT_ALL(weft_memory_of(WEFT_MEMORY_CATEGORIES).peak - before <
           8 * weft_numel(x[0]) * 8 + 2 * weft_numel(x[3]) * 8);
    WT_ALL(weft_numel(weft_grad(x[3])) == TWO * LONG * LONG);
}

/* ---- modules ---- */

static weft_module *cross_new(void)
{
    weft_manual_seed(3);
    return wt_own(weft_cross_attention_new((weft_cross_attention_config){
        .width = WIDTH, .memory_width = 9, .heads = HEADS, .head_dim = DIM, .dtype = WEFT_F64}));
}

static weft_module *self_new(bool grouped, double dropout)
{
    weft_manual_seed(3);
    return wt_own(weft_attention_new((weft_attention_config){.width = WIDTH,
                                                             .heads = HEADS,
                                                             .head_dim = DIM,
                                                             .kv_heads = grouped ? 3 : 0,
                                                             .dropout = dropout,
                                                             .dtype = WEFT_F64}));
}

static weft_tensor *padding(int64_t keys)
{
    int64_t shape[] = {BATCH, keys};
    weft_tensor *mask = weft_empty(WEFT_BOOL, shape, 2);

    for (int64_t i = 0; i < BATCH * keys; i++)
        ((bool *)weft_data(mask))[i] = i % keys < keys - i / keys % 3;
    return mask;
}

static weft_tensor *leaf(int which, int ndim, const int64_t *shape)
{
    return weft_set_requires_grad(noise(which, ndim, shape), true);
}

/*
 * trial 4.4: two sequences of different lengths and widths, the heads cut unevenly. One all-reduce
 * forward (proj), one each for what q and kv were given backward.
 */
WT_TEST(cross_attention__under_styles_equals_one_device)
{
    static const weft_plan plan[] = {{"q", {.kind = WEFT_STYLE_COLWISE}},
                                     {"kv", {.kind = WEFT_STYLE_COLWISE}},
                                     {"proj", {.kind = WEFT_STYLE_ROWWISE}},
                                     {0}};
    struct wt_world w = wt_world_open();
    weft_module *m[] = {cross_new(), cross_new()};
    weft_tensor *in[2][3], *y[2];

    WT_EQ(weft_parallelize_module_strict(m[1], w.mesh, plan), WEFT_OK);
    for (int i = 0; i < 2; i++) {
        in[i][0] = leaf(1, 3, (int64_t[]){BATCH, TOKENS, WIDTH});
        in[i][1] = leaf(2, 3, (int64_t[]){BATCH, KEYS, 9});
        in[i][2] = padding(KEYS);
        wt_moved(&w, WEFT_COLL_COUNT);
        y[i] = weft_call_n(m[i], in[i], 3);
    }
    WT_MOVED(&w, WEFT_COLL_ALL_REDUCE, 1);
    WT_ALL(wt_near_tensors(y[1], y[0], WT_WITHIN(1e-12)));
    WT_EQ(weft_backward(weft_sum_all(weft_square(y[0]))), WEFT_OK);
    wt_moved(&w, WEFT_COLL_COUNT);
    WT_EQ(weft_backward(weft_sum_all(weft_square(y[1]))), WEFT_OK);
    WT_MOVED(&w, WEFT_COLL_ALL_REDUCE, 2);
    WT_NEAR_GRADIENTS(m[1], m[0], WT_WITHIN(1e-12));
    for (int j = 0; j < 2; j++)
        WT_ALL(wt_near_tensors(weft_grad(in[1][j]), weft_grad(in[0][j]), WT_WITHIN(1e-12)));
}

/* Dropout of next to nothing takes the steps apart: with a mask and a bias they give the same. */
static void check_apart(weft_module *m, weft_tensor *const *in, int n)
{
    weft_tensor *bias = in[n - 1], *y[2];
    double *slopes[2];

    for (int i = 0; i < 2; i++) {
        weft_module_train(m, i == 0);
        y[i] = weft_call_n(m, in, n);
        WT_EQ(weft_backward(weft_sum_all(weft_square(y[i]))), WEFT_OK);
        slopes[i] = wt_values(weft_grad(bias));
        weft_zero_grad(bias);
    }
    WT_ALL(wt_near_tensors(y[0], y[1], WT_WITHIN(1e-9)));
    WT_ALL(wt_near(slopes[0], slopes[1], weft_numel(bias), WT_WITHIN(1e-9)));
    free(slopes[0]);
    free(slopes[1]);
}

/* trial 4.4 */
WT_TEST(bias__beside_dropout_of_weights_is_the_same)
{
    for (int grouped = 0; grouped < 2; grouped++)
        for (int64_t heads = 1; heads <= HEADS; heads += HEADS - 1)
            check_apart(self_new(grouped != 0, 1e-12),
                        (weft_tensor *[]){leaf(1, 3, (int64_t[]){BATCH, TOKENS, WIDTH}),
                                          padding(TOKENS),
                                          leaf(4, 4, (int64_t[]){1, heads, TOKENS, TOKENS})},
                        3);
}

/* Inputs are what they are, in any order; two of a kind are refused. */
WT_TEST(attention__tells_its_inputs_apart)
{
    weft_module *m = self_new(false, 0);
    weft_tensor *x = noise(1, 3, (int64_t[]){BATCH, TOKENS, WIDTH}), *mask = padding(TOKENS),
                *bias = noise(4, 4, (int64_t[]){1, HEADS, 1, TOKENS});
    weft_tensor *y = weft_call_n(m, (weft_tensor *[]){x, mask, bias}, 3),
                *z = weft_call_n(m, (weft_tensor *[]){x, bias, mask}, 3);

    WT_ALL(wt_near_tensors(y, z, WT_EXACT));
    WT_ALL(!wt_near_tensors(weft_call_n(m, (weft_tensor *[]){x, mask}, 2), y, WT_WITHIN(1e-3)));
    WT_FAILS(weft_call_n(m, (weft_tensor *[]){x, mask, mask}, 3), WEFT_ERR_ARG,
             "two inputs are masks");
    WT_FAILS(weft_call_n(m, (weft_tensor *[]){x, weft_cast(mask, WEFT_I64)}, 2), WEFT_ERR_ARG,
             "rotary.base");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "bias"); }
