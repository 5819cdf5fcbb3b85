/* test_axes.c: slices, merged and split axes, meshes put side by side, and where they come from. */
/* ranks: 1 2 3 4 8 */
/* mpi: 8 */
#include <string.h>

#include "comm/comm.h"
#include "mesh/mesh.h"
#include "support/worlds.h"

enum { MOST = 8 };

static bool holds(const weft_mesh *mesh, int count, const int *want)
{
    int ranks[MOST];

    return weft_mesh_ranks(mesh, ranks, MOST) == count &&
           memcmp(ranks, want, (size_t)count * sizeof *ranks) == 0;
}

/* The slice holds these `count` ranks, `step` apart from `first`. */
static bool slice_is(weft_mesh *mesh, const char *name, int first, int step, int count)
{
    weft_mesh *slice = weft_mesh_sub(mesh, name);
    int want[MOST];
    bool ok;

    for (int i = 0; i < count; i++) want[i] = first + i * step;
    ok = slice && weft_mesh_ndim(slice) == 1 && holds(slice, count, want);
    weft_mesh_release(slice);
    return ok;
}

/* The largest three-axis mesh of this world. */
static weft_mesh *three_axes(int *sizes)
{
    int n = wt_ranks();

    sizes[0] = n % 2 ? 1 : 2;
    sizes[1] = n % 4 ? 1 : 2;
    sizes[2] = n / sizes[0] / sizes[1];
    return weft_mesh_new(WEFT_CPU, "Rep=%d,Shard=%d,TP=%d", sizes[0], sizes[1], sizes[2]);
}

/* MESH-12 */
WT_TEST(axes__without_names_cannot_be_sliced)
{
    weft_mesh *mesh = weft_mesh_from_ranks(WEFT_CPU, (int[]){1, wt_ranks()}, 2, NULL, NULL);
    char text[64];

    WT_FAILS(weft_mesh_sub(mesh, "dp"), WEFT_ERR_ARG, "without axis names");
    weft_mesh_format(mesh, text, sizeof text);
    WT_ALL(strncmp(text, "(1, ", 4) == 0);
    WT_ALL(weft_mesh_axis(mesh, "") == -1);
    weft_mesh_release(mesh);
}

/* MESH-13 */
WT_TEST(axes__that_are_not_there_are_refused)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "DP=1,TP=%d", wt_ranks()),
              *line = weft_mesh_new(WEFT_CPU, "dp=%d", wt_ranks());

    WT_ALL(!weft_mesh_sub(mesh, "PP"));
    WT_FAILED(WEFT_ERR_NOT_FOUND, "invalid axis name: mesh (DP:1, TP:");
    WT_FAILS(weft_mesh_sub(line, "dim0"), WEFT_ERR_NOT_FOUND, "invalid axis name");
    WT_FAILS(weft_mesh_sub(mesh, "DP,PP"), WEFT_ERR_NOT_FOUND, "invalid axis name");
    WT_FAILS(weft_mesh_sub(mesh, "DP,DP"), WEFT_ERR_ARG, "must be unique");
    WT_FAILS(weft_mesh_sub(mesh, ""), WEFT_ERR_ARG, "a name is missing");
    WT_RELEASE(weft_mesh_release, mesh, line);
}

/* MESH-14, MESH-15, MESH-22 */
WT_TEST(axes__slices_are_this_ranks_lines)
{
    int rows = wt_ranks() % 2 ? 1 : 2, columns = wt_ranks() / rows, rank = wt_rank();
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "DP=%d,TP=%d", rows, columns), *line, *same;

    WT_ALL(slice_is(mesh, "TP", rank / columns * columns, 1, columns));
    WT_ALL(slice_is(mesh, "DP", rank % columns, columns, rows));
    WT_ALL(weft_mesh_axis(mesh, "DP") == 0 && weft_mesh_axis(mesh, "TP") == 1);
    line = weft_mesh_new(WEFT_CPU, "dp=%d", wt_ranks());
    same = weft_mesh_sub(line, "dp");
    WT_ALL(same == line);
    WT_RELEASE(weft_mesh_release, same, line, mesh);
}

/* MESH-16 */
WT_TEST(axes__slices_may_have_several)
{
    static const char *const names[] = {"Rep", "Shard"};
    int sizes[3], rank = wt_rank(), want[MOST];
    weft_mesh *mesh = three_axes(sizes), *slice, *again;
    int tp = sizes[2], pairs = sizes[1] * tp;

    WT_ALL(slice_is(mesh, "TP", rank / tp * tp, 1, tp));
    WT_ALL(slice_is(mesh, "Shard", rank % tp + rank / pairs * pairs, tp, sizes[1]));
    WT_ALL(slice_is(mesh, "Rep", rank % pairs, pairs, sizes[0]));
    if (wt_ranks() == 8) {
        WT_ALL(slice_is(mesh, "TP", rank / 2 * 2, 1, 2));
        WT_ALL(slice_is(mesh, "Shard", rank % 2 + rank / 4 * 4, 2, 2));
        WT_ALL(slice_is(mesh, "Rep", rank % 4, 4, 2));
    }
    slice = weft_mesh_sub(mesh, "Rep,Shard");
    again = weft_mesh_slice(mesh, names, 2);
    for (int i = 0; i < sizes[0] * sizes[1]; i++) want[i] = i * tp + rank % tp;
    WT_ALL(slice == again && weft_mesh_ndim(slice) == 2);
    WT_ALL(holds(slice, sizes[0] * sizes[1], want));
    WT_RELEASE(weft_mesh_release, slice, again, mesh);
}

/* PyTorch refuses names out of order, though its documentation shows them. */
WT_TEST(axes__of_a_slice_stand_in_the_order_asked_for)
{
    int sizes[3], ranks[MOST], tp;
    weft_mesh *mesh = three_axes(sizes), *turned = weft_mesh_sub(mesh, "TP,Rep"), *back;

    tp = sizes[2];
    weft_mesh_ranks(turned, ranks, MOST);
    WT_EQ(weft_mesh_size(turned), tp * sizes[0]);
    WT_ALL(weft_mesh_coordinate(turned, 0) == weft_mesh_coordinate(mesh, 2));
    WT_ALL(weft_mesh_coordinate(turned, 1) == weft_mesh_coordinate(mesh, 0));
    WT_ALL(sizes[0] == 1 || ranks[1] - ranks[0] == sizes[1] * tp);
    WT_ALL(wf_mesh_axis_comm(turned, 0) == wf_mesh_axis_comm(mesh, 2));
    back = weft_mesh_sub(turned, "Rep,TP");
    WT_ALL(wf_mesh_axis_comm(back, 0) == wf_mesh_axis_comm(mesh, 0));
    WT_ALL(weft_mesh_root(back) == mesh);
    WT_RELEASE(weft_mesh_release, back, turned, mesh);
}

/* MESH-21 */
WT_TEST(axes__know_their_root)
{
    static const char *const cuts[] = {"Rep", "Shard", "TP", "Rep,Shard", "Rep,TP", "Shard,TP"};
    int sizes[3], n = wt_ranks();
    weft_mesh *mesh = three_axes(sizes), *slice, *deeper, *plain;

    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        slice = weft_mesh_sub(mesh, cuts[i]);
        WT_ALL(weft_mesh_root(slice) == mesh);
        weft_mesh_release(slice);
    }
    slice = weft_mesh_sub(mesh, "Shard,TP");
    deeper = weft_mesh_sub(slice, "TP");
    WT_ALL(weft_mesh_root(deeper) == mesh && weft_mesh_root(mesh) == mesh);
    WT_EQ(weft_mesh_root_axis(deeper, 0), 2);
    WT_EQ(weft_mesh_root_axis(slice, 0), 1);
    plain = weft_mesh_from_ranks(WEFT_CPU, &n, 1, NULL, NULL);
    WT_ALL(weft_mesh_root(plain) == plain && weft_mesh_root_axis(plain, 0) == -1);
    WT_RELEASE(weft_mesh_release, plain, slice);
    weft_mesh_release(mesh); /* the slice keeps its root */
    WT_ALL(weft_mesh_ndim(weft_mesh_root(deeper)) == 3);
    weft_mesh_release(deeper);
}

/* The merged axis is found again by name and by redistribution; it costs one communicator. */
WT_TEST(axes__can_be_merged)
{
    int sizes[3], want[MOST], rank = wt_rank(), tp;
    weft_mesh *mesh = three_axes(sizes), *part = weft_mesh_sub(mesh, "Rep,Shard"), *flat, *again;

    tp = sizes[2];
    WT_ALL(!wf_mesh_is_flattened(mesh, 3));
    flat = weft_mesh_flatten(part, NULL);
    for (int i = 0; i < sizes[0] * sizes[1]; i++) want[i] = i * tp + rank % tp;
    WT_ALL(weft_mesh_ndim(flat) == 1 && holds(flat, sizes[0] * sizes[1], want));
    WT_ALL(strcmp(weft_mesh_axis_name(flat, 0), "Rep_Shard") == 0);
    WT_ALL(weft_mesh_root(flat) == mesh && weft_mesh_root_axis(flat, 0) == -1);
    again = weft_mesh_sub(mesh, "Rep_Shard");
    WT_ALL(again == flat);
    weft_mesh_release(again);
    weft_mesh_release(flat); /* the root remembers the name, not the mesh */
    again = weft_mesh_sub(part, "Rep_Shard");
    WT_ALL(again && holds(again, sizes[0] * sizes[1], want));
    WT_ALL(wf_mesh_is_flattened(mesh, 3) && wf_mesh_is_flattened(part, 3));
    WT_ALL(wf_mesh_axes_comm(mesh, 3) == wf_mesh_axis_comm(again, 0));
    WT_ALL(wf_mesh_axes_comm(part, 3) == wf_mesh_axis_comm(again, 0));
    WT_ALL(!wf_mesh_is_flattened(mesh, 5) && !wf_mesh_is_flattened(mesh, 7));
    weft_mesh_release(again);
    again = weft_mesh_sub(mesh, "TP,Rep_Shard");
    WT_ALL(weft_mesh_ndim(again) == 2 && weft_mesh_size(again) == wt_ranks());
    WT_RELEASE(weft_mesh_release, again, part, mesh);
}

WT_TEST(axes__merged_keep_their_names_apart)
{
    int sizes[3];
    weft_mesh *mesh = three_axes(sizes), *part = weft_mesh_sub(mesh, "Rep,Shard"),
              *turned = weft_mesh_sub(mesh, "Shard,Rep"), *line = weft_mesh_sub(mesh, "TP"), *flat;

    flat = weft_mesh_flatten(part, "data");
    WT_ALL(flat != NULL);
    WT_FAILS(weft_mesh_flatten(turned, "data"), WEFT_ERR_ARG, "is taken for other axes");
    WT_FAILS(weft_mesh_flatten(part, "TP"), WEFT_ERR_ARG, "is taken for other axes");
    WT_FAILS(weft_mesh_sub(mesh, "data,Rep"), WEFT_ERR_ARG, "overlaps");
    WT_FAILS(weft_mesh_flatten(part, "a b"), WEFT_ERR_ARG, "unexpected 'b'");
    weft_mesh_release(flat);
    flat = weft_mesh_flatten(line, NULL);
    WT_ALL(flat == line);
    WT_RELEASE(weft_mesh_release, flat, turned, line, part, mesh);
}

/* A merged line is a communicator of its own even where nobody named it. */
WT_TEST(axes__merged_lines_reduce)
{
    int sizes[3], rank = wt_rank(), tp;
    weft_mesh *mesh = three_axes(sizes), *part = weft_mesh_sub(mesh, "Rep,Shard"), *flat;
    double want = 0;

    tp = sizes[2];
    for (int i = 0; i < sizes[0] * sizes[1]; i++) want += i * tp + rank % tp;
    WT_ALL(wf_comm_size(wf_mesh_axes_comm(mesh, 3)) == sizes[0] * sizes[1]);
    flat = weft_mesh_flatten(part, "data");
    WT_ALL(weft_item(weft_mesh_all_reduce(weft_full(WEFT_F64, NULL, 0, rank), WEFT_SUM, flat, 0)) ==
           want);
    WT_RELEASE(weft_mesh_release, flat, part, mesh);
}

WT_TEST(axes__can_be_split)
{
    int n = wt_ranks(), half = n / 2;
    weft_mesh *line = weft_mesh_new(WEFT_CPU, "world=%d", n), *grid, *same, *deep;

    WT_ALL(!weft_mesh_unflatten(line, 0, (int[]){n, 2}, 2, "dp,tp"));
    WT_FAILED(WEFT_ERR_ARG, "cannot be split");
    WT_ALL(!weft_mesh_unflatten(line, 0, (int[]){n, 1}, 2, NULL));
    WT_FAILED(WEFT_ERR_ARG, "either all axes of a mesh have names or none");
    WT_ALL(!weft_mesh_unflatten(line, 1, (int[]){n, 1}, 2, "dp,tp"));
    WT_FAILED(WEFT_ERR_ARG, "has no axis 1");
    if (n % 2 == 0) {
        grid = weft_mesh_unflatten(line, 0, (int[]){2, half}, 2, "dp,tp");
        same = weft_mesh_new(WEFT_CPU, "dp=2,tp=%d", half);
        WT_ALL(grid == same);
        weft_mesh_release(same);
        WT_ALL(!weft_mesh_unflatten(grid, 1, (int[]){half, 1}, 2, "dp,cp"));
        WT_FAILED(WEFT_ERR_ARG, "unique");
        deep = weft_mesh_unflatten(grid, 0, (int[]){1, 2}, 2, "pp,dp");
        same = weft_mesh_new(WEFT_CPU, "pp=1,dp=2,tp=%d", half);
        WT_ALL(deep == same && wf_mesh_axis_comm(deep, 2) == wf_mesh_axis_comm(grid, 1));
        WT_RELEASE(weft_mesh_release, same, deep, grid);
    }
    weft_mesh_release(line);
}

WT_TEST(axes__of_one_root_go_side_by_side)
{
    int sizes[3], n = wt_ranks();
    weft_mesh *mesh = three_axes(sizes), *rep = weft_mesh_sub(mesh, "Rep"),
              *tp = weft_mesh_sub(mesh, "TP"), *both, *want = weft_mesh_sub(mesh, "TP,Rep"),
              *stranger = weft_mesh_new(WEFT_CPU, "odd=%d", n), *flat;

    both = weft_mesh_concatenate((weft_mesh *[]){tp, rep}, 2);
    WT_ALL(both == want);
    WT_FAILS(weft_mesh_concatenate((weft_mesh *[]){both, tp}, 2), WEFT_ERR_ARG, "overlaps");
    WT_ALL(!weft_mesh_concatenate((weft_mesh *[]){rep, stranger}, 2));
    WT_FAILED(WEFT_ERR_ARG, "not cut from the same mesh");
    flat = weft_mesh_flatten(both, "most");
    WT_FAILS(weft_mesh_concatenate((weft_mesh *[]){flat, rep}, 2), WEFT_ERR_ARG, "overlaps");
    WT_RELEASE(weft_mesh_release, both, rep);
    rep = weft_mesh_sub(mesh, "Shard");
    both = weft_mesh_concatenate((weft_mesh *[]){rep, flat}, 2);
    WT_ALL(both && weft_mesh_size(both) == n && weft_mesh_ndim(both) == 2);
    WT_RELEASE(weft_mesh_release, both, flat, rep, tp, want, stranger, mesh);
}

/* Two meshes may be cut to the same slice: it is one object and serves both. */
WT_TEST(axes__of_two_roots_may_be_one_mesh)
{
    int n = wt_ranks();
    weft_mesh *a = weft_mesh_new(WEFT_CPU, "dp=1,tp=%d", n),
              *b = weft_mesh_new(WEFT_CPU, "pp=1,tp=%d", n), *of_a = weft_mesh_sub(a, "tp"), *of_b,
              *dp = weft_mesh_sub(a, "dp"), *both;

    WT_ALL(weft_mesh_root(of_a) == a);
    of_b = weft_mesh_sub(b, "tp");
    WT_ALL(of_a == of_b && weft_mesh_root(of_b) == b);
    both = weft_mesh_concatenate((weft_mesh *[]){dp, of_a}, 2);
    WT_ALL(both == a);
    WT_RELEASE(weft_mesh_release, both, dp, of_a, of_b, a, b);
}

/* Without ranks: a slice of a slice of any size. */
WT_TEST(axes__of_meshes_without_ranks_are_cut_alike)
{
    weft_mesh *mesh = weft_mesh_new_fake(777, "dp=16,cp=4,tp=16"),
              *part = weft_mesh_sub(mesh, "dp,tp"), *flat = weft_mesh_flatten(part, "all"),
              *outside;
    int ranks[2];

    WT_ALL(weft_mesh_is_fake(flat) && weft_mesh_size(flat) == 256);
    WT_ALL(weft_mesh_ranks(flat, ranks, 2) == 256 && ranks[0] == 0 && ranks[1] == 1);
    WT_ALL(weft_mesh_coordinate(flat, 0) == 777 / 64 * 16 + 777 % 16);
    WT_RELEASE(weft_mesh_release, flat, part, mesh);
    mesh = weft_mesh_from_ranks(WEFT_CPU, (int[]){1, 1}, 2, "dp,tp", (int[]){wt_ranks() - 1});
    outside = weft_mesh_sub(mesh, "tp");
    WT_ALL(weft_mesh_is_member(outside) == (wt_rank() == wt_ranks() - 1));
    WT_RELEASE(weft_mesh_release, outside, mesh);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "axes"); }
