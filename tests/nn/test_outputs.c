/*
 * test_outputs.c: modules of several outputs: calls, hooks, styles, recomputation, saved shards,
 * replicas, and what is refused.
 */
/* mpi: 4 */
#include <string.h>

#include "support/given.h"
#include "support/near_modules.h"

/* ---- a module of two outputs ---- */

enum { IN = 6, HIDDEN = 10, OUT = 4 };

static weft_tensor *child(weft_module *m, const char *name, weft_tensor *x)
{
    return weft_call(weft_module_child(m, name), x);
}

/* h = up(x), and down(relu(h)) + shift, where there is one */
static weft_status both(weft_module *m, weft_tensor *const *inputs, int n, weft_tensor **outputs,
                        int n_outputs)
{
    const bool *shifted = weft_module_payload(m);

    (void)n;
    WT_EQ(n_outputs, 2);
    outputs[0] = child(m, "up", inputs[0]);
    outputs[1] = child(m, "down", weft_relu(outputs[0]));
    if (*shifted) outputs[1] = weft_add(outputs[1], weft_module_parameter(m, "shift"));
    return WEFT_OK;
}

static const weft_module_class class_two = {.type = "two", .forward_n = both, .outputs = 2};

static weft_module *two_new(bool shifted)
{
    static const bool flags[] = {false, true};
    const int64_t width = OUT;
    weft_module *m = weft_module_new(&class_two, (void *)(uintptr_t)&flags[shifted]);

    weft_manual_seed(9);
    weft_module_add_child(m, "up",
                          weft_linear_new((weft_linear_config){
                              .in = {IN}, .out = {HIDDEN}, .std = 1, .dtype = WEFT_F64}));
    weft_module_add_child(m, "down",
                          weft_linear_new((weft_linear_config){
                              .in = {HIDDEN}, .out = {OUT}, .std = 1, .dtype = WEFT_F64}));
    if (shifted)
        WT_EQ(weft_module_add_parameter(m, "shift", weft_full(WEFT_F64, &width, 1, 0.5)), WEFT_OK);
    return wt_own(m);
}

/* Both outputs, each with a gradient of its own. */
static weft_tensor *loss_of(weft_tensor *const *y)
{
    return weft_add(weft_sum_all(weft_mul(y[0], given_like(y[0]))),
                    weft_sum_all(weft_square(y[1])));
}

/* On one device: outputs and gradients of a twin. */
static void reference(weft_module *twin, weft_tensor *x, weft_tensor **y)
{
    WT_EQ(weft_call_outputs(twin, &x, 1, y, 2), WEFT_OK);
    WT_EQ(weft_backward(loss_of(y)), WEFT_OK);
}

/* ---- calls ---- */

/* trial 4.2 */
WT_TEST(outputs__all_come_out_of_a_call_with_gradients)
{
    weft_module *m = two_new(true);
    weft_tensor *x = weft_set_requires_grad(given(0, 3, IN, 0), true), *y[2], *h, *z, *sum;
    weft_tensor *w[4];

    WT_EQ(weft_call_outputs(m, &x, 1, y, 2), WEFT_OK);
    WT_ALL(wt_has_shape(y[0], 2, (int64_t)3, (int64_t)HIDDEN));
    WT_ALL(wt_has_shape(y[1], 2, (int64_t)3, (int64_t)OUT));
    WT_EQ(weft_backward(loss_of(y)), WEFT_OK);
    /* the same by ops */
    for (int i = 0; i < 4; i++)
        w[i] = weft_set_requires_grad(
            weft_detach(weft_module_parameter(
                m, (const char *[]){"up.weight", "up.bias", "down.weight", "down.bias"}[i])),
            true);
    h = weft_linear(x, w[0], w[1], 1);
    z = weft_add(weft_linear(weft_relu(h), w[2], w[3], 1), weft_module_parameter(m, "shift"));
    WT_ALL(wt_near_tensors(y[0], h, WT_WITHIN(1e-12)));
    WT_ALL(wt_near_tensors(y[1], z, WT_WITHIN(1e-12)));
    sum = weft_contiguous(weft_mul_scalar(weft_grad(x), 1));
    weft_zero_grad(x);
    WT_EQ(weft_backward(loss_of((weft_tensor *[]){h, z})), WEFT_OK);
    WT_ALL(wt_near_tensors(weft_grad(x), sum, WT_WITHIN(1e-10)));
    WT_ALL(wt_near_tensors(weft_grad(weft_module_parameter(m, "up.weight")), weft_grad(w[0]),
                           WT_WITHIN(1e-10)));
    WT_ALL(wt_near_tensors(weft_grad(weft_module_parameter(m, "down.bias")), weft_grad(w[3]),
                           WT_WITHIN(1e-10)));
}

static weft_status twice(weft_module *m, weft_tensor *const *inputs, int n, weft_tensor **outputs,
                         int n_outputs)
{
    const int *given = weft_module_payload(m);

    (void)n;
    for (int i = 0; i < n_outputs && i < *given; i++) outputs[i] = inputs[0];
    return WEFT_OK;
}

static const weft_module_class class_same = {.type = "same", .forward_n = twice, .outputs = 3};

/* trial 4.2: one tensor as several outputs; any module can be called for its outputs. */
WT_TEST(outputs__may_be_one_tensor)
{
    static const int all = 3;
    weft_module *m = wt_own(weft_module_new(&class_same, (void *)(uintptr_t)&all));
    weft_module *one = wt_own(given_identity());
    weft_tensor *x = given(0, 2, 2, 0), *y[3];

    WT_EQ(weft_call_outputs(m, &x, 1, y, 3), WEFT_OK);
    WT_ALL(y[0] == x && y[1] == x && y[2] == x);
    WT_EQ(weft_call_outputs(one, &x, 1, y, 1), WEFT_OK);
    WT_ALL(y[0] == x);
    WT_EQ(weft_call_outputs(m, y, 1, y, 3), WEFT_OK); /* in and out of one array */
    WT_ALL(y[0] == x && y[1] == x && y[2] == x);
}

/* ---- refusals ---- */

/* trial 4.2 */
WT_TEST(outputs__of_another_number_are_refused_by_name)
{
    static const int some = 2;
    weft_module *root = wt_own(weft_sequential_new()),
                *m = weft_module_new(&class_same, (void *)(uintptr_t)&some);
    weft_tensor *x = given(0, 2, 2, 0), *y[3] = {x, x, x};

    WT_EQ(weft_module_add_child(root, "inner", m), WEFT_OK);
    WT_FAILS(weft_call(m, x), WEFT_ERR_ARG,
             "in module inner: same gives 3 outputs, not 1: call it with "
             "weft_call_outputs");
    WT_FAILS(weft_call_outputs(m, &x, 1, y, 2), WEFT_ERR_ARG,
             "in module inner: same gives 3 outputs, not 2");
    WT_ALL(!y[0] && !y[1]);
    WT_FAILS(weft_call_outputs(root, &x, 1, y, 2), WEFT_ERR_ARG,
             "sequential gives 1 output, not 2");
    WT_FAILS(weft_call_outputs(m, &x, 1, y, 3), WEFT_ERR_ARG,
             "in module inner: output 2 of same is NULL");
    WT_ALL(!y[0] && !y[1] && !y[2]);
    WT_FAILS(weft_call(root, x), WEFT_ERR_ARG, "sequential: child 'inner' (same) gives 3 outputs");
    WT_FAILS(weft_call_outputs(NULL, &x, 1, y, 1), WEFT_ERR_ARG, "the module is NULL");
    WT_FAILS(weft_call_outputs(m, &x, 1, NULL, 3), WEFT_ERR_ARG, "the list of outputs is NULL");
    WT_FAILS(weft_call_outputs(m, &x, 1, y, 0), WEFT_ERR_ARG, "0 outputs");
}

static weft_tensor *forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    (void)m;
    (void)n;
    return inputs[0];
}

/* trial 4.2 */
WT_TEST(outputs__of_a_class_are_as_many_as_its_forward_gives)
{
    static const struct {
        weft_module_class kind;
        const char *text;
    } cases[] = {
        {{.type = "a"}, "a class needs a type and a forward"},
        {{.type = "b", .forward = forward, .forward_n = twice, .outputs = 2},
         "b has a forward and a forward_n"},
        {{.type = "c", .forward_n = twice}, "c gives 0 outputs"},
        {{.type = "d", .forward_n = twice, .outputs = WEFT_MODULE_OUTPUTS + 1},
         "d gives 9 outputs"},
        {{.type = "e", .forward = forward, .outputs = 2}, "e gives 2 outputs"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        WT_FAILS(weft_module_new(&cases[i].kind, NULL), WEFT_ERR_ARG, cases[i].text);
}

/* ---- hooks ---- */

struct seen {
    int calls, n, released;
};

static weft_status negate_second(weft_module *m, weft_tensor **outputs, int n, void *payload)
{
    struct seen *seen = payload;

    (void)m;
    seen->calls++;
    seen->n = n;
    outputs[n - 1] = weft_neg(outputs[n - 1]);
    return WEFT_OK;
}

static weft_tensor *negate(weft_module *m, weft_tensor *output, void *payload)
{
    (void)m;
    (void)payload;
    return weft_neg(output);
}

static weft_status loses_one(weft_module *m, weft_tensor **outputs, int n, void *payload)
{
    (void)m;
    (void)n;
    (void)payload;
    outputs[1] = NULL;
    return WEFT_OK;
}

static void count_release(void *payload) { ((struct seen *)payload)->released++; }

/* trial 4.2 */
WT_TEST(hooks__see_all_outputs)
{
    struct seen seen = {0};
    weft_module *m = two_new(false), *one = wt_own(given_identity());
    weft_tensor *x = given(0, 2, IN, 0), *y[2], *z[2];

    WT_EQ(weft_call_outputs(m, &x, 1, y, 2), WEFT_OK);
    WT_FAILS(weft_module_on_output(m, negate, &seen, count_release), WEFT_ERR_ARG,
             "(two) gives 2 outputs: weft_module_on_outputs");
    WT_EQ(seen.released, 1);
    WT_EQ(weft_module_on_outputs(m, negate_second, &seen, count_release), WEFT_OK);
    WT_EQ(weft_call_outputs(m, &x, 1, z, 2), WEFT_OK);
    WT_ALL(wt_near_tensors(z[0], y[0], WT_EXACT));
    WT_ALL(wt_near_tensors(z[1], weft_neg(y[1]), WT_EXACT));
    WT_ALL(seen.calls == 1 && seen.n == 2);
    WT_EQ(weft_module_on_outputs(one, negate_second, &seen, NULL), WEFT_OK);
    WT_EQ(weft_module_on_output(one, negate, NULL, NULL), WEFT_OK);
    WT_ALL(wt_near_tensors(weft_call(one, x), x, WT_EXACT)); /* twice */
    WT_ALL(seen.calls == 2 && seen.n == 1);
    WT_EQ(weft_module_on_outputs(m, loses_one, NULL, NULL), WEFT_OK);
    WT_FAILS(weft_call_outputs(m, &x, 1, z, 2), WEFT_ERR_ARG, "output 1 of two is NULL");
    wt_release_owned(0);
    WT_EQ(seen.released, 2);
}

/* ---- styles ---- */

/* The hidden output stays distributed by features. */
static void parallelize(weft_module *m, weft_mesh *mesh, weft_style style)
{
    weft_plan plan[] = {{"up", {.kind = WEFT_STYLE_COLWISE, .options = {.keep_distributed = true}}},
                        {"down", weft_rowwise_parallel()},
                        {"", style},
                        {0}};

    WT_EQ(weft_parallelize_module_strict(m, mesh, plan), WEFT_OK);
}

/* trial 4.2: HIDDEN is uneven on 3, 4 and 8 ranks. */
WT_TEST(prepare__moves_each_output_to_its_layout)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = two_new(false), *twin = two_new(false);
    weft_tensor *x = given(0, 3, IN, 0), *y[2], *want[2];
    weft_ledger *ledger;
    char text[2048];
    weft_plan plan[] = {{"", weft_prepare_module_output("S(1), none", "R, none")}, {0}};

    given_plan_text(text, sizeof text, m, mesh, plan);
    WT_ALL(strstr(text, "forward: output S(1) -> R") != NULL);
    reference(twin, x, want);
    parallelize(m, mesh, plan[0].style);
    ledger = wt_own(weft_ledger_open());
    WT_EQ(weft_call_outputs(m, &x, 1, y, 2), WEFT_OK);
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_ALL_GATHER, WEFT_DIRECTION_FORWARD, NULL),
          wt_ranks() > 1);
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_FORWARD, NULL),
          wt_ranks() > 1);
    WT_ALL(!weft_tensor_mesh(y[0]) && !weft_tensor_mesh(y[1]));
    WT_ALL(wt_near_tensors(y[0], want[0], WT_WITHIN(1e-12)));
    WT_ALL(wt_near_tensors(y[1], want[1], WT_WITHIN(1e-12)));
    WT_EQ(weft_backward(loss_of(y)), WEFT_OK);
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_BACKWARD, NULL), 0);
    WT_NEAR_GRADIENTS(m, twin, WT_WITHIN(1e-10));
}

/* trial 4.2: a layout for every output; "none" in what is desired makes it distributed only. */
WT_TEST(prepare__layouts_of_plain_outputs)
{
    static const int all = 3;
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = wt_own(weft_module_new(&class_same, (void *)(uintptr_t)&all));
    weft_style style = weft_prepare_module_input_output(
        (weft_style_options){.output_layouts = "S(0), S(0), none",
                             .desired_output_layouts = "S(1), none, R",
                             .keep_distributed = true});
    weft_tensor *whole = given(0, 2 * wt_ranks(), 5, 0), *x = given_shard(whole, mesh, "S(0)"),
                *y[3];
    weft_ledger *ledger;

    WT_EQ(weft_parallelize_module_strict(m, mesh, (weft_plan[]){{"", style}, {0}}), WEFT_OK);
    ledger = wt_own(weft_ledger_open());
    WT_EQ(weft_call_outputs(m, &x, 1, y, 3), WEFT_OK);
    GIVEN_MOVED(ledger, WEFT_COLL_ALL_TO_ALL, 1);
    WT_ALL(given_is(y[0], "S(1)") && given_is(y[1], "S(0)") && y[2] == x);
    WT_ALL(wt_near_tensors(y[0], whole, WT_EXACT));
    WT_ALL(wt_near_tensors(y[1], whole, WT_EXACT));
}

/* trial 4.2 */
WT_TEST(prepare__names_the_output)
{
    static const int all = 3;
    weft_mesh *mesh = wt_own(given_mesh()),
              *other = wt_own(weft_mesh_new(WEFT_CPU, "x=%d", wt_ranks()));
    weft_module *root = wt_own(weft_sequential_new());
    weft_module *m = weft_module_new(&class_same, (void *)(uintptr_t)&all);
    weft_tensor *x = given_spread(given(0, 4, 5, 0), other, "S(0)"), *y[3];
    weft_style two = weft_prepare_module_output("R, R", "R, R");
    weft_style three = weft_prepare_module_output("none, R, R", "R, R, R");

    WT_EQ(weft_module_add_child(root, "inner", m), WEFT_OK);
    WT_FAILS(weft_parallelize_module_strict(root, mesh, (weft_plan[]){{"inner", two}, {0}}),
             WEFT_ERR_ARG,
             "in module inner: prepare module: module outputs and output_layouts "
             "should have same length, not 3 and 2");
    WT_EQ(weft_parallelize_module_strict(root, mesh, (weft_plan[]){{"inner", three}, {0}}),
          WEFT_OK);
    WT_FAILS(weft_call_outputs(m, &x, 1, y, 3), WEFT_ERR_LAYOUT,
             "in module inner: output 1 of same: same: a tensor lies on mesh");
}

static weft_status split_shift(weft_module *m, weft_mesh *mesh, void *payload)
{
    const weft_placement rows = weft_shard(0);

    (void)payload;
    if (strcmp(weft_module_type(m), "two") != 0) return WEFT_OK;
    return weft_module_set_parameter(
        m, "shift", weft_distribute_tensor(weft_module_parameter(m, "shift"), mesh, &rows, -1));
}

static weft_status take_whole(weft_module *m, weft_tensor **inputs, int n, weft_mesh *mesh,
                              void *payload)
{
    const weft_placement whole = weft_replicate();

    (void)m;
    (void)n;
    (void)payload;
    inputs[0] = weft_from_local(inputs[0], mesh, &whole, NULL);
    return inputs[0] ? WEFT_OK : weft_error_status();
}

static weft_status give_whole(weft_module *m, weft_tensor **outputs, int n, weft_mesh *mesh,
                              void *payload)
{
    (void)m;
    (void)mesh;
    *(int *)payload = n;
    for (int i = 0; i < n; i++) outputs[i] = weft_full_tensor(outputs[i]);
    return WEFT_OK;
}

static weft_tensor *give_one(weft_module *m, weft_tensor *output, weft_mesh *mesh, void *payload)
{
    (void)m;
    (void)mesh;
    (void)payload;
    return output;
}

/* trial 4.2: a parameter that is cut beside outputs that are not. */
WT_TEST(custom__styles_see_all_outputs)
{
    static const weft_style_functions functions = {
        .name = "mine", .partition = split_shift, .input = take_whole, .outputs = give_whole};
    static const weft_style_functions for_one = {.name = "for one", .output = give_one};
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = two_new(true), *twin = two_new(true);
    weft_tensor *x = given(0, 3, IN, 0), *y[2], *want[2];
    int seen = 0;
    weft_plan plan[] = {{"", weft_custom_style(&for_one, NULL)}, {0}};

    WT_FAILS(weft_parallelize_module_strict(m, mesh, plan), WEFT_ERR_ARG,
             "custom style for one: two gives 2 outputs: it needs the function");
    WT_FAILS(weft_distribute_module(m, mesh, NULL, NULL, give_one, NULL), WEFT_ERR_ARG,
             "(two) gives 2 outputs");
    WT_ALL(!weft_tensor_mesh(weft_module_parameter(m, "shift")));
    reference(twin, x, want);
    plan[0].style = weft_custom_style(&functions, &seen);
    WT_EQ(weft_parallelize_module_strict(m, mesh, plan), WEFT_OK);
    WT_EQ(weft_call_outputs(m, &x, 1, y, 2), WEFT_OK);
    WT_EQ(seen, 2);
    WT_ALL(wt_near_tensors(y[0], want[0], WT_WITHIN(1e-12)));
    WT_ALL(wt_near_tensors(y[1], want[1], WT_WITHIN(1e-12)));
    WT_EQ(weft_backward(loss_of(y)), WEFT_OK);
    WT_NEAR_GRADIENTS(m, twin, WT_WITHIN(1e-10));
}

/* ---- recomputation, saved shards, replicas ---- */

static weft_tensor *run_both(weft_tensor *const *in, int n, void *payload)
{
    weft_tensor *y[2];

    return weft_call_outputs(payload, in, n, y, 2) == WEFT_OK ? loss_of(y) : NULL;
}

/* trial 4.2 */
WT_TEST(outputs__are_made_again_in_backward)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = two_new(false), *twin = two_new(false);
    weft_tensor *x = weft_set_requires_grad(given(0, 3, IN, 0), true), *want[2], *loss;

    reference(twin, weft_detach(x), want);
    parallelize(m, mesh, weft_prepare_module_output("S(1), none", "R, none"));
    loss = weft_recomputed(run_both, &x, 1, m, NULL);
    WT_ALL(loss && wt_near_tensors(loss, loss_of(want), WT_WITHIN(1e-10)));
    WT_EQ(weft_backward(loss), WEFT_OK);
    WT_NEAR_GRADIENTS(m, twin, WT_WITHIN(1e-10));
}

/* trial 4.2: the scope of a call that saves parts hands on both. */
WT_TEST(outputs__of_a_module_that_saves_shards)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = two_new(false), *twin = two_new(false);
    weft_tensor *x = given(0, 3, IN, 0), *y[2], *want[2];
    weft_ledger *ledger;

    reference(twin, x, want);
    parallelize(m, mesh, weft_prepare_module_output("S(1), none", "R, none"));
    WT_EQ(weft_module_use_saved_shards(m, mesh), WEFT_OK);
    WT_EQ(weft_call_outputs(m, &x, 1, y, 2), WEFT_OK);
    WT_ALL(wt_near_tensors(y[0], want[0], WT_WITHIN(1e-12)));
    WT_ALL(wt_near_tensors(y[1], want[1], WT_WITHIN(1e-12)));
    ledger = wt_own(weft_ledger_open());
    WT_EQ(weft_backward(loss_of(y)), WEFT_OK);
    GIVEN_MOVED(ledger, WEFT_COLL_ALL_GATHER, 1); /* of x */
    WT_NEAR_GRADIENTS(m, twin, WT_WITHIN(1e-10));
}

/* trial 4.2: its own parameter and those of children are parameter views during the call. */
WT_TEST(outputs__of_replicas)
{
    static const weft_data_parallel_config configs[] = {{0}, {.shard = true}};

    weft_mesh *mesh = wt_own(weft_mesh_new(WEFT_CPU, "dp=%d", wt_ranks()));

    for (int i = 0; i < 2; i++) {
        weft_module *m = two_new(true), *twin = two_new(true);
        int64_t rows = 2 * wt_ranks();
        weft_tensor *whole = given(0, rows, IN, 0);
        weft_tensor *x = weft_drop_grad_types(given_shard(whole, mesh, "S(0)"));
        weft_tensor *y[2], *want[2], *loss;

        WT_EQ(weft_call_outputs(twin, &whole, 1, want, 2), WEFT_OK);
        loss = weft_add(weft_sum_all(weft_square(want[0])), weft_sum_all(weft_square(want[1])));
        WT_EQ(weft_backward(weft_mul_scalar(loss, 1.0 / (double)rows)), WEFT_OK);
        WT_EQ(weft_data_parallel(m, mesh, configs[i]), WEFT_OK);
        WT_EQ(weft_call_outputs(m, &x, 1, y, 2), WEFT_OK);
        loss = weft_add(weft_sum_all(weft_square(y[0])), weft_sum_all(weft_square(y[1])));
        WT_EQ(weft_data_parallel_backward(m, weft_mul_scalar(loss, 0.5), 2), WEFT_OK);
        WT_NEAR_GRADIENTS(m, twin, WT_WITHIN(1e-10));
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "outputs"); }
