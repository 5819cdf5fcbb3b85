/*
 * test_layers.c: what Megatron's tests assert of layers: frozen weights, products of 16-bit floats
 * that are given in f32, attention of sequences as shards, first values that do not depend on the
 * ranks, and how many parameters there are.
 */
/* ranks: 1 2 3 4 6 8 */
/* mpi: 8 */
#include "megatron/lines.h"

static weft_tensor *wanted(weft_tensor *t) { return weft_set_requires_grad(t, true); }

/* ---- a linear layer whose weight is frozen ---- */

static void check_frozen(struct lines *l, weft_tensor *input, int64_t out)
{
    const weft_plan plan[] = {
        {"", weft_colwise_parallel_with((weft_style_options){.output_layouts = "R"})}, {0}};
    weft_module *m = wt_own(weft_linear_new(
        (weft_linear_config){.in = {weft_size(input, -1)}, .out = {out}, .dtype = WEFT_F64}));
    weft_tensor *weight = weft_module_parameter(m, "weight"), *x = wanted(weft_detach(input)), *y;

    weft_fill_(weight, 1);
    weft_fill_(weft_module_parameter(m, "bias"), 0);
    weft_set_requires_grad(weight, false);
    WT_EQ(weft_parallelize_module(m, l->tp, plan), WEFT_OK);
    y = weft_call(m, x);
    weft_ledger_reset(l->ledger);
    WT_EQ(weft_backward(weft_sum_all(y)), WEFT_OK);
    LINES_SENT(l, WEFT_COLL_ALL_REDUCE, 1);
    WT_ALL(wt_near_tensors(weft_grad(x), weft_full_like(x, (double)out), WT_WITHIN(1e-12)));
    WT_ALL(!weft_grad(weft_module_parameter(m, "weight")));
    WT_ALL(weft_grad(weft_module_parameter(m, "bias")) != NULL);
    /* every feature is the sum of its row */
    WT_ALL(wt_near_tensors(weft_sub(y, weft_sum(input, (int[]){-1}, 1, true)), weft_zeros_like(y),
                           WT_WITHIN(1e-12)));
}

/* MEG-11: one output feature per rank of eight in Megatron; the ranks of a group here, and sizes
 * that do not divide. A group of one sends nothing. */
WT_TEST(frozen__weight_gets_no_gradient)
{
    struct lines l = lines_open();
    weft_tensor *eye = weft_make_eye((weft_spec){.dtype = WEFT_F64, .ndim = 2, .shape = {8, 8}}, 0);

    check_frozen(&l, eye, 8);
    check_frozen(&l, eye, 5);
    check_frozen(&l, weft_reshape(lines_counted(12, 8, false), (int64_t[]){4, 3, 8}, 3), 8);
    check_frozen(&l, weft_reshape(lines_counted(12, 8, false), (int64_t[]){4, 3, 8}, 3), 7);
}

/* ---- f32 out of 16 bits ---- */

static weft_tensor *noise(weft_dtype dtype, const int64_t *shape, int ndim)
{
    weft_spec spec = {.dtype = dtype, .ndim = ndim};

    for (int d = 0; d < ndim; d++) spec.shape[d] = shape[d];
    return weft_make_randn(spec, NULL);
}

/* A leaf with the elements of t, plain or in a layout. */
static weft_tensor *leaf(struct lines *l, weft_tensor *t, const weft_placement *p)
{
    t = weft_detach(t);
    return wanted(p ? weft_distribute_tensor(t, l->tp, p, -1) : t);
}

/* Backward from the sum of the output, y. */
static void step(weft_tensor *x, weft_tensor *w, bool wide, weft_tensor **y)
{
    *y = weft_linear_with(x, w, NULL, (weft_linear_options){.wide = wide});
    WT_EQ(weft_backward(weft_sum_all(*y)), WEFT_OK);
    WT_EQ(weft_tensor_dtype(weft_grad(x)), weft_tensor_dtype(x));
    WT_EQ(weft_tensor_dtype(weft_grad(w)), weft_tensor_dtype(w));
}

static void check_wide(struct lines *l, weft_dtype dtype, int64_t in, int64_t out)
{
    const weft_placement whole = weft_replicate(), rows = weft_shard(0), columns = weft_shard(1),
                         features = weft_shard(2);
    const weft_placement *on_x[] = {NULL, &whole, &features}, *on_w[] = {NULL, &rows, &columns};
    weft_tensor *x = noise(dtype, (int64_t[]){4, 3, in}, 3);
    weft_tensor *w = noise(dtype, (int64_t[]){out, in}, 2), *want;
    weft_tensor *x0 = leaf(l, x, NULL), *w0 = leaf(l, w, NULL), *narrow;

    want = weft_linear(weft_cast(x, WEFT_F32), weft_cast(w, WEFT_F32), NULL, 1);
    step(x0, w0, false, &narrow);
    WT_EQ(weft_tensor_dtype(narrow), dtype);
    for (int i = 0; i < 3; i++) {
        struct wt_tolerance near = i ? WT_WITHIN(2e-2) : WT_EXACT;
        weft_tensor *xi = leaf(l, x, on_x[i]), *wi = leaf(l, w, on_w[i]), *y;

        step(xi, wi, true, &y);
        WT_EQ(weft_tensor_dtype(y), WEFT_F32);
        WT_ALL(wt_near_tensors(y, want, WT_WITHIN(1e-4)));
        WT_ALL(wt_near_tensors(weft_grad(xi), weft_grad(x0), near));
        WT_ALL(wt_near_tensors(weft_grad(wi), weft_grad(w0), near));
    }
}

/* The product is not rounded, its gradients are as ever; whole, column-wise, row-wise. */
WT_TEST(linear__of_16_bits_in_f32)
{
    struct lines l = lines_open();

    check_wide(&l, WEFT_BF16, 16, 32);
    check_wide(&l, WEFT_BF16, 7, 5);
    check_wide(&l, WEFT_F16, 16, 32);
    check_wide(&l, WEFT_F16, 7, 5);
}

/* ---- attention between two all-to-alls ---- */

enum { BATCH = 2, TOKENS = 7, WIDTH = 6, HEADS = 4, SIZE = 3 };

static weft_tensor *numbers(const int64_t *shape, int ndim)
{
    return weft_cast(noise(WEFT_BF16, shape, ndim), WEFT_F64);
}

static weft_tensor *moved(weft_tensor *t, const weft_placement *p)
{
    return p ? weft_redistribute(t, p) : t;
}

/* w: of queries, keys, values and the output. Tokens are as shards outside, heads inside. */
static weft_tensor *attend(weft_tensor *x, weft_tensor *const *w, const weft_placement *tokens,
                           const weft_placement *heads)
{
    weft_tensor *p[3];

    for (int i = 0; i < 3; i++) p[i] = moved(weft_linear(x, w[i], NULL, 1), heads);
    return weft_linear(moved(weft_attention(p[0], p[1], p[2], true, 0), tokens), w[3], NULL, 2);
}

/* What Colossal-AI and DeepSpeed call Ulysses; here tokens and heads need not divide. */
WT_TEST(attention__of_parts_of_the_sequence)
{
    struct lines l = lines_open();
    const weft_placement whole = weft_replicate(), tokens = weft_shard(1), heads = weft_shard(2);
    weft_tensor *t = numbers((int64_t[]){BATCH, TOKENS, WIDTH}, 3), *x = leaf(&l, t, NULL);
    weft_tensor *parts = leaf(&l, t, &tokens), *w[4], *copies[4], *want, *got;

    for (int i = 0; i < 4; i++) {
        t = i < 3 ? numbers((int64_t[]){HEADS, SIZE, WIDTH}, 3)
                  : numbers((int64_t[]){WIDTH, HEADS, SIZE}, 3);
        w[i] = leaf(&l, t, NULL);
        copies[i] = leaf(&l, t, &whole);
    }
    want = attend(x, w, NULL, NULL);
    weft_ledger_reset(l.ledger);
    got = attend(parts, copies, &tokens, &heads);
    LINES_SENT(&l, WEFT_COLL_ALL_TO_ALL, 4);
    WT_ALL(wt_near_tensors(got, want, WT_WITHIN(1e-11)));
    weft_ledger_reset(l.ledger);
    WT_EQ(weft_backward(weft_sum_all(weft_square(want))), WEFT_OK);
    WT_EQ(weft_backward(weft_sum_all(weft_square(got))), WEFT_OK);
    LINES_SENT(&l, WEFT_COLL_ALL_TO_ALL, 4); /* gradients of weights are still partial */
    WT_ALL(wt_near_tensors(weft_grad(parts), weft_grad(x), WT_WITHIN(1e-10)));
    for (int i = 0; i < 4; i++)
        WT_ALL(wt_near_tensors(weft_grad(copies[i]), weft_grad(w[i]), WT_WITHIN(1e-10)));
    weft_ledger_reset(l.ledger);
}

/* ---- first values ---- */

static weft_module *layers(int64_t size)
{
    weft_module *m = weft_sequential_new();

    weft_module_add_child(
        m, "table",
        weft_embedding_new((weft_embedding_config){.rows = size, .width = 4, .std = 0.02}));
    weft_module_add_child(
        m, "up", weft_linear_new((weft_linear_config){.in = {size}, .out = {size}, .std = 0.02}));
    weft_module_add_child(m, "down",
                          weft_linear_new((weft_linear_config){.in = {size}, .out = {size}}));
    return m;
}

static void check_first_values(struct lines *l, int64_t size)
{
    static const char *const names[] = {"table.weight", "up.weight", "up.bias", "down.weight",
                                        "down.bias"};
    const weft_plan plan[] = {{"table", weft_rowwise_parallel()},
                              {"up", weft_colwise_parallel()},
                              {"down", weft_rowwise_parallel()},
                              {0}};
    weft_module *one, *many;
    weft_device before;

    weft_manual_seed(42);
    one = wt_own(layers(size));
    WT_EQ(weft_manual_seed_parallel(l->mesh, 1, 41), WEFT_OK); /* which must not matter */
    weft_manual_seed(42);
    before = weft_set_default_device(WEFT_META);
    many = wt_own(layers(size));
    weft_set_default_device(before);
    WT_EQ(weft_parallelize_module(many, l->tp, plan), WEFT_OK);
    WT_EQ(weft_module_materialize(many, WEFT_CPU), WEFT_OK);
    for (int i = 0; i < 5; i++)
        WT_ALL(wt_near_tensors(weft_module_parameter(many, names[i]),
                               weft_module_parameter(one, names[i]), WT_EXACT));
    WT_EQ(weft_local_size(weft_module_parameter(many, "table.weight"), 0),
          weft_chunk_size(size, l->ways, l->place));
    WT_EQ(weft_local_size(weft_module_parameter(many, "down.weight"), 1),
          weft_chunk_size(size, l->ways, l->place));
    weft_generator_reset();
}

/* A rank's shard is the slice of what one device has, made without the whole. */
WT_TEST(weights__are_slices_of_those_of_one_device)
{
    struct lines l = lines_open();

    check_first_values(&l, 16);
    check_first_values(&l, 10);
}

/* ---- how many parameters ---- */

static weft_module *attention(void)
{
    return weft_attention_new((weft_attention_config){.width = 128, .heads = 4});
}

static weft_module *mlp(void)
{
    return weft_mlp((weft_mlp_config){.in = 12, .hidden = 48, .out = 12});
}

static weft_module *block(void)
{
    return weft_block_new((weft_block_config){.width = 64, .heads = 4});
}

static weft_module *gpt(void)
{
    return weft_gpt(
        (weft_gpt_config){.vocab = 100, .context = 4, .width = 12, .heads = 4, .layers = 2});
}

/* Megatron's figures, its norms beside the modules that it fuses them into: 66,304 with a norm, and
 * 100,096 in two blocks and a norm. */
WT_TEST(parameters__are_as_many_as_in_megatron)
{
    static const struct {
        weft_module *(*make)(void);
        int64_t count;
    } rows[] = {
        {attention, 66304 - 2 * 128}, {mlp, 1212}, {block, (100096 - 2 * 64) / 2}, {gpt, 6240}};
    struct lines l = lines_open();

    for (int i = 0; i < 4; i++) {
        weft_module *m = wt_own(rows[i].make());

        WT_EQ(weft_module_numel(m), rows[i].count);
        if (i == 3) WT_EQ(weft_parallelize_module(m, l.tp, weft_gpt_plan()), WEFT_OK);
        WT_EQ(weft_module_numel(m), rows[i].count);
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "layers"); }
