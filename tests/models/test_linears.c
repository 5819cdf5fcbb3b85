/*
 * test_linears.c: linear layers under column-wise and row-wise styles in every form that they can
 * have: transposed storage. One device is the yardstick; nothing divides evenly.
 */
/* mpi: 3 */
#include "styles/given.h"

enum { ROWS = 5, IN = 7, OUT = 10 };

static const char *const styles[] = {"colwise", "rowwise"};

/* A plan of one line for the module itself. */
static void apply(weft_module *m, weft_mesh *mesh, const char *style)
{
    char text[128];
    weft_plan *plan;

    snprintf(text, sizeof text, ". %s", style);
    plan = weft_plan_parse(text);
    WT_EQ(weft_parallelize_module_strict(m, mesh, plan), WEFT_OK);
    weft_plan_release(plan);
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
    return got && want && wt_near_tensors(got, want, WT_WITHIN(1e-12));
}

/* ---- transposed storage ---- */

static weft_module *conv1d(bool transposed)
{
    weft_manual_seed(3);
    return weft_linear_new((weft_linear_config){
        .in = {IN}, .out = {2, OUT}, .out_split = 1, .transposed = transposed, .dtype = WEFT_F64});
}

static weft_tensor *turned(weft_tensor *w)
{
    static const int order[] = {2, 0, 1};

    return weft_detach(weft_contiguous(weft_permute(w, order)));
}

WT_TEST(transposed__styles_split_the_dims_that_they_mean)
{
    static const char *const placed[] = {"S(2)", "S(0)"}, *const bias[] = {"S(1)", "R"};
    weft_mesh *mesh = given_mesh();

    for (int i = 0; i < 2; i++) {
        weft_module *plain = conv1d(false), *m = conv1d(true);
        weft_tensor *x = given(0, ROWS, IN, 0), *again = given(0, ROWS, IN, 0), *y;
        char keep[64];

        snprintf(keep, sizeof keep, "%s%s keep", styles[i], i ? " input=R" : "");
        WT_EQ(weft_module_set_parameter(m, "weight", turned(parameter(plain, "weight"))), WEFT_OK);
        weft_set_requires_grad(parameter(m, "weight"), true);
        WT_EQ(weft_module_set_parameter(m, "bias", parameter(plain, "bias")), WEFT_OK);
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
        weft_module_release(plain);
        weft_module_release(m);
    }
    weft_mesh_release(mesh);
}

int main(int argc, char **argv)
{
    static const struct wt_case cases[] = {
        WT_CASE(transposed__styles_split_the_dims_that_they_mean),
        WT_END,
    };

    return wt_main(argc, argv, "linears", cases);
}
