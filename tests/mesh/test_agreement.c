/* test_agreement.c: with WEFT_CHECK=2 ranks that make different meshes are told, and none waits. */
/* ranks: 2 3 4 8 */
/* mpi: 4 */
#include <stdlib.h>

#include "support/worlds.h"

enum { MOST = 8 };

/* PyTorch hangs. */
WT_TEST(agreement__is_asked_of_all_ranks_of_a_mesh)
{
    weft_mesh *mesh = wt_rank() == 1 ? weft_mesh_new(WEFT_CPU, "dp=1,tp=%d", wt_ranks())
                                     : weft_mesh_new(WEFT_CPU, "dp=%d,tp=1", wt_ranks());

    WT_FAILS(mesh, WEFT_ERR_ARG, "makes another mesh at the same time");
    mesh = weft_mesh_new(WEFT_CPU, wt_rank() == 0 ? "dp=2" : "tp=2");
    WT_ALL(!mesh || wt_rank() > 1); /* to ranks above it is right */
    WT_ALL(mesh || wt_failed_with(WEFT_ERR_ARG, "makes another mesh"));
    weft_mesh_release(mesh);
}

/* Each rank knows its own stage only. */
WT_TEST(agreement__is_not_asked_of_meshes_side_by_side)
{
    int stage = wt_rank() % 2, count = 0, ranks[MOST];
    weft_mesh *mesh;

    for (int r = stage; r < wt_ranks(); r += 2) ranks[count++] = r;
    mesh = weft_mesh_from_ranks(WEFT_CPU, &count, 1, "tp", ranks);
    WT_ALL(mesh != NULL);
    WT_ALL(weft_item(weft_mesh_all_reduce(weft_full(WEFT_I64, NULL, 0, 1), WEFT_SUM, mesh, 0)) ==
           count);
    weft_mesh_release(mesh);
}

/* What only the ranks of a mesh make is not compared over the world. */
WT_TEST(agreement__is_not_asked_of_groups)
{
    weft_mesh *line, *grid;

    if (wt_rank() == 0) {
        line = weft_mesh_new_fake(0, "tp=1");
        grid = weft_mesh_from_groups((weft_mesh *[]){line}, 1, "tp", NULL);
        WT_RELEASE(weft_mesh_release, grid, line);
    }
    WT_ALL(wt_rank() > 0 || wt_failed_with(WEFT_ERR_ARG, "with ranks behind it"));
    line = weft_mesh_from_ranks(WEFT_CPU, (int[]){1}, 1, "tp", (int[]){wt_rank()});
    grid = wt_rank() ? NULL : weft_mesh_from_groups(&line, 1, "dp", NULL);
    WT_ALL(wt_rank() || (grid && weft_mesh_is_member(grid)));
    WT_RELEASE(weft_mesh_release, grid, line);
}

/* A grid of two by two, whose far corner is another rank to rank 0: its lines are those of the
 * groups. */
WT_TEST(agreement__is_asked_along_groups)
{
    int grid[] = {0, 1, 2, 3};
    weft_mesh *mesh, *groups[2], *made;

    if (wt_ranks() < 5) return;
    mesh = weft_mesh_from_ranks(WEFT_CPU, (int[]){2, 2}, 2, "dp,tp", grid);
    groups[0] = weft_mesh_sub(mesh, "dp");
    groups[1] = weft_mesh_sub(mesh, "tp");
    for (int odd = 0; odd < 2; odd++) {
        if (odd && wt_rank() == 0) grid[3] = 4;
        made = wt_rank() < 4 ? weft_mesh_from_groups(groups, 2, "a,b", grid) : NULL;
        WT_ALL(wt_rank() >= 4 || (made == NULL) == odd);
        WT_ALL(!odd || wt_rank() >= 4 || wt_failed_with(WEFT_ERR_ARG, "makes another mesh"));
        weft_mesh_release(made);
    }
    WT_RELEASE(weft_mesh_release, groups[0], groups[1], mesh);
}

WT_TEST_IN(agreement__leaves_equal_meshes_alone, w, wt_world_open_mesh("dp=1,tp=%d", wt_ranks()))
{
    WT_ALL(w->mesh != NULL);
}

int main(int argc, char **argv)
{
    setenv("WEFT_CHECK", "2", 1);
    return wt_main(argc, argv, "agreement");
}
