/*
 * test_same_choice.c: all ranks choose alike. Traps 14, 15, 16 and 27 and weaknesses 10.4-9 and 15
 * of other libraries: caches that differ between ranks, ranks outside a mesh, what a rank alone
 * does.
 */
/* mpi: 4 */
#include "support/worlds.h"

/* Two axes, the first of two ranks where the number is even. A mesh whose axes were merged stays so
 * while the process lives, so each case has a name of its own for the first. */
static struct wt_world open_two_axes(const char *name)
{
    int first = wt_ranks() % 2 ? 1 : 2;

    return wt_world_open_mesh("%s=%d,tp=%d", name, first, wt_ranks() / first);
}

static weft_tensor *partial_twice(weft_mesh *mesh)
{
    weft_placement sums[] = {weft_partial(WEFT_SUM), weft_partial(WEFT_SUM)};

    return weft_from_local(wt_constant(3, 5, 1), mesh, sums, NULL);
}

/* One all-reduce over the merged axes, or one for each axis that has ranks. */
static void reduce_twice(struct wt_world *w, weft_mesh *mesh, bool merged)
{
    int each = (weft_mesh_axis_size(mesh, 0) > 1) + (weft_mesh_axis_size(mesh, 1) > 1);
    weft_tensor *t;

    wt_moved(w, WEFT_COLL_COUNT);
    t = wt_to(partial_twice(mesh), "R,R");
    WT_EQ(wt_moved(w, WEFT_COLL_COUNT), merged && each ? 1 : each);
    WT_ALL(wt_local_is_all(t, wt_ranks()));
}

/* ---- trap 15: plans are cached, and caches differ between ranks ---- */

/* A plan that some ranks still have from before two axes were merged would wait for all-reduces
 * that the others never begin. */
WT_TEST_IN(merging__is_seen_by_plans_that_are_cached, w, open_two_axes("seen"))
{
    weft_mesh *merged;

    reduce_twice(w, w->mesh, false);
    if (wt_rank() == 0) weft_plan_cache_clear();
    merged = weft_mesh_flatten(w->mesh, "all");
    reduce_twice(w, w->mesh, true);
    weft_mesh_release(merged);
}

/* A mesh that was let go lives on in some ranks' plans. The next one like it is the same for all.
 */
WT_TEST(merging__is_remembered_by_all_ranks_or_none)
{
    for (int round = 0; round < 3; round++) {
        struct wt_world w = open_two_axes("kept");

        if (round == 1) weft_mesh_release(weft_mesh_flatten(w.mesh, "all"));
        reduce_twice(&w, w.mesh, round >= 1);
        wt_world_close(&w);
        if (wt_rank() == 0) weft_plan_cache_clear();
    }
}

/* The same for a slice: which mesh it was cut from decides what is merged. */
WT_TEST_IN(merging__reaches_slices_of_the_mesh_they_were_cut_from, w, open_two_axes("whole"))
{
    int first = wt_ranks() % 2 ? 1 : 2, second = wt_ranks() / first;
    weft_mesh *whole, *part;

    for (int round = 0; round < 3; round++) {
        whole = weft_mesh_new(WEFT_CPU, "one=1,x=%d,y=%d", first, second);
        part = round == 2 ? weft_mesh_new(WEFT_CPU, "x=%d,y=%d", first, second)
                          : weft_mesh_sub(whole, "x,y");
        if (round == 0) weft_mesh_release(weft_mesh_flatten(part, "xy"));
        reduce_twice(w, part, round < 2);
        WT_RELEASE(weft_mesh_release, part, whole);
        if (wt_rank() == 0) weft_plan_cache_clear();
    }
}

/* Plans follow from the cost of links; those made before a link was set do not outlive it. */
WT_TEST_IN(links__are_seen_by_plans_that_are_cached, w, open_two_axes("dp"))
{
    weft_plan_cache_stats before;

    reduce_twice(w, w->mesh, false);
    if (wt_rank() == 0) weft_plan_cache_clear();
    WT_ALL(weft_link_set("dp", 1, 100) == WEFT_OK);
    before = weft_plan_cache_statistics();
    reduce_twice(w, w->mesh, false);
    WT_EQ(weft_plan_cache_statistics().plan_hits - before.plan_hits, 0);
    weft_plan_cache_clear();
}

/* ---- trap 14: what is in a plan's key ---- */

static int64_t misses(void) { return weft_plan_cache_statistics().plan_misses; }

/* Numbers are in no key: what changes with every step makes no plans. */
WT_TEST_IN_WORLD(cache__does_not_grow_with_numbers, w)
{
    weft_tensor *x =
        weft_set_requires_grad(wt_spread(w, wt_whole(WEFT_F32, 0, 5, 6), "S(0)"), true);
    int64_t before = 0;

    for (int i = 0; i < 20; i++) {
        weft_tensor *y = weft_mul_scalar(weft_add_scalar(x, i), 1 + i);

        y = weft_add(weft_pow_scalar(y, 1 + 0.5 * i), weft_rdiv_scalar(y, i));
        y = weft_dropout(weft_layer_norm(y, NULL, NULL, 1e-5 * (i + 1)), 0.01 * i, NULL);
        y = weft_select(weft_transpose(y, 0, 1), 0, i % 6);
        WT_ALL(weft_backward(weft_sum_all(y)) == WEFT_OK);
        weft_zero_grad(x);
        if (i == 0) before = misses();
    }
    WT_EQ(misses(), before);
}

static weft_tensor *no_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    (void)m;
    (void)n;
    return inputs[0];
}

/* The same for optimizers, whose step sizes change with every step (PyTorch issue 109306). */
WT_TEST_TIMES_IN_WORLD(cache__does_not_grow_with_steps, w, adam, 2)
{
    static const weft_module_class kind = {.type = "parameters", .forward = no_forward};
    weft_tensor *p = wt_spread(w, wt_whole(WEFT_F32, 0, 5, 6), "S(0)");
    weft_module *m = weft_module_new(&kind, NULL);
    weft_optim *optim;
    int64_t before = 0;

    weft_set_requires_grad(p, true);
    WT_EQ(weft_module_add_parameter(m, "weight", p), WEFT_OK);
    optim = adam ? weft_adamw(m, (weft_adamw_config){.lr = 0.1, .weight_decay = 0.1})
                 : weft_sgd(m, (weft_sgd_config){.lr = 0.1, .momentum = 0.9});
    for (int step = 0; step < 5; step++) {
        weft_optim_set_lr(optim, 0.1 / (step + 1));
        WT_EQ(weft_backward(weft_sum_all(weft_square(p))), WEFT_OK);
        WT_EQ(weft_clip_grad_norm(m, 1.0 + step, NULL), WEFT_OK);
        WT_EQ(weft_step(optim), WEFT_OK);
        if (step == 0) before = misses();
    }
    WT_EQ(misses(), before);
    weft_optim_release(optim);
    weft_module_release(m);
}

/* Whatever changes the result's shape or layout is: the same tensor, asked differently. */
WT_TEST_IN_WORLD(cache__knows_every_attribute, w)
{
    weft_tensor *plain = wt_whole(WEFT_F64, 0, 6, 6), *x = wt_spread(w, plain, "S(0)");
    static const bool truth[] = {false, true};

    for (int round = 0; round < 2; round++) {
        for (int d = 0; d < 2; d++) {
            WT_ALL(wt_near_tensors(weft_softmax(x, d), weft_softmax(plain, d), WT_WITHIN(1e-14)));
            WT_ALL(wt_near_tensors(weft_slice(x, d, 1, 4), weft_slice(plain, d, 1, 4), WT_EXACT));
            WT_ALL(wt_near_tensors(weft_slice(x, d, 1, 5), weft_slice(plain, d, 1, 5), WT_EXACT));
            for (int keep = 0; keep < 2; keep++)
                WT_ALL(wt_near_tensors(weft_sum(x, &d, 1, truth[keep]),
                                       weft_sum(plain, &d, 1, truth[keep]), WT_WITHIN(1e-14)));
        }
        for (int t = 0; t < 4; t++)
            WT_ALL(wt_near_tensors(weft_matmul_t(x, x, t & 1, t >> 1),
                                   weft_matmul_t(plain, plain, t & 1, t >> 1), WT_WITHIN(1e-13)));
        for (int n = 1; n < 4; n++)
            WT_ALL(wt_near_tensors(weft_cat((weft_tensor *[]){x, x, x}, n, 1),
                                   weft_cat((weft_tensor *[]){plain, plain, plain}, n, 1),
                                   WT_EXACT));
        WT_EQ(weft_tensor_dtype(weft_cast(x, WEFT_F32)), WEFT_F32);
        WT_EQ(weft_tensor_dtype(weft_cast(x, WEFT_I64)), WEFT_I64);
    }
}

/* Lengths that grow with every step must not fill the memory; evicted plans come back right. */
WT_TEST_IN_WORLD(cache__is_bounded, w)
{
    weft_tensor *plain = wt_whole(WEFT_F32, 0, 70, 70), *x = wt_spread(w, plain, "R");
    weft_plan_cache_stats stats;

    for (int64_t rows = 1; rows <= 70; rows++)
        for (int64_t columns = 1; columns <= 70; columns++) {
            weft_scope *scope = weft_scope_open();

            WT_EQ(weft_numel(weft_slice(weft_slice(x, 0, 0, rows), 1, 0, columns)), rows * columns);
            weft_scope_close(scope);
        }
    stats = weft_plan_cache_statistics();
    WT_ALL(stats.plan_entries <= 4096 && stats.plan_evictions > 0);
    WT_ALL(stats.layout_entries < 4 * 4096);
    WT_ALL(wt_near_tensors(weft_slice(weft_slice(x, 0, 0, 2), 1, 0, 3),
                           weft_slice(weft_slice(plain, 0, 0, 2), 1, 0, 3), WT_EXACT));
    weft_plan_cache_clear();
}

/* ---- trap 17, weakness 10.4-9: checks ask the ranks of the mesh, not the world ---- */

WT_TEST(checks__ask_the_mesh_only)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", (wt_ranks() + 1) / 2);
    weft_placement whole = weft_replicate(), rows = weft_shard(0);
    bool fine = true;

    if (weft_mesh_is_member(mesh)) { /* the others do not even call */
        weft_tensor *mine = wt_constant(2, 3, 1), *t;

        t = weft_from_local_with(mine, mesh, &whole, (weft_from_local_options){.run_check = true});
        fine = t != NULL;
        weft_implicit_replication_open(WEFT_IMPLICIT_REPLICATION_CHECKED);
        t = weft_from_local_with(mine, mesh, &rows, (weft_from_local_options){.run_check = true});
        fine = fine && t && weft_add(t, weft_full(WEFT_F32, (int64_t[]){3}, 1, 1));
        weft_implicit_replication_close();
        if (weft_mesh_coordinate(mesh, 0) == 1) mine = wt_constant(2, 3, 2);
        if (weft_mesh_size(mesh) > 1) {
            t = weft_from_local_with(mine, mesh, &whole,
                                     (weft_from_local_options){.run_check = true});
            fine = fine && !t && wt_failed_with(WEFT_ERR_ARG, "from_local");
        }
    }
    WT_ALL(fine);
    weft_mesh_release(mesh);
}

/* ---- trap 27: ranks outside ---- */

/* A plain number has an element on every rank, also where the mesh has none for it. */
WT_TEST(outside__numbers_are_zero)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=1");
    weft_placement whole = weft_replicate();
    weft_tensor *x, *loss;

    x = weft_distribute_tensor(wt_constant(2, 3, 1), mesh, &whole, -1);
    weft_set_requires_grad(x, true);
    loss = weft_mul_scalar(weft_to_local(weft_sum_all(x), NULL), 2);
    WT_ALL(weft_item(loss) == (weft_mesh_is_member(mesh) ? 12 : 0));
    WT_ALL(weft_backward(loss) == WEFT_OK);
    WT_ALL(wt_local_is_all(weft_grad(x), 2));
    weft_zero_grad(x);
    weft_mesh_release(mesh);
}

/* Ops whose results have no dims where an operand has one, as norms of a vector have: there is not
 * one row there either. */
WT_TEST(outside__vectors_have_no_rows)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=1");
    weft_placement whole = weft_replicate();
    weft_tensor *x = weft_full(WEFT_F64, (int64_t[]){5}, 1, 3), *y;
    int64_t local;

    x = weft_set_requires_grad(weft_distribute_tensor(x, mesh, &whole, -1), true);
    y = weft_layer_norm(weft_rms_norm(x, NULL, 1e-5), NULL, NULL, 1e-5);
    y = weft_add(weft_softmax(y, 0), weft_amax(y, NULL, 0, false));
    WT_ALL(weft_backward(weft_mean_all(y)) == WEFT_OK);
    local = weft_mesh_is_member(mesh) ? 5 : 0;
    WT_EQ(weft_local_numel(y), local);
    WT_EQ(weft_local_numel(weft_grad(x)), local);
    weft_zero_grad(x);
    weft_mesh_release(mesh);
}

/* ---- trap 16: random numbers ---- */

/* Two axes that shard one dim, with ranks that get nothing: no number twice, the same numbers as on
 * one device, nothing sent, and generators in step. */
WT_TEST_TIMES_IN(random__numbers_of_nested_shards_are_those_of_the_whole, w, i, 5,
                 open_two_axes("random"))
{
    int64_t n = 1 + 5 * i;
    weft_spec spec = {.dtype = WEFT_F64, .ndim = 1, .shape = {n}}, spread = spec;
    weft_tensor *plain, *t;
    uint64_t draws;

    spread.mesh = w->mesh;
    spread.placements[0] = spread.placements[1] = weft_shard(0);
    weft_manual_seed(7);
    plain = weft_make_randn(spec, NULL);
    draws = weft_generator_draws(weft_default_generator());
    weft_manual_seed(7);
    t = weft_make_randn(spread, NULL);
    WT_EQ(weft_generator_draws(weft_default_generator()), draws);
    WT_STILL(w);
    WT_ALL(wt_near_tensors(t, plain, WT_EXACT));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "same_choice"); }
