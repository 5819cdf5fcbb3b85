/*
 * test_linears.c: linear layers under column-wise and row-wise styles in every form that they can
 * have: transposed storage, several things in one dim, sums in f32. One device is the yardstick;
 * nothing divides evenly.
 */
/* mpi: 3 */
#include <math.h>

#include "support/given.h"
#include "support/near_modules.h"
#include "support/scratch.h"

enum { ROWS = 5, IN = 7, OUT = 10 };

static const char *const styles[] = {"colwise", "rowwise"};

/* A plan of one line for the module itself. */
static void apply(weft_module *m, weft_mesh *mesh, const char *style)
{
    char text[128];
    weft_plan *plan;

    snprintf(text, sizeof text, ". %s", style);
    plan = wt_own(weft_plan_parse(text));
    WT_EQ(weft_parallelize_module_strict(m, mesh, plan), WEFT_OK);
}

static weft_tensor *parameter(weft_module *m, const char *name)
{
    return weft_module_parameter(m, name);
}

/* The whole output, whose sum with fixed weights has been taken back. */
static weft_tensor *run(weft_module *m, weft_tensor *x)
{
    weft_tensor *y;

    weft_set_requires_grad(x, true);
    y = weft_call(m, x);
    WT_ALL(y != NULL);
    if (weft_tensor_mesh(y)) y = weft_full_tensor(y);
    WT_EQ(weft_backward(weft_sum_all(weft_mul(y, given_like(y)))), WEFT_OK);
    return y;
}

static bool same(weft_tensor *got, weft_tensor *want)
{
    return wt_near_tensors(got, want, WT_WITHIN(1e-12));
}

/* ---- transposed storage ---- */

static weft_module *conv1d(bool transposed)
{
    weft_manual_seed(3);
    return wt_own(weft_linear_new((weft_linear_config){
        .in = {IN}, .out = {2, OUT}, .out_split = 1, .transposed = transposed, .dtype = WEFT_F64}));
}

static weft_tensor *turned(weft_tensor *w)
{
    static const int order[] = {2, 0, 1};

    return weft_detach(weft_contiguous(weft_permute(w, order)));
}

WT_TEST(transposed__styles_split_the_dims_that_they_mean)
{
    static const char *const placed[] = {"S(2)", "S(0)"}, *const bias[] = {"S(1)", "R"};
    weft_mesh *mesh = wt_own(given_mesh());

    for (int i = 0; i < 2; i++) {
        weft_module *plain = conv1d(false), *m = conv1d(true);
        weft_tensor *x = given(0, ROWS, IN, 0), *again = given(0, ROWS, IN, 0), *y;
        char keep[64];

        snprintf(keep, sizeof keep, "%s%s keep", styles[i], i ? " input=R" : "");
        WT_EQ(weft_module_set_parameter(m, "weight", turned(parameter(plain, "weight"))), WEFT_OK);
        weft_set_requires_grad(parameter(m, "weight"), true);
        WT_EQ(weft_module_set_parameter(m, "bias", weft_detach(parameter(plain, "bias"))), WEFT_OK);
        weft_set_requires_grad(parameter(m, "bias"), true);
        apply(m, mesh, keep);
        WT_ALL(given_is(parameter(m, "weight"), placed[i]));
        WT_ALL(given_is(parameter(m, "bias"), bias[i]));
        y = run(m, x);
        WT_ALL(same(y, run(plain, again)));
        WT_ALL(same(weft_grad(x), weft_grad(again)));
        WT_ALL(same(weft_grad(parameter(m, "bias")), weft_grad(parameter(plain, "bias"))));
        WT_ALL(given_is(weft_grad(parameter(m, "weight")), placed[i]));
        WT_ALL(
            same(weft_grad(parameter(m, "weight")), turned(weft_grad(parameter(plain, "weight")))));
    }
}

/* ---- several things behind one another ---- */

static weft_module *fused_new(int64_t in, int64_t out)
{
    weft_manual_seed(5);
    return weft_linear_new((weft_linear_config){.in = {in}, .out = {out}, .dtype = WEFT_F64});
}

static weft_module *fused(int64_t in, int64_t out) { return wt_own(fused_new(in, out)); }

/* This rank's shard of elements [first, first + count) of the last dim. */
static weft_tensor *shard_of(weft_tensor *t, weft_mesh *mesh, int64_t first, int64_t count)
{
    return given_shard(weft_detach(weft_slice(t, -1, first, first + count)), mesh, "S(-1)");
}

/* Styles with segments against one device: output, gradients, and what each rank holds. */
static void check_fused(const char *style, const char *placed, int64_t in, int64_t out)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *plain = fused(in, out), *m = fused(in, out);
    weft_tensor *x = given(0, ROWS, in, 0), *again = given(0, ROWS, in, 0);

    apply(m, mesh, style);
    WT_ALL(given_is(parameter(m, "weight"), placed));
    weft_set_requires_grad(x, true);
    weft_set_requires_grad(again, true);
    WT_NEAR_STEPS(m, x, plain, again, WT_WITHIN(1e-12));
    WT_ALL(same(weft_grad(x), weft_grad(again)));
    WT_ALL(given_is(weft_grad(parameter(m, "weight")), placed));
}

WT_TEST(segments__layers_equal_one_device)
{
    check_fused("colwise output=R segments=2", "S(0|1,1)", IN, 2 * 3);
    check_fused("colwise keep segments=4,1,1", "S(0|4,1,1)", IN, 6 * 2);
    check_fused("rowwise input=R segments=4,1,1", "S(1|4,1,1)", 6 * 2, OUT);
    check_fused("colwise keep segments=1", "S(0)", IN, OUT);
}

/* What a rank is handed is its part of each, so that code for one device finds them again. */
WT_TEST(segments__a_rank_has_its_part_of_each)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *plain = fused(IN, 6 * OUT), *m = fused(IN, 6 * OUT);
    weft_tensor *x = given(0, ROWS, IN, 0), *y, *want, *parts[3];

    apply(m, mesh, "colwise segments=4,1,1");
    y = weft_call(m, x);
    want = weft_call(plain, x);
    parts[0] = shard_of(want, mesh, 0, 4 * OUT);
    parts[1] = shard_of(want, mesh, 4 * OUT, OUT);
    parts[2] = shard_of(want, mesh, 5 * OUT, OUT);
    WT_ALL(y && !weft_tensor_mesh(y));
    WT_ALL(same(y, weft_cat(parts, 3, 1)));
}

/* A column-wise layer's parts go into a row-wise one as they are: one all-reduce, no other move. */
WT_TEST(segments__two_layers_move_nothing_between_them)
{
    static const weft_plan plan[] = {
        {"0", {.kind = WEFT_STYLE_COLWISE, .options = {.segments = "3"}}},
        {"1", {.kind = WEFT_STYLE_ROWWISE, .options = {.segments = "3"}}},
        {0}};
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *both[2];
    weft_tensor *x = given(0, ROWS, IN, 0), *y;
    weft_ledger *ledger;

    for (int i = 0; i < 2; i++) {
        both[i] = wt_own(weft_sequential_new());
        WT_EQ(weft_module_add_child(both[i], "0", fused_new(IN, 3 * OUT)), WEFT_OK);
        WT_EQ(weft_module_add_child(both[i], "1", fused_new(3 * OUT, IN)), WEFT_OK);
    }
    WT_EQ(weft_parallelize_module_strict(both[1], mesh, plan), WEFT_OK);
    ledger = wt_own(weft_ledger_open());
    y = weft_call(both[1], x);
    GIVEN_MOVED(ledger, WEFT_COLL_ALL_REDUCE, 1);
    WT_ALL(same(y, weft_call(both[0], x)));
}

/* Files have the weight as one device has it. */
WT_TEST(segments__checkpoints_are_in_the_order_of_one_device)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *plain = fused(IN, 3 * OUT), *m = fused(IN, 3 * OUT), *again;
    const char *path = wt_scratch("fused.weft"), *hub = wt_scratch("fused.safetensors");
    weft_state *saved = wt_own(weft_state_new()), *loaded = wt_own(weft_state_new());
    weft_weights *file;

    apply(m, mesh, "colwise segments=3");
    WT_EQ(weft_state_add_module(saved, "m", m), WEFT_OK);
    WT_EQ(weft_checkpoint_save(path, saved), WEFT_OK);
    WT_EQ(weft_weights_save(m, hub, NULL), WEFT_OK);
    file = wt_own(weft_weights_open(hub));
    WT_ALL(same(weft_weights_read(file, "weight", 0, NULL, NULL), parameter(plain, "weight")));
    weft_manual_seed(99);
    again = wt_own(
        weft_linear_new((weft_linear_config){.in = {IN}, .out = {3 * OUT}, .dtype = WEFT_F64}));
    WT_EQ(weft_state_add_module(loaded, "m", again), WEFT_OK);
    WT_EQ(weft_checkpoint_load(path, loaded), WEFT_OK);
    WT_ALL(same(parameter(again, "weight"), parameter(plain, "weight")));
    WT_EQ(weft_fill_(parameter(m, "weight"), 0), WEFT_OK);
    WT_EQ(weft_weights_load(m, file, NULL), WEFT_OK);
    WT_ALL(same(parameter(m, "weight"), parameter(plain, "weight")));
    WT_ALL(given_is(parameter(m, "weight"), "S(0|1,1,1)"));
}

WT_TEST(segments__what_cannot_be_is_refused)
{
    static const char *const wrong[] = {"segments=",           "segments=0",    "segments=1,x",
                                        "segments=6",          "segments=1,-1", "segments=3,1",
                                        "segments=1,1,1,1,1,1"};
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = fused(IN, OUT), *table;
    weft_style_options options = {.segments = "2"};
    weft_plan plan[] = {{"", weft_colwise_parallel_with(options)}, {0}};
    weft_plan *parsed;
    char text[64];

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(text, sizeof text, ". colwise %s", wrong[i]);
        wt_row("%s", text);
        parsed = wt_own(weft_plan_parse(text));
        WT_ALL(weft_parallelize_module(m, mesh, parsed) != WEFT_OK);
        WT_ALL(!weft_tensor_mesh(parameter(m, "weight")));
        weft_error_clear();
    }
    table = wt_own(weft_embedding_new((weft_embedding_config){.rows = 4, .width = 4}));
    WT_FAILED(weft_parallelize_module(table, mesh, plan), "segments are for linear layers");
}

/* ---- sums in f32 ---- */

enum { LONG = 64, WIDE = 48 };

static weft_module *half(weft_dtype dtype, bool bias)
{
    weft_module *m;

    weft_manual_seed(11);
    m = weft_linear_new((weft_linear_config){.in = {LONG}, .out = {WIDE}, .no_bias = !bias});
    WT_EQ(weft_module_cast(m, dtype), WEFT_OK);
    return wt_own(m);
}

/* The same weights with nothing rounded. */
static weft_module *exact(weft_dtype dtype, bool bias)
{
    weft_module *m = half(dtype, bias);

    WT_EQ(weft_module_cast(m, WEFT_F64), WEFT_OK);
    return m;
}

static weft_tensor *narrow(weft_tensor *t, weft_dtype dtype)
{
    return weft_detach(weft_cast(t, dtype));
}

/* Of |got - want|, over the largest |want|. */
struct error {
    double largest, usual; /* root of the mean square */
};

static struct error error_of(weft_tensor *got, weft_tensor *want)
{
    weft_tensor *gap = weft_sub(weft_cast(weft_full_tensor(got), WEFT_F64), want);
    double scale = weft_item(weft_amax(weft_square(want), NULL, 0, false));

    gap = weft_square(gap);
    return (struct error){sqrt(weft_item(weft_amax(gap, NULL, 0, false)) / scale),
                          sqrt(weft_item(weft_mean_all(gap)) / scale)};
}

struct errors {
    struct error output, gradient;
};

static struct errors run_half(weft_dtype dtype, const char *style, bool bias)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = half(dtype, bias), *f64 = exact(dtype, bias);
    weft_tensor *x = narrow(given(0, ROWS, LONG, 0), dtype);
    weft_tensor *g = narrow(given(1, ROWS, WIDE, 0), dtype);
    weft_tensor *x64 = weft_detach(weft_cast(x, WEFT_F64)), *y, *y64;
    struct errors errors;

    weft_set_requires_grad(x, true);
    weft_set_requires_grad(x64, true);
    apply(m, mesh, style);
    y = weft_full_tensor(weft_call(m, x));
    y64 = weft_call(f64, x64);
    WT_EQ(weft_backward(weft_sum_all(weft_mul(y, g))), WEFT_OK);
    WT_EQ(weft_backward(weft_sum_all(weft_mul(y64, weft_cast(g, WEFT_F64)))), WEFT_OK);
    WT_EQ(weft_tensor_dtype(y), dtype);
    WT_EQ(weft_tensor_dtype(weft_grad(x)), dtype);
    errors.output = error_of(y, y64);
    errors.gradient = error_of(weft_grad(x), weft_grad(x64));
    return errors;
}

/* Rounded once at the end, a sum is within half a step of the exact one; on many ranks it is
 * nearer than where each product was rounded before. */
static void check_rounding(weft_dtype dtype, const struct error *rough, const struct error *fine)
{
    double half_step = (dtype == WEFT_BF16 ? 1.0 / 256 : 1.0 / 2048) * 1.001;

    WT_ALL(fine->largest <= half_step);
    if (wt_ranks() >= 4) WT_ALL(fine->usual < 0.9 * rough->usual);
}

WT_TEST(f32_sums__round_once)
{
    for (int i = 0; i < 4; i++) {
        weft_dtype dtype = i < 2 ? WEFT_BF16 : WEFT_F16;
        bool bias = i % 2;
        struct errors rough, fine;

        rough = run_half(dtype, "rowwise input=R keep", bias);
        fine = run_half(dtype, "rowwise input=R keep f32_sums", bias);
        check_rounding(dtype, &rough.output, &fine.output);
        fine = run_half(dtype, "rowwise input=R output=S(0) keep f32_sums", bias);
        check_rounding(dtype, &rough.output, &fine.output);
        rough = run_half(dtype, "colwise keep", bias);
        fine = run_half(dtype, "colwise keep f32_sums", bias);
        check_rounding(dtype, &rough.gradient, &fine.gradient);
    }
}

/* Forward and backward have as many collectives as without, those of sums twice the bytes. */
WT_TEST(f32_sums__move_once)
{
    static const char *const plans[] = {"rowwise input=R", "rowwise input=R f32_sums", "colwise",
                                        "colwise f32_sums"};
    weft_mesh *mesh = wt_own(given_mesh());
    int64_t sizes[4] = {ROWS * WIDE * 2, ROWS * WIDE * 4, ROWS * LONG * 2, ROWS * LONG * 4};

    for (int i = 0; i < 8; i++) {
        weft_dtype dtype = i < 4 ? WEFT_BF16 : WEFT_F16;
        weft_ledger *ledger;
        weft_module *m;
        weft_tensor *x, *y;

        wt_row("%s, %s", plans[i % 4], weft_dtype_name(dtype));
        m = half(dtype, true);
        x = narrow(given(0, ROWS, LONG, 0), dtype);
        weft_set_requires_grad(x, i % 4 >= 2);
        apply(m, mesh, plans[i % 4]);
        ledger = wt_own(weft_ledger_open());
        y = weft_call(m, x);
        WT_EQ(weft_tensor_dtype(y), dtype);
        WT_EQ(weft_backward(weft_sum_all(weft_square(y))), WEFT_OK);
        if (wt_ranks() > 1)
            WT_EQ(weft_ledger_bytes(ledger, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_ANY, NULL),
                  sizes[i % 4]);
        GIVEN_MOVED(ledger, WEFT_COLL_ALL_REDUCE, 1);
    }
}

/* A whole model, with parts of the sequence and heads shared by ranks, under f32 sums: its losses
 * are those of one rank. */
static void train_under_f32_sums(weft_dtype dtype, double within)
{
    static const char text[] = "wte rowwise output=S(1) keep f32_sums\n"
                               "blocks.*.norm? sequence\n"
                               "blocks.*.attn.qkv colwise input=S(1) f32_sums\n"
                               "blocks.*.attn.proj rowwise output=S(1) keep f32_sums\n"
                               "blocks.*.mlp.up colwise input=S(1) f32_sums\n"
                               "blocks.*.mlp.down rowwise output=S(1) keep f32_sums\n"
                               "norm_f sequence\n"
                               "head colwise input=S(1) keep f32_sums\nloss loss\n";
    weft_mesh *mesh = wt_own(given_mesh());
    weft_plan *plan = wt_own(weft_plan_parse(text));
    int64_t shape[] = {2, 5}, index[] = {1, 5, 2, 0, 3, 6, 4, 1, 1, 2};
    weft_tensor *tokens = weft_from_data(WEFT_I64, shape, 2, index);
    double loss[2];

    for (int i = 0; i < 2; i++) {
        weft_module *m;

        weft_manual_seed(2);
        m = wt_own(weft_llama((weft_llama_config){.vocab = 7,
                                                  .width = 24,
                                                  .heads = 6,
                                                  .kv_heads = 2,
                                                  .by_heads = true,
                                                  .layers = 2,
                                                  .hidden = 10,
                                                  .dtype = dtype}));
        if (i) WT_EQ(weft_parallelize_module_strict(m, mesh, plan), WEFT_OK);
        for (int step = 0; step < 3; step++) {
            weft_optim *sgd = weft_sgd(m, (weft_sgd_config){.lr = 1});
            weft_tensor *y = weft_gpt_loss(m, tokens, tokens);

            WT_EQ(weft_backward(y), WEFT_OK);
            WT_EQ(weft_step(sgd), WEFT_OK);
            weft_optim_zero_grad(sgd);
            weft_optim_release(sgd);
            loss[i] = weft_item(y);
        }
    }
    WT_ALL(loss[0] < 1.9 && fabs(loss[1] - loss[0]) < within * loss[0]);
}

WT_TEST(f32_sums__train_a_model_in_bf16) { train_under_f32_sums(WEFT_BF16, 0.05); }
WT_TEST(f32_sums__train_a_model_in_f16) { train_under_f32_sums(WEFT_F16, 0.01); }

/* Models in f32 and f64 are as they were. */
WT_TEST(f32_sums__change_nothing_where_nothing_is_rounded)
{
    check_fused("rowwise input=R f32_sums", "S(1)", IN, OUT);
    check_fused("colwise keep f32_sums", "S(0)", IN, OUT);
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "linears")); }
