/*
 * test_same_choice.c: all ranks choose alike. Traps 14, 15, 16 and 27 and weaknesses 10.4-9 and 15
 * of other libraries: caches that differ between ranks, ranks outside a mesh, what a rank alone
 * does.
 */
#include "ranks/worlds.h"

/* Two axes, the first of two ranks where the number is even. */
static struct wt_world open_two_axes(void)
{
    int first = wt_ranks() % 2 ? 1 : 2;

    return wt_world_open_mesh("dp=%d,tp=%d", first, wt_ranks() / first);
}

static weft_tensor *pending_twice(weft_mesh *mesh)
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
    t = wt_to(pending_twice(mesh), "R,R");
    WT_EQ(wt_moved(w, WEFT_COLL_COUNT), merged && each ? 1 : each);
    WT_ALL(wt_local_is_all(t, wt_ranks()));
}

/* ---- trap 15: plans are cached, and caches differ between ranks ---- */

/* A plan that some ranks still have from before two axes were merged would wait for all-reduces
 * that the others never begin. */
WT_TEST(merging__is_seen_by_plans_that_are_cached)
{
    struct wt_world w = open_two_axes();
    weft_mesh *merged;

    reduce_twice(&w, w.mesh, false);
    if (wt_rank() == 0) weft_cache_clear();
    merged = weft_mesh_flatten(w.mesh, "all");
    reduce_twice(&w, w.mesh, true);
    weft_mesh_release(merged);
    wt_world_close(&w);
}

/* A mesh that was let go lives on in some ranks' plans. The next one like it is the same for all.
 */
WT_TEST(merging__is_remembered_by_all_ranks_or_none)
{
    for (int round = 0; round < 3; round++) {
        struct wt_world w = open_two_axes();

        if (round == 1) weft_mesh_release(weft_mesh_flatten(w.mesh, "all"));
        reduce_twice(&w, w.mesh, round >= 1);
        wt_world_close(&w);
        if (wt_rank() == 0) weft_cache_clear();
    }
}

/* The same for a slice: which mesh it was cut from decides what is merged. */
WT_TEST(merging__reaches_slices_of_the_mesh_they_were_cut_from)
{
    int first = wt_ranks() % 2 ? 1 : 2, second = wt_ranks() / first;
    weft_mesh *whole, *part;
    struct wt_world w = open_two_axes();

    for (int round = 0; round < 3; round++) {
        whole = weft_mesh_new(WEFT_CPU, "one=1,x=%d,y=%d", first, second);
        part = round == 2 ? weft_mesh_new(WEFT_CPU, "x=%d,y=%d", first, second)
                          : weft_mesh_sub(whole, "x,y");
        if (round == 0) weft_mesh_release(weft_mesh_flatten(part, "xy"));
        reduce_twice(&w, part, round < 2);
        weft_mesh_release(part);
        weft_mesh_release(whole);
        if (wt_rank() == 0) weft_cache_clear();
    }
    wt_world_close(&w);
}

/* Plans follow from the cost of links; those made before a link was set do not outlive it. */
WT_TEST(links__are_seen_by_plans_that_are_cached)
{
    struct wt_world w = open_two_axes();
    weft_cache_stats before;

    reduce_twice(&w, w.mesh, false);
    if (wt_rank() == 0) weft_cache_clear();
    WT_ALL(weft_link_set("dp", 1, 100) == WEFT_OK);
    before = weft_cache_statistics();
    reduce_twice(&w, w.mesh, false);
    WT_EQ(weft_cache_statistics().plan_hits - before.plan_hits, 0);
    weft_cache_clear();
    wt_world_close(&w);
}

int main(int argc, char **argv)
{
    static const struct wt_case cases[] = {
        WT_CASE(merging__is_seen_by_plans_that_are_cached),
        WT_CASE(merging__is_remembered_by_all_ranks_or_none),
        WT_CASE(merging__reaches_slices_of_the_mesh_they_were_cut_from),
        WT_CASE(links__are_seen_by_plans_that_are_cached),
        WT_END,
    };

    return wt_main(argc, argv, "same_choice", cases);
}
