/*
 * test_messages.c: refusals that say what to do: which of two tensors' facts differ, whose
 * parameter a style cannot split, a root module without a name, what gives up a type.
 */
#include <string.h>

#include "support/worlds.h"

/* trial 4 (messages): copy_ */
WT_TEST(copy__says_what_differs)
{
    struct wt_world w = wt_world_open();
    weft_tensor *into = weft_full(WEFT_F32, 2, (int64_t[]){2, 3}, 0);

    WT_EQ(weft_copy_(into, weft_full(WEFT_F64, 2, (int64_t[]){2, 3}, 0)), WEFT_ERR_SHAPE);
    WT_FAILED(WEFT_ERR_SHAPE, "copy_: dtypes differ: f64[2,3]");
    WT_EQ(weft_copy_(into, weft_full(WEFT_F32, 2, (int64_t[]){3, 2}, 0)), WEFT_ERR_SHAPE);
    WT_FAILED(WEFT_ERR_SHAPE, "copy_: shapes differ: f32[3,2]");
    WT_EQ(weft_copy_(wt_spread(&w, into, "S(0)"), wt_spread(&w, into, "R")), WEFT_ERR_SHAPE);
    WT_FAILED(WEFT_ERR_SHAPE, "copy_: layouts differ: f32[2,3] [R]");
    WT_EQ(weft_copy_(into, wt_spread(&w, into, "R")), WEFT_ERR_SHAPE);
    WT_FAILED(WEFT_ERR_SHAPE, "copy_: layouts differ");
    WT_EQ(weft_copy_(into, weft_full(WEFT_F32, 2, (int64_t[]){2, 3}, 4)), WEFT_OK);
    WT_ALL(wt_is_all(into, 4));
    wt_world_close(&w);
}

/* trial 4 (messages): a style on an odd parameter */
WT_TEST(styles__name_the_parameter_that_cannot_be_split)
{
    static const weft_plan plan[] = {{"odd", {.kind = WEFT_STYLE_COLWISE}}, {0}};
    struct wt_world w = wt_world_open();
    weft_module *root = weft_sequential_new();
    weft_module *odd =
        weft_linear_new((weft_linear_config){.in = {4}, .out = {2, 3}, .out_split = 1});
    const int64_t one = 1;

    WT_EQ(weft_module_set_parameter(odd, "bias", weft_full(WEFT_F32, 1, &one, 0)), WEFT_OK);
    weft_module_add_child(root, "odd", odd);
    WT_EQ(weft_parallelize_module_strict(root, w.mesh, plan), WEFT_ERR_LAYOUT);
    WT_ALL(strstr(weft_error_message(), "in module odd: parameter 'bias' of linear: ") != NULL);
    WT_ALL(strstr(weft_error_message() + 10, "in module") == NULL);
    weft_error_clear();
    weft_module_release(root);
    wt_world_close(&w);
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
    weft_module *m = weft_module_new(&class_value, w.mesh);
    weft_tensor *term =
        weft_to_local(wt_pending(&w, weft_full(WEFT_F32, 1, (int64_t[]){3}, 1), WEFT_SUM), NULL);

    if (wt_ranks() > 1) {
        WT_ALL(weft_call(m, term) == NULL);
        WT_ALL(strstr(weft_error_message(), ": : ") == NULL);
        WT_ALL(weft_error_message()[0] != ':');
        WT_ALL(strstr(weft_error_message(), "weft_untyped gives up") != NULL);
        weft_error_clear();
    }
    WT_ALL(weft_call(m, weft_untyped(term)) != NULL);
    weft_module_release(m);
    wt_world_close(&w);
}

int main(int argc, char **argv)
{
    static const struct wt_case cases[] = {
        WT_CASE(copy__says_what_differs),
        WT_CASE(styles__name_the_parameter_that_cannot_be_split),
        WT_CASE(types__name_what_gives_them_up_and_no_empty_module),
        WT_END,
    };

    return wt_main(argc, argv, "messages", cases);
}
