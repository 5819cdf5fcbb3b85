/*
 * test_messages.c: refusals that say what to do: which of two tensors' facts differ, whose
 * parameter a style cannot split, a root module without a name, what gives up a type, a gradient
 * that is plain, meshes that overlap, a buffer of replicas.
 */
#include <string.h>

#include "comm/backend.h"
#include "support/worlds.h"

/* trial 4 (messages): copy_ */
WT_TEST(copy__says_what_differs)
{
    struct wt_world w = wt_world_open();
    weft_tensor *into = weft_full(WEFT_F32, (int64_t[]){2, 3}, 2, 0);

    WT_FAILS(weft_copy_(into, weft_full(WEFT_F32, (int64_t[]){3, 2}, 2, 0)), WEFT_ERR_SHAPE,
             "copy_: shapes differ: f32[3,2]");
    WT_EQ(weft_copy_(wt_spread(&w, into, "S(0)"), wt_spread(&w, into, "R")), WEFT_OK);
    WT_FAILS(weft_copy_(into, wt_spread(&w, into, "R")), WEFT_ERR_SHAPE, "copy_: layouts differ");
    WT_EQ(weft_copy_(into, weft_full(WEFT_F32, (int64_t[]){2, 3}, 2, 4)), WEFT_OK);
    WT_ALL(wt_is_all(into, 4));
}

/* trial 4 (messages): a style on an odd parameter */
WT_TEST(styles__name_the_parameter_that_cannot_be_split)
{
    static const weft_plan plan[] = {{"odd", {.kind = WEFT_STYLE_COLWISE}}, {0}};
    struct wt_world w = wt_world_open();
    weft_module *root = wt_own(weft_sequential_new());
    weft_module *odd =
        weft_linear_new((weft_linear_config){.in = {4}, .out = {2, 3}, .out_split = 1});
    const int64_t one = 1;

    WT_EQ(weft_module_set_parameter(odd, "bias", weft_full(WEFT_F32, &one, 1, 0)), WEFT_OK);
    weft_module_add_child(root, "odd", odd);
    WT_EQ(weft_parallelize_module_strict(root, w.mesh, plan), WEFT_ERR_LAYOUT);
    WT_ALL(strstr(weft_error_message(), "in module odd: parameter 'bias' of linear: ") != NULL);
    WT_ALL(strstr(weft_error_message() + 10, "in module") == NULL);
    weft_error_clear();
}

/* A plain term into from_local as a value. */
static weft_tensor *as_value(weft_module *m, weft_tensor *const *inputs, int n)
{
    const weft_placement whole = weft_replicate();

    (void)n;
    return weft_from_local(inputs[0], weft_module_payload(m), &whole, NULL);
}

static const weft_module_class class_value = {.type = "value", .forward = as_value};

/* trial 4 (messages): root modules; to_local then from_local */
WT_TEST(types__name_what_gives_them_up_and_no_empty_module)
{
    struct wt_world w = wt_world_open();
    weft_module *m = wt_own(weft_module_new(&class_value, w.mesh));
    weft_tensor *term =
        weft_to_local(wt_partial(&w, weft_full(WEFT_F32, (int64_t[]){3}, 1, 1), WEFT_SUM), NULL);

    if (wt_ranks() > 1) {
        WT_ALL(weft_call(m, term) == NULL);
        WT_ALL(strstr(weft_error_message(), ": : ") == NULL);
        WT_ALL(weft_error_message()[0] != ':');
        WT_ALL(strstr(weft_error_message(), "weft_drop_grad_types gives up") != NULL);
        weft_error_clear();
    }
    WT_ALL(weft_call(m, weft_drop_grad_types(term)) != NULL);
}

/* ---- gradients ---- */

static weft_tensor *wanted(weft_tensor *t) { return weft_set_requires_grad(t, true); }

/* trial 4 (messages): a plain gradient for a distributed tensor. Uneven on 2, 3, 4 and 8 ranks. */
WT_TEST(backward_from__says_how_a_plain_gradient_becomes_distributed)
{
    static const char *const layouts[] = {"S(0)", "R", "P"};
    struct wt_world w = wt_world_open();
    weft_tensor *g = wt_whole(WEFT_F64, 1, 5, 3), *loose = wt_constant(5, 3, wt_rank());

    for (int i = 0; i < 3; i++) {
        weft_tensor *x = wanted(wt_spread(&w, wt_whole(WEFT_F64, 0, 5, 3), "S(0)"));
        weft_tensor *y = wt_to(weft_mul_scalar(x, 2), layouts[i]);

        wt_moved(&w, WEFT_COLL_COUNT);
        WT_FAILS(weft_backward_from(y, g), WEFT_ERR_LAYOUT,
                 "backward_from: a plain gradient for a distributed tensor: "
                 "f64[5,3]");
        WT_FAILS(weft_backward_from(y, weft_to_local(wt_spread(&w, g, "S(0)"), NULL)),
                 WEFT_ERR_LAYOUT, "weft_distribute_tensor");
        WT_STILL(&w);
        WT_ALL(weft_grad(x) == NULL);
        weft_implicit_replication_open(WEFT_IMPLICIT_REPLICATION_CHECKED);
        if (wt_ranks() > 1)
            WT_FAILS(weft_backward_from(y, weft_cast(loose, WEFT_F64)), WEFT_ERR_ARG,
                     "backward_from: the gradient is plain and taken as replicated");
        WT_EQ(weft_backward_from(y, g), WEFT_OK);
        weft_implicit_replication_close();
        WT_ALL(weft_tensor_mesh(weft_grad(x)) == w.mesh);
        WT_ALL(wt_near_tensors(weft_grad(x), weft_mul_scalar(g, 2), WT_EXACT));
    }
}

/* trial 4 (messages): one number stands beside distributed tensors, as everywhere. */
WT_TEST(backward_from__takes_a_plain_number)
{
    struct wt_world w = wt_world_open();
    weft_tensor *x = wanted(wt_spread(&w, wt_whole(WEFT_F64, 0, 5, 3), "S(0)"));
    weft_tensor *y = weft_sum_all(x);

    WT_EQ(weft_backward_from(y, weft_full(WEFT_F64, NULL, 0, 3)), WEFT_OK);
    WT_ALL(wt_is_all(weft_grad(x), 3));
}

/* ---- meshes ---- */

static weft_module *two_layers(void)
{
    weft_module *m = weft_sequential_new();

    weft_manual_seed(2);
    for (int i = 0; i < 2; i++)
        weft_module_add_child(m, i ? "b" : "a",
                              weft_linear_new((weft_linear_config){
                                  .in = {6}, .out = {6}, .std = 1, .dtype = WEFT_F64}));
    return wt_own(m);
}

static void spread_child(weft_module *m, const char *name, weft_mesh *mesh)
{
    weft_style whole = weft_colwise_parallel_with((weft_style_options){.output_layouts = "R"});

    WT_EQ(weft_parallelize_module_strict(m, mesh, (weft_plan[]){{name, whole}, {0}}), WEFT_OK);
}

/* trial 4 (messages): overlapping axes, in replicas, which join the meshes of all parameters. */
WT_TEST(data_parallel__names_the_parameter_whose_axis_overlaps)
{
    struct wt_world w = wt_world_open_two_axes();
    weft_mesh *dp = wt_own(weft_mesh_sub(w.mesh, "dp")), *tp = wt_own(weft_mesh_sub(w.mesh, "tp")),
              *all = wt_own(weft_mesh_flatten(w.mesh, "all"));
    weft_module *m = two_layers(), *tied = two_layers();

    spread_child(m, "b", all);
    WT_FAILS(weft_data_parallel(m, dp, (weft_data_parallel_config){0}), WEFT_ERR_ARG,
             "data parallel: parameter 'weight' of module 'b' is on mesh (all:");
    WT_FAILS(weft_data_parallel(m, dp, (weft_data_parallel_config){0}), WEFT_ERR_ARG,
             "whose axis overlaps one of the replicas' mesh (dp:");
    WT_ALL(!weft_tensor_mesh(weft_module_parameter(m, "a.weight")));
    WT_ALL(weft_tensor_mesh(weft_module_parameter(m, "b.weight")) == all);
    spread_child(tied, "a", tp);
    WT_FAILS(weft_parallelize_module_strict(tied, all,
                                            (weft_plan[]){{"a", weft_colwise_parallel()}, {0}}),
             WEFT_ERR_STATE, "module 'a' (linear) was distributed before");
}

/* trial 4 (messages): overlapping axes. An optimizer and a norm join no meshes: nothing is wrong
 * with them there. */
WT_TEST(optimizer__takes_meshes_whose_axes_overlap)
{
    struct wt_world w = wt_world_open_two_axes();
    weft_mesh *tp = wt_own(weft_mesh_sub(w.mesh, "tp")),
              *all = wt_own(weft_mesh_flatten(w.mesh, "all"));
    weft_module *models[] = {two_layers(), two_layers()};
    double norms[2];

    spread_child(models[0], "a", tp);
    spread_child(models[0], "b", all);
    for (int i = 0; i < 2; i++) {
        weft_optim *optim = wt_own(weft_sgd(models[i], (weft_sgd_config){.lr = 0.1}));
        weft_tensor *y = weft_call(models[i], wt_whole(WEFT_F64, 0, 4, 6));

        WT_EQ(weft_backward(weft_sum_all(weft_square(y))), WEFT_OK);
        WT_EQ(weft_clip_grad_norm(models[i], 1, &norms[i]), WEFT_OK);
        WT_EQ(weft_step(optim), WEFT_OK);
    }
    WT_ALL(wt_near(&norms[0], &norms[1], 1, WT_WITHIN(1e-10)));
    for (int i = 0; i < 2; i++)
        WT_ALL(wt_near_tensors(weft_module_parameter(models[0], i ? "b.weight" : "a.weight"),
                               weft_module_parameter(models[1], i ? "b.weight" : "a.weight"),
                               WT_WITHIN(1e-10)));
}

/* trial 4 (messages): a buffer is not called a parameter. */
WT_TEST(data_parallel__calls_a_buffer_a_buffer)
{
    const weft_buffer_options usual = {0};
    const int64_t four = 4;
    struct wt_world w = wt_world_open_mesh("dp=%d,tp=1", wt_ranks());
    weft_mesh *dp = wt_own(weft_mesh_sub(w.mesh, "dp"));
    weft_module *m = two_layers();
    const weft_placement sum[] = {weft_partial(WEFT_SUM), weft_replicate()};
    weft_tensor *t = weft_from_local(weft_full(WEFT_F64, &four, 1, 1), w.mesh, sum, NULL);

    WT_EQ(weft_module_add_buffer(m, "seen", t, usual), WEFT_OK);
    WT_FAILS(weft_data_parallel(m, dp, (weft_data_parallel_config){0}), WEFT_ERR_ARG,
             "data parallel: buffer 'seen' of module '' is ");
    WT_EQ(weft_module_set_buffer(m, "seen", weft_full(WEFT_F64, &four, 1, wt_rank())), WEFT_OK);
    if (wt_ranks() > 1)
        WT_FAILS(weft_data_parallel(m, dp, (weft_data_parallel_config){0}), WEFT_ERR_ARG,
                 "replicas differ in buffer 'seen' of module ''");
    WT_EQ(weft_module_set_buffer(m, "seen", weft_full(WEFT_F64, &four, 1, 1)), WEFT_OK);
    WT_EQ(weft_data_parallel(m, dp, (weft_data_parallel_config){0}), WEFT_OK);
    WT_EQ(weft_module_set_buffer(m, "seen", weft_full(WEFT_F64, &four, 1, 1)), WEFT_OK);
    WT_FAILS(weft_call(m, wt_whole(WEFT_F64, 0, 4, 6)), WEFT_ERR_STATE,
             "buffer 'seen' was replaced after weft_data_parallel");
}

/* ---- collectives ---- */

static void place_of(char *text, size_t bytes, const char *op, const char *module)
{
    struct wf_comm comm = {.label = "tp", .size = 2};
    struct wf_coll coll = {.kind = WEFT_COLL_ALL_REDUCE,
                           .comm = &comm,
                           .dtype = WEFT_F32,
                           .reduce = WEFT_SUM,
                           .count = 6,
                           .where = {.op = op, .module = module}};

    wf_coll_describe_with_caller(&coll, text, bytes);
}

/* trial 4 (messages): "in module ," of a root module, whose path is "" */
WT_TEST(collectives__name_no_empty_module)
{
    char text[256];

    place_of(text, sizeof text, "matmul", "");
    WT_ALL(!strcmp(text, "all-reduce sum of 6 f32 on axis tp for matmul"));
    place_of(text, sizeof text, NULL, "");
    WT_ALL(!strcmp(text, "all-reduce sum of 6 f32 on axis tp"));
    place_of(text, sizeof text, "matmul", NULL);
    WT_ALL(!strcmp(text, "all-reduce sum of 6 f32 on axis tp for matmul"));
    place_of(text, sizeof text, "matmul", "blocks.0");
    WT_ALL(!strcmp(text, "all-reduce sum of 6 f32 on axis tp for matmul in module blocks.0"));
}

/* Terms of a maximum are none of a sum; the axis is named, not the first one. */
WT_TEST(types__of_another_reduction_name_their_axis)
{
    struct wt_world w = wt_world_open_mesh("dp=1,tp=%d", wt_ranks());
    weft_tensor *whole = wt_whole(WEFT_F32, 0, 2, 3), *maximum;

    maximum = weft_to_local(
        weft_from_local(whole, w.mesh, weft_placements(w.mesh, "R,P(max)"), NULL), NULL);
    WT_ALL(maximum != NULL);
    if (wt_ranks() > 1) { /* alone, a rank holds the value itself */
        WT_ALL(!weft_from_local(maximum, w.mesh, weft_placements(w.mesh, "R,P"), NULL));
        WT_FAILED(WEFT_ERR_LAYOUT, "input 0, f32[2,3] {-,P(max)}");
        WT_ALL(!weft_from_local(maximum, w.mesh, weft_placements(w.mesh, "R,P"), NULL));
        WT_FAILED(WEFT_ERR_LAYOUT, "on axis tp ranks hold terms of another reduction");
    }
    wt_world_close(&w);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "messages"); }
