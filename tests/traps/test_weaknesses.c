/*
 * test_weaknesses.c: weaknesses 10.4-3, 4, 5, 6 and 13 of another library, met under styles. What
 * single ops do of them is in test_partial.c and test_backward.c.
 */
/* mpi: 3 */
#include <stdlib.h>

#include "support/near_modules.h"
#include "support/worlds.h"

static weft_tensor *leaf(weft_tensor *t) { return weft_set_requires_grad(t, true); }

/* ---- 10.4-3: an op that looks at its neighbours ---- */

/*
 * A convolution over the last dim, x [B,C,L] with w [K,C,3] -> [B,K,L]. The library has none of its
 * own; this one is a program's, with the strategies that a convolution has.
 */
static weft_status conv_shape(weft_op_info *info, void *payload)
{
    (void)payload;
    info->out[0] = info->in[0];
    info->out[0].shape[1] = info->in[1].shape[0];
    return WEFT_OK;
}

static weft_status conv_rule(const weft_op_info *info, weft_rule *rule, void *payload)
{
    const weft_placement whole = weft_replicate(), partial = weft_partial(WEFT_SUM);
    const weft_placement batch[] = {weft_shard(0), whole}, out[] = {whole, weft_shard(0)},
                         in[] = {weft_shard(1), weft_shard(1)}, k = weft_shard(1);

    (void)info;
    (void)payload;
    if (weft_rule_accept(rule, batch, batch) != WEFT_OK) return weft_error_status();
    if (weft_rule_accept(rule, out, &k) != WEFT_OK) return weft_error_status();
    return weft_rule_accept(rule, in, &partial);
}

static double at(const weft_op_shard *p, int64_t i, int64_t j, int64_t k)
{
    if (k < 0 || k >= p->shape[2]) return 0;
    return ((const double *)p->data)[i * p->stride[0] + j * p->stride[1] + k * p->stride[2]];
}

static void conv(const weft_op_info *info, const weft_op_shard *in, weft_op_shard *out,
                 const double *numbers, void *payload)
{
    double *y = out->data;

    (void)info;
    (void)numbers;
    (void)payload;
    for (int64_t b = 0; b < out->shape[0]; b++)
        for (int64_t k = 0; k < out->shape[1]; k++)
            for (int64_t l = 0; l < out->shape[2]; l++, y++) {
                *y = 0;
                for (int64_t c = 0; c < in[0].shape[1]; c++)
                    for (int64_t s = 0; s < 3; s++)
                        *y += at(&in[0], b, c, l + s - 1) * at(&in[1], k, c, s);
            }
}

static weft_tensor *convolve(int op, weft_tensor *x, weft_tensor *w)
{
    const weft_argument arguments[] = {weft_tensor_argument(x), weft_tensor_argument(w)};
    weft_tensor *y = NULL;

    return weft_op_run(op, &y, arguments, 2) == WEFT_OK ? y : NULL;
}

/* Each rank's elements are those that the label says, without asking the others. */
static bool tells_the_truth(weft_tensor *y, weft_tensor *want)
{
    weft_tensor *settled = weft_is_partial(weft_tensor_placement(y, 0)) ? wt_to(y, "R") : y;
    bool good = wt_near_shard(settled, want, WT_WITHIN(1e-12));

    return good;
}

/* Weakness 10.4-3: with the length or both operands' channels sharded, what the rule asks for is
 * what the kernel gets. (The peer skips that, and calls what comes out replicated.) The rows of the
 * library's own ops are held to this by tests/rules: no strategy labels what it does not make. */
WT_TEST_IN_WORLD(weakness_3__a_label_is_never_wrong, w)
{
    static const char *const xs[] = {"R", "S(0)", "S(1)", "S(2)"}, *const ws[] = {"R", "S(0)",
                                                                                  "S(1)", "S(2)"};
    const weft_op_spec spec = {
        .name = "valid_conv", .n_out = 1, .shape = conv_shape, .rule = conv_rule, .kernel = conv};
    int op = weft_register_op(&spec);

    for (int sizes = 0; sizes < 2; sizes++) {
        weft_tensor *x = wt_whole3(WEFT_F64, 0, sizes ? 3 : 8, sizes ? 5 : 8, sizes ? 7 : 8);
        weft_tensor *k = wt_whole3(WEFT_F64, 1, 6, sizes ? 5 : 8, 3), *want = convolve(op, x, k);

        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                wt_note("%s with %s", xs[i], ws[j]);
                WT_ALL(tells_the_truth(convolve(op, wt_spread(w, x, xs[i]), wt_spread(w, k, ws[j])),
                                       want));
            }
    }
    WT_EQ(weft_unregister_op("valid_conv"), WEFT_OK);
}

/* ---- 10.4-4: ranks without rows ---- */

static weft_tensor *indices(int64_t a, int64_t b, int64_t limit, int step)
{
    weft_tensor *t = weft_empty(WEFT_I64, (int64_t[]){a, b}, b ? 2 : 1);
    int64_t *data = weft_data(t);

    for (int64_t i = 0; i < weft_numel(t); i++) data[i] = (i * step + 1) % limit;
    return t;
}

/* Weakness 10.4-4: the largest, and where it is, over a dim with fewer rows than ranks. */
WT_TEST_TIMES_IN_WORLD(weakness_4__maxima_over_few_rows, w, i, 5)
{
    int64_t rows = 1 + 2 * i;
    weft_tensor *x = wt_whole(WEFT_F64, 0, rows, 4), *y = wt_spread(w, x, "S(0)");

    WT_ALL(wt_near_tensors(weft_amax(y, (int[]){0}, 1, true), weft_amax(x, (int[]){0}, 1, true),
                           WT_EXACT));
    WT_ALL(wt_near_tensors(weft_amax(y, NULL, 0, false), weft_amax(x, NULL, 0, false), WT_EXACT));
    WT_ALL(wt_near_tensors(weft_argmax(y, 0), weft_argmax(x, 0), WT_EXACT));
    WT_ALL(wt_near_tensors(weft_argmax(y, 1), weft_argmax(x, 1), WT_EXACT));
}

/* Children embedding, output and loss. */
static weft_module *make_words(int64_t vocab)
{
    weft_module *m = weft_sequential_new();

    weft_manual_seed(3);
    weft_module_add_child(
        m, "embedding",
        weft_embedding_new((weft_embedding_config){.rows = vocab, .width = 3, .dtype = WEFT_F64}));
    weft_module_add_child(
        m, "output",
        weft_linear_new((weft_linear_config){.in = {3}, .out = {vocab}, .dtype = WEFT_F64}));
    weft_module_add_child(m, "loss",
                          weft_cross_entropy_new((weft_cross_entropy_config){.classes = vocab}));
    return m;
}

static weft_tensor *loss_of(weft_module *m, weft_tensor *tokens, weft_tensor *targets)
{
    weft_tensor *x = weft_call(weft_module_child(m, "embedding"), tokens);
    weft_tensor *in[] = {weft_call(weft_module_child(m, "output"), x), targets};

    return weft_call_n(weft_module_child(m, "loss"), in, 2);
}

/* Weakness 10.4-4: an embedding by rows and a loss by classes, where the last ranks have none. */
WT_TEST_TIMES_IN_WORLD(weakness_4__vocabularies_smaller_than_the_ranks, w, i, 5)
{
    static const weft_plan plan[] = {{"embedding", {.kind = WEFT_STYLE_ROWWISE}},
                                     {"output", {.kind = WEFT_STYLE_COLWISE}},
                                     {"loss", {.kind = WEFT_STYLE_LOSS}},
                                     {0}};
    int64_t vocab = 1 + 2 * i;
    weft_module *one = make_words(vocab), *many = make_words(vocab);
    weft_tensor *tokens = indices(6, 0, vocab, 3), *targets = indices(6, 0, vocab, 2), *loss;

    WT_EQ(weft_parallelize_module(many, w->mesh, plan), WEFT_OK);
    WT_EQ(weft_backward(loss_of(one, tokens, targets)), WEFT_OK);
    loss = loss_of(many, tokens, targets);
    WT_ALL(wt_near_tensors(loss, loss_of(one, tokens, targets), WT_WITHIN(1e-13)));
    WT_EQ(weft_backward(loss), WEFT_OK);
    WT_NEAR_GRADIENTS(many, one, WT_WITHIN(1e-13));
    WT_RELEASE(weft_module_release, one, many);
}

/* ---- 10.4-5: two lookups that are partial at once ---- */

static weft_module *table(weft_mesh *mesh, int64_t rows, uint64_t seed)
{
    weft_module *m;

    weft_manual_seed(seed);
    m = weft_embedding_new((weft_embedding_config){.rows = rows, .width = 4, .dtype = WEFT_F64});
    if (mesh)
        WT_EQ(weft_parallelize_module(
                  m, mesh,
                  (weft_plan[]){{"", weft_rowwise_parallel_with((weft_style_options){
                                         .output_layouts = "P", .keep_distributed = true})},
                                {0}}),
              WEFT_OK);
    return m;
}

/* Weakness 10.4-5: row-wise embeddings of the same shapes, both partial: added as they are, and
 * reduced once, and each by itself. */
WT_TEST_TIMES_IN_WORLD(weakness_5__row_wise_embeddings_are_partial_together, w, k, 2)
{
    int64_t rows = 3 + 5 * k;
    weft_module *m[2][2];
    weft_tensor *index[] = {indices(2, 5, rows, 3), indices(2, 5, rows, 2)}, *y[2][2], *sum[2];

    for (int many = 0; many < 2; many++) {
        for (int i = 0; i < 2; i++) {
            m[many][i] = table(many ? w->mesh : NULL, rows, (uint64_t)i);
            y[many][i] = weft_call(m[many][i], index[i]);
        }
        sum[many] = weft_add(y[many][0], y[many][1]);
    }
    WT_STILL(w);
    sum[1] = wt_to(sum[1], "R");
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
    WT_ALL(wt_near_tensors(sum[1], sum[0], WT_WITHIN(1e-14)));
    for (int i = 0; i < 2; i++) WT_ALL(wt_near_tensors(y[1][i], y[0][i], WT_EXACT));
    for (int many = 0; many < 2; many++)
        WT_EQ(weft_backward(weft_sum_all(weft_square(sum[many]))), WEFT_OK);
    for (int i = 0; i < 2; i++) {
        weft_tensor *grad = weft_grad(weft_module_parameter(m[1][i], "weight"));

        WT_ALL(wt_is_placed(grad, "S(0)"));
        WT_ALL(wt_near_tensors(grad, weft_grad(weft_module_parameter(m[0][i], "weight")),
                               WT_WITHIN(1e-14)));
        weft_module_release(m[0][i]);
        weft_module_release(m[1][i]);
    }
}

/* ---- 10.4-6: gradients lie as their parameters do, and are reduced once ---- */

static weft_module *norms(int64_t vocab)
{
    weft_module *m = weft_sequential_new();

    weft_manual_seed(3);
    weft_module_add_child(
        m, "embedding",
        weft_embedding_new((weft_embedding_config){.rows = vocab, .width = 6, .dtype = WEFT_F64}));
    for (int i = 0; i < 3; i++)
        weft_module_add_child(
            m, (char[]){(char)('0' + i), 0},
            weft_layer_norm_new((weft_norm_config){.width = 6, .dtype = WEFT_F64}));
    return m;
}

static weft_status as_the_parameter(weft_module *m, const char *name, weft_tensor *parameter,
                                    void *payload)
{
    weft_tensor *grad = weft_grad(parameter);

    (void)payload;
    wt_note("%s.%s", weft_module_path(m), name);
    WT_ALL(
        weft_placement_equal(weft_tensor_placement(grad, 0), weft_tensor_placement(parameter, 0)));
    WT_EQ(weft_local_numel(grad), weft_local_numel(parameter));
    return WEFT_OK;
}

/* Weakness 10.4-6: six gradients of norms are one all-reduce, whoever asks first; clipping adds the
 * one number of the norm, and the step nothing. (The peer: three per parameter and step, and one
 * more each for clipping.) The embedding's has the rank's rows only, and is never reduced. */
WT_TEST_IN_WORLD(weakness_6__norms_are_reduced_once, w)
{
    const weft_plan plan[] = {
        {"embedding", weft_rowwise_parallel_with((weft_style_options){.output_layouts = "S(1)",
                                                                      .keep_distributed = true})},
        {"[0-2]", weft_sequence_parallel()},
        {0}};
    weft_module *one = norms(11), *many = norms(11);
    weft_optim *optim;
    weft_tensor *tokens = indices(3, 7, 11, 3), *y;
    double norm, want;

    WT_EQ(weft_parallelize_module(many, w->mesh, plan), WEFT_OK);
    optim = weft_adamw(many, (weft_adamw_config){.lr = 0.1});
    WT_EQ(weft_backward(weft_sum_all(weft_square(weft_call(one, tokens)))), WEFT_OK);
    WT_EQ(weft_clip_grad_norm(one, 0, &want), WEFT_OK);
    y = weft_call(many, tokens);
    WT_EQ(weft_backward(weft_sum_all(weft_square(y))), WEFT_OK);
    wt_moved(w, WEFT_COLL_COUNT);
    WT_EQ(weft_clip_grad_norm(many, 0, &norm), WEFT_OK);
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 2);
    WT_ALL(norm - want < 1e-11 && want - norm < 1e-11);
    WT_EQ(weft_module_each_parameter(many, as_the_parameter, NULL), WEFT_OK);
    WT_NEAR_GRADIENTS(many, one, WT_WITHIN(1e-13));
    wt_moved(w, WEFT_COLL_COUNT);
    WT_EQ(weft_step(optim), WEFT_OK);
    WT_STILL(w);
    weft_optim_release(optim);
    WT_RELEASE(weft_module_release, one, many);
}

/* ---- 10.4-13: a wrong declaration ---- */

static weft_tensor *same(weft_module *m, weft_tensor *const *in, int n)
{
    (void)m;
    (void)n;
    return in[0];
}

/* Weakness 10.4-13: what a distributed tensor is counts, not what the plan declares it to be: going
 * in (tests/styles/test_prepare.c has one more) and coming out. */
WT_TEST(weakness_13__declarations_are_not_trusted)
{
    static const weft_module_class kind = {.type = "identity", .forward = same};
    static const char *const layouts[] = {"R", "S(0)", "S(1)"};

    for (int declared = 0; declared < 3; declared++)
        for (int real = 0; real < 3; real++)
            for (int desired = 0; desired < 3; desired++) {
                struct wt_world w = wt_world_open();
                weft_module *m = weft_module_new(&kind, NULL);
                weft_tensor *x = leaf(wt_whole(WEFT_F64, 0, 5, 7)), *y;
                weft_style style = weft_prepare_module_input_output(
                    (weft_style_options){.input_layouts = layouts[declared],
                                         .desired_input_layouts = layouts[desired],
                                         .output_layouts = layouts[declared],
                                         .desired_output_layouts = layouts[real],
                                         .keep_distributed = true});

                wt_note("%s declared as %s", layouts[real], layouts[declared]);
                WT_EQ(weft_parallelize_module(m, w.mesh, (weft_plan[]){{"", style}, {0}}), WEFT_OK);
                x = wt_spread(&w, x, layouts[real]);
                y = weft_call(m, x);
                WT_ALL(wt_is_placed(y, layouts[real]));
                WT_ALL(wt_near_tensors(y, x, WT_EXACT));
                WT_EQ(weft_backward(weft_sum_all(weft_square(y))), WEFT_OK);
                WT_ALL(wt_is_placed(weft_grad(x), layouts[real]));
                WT_ALL(wt_near_tensors(weft_grad(x), weft_mul_scalar(x, 2), WT_EXACT));
                weft_module_release(m);
                wt_world_close(&w);
            }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "weaknesses"); }
