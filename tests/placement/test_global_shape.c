/* test_global_shape.c: the shape of a whole from parts as they are, and from parts on paper. */
/* ranks: 2 3 4 6 8 */
/* mpi: 4 8 */
#include <string.h>

#include "placement/element_map.h"
#include "support/worlds.h"

static bool is(const int64_t *shape, int64_t rows, int64_t columns)
{
    return shape[0] == rows && shape[1] == columns;
}

/* PLC-20: at 8 ranks 28 rows or columns */
WT_TEST_IN_WORLD(global_shape__adds_up_parts_of_any_sizes, w)
{
    weft_placement rows = weft_shard(0), columns = weft_shard(-1), whole = weft_replicate();
    int64_t n = (int64_t)wt_ranks() * (wt_ranks() - 1) / 2, shape[2];

    WT_ALL(weft_global_shape(shape, w->mesh, &columns, 1, (int64_t[]){5, wt_rank()}, 2) == WEFT_OK);
    WT_ALL(is(shape, 5, n));
    WT_ALL(weft_global_shape(shape, w->mesh, &rows, 1, (int64_t[]){wt_rank(), 5}, 2) == WEFT_OK);
    WT_ALL(is(shape, n, 5));
    WT_ALL(weft_global_shape(shape, w->mesh, &whole, 1, (int64_t[]){5, 5}, 2) == WEFT_OK);
    WT_ALL(is(shape, 5, 5));
}

/* PLC-22: several axes have an answer; a list of another length has none */
WT_TEST_IN(global_shape__knows_several_axes, w,
           wt_world_open_mesh(wt_ranks() % 2 ? "a=1,b=%d" : "a=2,b=%d",
                              wt_ranks() % 2 ? wt_ranks() : wt_ranks() / 2))
{
    int a = weft_mesh_coordinate(w->mesh, 0), b = weft_mesh_coordinate(w->mesh, 1);
    int64_t ways = weft_mesh_axis_size(w->mesh, 1), sum = ways * (ways + 1) / 2, shape[2];
    weft_placement both[2] = {weft_shard(0), weft_shard(1)},
                   nested[2] = {weft_shard(0), weft_shard(0)};

    WT_ALL(weft_global_shape(shape, w->mesh, both, 2, (int64_t[]){4 - a, 1 + b}, 2) == WEFT_OK);
    WT_ALL(is(shape, wt_ranks() % 2 ? 4 : 7, sum));
    WT_ALL(weft_global_shape(shape, w->mesh, nested, 2, (int64_t[]){1 + b + 10 * a, 3}, 2) ==
           WEFT_OK);
    WT_ALL(is(shape, wt_ranks() % 2 ? sum : 2 * sum + 10 * ways, 3));
    WT_ALL(weft_global_shape(shape, w->mesh, both, 1, (int64_t[]){4, 4}, 2) != WEFT_OK);
    WT_FAILED(WEFT_ERR_LAYOUT, "expected one placement per mesh axis");
}

/* Whatever the cuts, parts by a layout add up to its shape. */
WT_TEST_TIMES_IN_WORLD(global_shape__of_parts_by_any_layout_is_its_shape, w, round, 40)
{
    uint64_t state = 8;
    struct wt_layout_case c;
    int64_t part[3], got[3];
    weft_layout l;

    do wt_random_layout(&c, &state);
    while (c.n_axes > 1); /* its mesh is the world's */
    WT_ALL(weft_layout_make(&l, w->mesh, c.p, 1, c.global, c.ndim) == WEFT_OK);
    weft_layout_shard(&l, NULL, part, NULL, NULL);
    WT_ALL(weft_global_shape(got, w->mesh, c.p, 1, part, c.ndim) == WEFT_OK);
    WT_ALL(memcmp(got, c.global, (size_t)c.ndim * sizeof *got) == 0);
}

WT_TEST_IN_WORLD(global_shape__refuses_parts_that_do_not_fit_on_all_ranks, w)
{
    weft_placement rows = weft_shard(0);
    int64_t shape[2] = {-7, -7}, last = wt_rank() == wt_ranks() - 1;

    WT_ALL(weft_global_shape(shape, w->mesh, &rows, 1, (int64_t[]){3, 4 + last}, 2) != WEFT_OK);
    WT_FAILED(WEFT_ERR_SHAPE, "hold the same shard of dim 1");
    WT_ALL(weft_global_shape(shape, w->mesh, &rows, 1, (int64_t[]){3, 4}, last ? 1 : 2) != WEFT_OK);
    WT_FAILED(WEFT_ERR_SHAPE, "dims");
    WT_ALL(weft_global_shape(shape, w->mesh, &rows, 1, (int64_t[]){3, -last}, 2) != WEFT_OK);
    WT_FAILED(WEFT_ERR_SHAPE, "elements");
    WT_ALL(is(shape, -7, -7));
}

/* A rank outside gets an error and the others an answer. */
WT_TEST_IN(global_shape__is_for_ranks_of_the_mesh, w, wt_world_open_mesh("tp=%d", wt_ranks() - 1))
{
    weft_placement rows = weft_shard(0);
    int64_t shape[1] = {0};
    bool member = weft_mesh_is_member(w->mesh);

    WT_ALL((weft_global_shape(shape, w->mesh, &rows, 1, (int64_t[]){2}, 1) == WEFT_OK) == member);
    WT_ALL(member ? shape[0] == 2 * (wt_ranks() - 1) : wt_failed_with(WEFT_ERR_COMM, "not in the"));
}

static bool spreads_evenly(weft_mesh *mesh, const weft_placement *p, weft_tensor *local,
                           const int64_t *want)
{
    weft_scope *scope = weft_scope_open();
    static const weft_placement replicated[WEFT_MAX_AXES];
    weft_tensor *t = weft_from_local(local, mesh, p, NULL),
                *whole = weft_redistribute(t, replicated);
    int64_t back[3], stride[3];
    bool good = whole != NULL;
    weft_layout l;

    for (int d = 0; good && d < 3; d++)
        good = weft_local_size(whole, d) == want[d] && weft_size(t, d) == want[d];
    good = good && weft_layout_of(&l, t) == WEFT_OK;
    if (good) weft_layout_shard(&l, NULL, back, stride, NULL);
    for (int d = 0; good && d < 3; d++) good = back[d] == 4;
    weft_scope_close(scope);
    return good && stride[0] == 16 && stride[1] == 4 && stride[2] == 1;
}

/* PLC-24 */
WT_TEST_IN_WORLD(global_shape__of_even_parts_is_that_of_the_gathered_tensor, w)
{
    weft_mesh *mesh = weft_mesh_new_fake(wt_rank(), "a=8,b=8,c=4");
    weft_tensor *local = weft_to_device(weft_empty(WEFT_F32, (int64_t[]){4, 4, 4}, 3), WEFT_META);

    for (int pick = 0; pick < 64; pick++) {
        weft_placement p[3];
        int64_t want[3] = {4, 4, 4};
        weft_layout l;

        for (int a = 0, left = pick; a < 3; a++, left /= 4) {
            p[a] = left % 4 == 3 ? weft_replicate() : weft_shard(left % 4);
            if (left % 4 < 3) want[left % 4] *= weft_mesh_axis_size(mesh, a);
        }
        WT_ALL(weft_layout_of_even(&l, mesh, p, 3, (int64_t[]){4, 4, 4}, NULL, 3) == WEFT_OK);
        WT_ALL(memcmp(l.shape, want, sizeof want) == 0);
        WT_ALL(spreads_evenly(mesh, p, local, want));
    }
    weft_mesh_release(mesh);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "global_shape"); }
