/* test_muon.c: matrices in every layout are updated as on one device; what that sends. */
/* mpi: 4 */
#include <math.h>
#include <string.h>

#include "optim/models.h"

enum { STEPS = 3 };

/* A matrix, and a vector that AdamW updates. */
static void fill(struct wt_bag *bag, weft_dtype dtype, const int64_t *shape, weft_mesh *mesh,
                 const char *placements)
{
    static const char *const vector = "R,R,R,R";
    char axes[16] = "";

    wt_bag_open(bag);
    if (placements) strncat(axes, vector, (size_t)(2 * weft_mesh_ndim(mesh) - 1));
    wt_bag_add(bag, "matrix", wt_numbers(dtype, 1, 2, shape), wt_numbers(dtype, 2, 2, shape), mesh,
               placements, NULL);
    wt_bag_add(bag, "vector", wt_numbers(dtype, 3, 1, shape), wt_numbers(dtype, 4, 1, shape), mesh,
               placements ? axes : NULL, NULL);
}

static void compare(struct wt_world *world, const int64_t *shape, const char *placements,
                    weft_dtype dtype, struct wt_tolerance near)
{
    struct wt_bag spread, alone;
    weft_muon_config config = {.lr = 0.02, .weight_decay = 0.1};
    weft_optim *optims[2];

    wt_row("%s of %lld x %lld", placements, (long long)shape[0], (long long)shape[1]);
    fill(&spread, dtype, shape, world->mesh, placements);
    fill(&alone, dtype, shape, NULL, NULL);
    optims[0] = wt_own(weft_muon(spread.module, config));
    optims[1] = wt_own(weft_muon(alone.module, config));
    for (int step = 0; step < STEPS; step++) {
        wt_bag_steps(&spread, optims[0], 1);
        wt_bag_steps(&alone, optims[1], 1);
        for (int i = 0; i < 2; i++)
            WT_ALL(
                wt_near_tensors(wt_bag_parameter(&spread, i), wt_bag_parameter(&alone, i), near));
    }
}

static const int64_t shapes[][2] = {{16, 10}, {7, 13}, {5, 5}, {3, 2}, {1, 6}, {9, 1}, {0, 4}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

WT_TEST(matrix__in_any_layout_is_updated_as_on_one_device)
{
    static const char *const layouts[] = {"R",       "S(0)",       "S(1)",
                                          "SS(0,2)", "S(1|1,2,1)", "S(0,balanced)"};
    struct wt_world world = wt_world_open();

    for (int i = 0; i < SHAPES * 6; i++) {
        if (strchr(layouts[i % 6], '|') && shapes[i / 6][1] % 4)
            continue; /* segments cut whole sizes */
        compare(&world, shapes[i / 6], layouts[i % 6], WEFT_F64, WT_WITHIN(1e-10));
        if (i / 6 < 2) compare(&world, shapes[i / 6], layouts[i % 6], WEFT_F32, WT_WITHIN(2e-4));
    }
}

WT_TEST(matrix__over_two_axes)
{
    static const char *const layouts[] = {"S(0),S(1)", "S(1),S(0)", "S(0),S(0)",
                                          "R,S(1)",    "S(0),R",    "S(1)[1],S(1)[0]"};
    struct wt_world world = wt_world_open_two_axes();

    for (int i = 0; i < 5 * 6; i++)
        compare(&world, shapes[i / 6], layouts[i % 6], WEFT_F64, WT_WITHIN(1e-10));
}

/* A weight with heads as dims goes as the same numbers with two dims. */
WT_TEST(heads__are_rows_or_columns)
{
    static const char *const layouts[] = {"R", "S(0)", "S(1)", "S(2)", "S(3)", "S(1,balanced)"};
    const int64_t many[] = {3, 5, 2, 7};
    struct wt_world world = wt_world_open();

    for (int i = 0; i < 6 * 3; i++) {
        int rows = 1 + i / 6;
        int64_t two[] = {rows == 1 ? 3 : rows == 2 ? 15 : 30, rows == 1 ? 70 : rows == 2 ? 14 : 7};
        struct wt_bag bags[2];
        weft_optim *optims[2];
        weft_tensor *flat;

        wt_row("%s, %d dims are rows", layouts[i % 6], rows);
        for (int k = 0; k < 2; k++) {
            const int64_t *shape = k ? two : many;

            wt_bag_open(&bags[k]);
            wt_bag_add(&bags[k], "w", wt_numbers(WEFT_F64, 1, k ? 2 : 4, shape),
                       wt_numbers(WEFT_F64, 2, k ? 2 : 4, shape), world.mesh,
                       k ? NULL : layouts[i % 6], NULL);
            optims[k] =
                wt_own(weft_muon(bags[k].module, (weft_muon_config){.lr = 0.1, .momentum = 0.5}));
            if (k == 0) WT_EQ(weft_optim_set(optims[k], "w", "row_dims", rows), WEFT_OK);
            wt_bag_steps(&bags[k], optims[k], 2);
        }
        flat = weft_reshape(weft_full_tensor(weft_module_parameter(bags[0].module, "w")), two, 2);
        WT_ALL(wt_near_tensors(weft_detach(flat), weft_module_parameter(bags[1].module, "w"),
                               WT_WITHIN(1e-10)));
    }
}

/* The last of three losses of a small GPT-2, all of whose inner weights are matrices. */
static double last_loss(weft_mesh *mesh)
{
    int64_t size[] = {2, 4}, tokens[] = {1, 2, 3, 4, 5, 6, 7, 8};
    weft_tensor *text = weft_from_data(WEFT_I64, size, 2, tokens);
    weft_module *gpt;
    weft_optim *muon;
    double value = 0;

    weft_manual_seed(5);
    gpt = wt_own(weft_gpt((weft_gpt_config){
        .vocab = 11, .context = 4, .width = 12, .heads = 3, .layers = 2, .dtype = WEFT_F64}));
    if (mesh) WT_EQ(weft_parallelize_module(gpt, mesh, weft_gpt_plan_sequence()), WEFT_OK);
    muon = wt_own(weft_muon(gpt, (weft_muon_config){.lr = 0.02, .weight_decay = 0.1}));
    WT_EQ(weft_optim_set(muon, "**.attn.qkv.weight", "row_dims", 3), WEFT_OK);
    WT_EQ(weft_optim_set(muon, "**.attn.proj.weight", "row_dims", 1), WEFT_OK);
    WT_EQ(weft_optim_set(muon, "w?e.*", "adamw", 1), WEFT_OK);
    WT_EQ(weft_optim_set(muon, "head.*", "adamw", 1), WEFT_OK);
    for (int step = 0; step < 3; step++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *loss = weft_gpt_loss(gpt, text, text);

        value = weft_item(loss);
        WT_EQ(weft_backward(loss), WEFT_OK);
        WT_EQ(weft_step(muon), WEFT_OK);
        weft_scope_close(scope);
    }
    return value;
}

WT_TEST(model__learns_as_on_one_device)
{
    struct wt_world world = wt_world_open();
    double spread = last_loss(world.mesh), alone = last_loss(NULL);

    wt_note("%.15g, not %.15g", spread, alone);
    WT_ALL(fabs(spread - alone) < 1e-9);
}

/* Along its longer dim a matrix is not moved: its norm and a product per iteration are added up.
 * Along the other it goes there and back. Replicated it sends nothing. */
WT_TEST(matrix__sends_what_the_docs_say)
{
    static const char *const layouts[] = {"R", "S(0)", "S(1)"};
    struct wt_world world = wt_world_open();

    for (int i = 0; i < 6; i++) {
        const int64_t shape[] = {i < 3 ? 24 : 16, i < 3 ? 16 : 24};
        bool many = wt_ranks() > 1, longer = (i % 3 == 1) == (i < 3);
        struct wt_bag bag;
        weft_optim *optim;

        wt_row("%s of %lld x %lld", layouts[i % 3], (long long)shape[0], (long long)shape[1]);
        fill(&bag, WEFT_F32, shape, world.mesh, layouts[i % 3]);
        optim = wt_own(weft_muon(bag.module, (weft_muon_config){.lr = 0.02, .ns_steps = 4}));
        WT_EQ(wt_bag_backward(&bag), WEFT_OK);
        weft_ledger_reset(world.ledger);
        WT_EQ(weft_step(optim), WEFT_OK);
        if (i % 3 == 0) {
            WT_STILL(&world);
        } else {
            weft_ledger *l = world.ledger;
            weft_direction any = WEFT_DIRECTION_OPTIM;

            WT_EQ(weft_ledger_count(l, WEFT_COLL_ALL_REDUCE, any, NULL), many ? 5 : 0);
            WT_EQ(weft_ledger_bytes(l, WEFT_COLL_ALL_REDUCE, any, NULL),
                  many ? 4 * 16 * 16 * 4 + 4 : 0);
            WT_EQ(weft_ledger_count(l, WEFT_COLL_ALL_TO_ALL, any, NULL), many && !longer ? 2 : 0);
            WT_EQ(weft_ledger_count(l, WEFT_COLL_COUNT, any, NULL), !many ? 0 : longer ? 5 : 7);
        }
    }
}

/* The singular values of what the iteration gives lie near 1: for w = 0 the step is the rate times
 * that matrix, and x xT is near the identity. */
WT_TEST(direction__is_nearly_orthogonal)
{
    struct wt_world world = wt_world_open();
    const int64_t shape[] = {4, 9};
    double w[36];
    struct wt_bag bag;
    weft_optim *optim;
    weft_tensor *p;

    wt_bag_open(&bag);
    wt_bag_add(&bag, "w", weft_full(WEFT_F64, shape, 2, 0), wt_numbers(WEFT_F64, 2, 2, shape),
               world.mesh, "S(0)", NULL);
    optim = wt_own(weft_muon(bag.module, (weft_muon_config){.lr = 1}));
    wt_bag_steps(&bag, optim, 1);
    p = weft_full_tensor(weft_module_parameter(bag.module, "w"));
    WT_EQ(weft_read_f64(p, w, 36), WEFT_OK);
    for (int i = 0; i < 16; i++) {
        double product = 0;

        for (int k = 0; k < 9; k++) product += w[i / 4 * 9 + k] * w[i % 4 * 9 + k];
        WT_ALL(i / 4 == i % 4 ? product > 0.4 && product < 1.5 : fabs(product) < 0.4);
    }
}

/* A step without elements sends, on paper, what a step with elements sends. */
WT_TEST(forecast__counts_what_the_iteration_sends)
{
    struct wt_world world = wt_world_open();

    for (int meta = 0; meta < 2; meta++) {
        const int64_t shape[] = {24, 16};
        weft_device before = weft_set_default_device(meta ? WEFT_META : WEFT_CPU);
        weft_module *linear =
            wt_own(weft_linear_new((weft_linear_config){.in = {16}, .out = {24}, .no_bias = true}));
        weft_tensor *x = weft_full(WEFT_F32, shape, 2, 1), *w;
        weft_optim *muon;

        weft_set_default_device(before);
        w = wt_spread(&world, weft_module_parameter(linear, "weight"), "S(1)");
        WT_EQ(weft_module_set_parameter(linear, "weight", w), WEFT_OK);
        muon = wt_own(weft_muon(linear, (weft_muon_config){.lr = 0.1}));
        x = wt_spread(&world, x, "S(1)");
        WT_EQ(weft_backward(weft_sum_all(weft_call(linear, x))), WEFT_OK);
        weft_ledger_reset(world.ledger);
        WT_EQ(weft_step(muon), WEFT_OK);
        WT_EQ(weft_ledger_count(world.ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL),
              wt_ranks() > 1 ? 8 : 0);
    }
}

/* A parameter that is given to AdamW has its states, and goes as under AdamW. */
WT_TEST(adamw__can_have_a_matrix)
{
    struct wt_world world = wt_world_open();
    const int64_t shape[] = {7, 5};
    struct wt_bag bags[2];
    weft_optim *muon, *adamw;
    weft_tensor *p;

    for (int i = 0; i < 2; i++) fill(&bags[i], WEFT_F64, shape, world.mesh, "S(0)");
    muon = wt_own(weft_muon(bags[0].module, (weft_muon_config){.lr = 0.1, .weight_decay = 0.2}));
    adamw = wt_own(weft_adamw(bags[1].module, (weft_adamw_config){.lr = 0.1, .weight_decay = 0.2}));
    p = weft_module_parameter(bags[0].module, "matrix");
    WT_EQ(weft_optim_state_count(muon, p), 1);
    WT_EQ(weft_optim_set(muon, "matrix", "adamw", 1), WEFT_OK);
    WT_EQ(weft_optim_state_count(muon, p), 2);
    WT_ALL(strcmp(weft_optim_state_name(muon, p, 1), "exp_avg_sq") == 0);
    wt_bag_steps(&bags[0], muon, 2);
    wt_bag_steps(&bags[1], adamw, 2);
    for (int i = 0; i < 2; i++)
        WT_ALL(wt_near_tensors(wt_bag_parameter(&bags[0], i), wt_bag_parameter(&bags[1], i),
                               WT_EXACT));
    WT_FAILS(weft_optim_set(muon, "matrix", "adamw", 0), WEFT_ERR_STATE,
             "adamw decides which state 'matrix' has");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "muon"); }
