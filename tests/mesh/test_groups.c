/* test_groups.c: which ranks form the lines of a mesh, and how a program asks. */
/* ranks: 1 2 4 6 8 */
/* mpi: 4 8 */
#include <string.h>

#include "comm/comm.h"
#include "mesh/mesh.h"
#include "support/worlds.h"

enum { MOST = 8 };

/* The line holds `count` ranks from `first`, `step` apart. */
static bool is_line(const weft_mesh *mesh, int axis, int first, int step, int count)
{
    int ranks[MOST];

    if (weft_mesh_group_ranks(mesh, axis, ranks, MOST) != count) return false;
    for (int i = 0; i < count; i++)
        if (ranks[i] != first + i * step) return false;
    return true;
}

static bool same_group(const weft_mesh *a, const char *name, const weft_mesh *b, int axis)
{
    int mine[MOST], others[MOST];
    int count = weft_mesh_group_ranks_of(a, name, mine, MOST);

    return count > 0 && weft_mesh_group_ranks(b, axis, others, MOST) == count &&
           memcmp(mine, others, (size_t)count * sizeof *mine) == 0;
}

/* MESH-01: at 4 ranks [[0,1],[2,3]]; at others the same rule with two rows */
WT_TEST_IN_IF(groups__of_two_axes_are_columns_and_rows, w, wt_ranks() % 2 == 0,
              wt_world_open_two_axes())
{
    int columns = wt_ranks() / 2, rank = wt_rank();

    WT_ALL(is_line(w->mesh, 0, rank % columns, columns, 2));
    WT_ALL(is_line(w->mesh, 1, rank / columns * columns, 1, columns));
    WT_ALL(wf_comm_rank(wf_mesh_axis_comm(w->mesh, 0)) == rank / columns);
    WT_ALL(wf_comm_rank(wf_mesh_axis_comm(w->mesh, 1)) == rank % columns);
    WT_ALL(wf_comm_size(wf_mesh_axis_comm(w->mesh, 0)) == 2);
    WT_ALL(wf_comm_size(wf_mesh_axis_comm(w->mesh, 1)) == columns);
}

/* MESH-02: rank 5 of 2x2x2 has {1,5}, {5,7}, {4,5} */
WT_TEST_IN_IF(groups__of_three_axes_share_the_other_coordinates, w, wt_ranks() % 4 == 0,
              wt_world_open_mesh("a=2,b=2,c=%d", wt_ranks() / 4))
{
    int rank = wt_rank(), wide = wt_ranks() / 4;

    WT_ALL(is_line(w->mesh, 0, rank % (2 * wide), 2 * wide, 2));
    WT_ALL(is_line(w->mesh, 1, rank - rank / wide % 2 * wide, wide, 2));
    WT_ALL(is_line(w->mesh, 2, rank / wide * wide, 1, wide));
    if (wt_ranks() == 8) {
        WT_ALL(rank != 5 || (is_line(w->mesh, 0, 1, 4, 2) && is_line(w->mesh, 1, 5, 2, 2) &&
                             is_line(w->mesh, 2, 4, 1, 2)));
    }
}

/* MESH-03: by index, by name and through the slice of that name: one group per axis */
WT_TEST_IN_IF(groups__are_the_same_by_index_name_and_slice, w, wt_ranks() % 2 == 0,
              wt_world_open_two_axes())
{
    static const char *const names[] = {"dp", "tp"};

    WT_EQ(weft_mesh_ndim(w->mesh), 2);
    for (int axis = 0; axis < 2; axis++) {
        weft_mesh *slice = weft_mesh_sub(w->mesh, names[axis]);

        WT_ALL(same_group(w->mesh, names[axis], w->mesh, axis));
        WT_ALL(same_group(slice, NULL, w->mesh, axis));
        WT_ALL(wf_mesh_axis_comm(slice, 0) == wf_mesh_axis_comm(w->mesh, axis));
        weft_mesh_release(slice);
    }
}

/* All lines of an axis: at 8 ranks (2,4) has {0,4}, {1,5}, {2,6}, {3,7} along its first. */
WT_TEST(groups__of_other_ranks_can_be_listed)
{
    weft_mesh *mesh = weft_mesh_new_fake(5, "replicate=2,shard=4"), *deep;
    int ranks[MOST];

    for (int line = 0; line < 4; line++) {
        WT_EQ(weft_mesh_line_ranks(mesh, 0, line, ranks, MOST), 2);
        WT_ALL(ranks[0] == line && ranks[1] == line + 4);
    }
    WT_EQ(weft_mesh_line_ranks(mesh, 1, 1, ranks, 1), 4);
    WT_EQ(ranks[0], 4);
    WT_ALL(weft_mesh_line_ranks(mesh, 1, 2, NULL, 0) == 0);
    WT_ALL(weft_mesh_line_ranks(mesh, 2, 0, NULL, 0) == 0);
    deep = weft_mesh_new_fake(0, "a=2,b=3,c=4");
    WT_EQ(weft_mesh_line_ranks(deep, 1, 5, ranks, MOST), 3);
    WT_ALL(ranks[0] == 13 && ranks[1] == 17 && ranks[2] == 21);
    WT_RELEASE(weft_mesh_release, deep, mesh);
}

/* MESH-04: and a 1-D mesh needs no name */
WT_TEST(groups__need_an_axis_when_there_are_several)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "dp=%d,tp=1", wt_ranks()),
              *line = weft_mesh_new(WEFT_CPU, "tp=%d", wt_ranks());

    WT_ALL(weft_mesh_local_rank(mesh, NULL) == -1);
    WT_FAILED(WEFT_ERR_ARG, "the axis needs to be specified when there is more than one");
    WT_ALL(weft_mesh_group_ranks_of(mesh, "", NULL, 0) == -1);
    WT_FAILED(WEFT_ERR_ARG, "needs to be specified");
    WT_ALL(weft_mesh_local_rank(line, NULL) == wt_rank());
    WT_ALL(weft_mesh_local_rank(mesh, "pp") == -1);
    WT_FAILED(WEFT_ERR_NOT_FOUND, "invalid axis name");
    WT_ALL(weft_mesh_group_ranks(mesh, 2, NULL, 0) == -1);
    WT_FAILED(WEFT_ERR_ARG, "has no axis 2");
    WT_RELEASE(weft_mesh_release, mesh, line);
}

/* MESH-05, MESH-22 */
WT_TEST_IN_IF(groups__place_a_rank_by_name_index_and_slice_alike, w, wt_ranks() % 2 == 0,
              wt_world_open_two_axes())
{
    static const char *const names[] = {"dp", "tp"};

    for (int axis = 0; axis < 2; axis++) {
        weft_mesh *slice = weft_mesh_sub(w->mesh, names[axis]);

        WT_EQ(weft_mesh_axis(w->mesh, names[axis]), axis);
        WT_ALL(weft_mesh_local_rank(w->mesh, names[axis]) == weft_mesh_coordinate(w->mesh, axis));
        WT_ALL(weft_mesh_local_rank(slice, NULL) == weft_mesh_local_rank(w->mesh, names[axis]));
        weft_mesh_release(slice);
    }
}

/* MESH-06: at 8 ranks dp = r/4, pp = r%4 > 1, tp = r%2 */
WT_TEST_IN_IF(groups__count_coordinates_with_the_last_axis_fastest, w, wt_ranks() % 4 == 0,
              wt_world_open_mesh("dp=2,pp=2,tp=%d", wt_ranks() / 4))
{
    int rank = wt_rank(), wide = wt_ranks() / 4;

    WT_ALL(weft_mesh_local_rank(w->mesh, "tp") == rank % wide);
    WT_ALL(weft_mesh_local_rank(w->mesh, "pp") == rank / wide % 2);
    WT_ALL(weft_mesh_local_rank(w->mesh, "dp") == rank / (2 * wide));
    if (wt_ranks() == 8) WT_ALL(weft_mesh_local_rank(w->mesh, "pp") == (rank % 4 <= 1 ? 0 : 1));
    WT_ALL(weft_mesh_axis(w->mesh, "cp") == -1);
}

/* MESH-19: communicators are made once, whichever mesh asks; MESH-27: and none for all ranks */
WT_TEST(groups__make_no_communicator_twice)
{
    int rows = wt_ranks() % 2 ? 1 : 2, before;
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "dp=%d,tp=%d", rows, wt_ranks() / rows), *dp, *again,
              *tp, *all;
    struct wf_comm *lines[2];

    for (int axis = 0; axis < 2; axis++) lines[axis] = wf_mesh_axis_comm(mesh, axis);
    before = weft_mesh_communicator_count();
    dp = weft_mesh_sub(mesh, "dp");
    again = weft_mesh_sub(mesh, "dp");
    tp = weft_mesh_sub(mesh, "tp");
    WT_ALL(dp == again);
    WT_ALL(wf_mesh_axis_comm(dp, 0) == lines[0] && wf_mesh_axis_comm(tp, 0) == lines[1]);
    all = weft_mesh_new(WEFT_CPU, "world=%d", wt_ranks());
    WT_ALL(wf_comm_size(wf_mesh_axis_comm(all, 0)) == wt_ranks());
    WT_ALL(wf_comm_rank(wf_mesh_axis_comm(all, 0)) == wt_rank());
    WT_RELEASE(weft_mesh_release, dp, again, tp, all, mesh);
    mesh = weft_mesh_new(WEFT_CPU, "dp=%d,tp=%d", rows, wt_ranks() / rows); /* they outlive it */
    WT_ALL(wf_mesh_axis_comm(mesh, 0) == lines[0] && wf_mesh_axis_comm(mesh, 1) == lines[1]);
    WT_ALL(weft_mesh_communicator_count() == before);
    WT_ALL(strcmp(wf_comm_label(lines[1]), "tp") == 0);
    weft_mesh_release(mesh);
}

/* Lines of meshes whose ranks are in any order, some of them left out: sums along every axis. */
WT_TEST(groups__of_ranks_in_any_order_communicate)
{
    static const int orders[][MOST] = {{3, 0, 2, 1, 5, 4, 7, 6}, {7, 2, 5, 0, 6, 1, 4, 3}};
    int n = wt_ranks() / 2 * 2;

    for (size_t o = 0; n > 0 && o < sizeof orders / sizeof *orders; o++) {
        int ranks[MOST], used = 0, place[2];
        weft_mesh *mesh;

        for (int i = 0; i < MOST && used < n; i++)
            if (orders[o][i] < wt_ranks()) ranks[used++] = orders[o][i];
        mesh = weft_mesh_from_ranks(WEFT_CPU, (int[]){n / 2, 2}, 2, NULL, ranks);
        for (int axis = 0; axis < 2 && weft_mesh_is_member(mesh); axis++) {
            weft_tensor *mine = weft_full(WEFT_F64, NULL, 0, wt_rank()), *sum;
            double want = 0;

            weft_mesh_find(mesh, wt_rank(), place);
            for (int i = 0; i < (axis ? 2 : n / 2); i++)
                want += axis ? ranks[place[0] * 2 + i] : ranks[i * 2 + place[1]];
            sum = weft_mesh_all_reduce(mine, WEFT_SUM, mesh, axis);
            if (weft_item(sum) != want) wt_note("sum %g, not %g", weft_item(sum), want);
            if (weft_item(sum) != want) place[0] = -1;
        }
        WT_ALL(!weft_mesh_is_member(mesh) || place[0] >= 0);
        weft_mesh_release(mesh);
    }
}

static bool is_refused(weft_mesh *mesh)
{
    static const char text[] = "is not in mesh (tp:1)";
    int rank;

    return weft_mesh_local_rank(mesh, "tp") == -1 && wt_failed_with(WEFT_ERR_COMM, text) &&
           weft_mesh_group_ranks(mesh, 0, &rank, 1) == -1 && wt_failed_with(WEFT_ERR_COMM, text) &&
           !weft_mesh_all_reduce(weft_full(WEFT_F32, NULL, 0, 1), WEFT_SUM, mesh, 0) &&
           wt_failed_with(WEFT_ERR_COMM, text);
}

/* A rank outside makes the mesh, is told so, and nobody waits for it. */
WT_TEST(groups__refuse_ranks_outside)
{
    int n = wt_ranks(), ranks[1];
    bool inside = wt_rank() == n - 1;
    weft_mesh *mesh = weft_mesh_from_ranks(WEFT_CPU, (int[]){1}, 1, "tp", (int[]){n - 1});

    WT_ALL(weft_mesh_is_member(mesh) == inside);
    WT_ALL(weft_mesh_coordinate(mesh, 0) == (inside ? 0 : -1));
    WT_ALL(weft_mesh_ranks(mesh, ranks, 1) == 1 && ranks[0] == n - 1);
    WT_ALL((wf_mesh_axis_comm(mesh, 0) != NULL) == inside);
    WT_ALL(inside || is_refused(mesh));
    WT_ALL(!inside || weft_mesh_local_rank(mesh, "tp") == 0);
    weft_mesh_release(mesh);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "groups"); }
