/* test_mlp.c: the smallest models from end to end: two linear layers, and a tied embedding. */
/* mpi: 4 */
#include "transformer/pair.h"

#include <stdlib.h>

#include "transformer/toy.h"

/* ---- column-wise, then row-wise ---- */

struct sizes {
    int64_t in, hidden, out;
};

static const struct sizes sizes[] = {{10, 16, 10}, {7, 13, 5}, {3, 2, 1}};

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

static const weft_plan whole[] = {
    {"net1", {.kind = WEFT_STYLE_COLWISE}}, {"net2", {.kind = WEFT_STYLE_ROWWISE}}, {0}};

/* Inputs and outputs by rows. */
static const weft_plan by_rows[] = {
    {"",
     {.kind = WEFT_STYLE_PREPARE,
      .options = {.input_layouts = "R", .desired_input_layouts = "S(0)"}}},
    {"net1", {.kind = WEFT_STYLE_COLWISE, .options = {.input_layouts = "S(0)"}}},
    {"net2",
     {.kind = WEFT_STYLE_ROWWISE, .options = {.output_layouts = "S(0)", .keep_distributed = true}}},
    {0},
};

static weft_tensor *call_child(weft_tensor *const *in, int n, void *payload)
{
    (void)n;
    return weft_call(weft_module_child_at(payload, 0), in[0]);
}

static weft_tensor *call_again(weft_module *m, weft_tensor *const *in, int n)
{
    return weft_recomputed(call_child, in, n, m, NULL);
}

/* Its forward keeps the input only. */
static weft_module *forgetful(weft_module *m)
{
    static const weft_module_class kind = {.type = "forgetful", .forward = call_again};
    weft_module *outer = weft_module_new(&kind, NULL);

    weft_module_add_child(outer, "mlp", m);
    return outer;
}

static struct pair mlps(const struct sizes *s, weft_dtype dtype, const weft_plan *plan, bool again)
{
    weft_module *one = mlp(s->in, s->hidden, s->out, dtype);
    weft_module *many = mlp(s->in, s->hidden, s->out, dtype);

    WT_EQ(weft_parallelize_module(many, wt_own(given_mesh()), plan), WEFT_OK);
    return again ? pair_open(forgetful(one), forgetful(many), dtype) : pair_open(one, many, dtype);
}

/* ((i * 37 + 11) mod 101) / 50 - 1 */
static weft_tensor *input(int64_t rows, int64_t columns, weft_dtype dtype)
{
    double *at = malloc((size_t)(rows * columns + 1) * sizeof *at);
    weft_tensor *x;

    for (int64_t i = 0; i < rows * columns; i++) at[i] = (double)((i * 37 + 11) % 101) / 50 - 1;
    x = weft_from_data(WEFT_F64, (int64_t[]){rows, columns}, 2, at);
    free(at);
    return weft_cast(x, dtype);
}

static weft_optim *sgd(weft_module *m) { return weft_sgd(m, (weft_sgd_config){.lr = 0.25}); }

/* Steps of pairs that send `forward` and `backward`. */
static void train(struct pair p, weft_tensor *x, struct pair_count forward,
                  struct pair_count backward)
{
    weft_tensor *one, *many;

    pair_optimize(&p, sgd);
    for (int step = 0; step < 3; step++) {
        many = pair_forward(&p, x, &one, forward);
        if (step == 2) break;
        pair_backward(&p, one, many, backward, 0);
        if (step == 0)
            pair_gradients(&p);
        else
            pair_step(&p, 0);
    }
}

/* EX-01: the input needs no gradient, so backward sends nothing. By rows a sum becomes a gather of
 * the input and a scattered sum, which backward gathers. */
WT_TEST(mlp__trains_as_on_one_device)
{
    for (int i = 0; i < 3; i++)
        for (int d = 0; d < 2; d++) {
            weft_dtype dtype = d ? WEFT_F64 : WEFT_F32;
            weft_tensor *x;

            wt_row("%d hidden, dtype %d", (int)sizes[i].hidden, d);
            x = input(8, sizes[i].in, dtype);
            train(mlps(&sizes[i], dtype, whole, false), x, (struct pair_count){.all_reduce = 1},
                  (struct pair_count){0});
            train(mlps(&sizes[i], dtype, by_rows, false), x,
                  (struct pair_count){.all_gather = 1, .reduce_scatter = 1},
                  (struct pair_count){.all_gather = 1});
        }
}

/* ---- rows of each rank's own ---- */

static const weft_plan own_rows[] = {
    {"net1", {.kind = WEFT_STYLE_COLWISE, .options = {.input_layouts = "S(0)"}}},
    {"net2", {.kind = WEFT_STYLE_ROWWISE, .options = {.output_layouts = "S(0)"}}},
    {0},
};

/* This rank's run of rows, as a plain tensor. */
static weft_tensor *rows_of_mine(weft_tensor *all)
{
    int64_t rows = weft_size(all, 0) / wt_ranks(), first = rows * weft_world_rank();

    return weft_contiguous(weft_slice(all, 0, first, first + rows));
}

/* Plain inputs and outputs that differ from rank to rank are parts of a batch: two all-gathers and
 * a reduce-scatter, in forward and backward together, and gradients summed over all ranks. */
WT_TEST(mlp__trains_on_rows_that_each_rank_brings)
{
    for (int i = 0; i < 6; i++) {
        const struct sizes *s = &sizes[i / 2];
        struct pair p;
        weft_tensor *x;

        wt_row("%d hidden, dtype %d", (int)s->hidden, i % 2);
        p = mlps(s, i % 2 ? WEFT_F64 : WEFT_F32, own_rows, false);
        x = input(8 * wt_ranks(), s->in, p.dtype);
        pair_optimize(&p, sgd);
        for (int step = 0; step < 3; step++) {
            weft_tensor *one = weft_call(p.one, x), *mine;
            bool many = wt_ranks() > 1;

            weft_ledger_reset(p.ledger);
            mine = weft_call(p.many, rows_of_mine(x));
            WT_ALL(mine && !weft_tensor_mesh(mine));
            WT_ALL(wt_near_tensors(mine, rows_of_mine(one), p.near));
            if (step == 2) break;
            WT_EQ(weft_backward(weft_sum_all(weft_square(mine))), WEFT_OK);
            WT_EQ(weft_ledger_count(p.ledger, WEFT_COLL_ALL_GATHER, WEFT_DIRECTION_ANY, NULL),
                  2 * many);
            WT_EQ(weft_ledger_count(p.ledger, WEFT_COLL_REDUCE_SCATTER, WEFT_DIRECTION_ANY, NULL),
                  many);
            WT_EQ(weft_ledger_count(p.ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL), 3 * many);
            WT_EQ(weft_backward(weft_sum_all(weft_square(one))), WEFT_OK);
            if (step == 0)
                pair_gradients(&p);
            else
                pair_step(&p, 0);
        }
    }
}

/* EX-01 with activations computed again in backward, which communicates as forward did. */
WT_TEST(mlp__trains_without_keeping_activations)
{
    for (int i = 0; i < 3; i++) {
        weft_tensor *x;

        wt_row("%d hidden", (int)sizes[i].hidden);
        x = input(8, sizes[i].in, WEFT_F64);
        train(mlps(&sizes[i], WEFT_F64, whole, true), x, (struct pair_count){.all_reduce = 1},
              (struct pair_count){.all_reduce = 1});
        train(mlps(&sizes[i], WEFT_F64, by_rows, true), x,
              (struct pair_count){.all_gather = 1, .reduce_scatter = 1},
              (struct pair_count){.all_gather = 2, .reduce_scatter = 1});
    }
}

/* EX-03 */
WT_TEST(mlp__answers_without_gradients)
{
    for (int i = 0; i < 3; i++) {
        struct pair p = mlps(&sizes[i], WEFT_F32, whole, false);
        weft_tensor *one, *many;

        weft_no_grad_open();
        many = pair_forward(&p, input(8, sizes[i].in, WEFT_F32), &one,
                            (struct pair_count){.all_reduce = 1});
        weft_no_grad_close();
        WT_ALL(!weft_requires_grad(many));
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
    weft_tensor *tokens = weft_reshape(toy_tokens(1, 5, vocab, 3), (int64_t[]){5}, 1);
    weft_tensor *weight, *other, *one, *many;

    WT_EQ(weft_parallelize_module(p.many, wt_own(given_mesh()), plan), WEFT_OK);
    for (int tied = 0; tied < 2; tied++) {
        if (tied) {
            tie(p.one);
            tie(p.many);
        }
        weight = weft_module_parameter(p.many, "embedding.weight");
        other = weft_module_parameter(p.many, "fc.weight");
        WT_ALL((weight == other) == tied);
        WT_ALL(wt_near_tensors(weight, other, WT_EXACT) == tied);
        WT_EQ(weft_module_parameter_count(p.many), tied ? 2 : 3);
        many = pair_forward(&p, tokens, &one, (struct pair_count){.all_reduce = 1});
        pair_backward(&p, one, many, (struct pair_count){0}, 0);
        WT_ALL(wt_near_tensors(weft_grad(weight), weft_grad(other), WT_EXACT) == tied);
        pair_gradients(&p);
    }
}

/* EX-12: the halves of the model are tied after they were spread; both styles split the same dim
 * of the weight. */
WT_TEST(weights__are_tied_after_they_are_spread)
{
    check_tie(16, 8);
    check_tie(11, 5);
    check_tie(4, 2);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "mlp"); }
