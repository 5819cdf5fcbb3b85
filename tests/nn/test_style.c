/*
 * test_style.c: every row of styles.def, with every way in and out, against one device: output,
 * input gradient, parameter gradients, and the collectives of each direction.
 *
 * Covers STYLE-01, 03 to 07, 09, 23, 25 and 26, also for sizes that do not divide and for ranks
 * with nothing.
 */
#include <string.h>

#include <weft/weft.h>

#include "support/mpi_check.h"
#include "support/near.h"

enum { AR, AG, RS, A2A, KINDS };
static const weft_coll kinds[KINDS] = {WEFT_COLL_ALL_REDUCE, WEFT_COLL_ALL_GATHER,
                                       WEFT_COLL_REDUCE_SCATTER, WEFT_COLL_ALL_TO_ALL};

enum layer { LINEAR, EMBEDDING };

/* One use of a style. The input reaches the module as `given`: a layout's local shard, or, with
 * `distributed`, the distributed tensor itself. */
struct use {
    const char *name;
    enum layer layer;
    weft_style_kind style;
    const char *input, *output; /* the options; NULL: the style's own */
    const char *given;
    bool distributed;
    const char *result; /* the layout that the output then has */
    int forward[KINDS], backward[KINDS];
};

static const struct use uses[] = {
#include "style_uses.def"
};

enum { ROWS = 8 };

static weft_module *make(enum layer layer, int in, int out)
{
    weft_manual_seed(3);
    if (layer == EMBEDDING)
        return weft_embedding_new(
            (weft_embedding_config){.rows = in, .width = out, .dtype = WEFT_F64});
    return weft_linear_new((weft_linear_config){.in = {in}, .out = {out}, .dtype = WEFT_F64});
}

static weft_tensor *make_input(enum layer layer, int in)
{
    double x[ROWS * 64];
    int32_t index[ROWS];
    weft_tensor *t;

    for (int i = 0; i < ROWS; i++) index[i] = i * i % in;
    if (layer == EMBEDDING) return weft_from_data(WEFT_I32, 1, (int64_t[]){ROWS}, index);
    for (int i = 0; i < ROWS * in; i++) x[i] = (i * 37 + 11) % 101 / 50.0 - 1;
    t = weft_from_data(WEFT_F64, 2, (int64_t[]){ROWS, in}, x);
    return weft_set_requires_grad(t, true);
}

/* Weights of the sum that is differentiated, so that no two elements have equal gradients. */
static weft_tensor *make_weights(int out)
{
    double c[ROWS * 64];

    for (int i = 0; i < ROWS * out; i++) c[i] = (i * 53 + 7) % 97 / 48.0 - 1;
    return weft_from_data(WEFT_F64, 2, (int64_t[]){ROWS, out}, c);
}

static weft_placement placement(const char *text)
{
    weft_placement p = weft_replicate();

    weft_placements_parse(&p, 1, text);
    return p;
}

/* Only asked where the split is the cheapest way: of tiny operands dispatch may gather some
 * instead. */
static bool counts_are(const struct use *u, const weft_ledger *ledger, weft_direction direction)
{
    bool forward = direction == WEFT_DIRECTION_FORWARD, right = true;

    for (int k = 0; k < KINDS; k++) {
        int64_t got = weft_ledger_count(ledger, kinds[k], direction, NULL);
        int expected = forward ? u->forward[k] : u->backward[k];

        if (wt_ranks() == 1) expected = 0;
        if (got != expected)
            wt_note("%s, %s: %d instead of %d of kind %d", u->name,
                    forward ? "forward" : "backward", (int)got, expected, k);
        right &= got == expected;
    }
    return right;
}

static weft_style style_of(const struct use *u, bool keep)
{
    weft_style_options options = {
        .input_layouts = u->input, .output_layouts = u->output, .keep_distributed = keep};

    return (weft_style){.kind = u->style, .options = options};
}

/* What the module is called with, made from the leaf x (distributed as `given`). */
static weft_tensor *present(const struct use *u, weft_tensor *x)
{
    return u->distributed ? x : weft_to_local(x, NULL);
}

static void check_use(const struct use *u, int in, int out, bool keep, bool count)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size());
    weft_module *one = make(u->layer, in, out), *many = make(u->layer, in, out);
    weft_placement given = placement(u->given), result = placement(u->result);
    weft_tensor *x_one = make_input(u->layer, in), *c = make_weights(out), *y_one, *x, *y;
    weft_placement whole = weft_replicate();
    weft_ledger *ledger = weft_ledger_open();

    y_one = weft_call(one, x_one);
    WT_EQ(weft_backward(weft_sum_all(weft_mul(y_one, c))), WEFT_OK);
    WT_EQ(weft_parallelize_module(many, mesh, (weft_plan[]){{"", style_of(u, keep)}, {0}}),
          WEFT_OK);
    x = weft_distribute_tensor(x_one, mesh, &given, -1);
    weft_ledger_reset(ledger);
    y = weft_call(many, present(u, x));
    wt_note("%s, %d to %d%s", u->name, in, out, keep ? ", kept distributed" : "");
    WT_ALL(!count || counts_are(u, ledger, WEFT_DIRECTION_FORWARD));
    WT_ALL(y && (weft_tensor_mesh(y) != NULL) == keep);
    if (!keep) y = weft_from_local(y, mesh, &result, (int64_t[]){ROWS, out});
    WT_ALL(weft_tensor_placement(y, 0).kind == result.kind);
    WT_ALL(wt_near_tensors(y, y_one, WT_WITHIN(1e-12)));
    c = weft_distribute_tensor(c, mesh, &whole, -1);
    WT_EQ(weft_backward(weft_full_tensor(weft_sum_all(weft_mul(y, c)))), WEFT_OK);
    WT_ALL(!count || counts_are(u, ledger, WEFT_DIRECTION_BACKWARD));
    weft_ledger_close(ledger);
    if (u->layer == LINEAR)
        WT_ALL(wt_near_tensors(weft_grad(x), weft_grad(x_one), WT_WITHIN(1e-12)));
    for (int i = 0; i < weft_module_parameters(one); i++) {
        const char *name = i ? "bias" : "weight";

        WT_ALL(wt_near_tensors(weft_grad(weft_module_parameter(many, name)),
                               weft_grad(weft_module_parameter(one, name)), WT_WITHIN(1e-12)));
    }
    weft_module_release(one);
    weft_module_release(many);
    weft_mesh_release(mesh);
}

static void check_all(int in, int out, bool count)
{
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        for (int keep = 0; keep < 2; keep++) check_use(&uses[i], in, out, keep, count);
}

WT_TEST(style__equals_one_device) { check_all(16, 16, true); }

WT_TEST(style__equals_one_device_where_sizes_do_not_divide) { check_all(13, 10, false); }

WT_TEST(style__equals_one_device_where_ranks_have_nothing) { check_all(3, 2, false); }

/* ---- several dims, and modules that go together ---- */

WT_TEST(style__splits_heads_of_a_linear_with_several_dims)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size());
    weft_module *one = weft_sequential_new(), *many = weft_sequential_new();
    weft_tensor *x = make_input(LINEAR, 6), *y;
    weft_module *both[] = {one, many};
    weft_plan plan[] = {{"qkv", weft_colwise_parallel()}, {"proj", weft_rowwise_parallel()}, {0}};

    for (int i = 0; i < 2; i++) {
        weft_manual_seed(5);
        weft_module_add_child(
            both[i], "qkv",
            weft_linear_new((weft_linear_config){.in = {6}, .out = {5, 4}, .dtype = WEFT_F64}));
        weft_module_add_child(both[i], "act", weft_activation_new(WEFT_RELU));
        weft_module_add_child(
            both[i], "proj",
            weft_linear_new((weft_linear_config){.in = {5, 4}, .out = {6}, .dtype = WEFT_F64}));
    }
    WT_EQ(weft_parallelize_module(many, mesh, plan), WEFT_OK);
    WT_EQ(weft_local_size(weft_module_parameter(many, "proj.weight"), 1),
          weft_chunk_size(5, wt_ranks(), wt_rank()));
    y = weft_call(many, x);
    WT_ALL(wt_near_tensors(y, weft_call(one, x), WT_WITHIN(1e-12)));
    weft_module_release(one);
    weft_module_release(many);
    weft_mesh_release(mesh);
}

WT_TEST(style__collectives_are_booked_to_the_module)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size());
    weft_module *mlp =
        weft_mlp((weft_mlp_config){.in = 6, .hidden = 12, .out = 6, .dtype = WEFT_F64});
    weft_plan plan[] = {{"up", weft_colwise_parallel()}, {"down", weft_rowwise_parallel()}, {0}};
    weft_ledger *ledger;
    int expected = wt_ranks() > 1;

    WT_EQ(weft_parallelize_module(mlp, mesh, plan), WEFT_OK);
    ledger = weft_ledger_open();
    WT_EQ(weft_backward(weft_sum_all(weft_call(mlp, make_input(LINEAR, 6)))), WEFT_OK);
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL), 2 * expected);
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_FORWARD, "down"),
          expected);
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_BACKWARD, "up"), expected);
    weft_ledger_close(ledger);
    weft_module_release(mlp);
    weft_mesh_release(mesh);
}

WT_TEST(style__inputs_on_a_larger_mesh_are_refused)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "dp=1,tp=%d", weft_world_size()),
              *tp = weft_mesh_sub(mesh, "tp");
    weft_module *m = make(LINEAR, 6, 6);
    weft_placement everywhere[] = {weft_replicate(), weft_replicate()};

    WT_EQ(weft_parallelize_module(m, tp, (weft_plan[]){{"", weft_colwise_parallel()}, {0}}),
          WEFT_OK);
    WT_ALL(weft_call(m, weft_distribute_tensor(make_input(LINEAR, 6), mesh, everywhere, -1)) ==
           NULL);
    WT_FAILED(WEFT_ERR_LAYOUT, "a tensor lies on mesh (dp:1, tp:");
    weft_module_release(m);
    weft_mesh_release(tp);
    weft_mesh_release(mesh);
}

int main(int argc, char **argv)
{
    static const struct wt_case cases[] = {
        WT_CASE(style__equals_one_device),
        WT_CASE(style__equals_one_device_where_sizes_do_not_divide),
        WT_CASE(style__equals_one_device_where_ranks_have_nothing),
        WT_CASE(style__splits_heads_of_a_linear_with_several_dims),
        WT_CASE(style__collectives_are_booked_to_the_module),
        WT_CASE(style__inputs_on_a_larger_mesh_are_refused),
        WT_END,
    };

    return wt_main(argc, argv, "style", cases);
}
