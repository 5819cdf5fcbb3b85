/*
 * test_meshes.c: one optimizer for parameters on several meshes, of several dtypes, without dims,
 * without elements; and the norm of all their gradients.
 */
/* mpi: 4 */
#include <math.h>

#include "optim/models.h"

WT_MAKER(sgd, .lr = 0.1, .momentum = 0.9)
WT_MAKER(adamw, .lr = 0.1, .weight_decay = 0.05)
WT_MAKER(nadam, .lr = 0.1)
WT_MAKER(muon, .lr = 0.1)

static const struct wt_maker *const makers[] = {&sgd, &adamw, &nadam, &muon};
enum { MAKERS = sizeof makers / sizeof *makers };

/* ---- parameters of all kinds together ---- */

/* Dtypes, shapes down to none and to nothing, and two meshes; and the norm of all of them. */
static void fill_kinds(struct wt_bag *bag, int only, weft_mesh *two, weft_mesh *flat)
{
    static const struct {
        const char *name;
        weft_dtype dtype;
        int ndim;
        int64_t shape[2];
        const char *placements; /* NULL: plain */
        bool flat;
    } rows[] = {
        {"net1", WEFT_F32, 2, {16, 10}, "S(0)", true},
        {"net2", WEFT_F32, 2, {10, 16}, "R,S(0)", false},
        {"both", WEFT_F64, 2, {5, 6}, "S(1),S(0)", false},
        {"half", WEFT_BF16, 1, {9}, "S(0)", true},
        {"one", WEFT_F32, 0, {0}, "R,R", false},
        {"none", WEFT_F32, 2, {0, 3}, "S(0)", true},
        {"plain", WEFT_F64, 1, {4}, NULL, false},
    };

    wt_bag_open(bag);
    for (int i = 0; i < 7; i++)
        if (only < 0 || only == i)
            wt_bag_add(bag, rows[i].name, wt_numbers(rows[i].dtype, i, rows[i].ndim, rows[i].shape),
                       wt_numbers(rows[i].dtype, i + 8, rows[i].ndim, rows[i].shape),
                       rows[i].placements ? rows[i].flat ? flat : two : NULL, rows[i].placements,
                       NULL);
}

WT_TEST(parameters__of_all_kinds_have_one_optimizer)
{
    struct wt_world world = wt_world_open_two_axes();
    weft_mesh *flat = wt_own(weft_mesh_flatten(world.mesh, "flat"));

    for (int i = 0; i < MAKERS; i++) {
        struct wt_bag all, one[7];

        wt_row("%s", makers[i]->name);
        fill_kinds(&all, -1, world.mesh, flat);
        wt_bag_steps(&all, makers[i]->make(all.module), 3);
        for (int k = 0; k < 7; k++) {
            fill_kinds(&one[k], k, world.mesh, flat);
            wt_bag_steps(&one[k], makers[i]->make(one[k].module), 3);
            WT_ALL(
                wt_near_tensors(wt_bag_parameter(&all, k), wt_bag_parameter(&one[k], 0), WT_EXACT));
        }
    }
}

/* ---- modules on two meshes ---- */

/* By rows along the last axis, replicated along others. */
static void by_rows(weft_placement *to, const weft_mesh *mesh)
{
    for (int a = 0; a < weft_mesh_ndim(mesh); a++)
        to[a] = a == weft_mesh_ndim(mesh) - 1 ? weft_shard(0) : weft_replicate();
}

static weft_status shard(weft_module *m, weft_mesh *mesh, void *payload)
{
    static const char *const own[] = {"weight", "bias"};
    weft_placement to[WEFT_MAX_AXES];

    (void)payload;
    by_rows(to, mesh);
    for (int i = 0; i < 2; i++) {
        weft_tensor *p = weft_distribute_tensor(weft_module_parameter(m, own[i]), mesh, to, -1);

        if (weft_module_set_parameter(m, own[i], p) != WEFT_OK) return weft_error_status();
    }
    return WEFT_OK;
}

static weft_status spread_rows(weft_module *m, weft_tensor **inputs, int n, weft_mesh *mesh,
                               void *payload)
{
    weft_placement to[WEFT_MAX_AXES];

    (void)m;
    (void)n;
    (void)payload;
    by_rows(to, mesh);
    inputs[0] = weft_redistribute(weft_from_local(inputs[0], mesh, NULL, NULL), to);
    return inputs[0] ? WEFT_OK : weft_error_status();
}

static weft_tensor *whole(weft_module *m, weft_tensor *y, weft_mesh *mesh, void *payload)
{
    (void)m;
    (void)mesh;
    (void)payload;
    return weft_full_tensor(y);
}

/* The settings of PyTorch's own test of AdamW across meshes. */
WT_TEST(modules__on_two_meshes_have_one_optimizer)
{
    static const weft_adamw_config configs[] = {
        {.lr = 0.1},
        {.lr = 0.1, .weight_decay = 0.05},
        {.lr = 0.1,
         .beta1 = 0.6,
         .beta2 = 0.66,
         .eps = 1e-6,
         .weight_decay = 0.05,
         .amsgrad = true},
        {.lr = 0.1, .weight_decay = 0.05, .amsgrad = true, .maximize = true},
    };
    struct wt_world world = wt_world_open_two_axes();
    weft_mesh *flat = wt_own(weft_mesh_flatten(world.mesh, "flat"));

    for (int i = 0; i < 8; i++) {
        struct wt_mlp mlp = {.sizes = {8, 10, 16, 10}, .dtype = WEFT_F64}, single;
        weft_optim *spread, *alone;

        wt_row("settings %d, %s sizes", i / 2, i % 2 ? "uneven" : "even");
        if (i % 2)
            mlp = (struct wt_mlp){.sizes = {5, 7, 6, 3}, .dtype = WEFT_F64, .varied_input = true};
        single = mlp;
        wt_mlp_open(&mlp, world.mesh);
        wt_mlp_open(&single, world.mesh);
        WT_EQ(weft_distribute_module(weft_module_child(mlp.module, "net1"), flat, shard,
                                     spread_rows, whole, NULL),
              WEFT_OK);
        WT_EQ(weft_distribute_module(weft_module_child(mlp.module, "net2"), world.mesh, shard,
                                     spread_rows, whole, NULL),
              WEFT_OK);
        spread = wt_own(weft_adamw(mlp.module, configs[i / 2]));
        alone = wt_own(weft_adamw(single.module, configs[i / 2]));
        for (int step = 0; step < 3; step++) {
            WT_EQ(wt_mlp_backward(&mlp), WEFT_OK);
            WT_EQ(wt_mlp_backward(&single), WEFT_OK);
            WT_EQ(weft_step(spread), WEFT_OK);
            WT_EQ(weft_step(alone), WEFT_OK);
            WT_ALL(wt_near_tensors(wt_mlp_weights(&mlp), wt_mlp_weights(&single), WT_WITHIN(1e-9)));
        }
    }
}

WT_TEST(norm__is_of_parameters_on_all_meshes)
{
    struct wt_world world = wt_world_open_two_axes();
    weft_mesh *flat = wt_own(weft_mesh_flatten(world.mesh, "flat"));
    struct wt_bag all;
    double norm, squares = 0;

    fill_kinds(&all, -1, world.mesh, flat);
    WT_EQ(wt_bag_backward(&all), WEFT_OK);
    for (int k = 0; k < all.n; k++)
        squares += weft_item(
            weft_full_tensor(weft_sum_all(weft_square(weft_cast(all.items[k].factor, WEFT_F64)))));
    WT_EQ(weft_clip_grad_norm(all.module, 0, &norm), WEFT_OK);
    wt_note("%g, not %g", norm, sqrt(squares));
    WT_ALL(fabs(norm - sqrt(squares)) < 1e-12 * norm);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "meshes"); }
