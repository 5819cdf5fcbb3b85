/* test_current.c: the mesh that is meant when none is given. */
/* ranks: 1 2 3 4 6 8 */
/* mpi: 8 */
#include "mesh/mesh.h"
#include "support/worlds.h"

WT_TEST(current__is_the_innermost)
{
    weft_mesh *outer = weft_mesh_new(WEFT_CPU, "dp=%d", wt_ranks()),
              *inner = weft_mesh_new(WEFT_CPU, "dp=%d,tp=1", wt_ranks());

    WT_ALL(weft_default_mesh_open(outer) == WEFT_OK && weft_default_mesh() == outer);
    WT_ALL(weft_default_mesh_open(inner) == WEFT_OK && weft_default_mesh() == inner);
    WT_ALL(weft_default_mesh_open(outer) == WEFT_OK && weft_default_mesh() == outer);
    WT_ALL(weft_default_mesh_close(outer) == WEFT_OK && weft_default_mesh() == inner);
    WT_FAILS(weft_default_mesh_close(outer), WEFT_ERR_STATE, "not the innermost");
    WT_ALL(weft_default_mesh_close(inner) == WEFT_OK && weft_default_mesh_close(outer) == WEFT_OK);
    WT_RELEASE(weft_mesh_release, outer, inner);
}

WT_TEST(current__is_an_error_when_there_is_none)
{
    weft_placement whole = weft_replicate();

    WT_FAILS(weft_default_mesh(), WEFT_ERR_STATE, "no mesh is currently active");
    WT_FAILS(weft_default_mesh_close(NULL), WEFT_ERR_STATE, "no mesh is currently active");
    WT_FAILS(weft_default_mesh_open(NULL), WEFT_ERR_ARG, "there is no mesh");
    WT_ALL(!weft_distribute_tensor(weft_full(WEFT_F32, NULL, 0, 1), NULL, &whole, -1));
    WT_FAILED(WEFT_ERR_STATE, "no mesh is currently active");
}

/* The mesh is kept alive, and deep nesting is no matter. */
WT_TEST(current__keeps_its_meshes)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "kept=%d", wt_ranks()), *same;

    for (int i = 0; i < 100; i++) weft_default_mesh_open(mesh);
    weft_mesh_release(mesh);
    same = weft_mesh_new(WEFT_CPU, "kept=%d", wt_ranks());
    WT_ALL(same == weft_default_mesh());
    for (int i = 0; i < 100; i++) WT_ALL(weft_default_mesh_close(same) == WEFT_OK);
    weft_mesh_release(same);
}

/* A mesh that could not be made is not taken for "the default one, please". */
WT_TEST_IN_WORLD(current__does_not_hide_a_mesh_that_failed, w)
{
    weft_placement whole = weft_replicate();
    weft_tensor *t = weft_full(WEFT_F32, NULL, 0, 1);

    weft_default_mesh_open(w->mesh);
    WT_ALL(!weft_distribute_tensor(t, weft_mesh_new(WEFT_CPU, "tp="), &whole, -1));
    WT_FAILED(WEFT_ERR_ARG, "is not a positive number");
    WT_ALL(weft_distribute_tensor(t, NULL, &whole, -1) != NULL);
    WT_ALL(weft_default_mesh_close(w->mesh) == WEFT_OK);
}

/* DT-29: at 8 ranks (3,3) becomes (24,3), and on the nested (2,4) mesh [S(0),R] holds (12,3) */
WT_TEST(current__serves_from_local_and_distribute)
{
    int n = wt_ranks(), rows = n % 2 ? 1 : 2;
    weft_mesh *outer = weft_mesh_new(WEFT_CPU, "dp=%d", n),
              *inner = weft_mesh_new(WEFT_CPU, "dp=%d,tp=%d", rows, n / rows);
    weft_placement sharded = weft_shard(0), whole = weft_replicate(),
                   mixed[] = {weft_shard(0), weft_replicate()};
    weft_tensor *t, *full = weft_full(WEFT_F32, (int64_t[]){3 * n, 3}, 2, 2);

    weft_default_mesh_open(outer);
    t = weft_from_local(weft_full(WEFT_F32, (int64_t[]){3, 3}, 2, 1), NULL, &sharded, NULL);
    t = weft_redistribute(t, &whole);
    WT_ALL(wt_has_shape(weft_to_local(t, NULL), 2, 3 * n, 3) && weft_tensor_mesh(t) == outer);
    WT_ALL(wt_is_all(t, 1));
    t = weft_distribute_tensor(full, NULL, &sharded, -1);
    WT_ALL(wt_has_shape(weft_to_local(t, NULL), 2, 3, 3));
    weft_default_mesh_open(inner);
    t = weft_distribute_tensor(full, NULL, mixed, -1);
    WT_ALL(wt_has_shape(weft_to_local(t, NULL), 2, 3 * n / rows, 3));
    WT_ALL(weft_tensor_mesh(t) == inner);
    WT_ALL(wt_is_placed(weft_distribute_tensor(full, NULL, NULL, -1), "R,R"));
    if (n == 8) WT_ALL(wt_has_shape(weft_to_local(t, NULL), 2, 12, 3));
    weft_default_mesh_close(inner);
    t = weft_distribute_tensor(full, NULL, &sharded, -1);
    WT_ALL(wt_has_shape(weft_to_local(t, NULL), 2, 3, 3) && weft_tensor_mesh(t) == outer);
    weft_default_mesh_close(outer);
    WT_RELEASE(weft_mesh_release, outer, inner);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "current"); }
