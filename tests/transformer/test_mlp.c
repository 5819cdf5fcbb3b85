/* test_mlp.c: the smallest models from end to end: two linear layers, and a tied embedding. */
/* mpi: 4 */
#include "transformer/pair.h"
#include "transformer/toy.h"

/* ---- column-wise, then row-wise ---- */

static weft_module *mlp(int64_t in, int64_t hidden, int64_t out, weft_dtype dtype)
{
    weft_module *m = weft_sequential_new();

    weft_manual_seed(5);
    weft_module_add_child(
        m, "net1",
        weft_linear_new((weft_linear_config){.in = {in}, .out = {hidden}, .dtype = dtype}));
    weft_module_add_child(m, "relu", weft_activation_new(WEFT_RELU));
    weft_module_add_child(
        m, "net2",
        weft_linear_new((weft_linear_config){.in = {hidden}, .out = {out}, .dtype = dtype}));
    return m;
}

static struct pair mlps(int64_t in, int64_t hidden, int64_t out, weft_dtype dtype)
{
    static const weft_plan plan[] = {
        {"net1", {.kind = WEFT_STYLE_COLWISE}}, {"net2", {.kind = WEFT_STYLE_ROWWISE}}, {0}};
    struct pair p = pair_open(mlp(in, hidden, out, dtype), mlp(in, hidden, out, dtype), dtype);

    WT_EQ(weft_parallelize_module(p.many, p.mesh, plan), WEFT_OK);
    return p;
}

/* ((i * 37 + 11) mod 101) / 50 - 1 */
static weft_tensor *input(int64_t rows, int64_t columns, weft_dtype dtype)
{
    weft_tensor *x = weft_empty(WEFT_F64, 2, (int64_t[]){rows, columns});
    double *at = weft_data(x);

    for (int64_t i = 0; i < rows * columns; i++) at[i] = (double)((i * 37 + 11) % 101) / 50 - 1;
    return weft_cast(x, dtype);
}

static weft_optim *sgd(weft_module *m) { return weft_sgd(m, (weft_sgd_config){.lr = 0.25}); }

static void train(int64_t in, int64_t hidden, int64_t out, weft_dtype dtype)
{
    struct pair p = mlps(in, hidden, out, dtype);
    weft_tensor *x = input(8, in, dtype), *one, *many;

    pair_optimize(&p, sgd);
    for (int step = 0; step < 3; step++) {
        many = pair_forward(&p, x, &one, (struct pair_count){.all_reduce = 1});
        if (step == 2) break;
        pair_backward(&p, one, many, (struct pair_count){0}, 0);
        if (step == 0)
            pair_gradients(&p);
        else
            pair_step(&p, 0);
    }
    pair_close(&p);
}

/* EX-01: the input needs no gradient, so backward sends nothing. */
WT_TEST(mlp__trains_as_on_one_device)
{
    train(10, 16, 10, WEFT_F32);
    train(10, 16, 10, WEFT_F64);
    train(7, 13, 5, WEFT_F64);
    train(3, 2, 1, WEFT_F32);
}

/* EX-03 */
WT_TEST(mlp__answers_without_gradients)
{
    static const int64_t sizes[][3] = {{10, 16, 10}, {7, 13, 5}, {3, 2, 1}};

    for (int i = 0; i < 3; i++) {
        struct pair p = mlps(sizes[i][0], sizes[i][1], sizes[i][2], WEFT_F32);
        weft_tensor *one, *many;

        weft_no_grad_begin();
        many = pair_forward(&p, input(8, sizes[i][0], WEFT_F32), &one,
                            (struct pair_count){.all_reduce = 1});
        weft_no_grad_end();
        WT_ALL(!weft_requires_grad(many));
        pair_close(&p);
    }
}

/* ---- a weight that two modules have ---- */

static weft_module *words(int64_t vocab, int64_t width)
{
    weft_module *m = weft_sequential_new();

    weft_manual_seed(1);
    weft_module_add_child(m, "embedding",
                          weft_embedding_new((weft_embedding_config){
                              .rows = vocab, .width = width, .dtype = WEFT_F64}));
    weft_module_add_child(
        m, "fc",
        weft_linear_new((weft_linear_config){.in = {width}, .out = {vocab}, .dtype = WEFT_F64}));
    return m;
}

static void tie(weft_module *m)
{
    WT_EQ(weft_module_set_parameter(weft_module_child(m, "fc"), "weight",
                                    weft_module_parameter(m, "embedding.weight")),
          WEFT_OK);
}

static void check_tie(int64_t vocab, int64_t width)
{
    static const weft_plan plan[] = {
        {"embedding", {.kind = WEFT_STYLE_COLWISE}}, {"fc", {.kind = WEFT_STYLE_ROWWISE}}, {0}};
    struct pair p = pair_open(words(vocab, width), words(vocab, width), WEFT_F64);
    weft_tensor *tokens = weft_reshape(toy_tokens(1, 5, vocab, 3), 1, (int64_t[]){5});
    weft_tensor *weight, *other, *one, *many;

    WT_EQ(weft_parallelize_module(p.many, p.mesh, plan), WEFT_OK);
    for (int tied = 0; tied < 2; tied++) {
        if (tied) {
            tie(p.one);
            tie(p.many);
        }
        weight = weft_module_parameter(p.many, "embedding.weight");
        other = weft_module_parameter(p.many, "fc.weight");
        WT_ALL((weight == other) == tied);
        WT_ALL(wt_near_tensors(weight, other, WT_EXACT) == tied);
        WT_EQ(weft_module_parameters(p.many), tied ? 2 : 3);
        many = pair_forward(&p, tokens, &one, (struct pair_count){.all_reduce = 1});
        pair_backward(&p, one, many, (struct pair_count){0}, 0);
        WT_ALL(wt_near_tensors(weft_grad(weight), weft_grad(other), WT_EXACT) == tied);
        pair_gradients(&p);
    }
    pair_close(&p);
}

/* EX-12: the halves of the model are tied after they were spread; both styles split the same dim
 * of the weight. */
WT_TEST(weights__are_tied_after_they_are_spread)
{
    check_tie(16, 8);
    check_tie(11, 5);
    check_tie(4, 2);
}

int main(int argc, char **argv)
{
    static const struct wt_case cases[] = {
        WT_CASE(mlp__trains_as_on_one_device),
        WT_CASE(mlp__answers_without_gradients),
        WT_CASE(weights__are_tied_after_they_are_spread),
        WT_END,
    };

    return wt_main(argc, argv, "mlp", cases);
}
