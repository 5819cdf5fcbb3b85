/* test_agreement.c: with WEFT_CHECK=2 ranks that make different meshes are told, and none waits. */
/* ranks: 2 3 4 8 */
/* mpi: 4 */
#include <stdlib.h>

#include "ranks/worlds.h"

enum { MOST = 8 };

/* pytorch.md 10.4, weakness 15: the peer hangs */
WT_TEST(agreement__is_asked_of_all_ranks_of_a_mesh)
{
    weft_mesh *mesh = wt_rank() == 1 ? weft_mesh_new(WEFT_CPU, "dp=1,tp=%d", wt_ranks())
                                     : weft_mesh_new(WEFT_CPU, "dp=%d,tp=1", wt_ranks());

    WT_ALL(!mesh);
    WT_FAILED(WEFT_ERR_ARG, "makes another mesh at the same time");
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
    mesh = weft_mesh_from_ranks(WEFT_CPU, 1, &count, "tp", ranks);
    WT_ALL(mesh != NULL);
    WT_ALL(weft_item(weft_mesh_all_reduce(weft_full(WEFT_I64, 0, NULL, 1), WEFT_SUM, mesh, 0)) ==
           count);
    weft_mesh_release(mesh);
}

WT_TEST(agreement__leaves_equal_meshes_alone)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "dp=1,tp=%d", wt_ranks());

    WT_ALL(mesh != NULL);
    weft_mesh_release(mesh);
}

int main(int argc, char **argv)
{
    static const struct wt_case cases[] = {
        WT_CASE(agreement__is_asked_of_all_ranks_of_a_mesh),
        WT_CASE(agreement__is_not_asked_of_meshes_side_by_side),
        WT_CASE(agreement__leaves_equal_meshes_alone),
        WT_END,
    };

    setenv("WEFT_CHECK", "2", 1);
    return wt_main(argc, argv, "agreement", cases);
}
