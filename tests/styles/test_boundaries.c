/*
 * test_boundaries.c: styles around and inside one module, as plans of real models have them: a
 * gathered input shared by several branches, a partial output reduced once at the edge, heads that
 * are normalised where they are, a module that sees plain shards.
 */
/* mpi: 4 */
#include "support/given.h"
#include "support/near_modules.h"

static void add_linear(weft_module *m, const char *name, weft_linear_config config)
{
    config.dtype = WEFT_F64;
    weft_module_add_child(m, name, weft_linear_new(config));
}

static void begin_backward(weft_tensor *y, weft_tensor *c)
{
    WT_EQ(weft_backward(weft_sum_all(weft_mul(y, c))), WEFT_OK);
}

/* ---- two branches between a gathered input and a partial output ---- */

/* down1(relu(up1(x))) + down2(up2(x)) */
static weft_tensor *add_branches(weft_module *m, weft_tensor *const *inputs, int n)
{
    weft_tensor *first = weft_relu(weft_call(weft_module_child_at(m, 0), inputs[0]));
    weft_tensor *second = weft_call(weft_module_child_at(m, 1), inputs[0]);

    (void)n;
    return weft_add(weft_call(weft_module_child_at(m, 2), first),
                    weft_call(weft_module_child_at(m, 3), second));
}

static weft_module *two_branches(int64_t width, int64_t hidden)
{
    static const weft_module_class kind = {.type = "branches", .forward = add_branches};
    weft_module *m = weft_module_new(&kind, NULL);
    const weft_linear_config up = {.in = {width}, .out = {hidden}},
                             down = {.in = {hidden}, .out = {width}};

    weft_manual_seed(3);
    add_linear(m, "up1", up);
    add_linear(m, "up2", up);
    add_linear(m, "down1", down);
    add_linear(m, "down2", down);
    return wt_own(m);
}

/* What the module sees: distributed tensors all the way, plain terms in the middle, or plain
 * tensors only. */
enum inside { DISTRIBUTED, PLAIN_TERMS, PLAIN };

static weft_status spread_branches(weft_module *m, weft_mesh *mesh, enum inside inside)
{
    weft_style edge =
        weft_prepare_module_input_output((weft_style_options){.input_layouts = "S(1)",
                                                              .desired_input_layouts = "R",
                                                              .local_inputs = inside == PLAIN,
                                                              .output_layouts = "P",
                                                              .desired_output_layouts = "S(1)",
                                                              .keep_distributed = true});
    weft_style down = weft_rowwise_parallel_with(
        (weft_style_options){.output_layouts = "P", .keep_distributed = inside == DISTRIBUTED});

    return weft_parallelize_module_strict(
        m, mesh, (weft_plan[]){{"", edge}, {"up?", weft_colwise_parallel()}, {"down?", down}, {0}});
}

static void check_branches(enum inside inside, int64_t tokens, int64_t width, int64_t hidden)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = two_branches(width, hidden), *many = two_branches(width, hidden);
    weft_tensor *x_one = weft_set_requires_grad(given(0, 2, tokens, width), true), *x, *y, *c;
    weft_tensor *y_one = weft_call(one, x_one);
    weft_ledger *ledger = wt_own(weft_ledger_open());
    int several = wt_ranks() > 1;

    WT_EQ(spread_branches(many, mesh, inside), WEFT_OK);
    c = given_like(y_one);
    begin_backward(y_one, c);
    x = weft_set_requires_grad(given_spread(weft_detach(x_one), mesh, "S(1)"), true);
    c = given_spread(c, mesh, "S(1)");
    weft_ledger_reset(ledger);
    y = weft_call(many, x);
    WT_ALL(given_is(y, "S(1)"));
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_ALL_GATHER, WEFT_DIRECTION_ANY, NULL), several);
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_REDUCE_SCATTER, WEFT_DIRECTION_ANY, NULL), several);
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL), 2 * several);
    WT_ALL(wt_near_tensors(y, y_one, WT_WITHIN(1e-12)));
    weft_ledger_reset(ledger);
    begin_backward(y, c);
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_ALL_GATHER, WEFT_DIRECTION_ANY, NULL), several);
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_REDUCE_SCATTER, WEFT_DIRECTION_ANY, NULL),
          inside == PLAIN ? 0 : several);
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_ANY, NULL),
          inside == PLAIN ? 2 * several : 0);
    WT_ALL(wt_near_tensors(weft_grad(x), weft_grad(x_one), WT_WITHIN(1e-12)));
    WT_NEAR_GRADIENTS(many, one, WT_WITHIN(1e-12));
}

/* One gather and one reduction per direction for both branches; where the module is handed plain
 * tensors, each branch sums its gradient for itself. */
WT_TEST(boundaries__of_several_branches_are_crossed_once)
{
    static const int64_t sizes[][3] = {{8, 6, 16}, {5, 7, 13}, {3, 5, 3}};

    for (int i = 0; i < 3 * 3; i++) {
        const int64_t *size = sizes[i % 3];

        wt_row("inside %d, %d tokens, %d hidden", i / 3, (int)size[0], (int)size[2]);
        check_branches((enum inside)(i / 3), size[0], size[1], size[2]);
    }
}

/* ---- heads that are normalised where they are ---- */

static weft_module *head_norms(int64_t width, int64_t heads)
{
    weft_module *m = weft_sequential_new();
    weft_norm_config norm = {.width = 4, .dtype = WEFT_F64};

    weft_manual_seed(3);
    add_linear(m, "q", (weft_linear_config){.in = {width}, .out = {heads, 4}});
    weft_module_add_child(m, "q_norm", weft_rms_norm_new(norm));
    add_linear(m, "proj", (weft_linear_config){.in = {heads, 4}, .out = {width}});
    return wt_own(m);
}

static void check_head_norms(int64_t tokens, int64_t width, int64_t heads)
{
    const weft_style_options kept = {.keep_distributed = true};
    weft_style norm = weft_sequence_parallel_with(
        (weft_style_options){.desired_input_layouts = "S(2)", .keep_distributed = true});
    weft_plan plan[] = {{"q", weft_colwise_parallel_with(kept)},
                        {"q_norm", norm},
                        {"proj", weft_rowwise_parallel()},
                        {0}};
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = head_norms(width, heads), *many = head_norms(width, heads);
    weft_tensor *x = given(0, 2, tokens, width), *y, *y_one = weft_call(one, x), *c;
    weft_ledger *ledger;

    WT_EQ(weft_parallelize_module_strict(many, mesh, plan), WEFT_OK);
    c = given_like(y_one);
    begin_backward(y_one, c);
    ledger = wt_own(weft_ledger_open());
    y = weft_call(many, x);
    GIVEN_MOVED(ledger, WEFT_COLL_ALL_REDUCE, 1);
    WT_ALL(wt_near_tensors(y, y_one, WT_WITHIN(1e-12)));
    begin_backward(y, c);
    GIVEN_STILL(ledger);
    WT_NEAR_GRADIENTS(many, one, WT_WITHIN(1e-12));
}

WT_TEST(boundaries__norms_of_heads_need_none)
{
    check_head_norms(3, 10, 8);
    check_head_norms(5, 7, 5);
    check_head_norms(2, 6, 2);
}

/* ---- layers that are called twice, and gradients that add up ---- */

/* body(x) + body(2 x), where body is norm, net1, ReLU, net2 */
static weft_tensor *run_body_twice(weft_module *m, weft_tensor *const *inputs, int n)
{
    weft_tensor *sum = NULL;

    (void)n;
    for (int time = 1; time <= 2; time++) {
        weft_tensor *y = weft_call(weft_module_child_at(m, 0), weft_mul_scalar(inputs[0], time));

        y = weft_relu(weft_call(weft_module_child_at(m, 1), y));
        y = weft_call(weft_module_child_at(m, 2), y);
        sum = sum ? weft_add(sum, y) : y;
    }
    return sum;
}

static weft_module *body(int64_t hidden)
{
    static const weft_module_class kind = {.type = "body twice", .forward = run_body_twice};
    weft_norm_config norm = {.width = 10, .dtype = WEFT_F64};
    weft_module *m = weft_module_new(&kind, NULL);

    weft_manual_seed(4);
    weft_module_add_child(m, "norm", weft_layer_norm_new(norm));
    add_linear(m, "net1", (weft_linear_config){.in = {10}, .out = {hidden}});
    add_linear(m, "net2", (weft_linear_config){.in = {hidden}, .out = {10}});
    return wt_own(m);
}

/* The norm's gradients are partial sums; looking at them between two backwards reduces them, and
 * what comes later is partial again. */
static void check_sums(int64_t hidden, int look_after)
{
    static const char *const layouts[] = {"S(1)", "R", "S(0)"};
    weft_style down = weft_rowwise_parallel_with(
        (weft_style_options){.output_layouts = "S(1)", .keep_distributed = true});
    weft_plan plan[] = {
        {"norm", weft_sequence_parallel()}, {"net1", weft_colwise_parallel()}, {"net2", down}, {0}};
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = body(hidden), *many = body(hidden);

    WT_EQ(weft_parallelize_module_strict(many, mesh, plan), WEFT_OK);
    for (int i = 0; i < 3; i++) {
        weft_tensor *x = given(i, 2, 5 + i, 10), *y_one = weft_call(one, x), *c = given_like(y_one);
        weft_tensor *y = weft_call(many, given_spread(x, mesh, layouts[i]));

        wt_note("hidden %d, call %d", (int)hidden, i);
        WT_ALL(wt_near_tensors(y, y_one, WT_WITHIN(1e-12)));
        begin_backward(y_one, c);
        begin_backward(y, given_spread(c, mesh, "S(1)"));
        if (i >= look_after) WT_NEAR_GRADIENTS(many, one, WT_WITHIN(1e-12));
    }
}

WT_TEST(boundaries__of_layers_that_are_called_twice)
{
    check_sums(16, 2);
    check_sums(13, 0);
    check_sums(3, 1);
}

/* ---- a module that sees plain shards ---- */

/* a b + c, which knows of no mesh: refuses anything but plain tensors */
static weft_tensor *plain_only(weft_module *m, weft_tensor *const *inputs, int n)
{
    (void)m;
    for (int i = 0; i < n; i++)
        if (weft_tensor_mesh(inputs[i])) return NULL;
    return weft_add(weft_mul(inputs[0], inputs[1]), inputs[2]);
}

static void check_plain_module(int64_t rows, bool fed)
{
    static const weft_module_class kind = {
        .type = "plain only", .forward = plain_only, .inputs = 3};
    weft_style style = weft_prepare_module_input_output(
        (weft_style_options){.input_layouts = "S(0),S(0),S(0)",
                             .desired_input_layouts = "none,none,none",
                             .local_inputs = true,
                             .output_layouts = "S(0)",
                             .desired_output_layouts = "R",
                             .keep_distributed = true});
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = wt_own(weft_module_new(&kind, NULL)),
                *many = wt_own(weft_module_new(&kind, NULL));
    weft_tensor *x[3], *part[3], *y, *y_one;
    weft_ledger *ledger;

    for (int i = 0; i < 3; i++) {
        x[i] = weft_set_requires_grad(given(i, rows, 3, 0), true);
        part[i] = fed ? given_spread(weft_detach(x[i]), mesh, "S(0)")
                      : weft_detach(given_shard(weft_detach(x[i]), mesh, "S(0)"));
        weft_set_requires_grad(part[i], true);
    }
    WT_EQ(weft_parallelize_module(many, mesh, (weft_plan[]){{"", style}, {0}}), WEFT_OK);
    y_one = weft_call_n(one, x, 3);
    begin_backward(y_one, given_like(y_one));
    ledger = wt_own(weft_ledger_open());
    y = weft_call_n(many, part, 3);
    GIVEN_MOVED(ledger, WEFT_COLL_ALL_GATHER, 1);
    WT_ALL(given_is(y, "R"));
    WT_ALL(wt_near_tensors(y, y_one, WT_WITHIN(1e-12)));
    begin_backward(y, given_spread(given_like(y_one), mesh, "R"));
    GIVEN_STILL(ledger);
    for (int i = 0; i < 3; i++) {
        weft_tensor *want = weft_grad(x[i]);

        WT_ALL(wt_near_tensors(weft_grad(part[i]), fed ? want : given_shard(want, mesh, "S(0)"),
                               WT_WITHIN(1e-12)));
    }
}

/* Layouts that are declared and not moved: the module works on its part, nothing is sent inside. */
WT_TEST(boundaries__of_a_module_that_knows_no_mesh)
{
    check_plain_module(2 * wt_ranks(), true);
    check_plain_module(2 * wt_ranks(), false);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "boundaries"); }
