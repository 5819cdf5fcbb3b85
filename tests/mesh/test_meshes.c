/* test_meshes.c: how meshes are made, which are equal, and what is refused. */
/* ranks: 1 3 4 8 */
/* mpi: 8 */
#include <string.h>

#include "comm/comm.h"
#include "mesh/mesh.h"
#include "support/worlds.h"

enum { MOST = 8 };

/* MESH-07: the same ranks are the same mesh; another shape, other names or another order are not */
WT_TEST(meshes__are_equal_when_shape_names_and_ranks_are)
{
    int n = wt_ranks(), ranks[MOST], swapped[MOST];
    weft_mesh *a, *b, *others[3];

    for (int i = 0; i < n; i++) ranks[i] = i, swapped[i] = n - 1 - i;
    a = weft_mesh_from_ranks(WEFT_CPU, (int[]){n, 1}, 2, NULL, ranks);
    b = weft_mesh_from_ranks(WEFT_CPU, (int[]){n, 1}, 2, NULL, NULL);
    others[0] = weft_mesh_from_ranks(WEFT_CPU, (int[]){n, 1, 1}, 3, NULL, ranks);
    others[1] = weft_mesh_from_ranks(WEFT_CPU, (int[]){n, 1}, 2, "dp,tp", ranks);
    others[2] = weft_mesh_from_ranks(WEFT_CPU, (int[]){n, 1}, 2, NULL, swapped);
    WT_ALL(a == b && weft_mesh_hash(a) == weft_mesh_hash(b));
    for (int i = 0; i < (n > 1 ? 3 : 2); i++)
        WT_ALL(others[i] != a && weft_mesh_hash(others[i]) != weft_mesh_hash(a));
    for (int i = 0; i < 3; i++) weft_mesh_release(others[i]);
    WT_RELEASE(weft_mesh_release, a, b);
}

/* MESH-07: at the figures of the case, without ranks: (4,2) twice and (2,2,2) */
WT_TEST(meshes__of_eight_ranks_differ_by_shape)
{
    weft_mesh *a = weft_mesh_new_fake(3, "x=4,y=2"), *b = weft_mesh_new_fake(3, "x=4,y=2"),
              *c = weft_mesh_new_fake(3, "x=2,y=2,z=2"),
              *elsewhere = weft_mesh_new_fake(4, "x=4,y=2");

    WT_ALL(a == b && a != c && a != elsewhere);
    WT_ALL(weft_mesh_hash(a) != weft_mesh_hash(c));
    WT_ALL(weft_mesh_hash(a) == weft_mesh_hash(elsewhere)); /* equal meshes, seen from two ranks */
    WT_RELEASE(weft_mesh_release, a, b, c, elsewhere);
}

/* The hash is the same on all ranks. */
WT_TEST_IN(meshes__hash_alike_on_all_ranks, w, wt_world_open_mesh("dp=%d,tp=1", wt_ranks()))
{
    uint64_t mine = weft_mesh_hash(w->mesh), all[MOST];
    bool same = true;

    wf_comm_allgather_bytes(wf_comm_world(), &mine, all, sizeof mine);
    for (int r = 0; r < wt_ranks(); r++) same &= all[r] == mine;
    WT_ALL(same);
}

/* MESH-09: by text, by shape and from ranks: one mesh; names read back in order */
WT_TEST(meshes__are_one_by_text_shape_and_ranks)
{
    int rows = wt_ranks() % 2 ? 1 : 2, columns = wt_ranks() / rows, ranks[MOST];
    weft_mesh *a = weft_mesh_new(WEFT_CPU, "DP=%d,TP=%d", rows, columns), *b, *c;

    for (int i = 0; i < wt_ranks(); i++) ranks[i] = i;
    b = weft_mesh_from_ranks(WEFT_CPU, (int[]){rows, columns}, 2, "DP,TP", NULL);
    c = weft_mesh_from_ranks(WEFT_CPU, (int[]){rows, columns}, 2, " DP , TP ", ranks);
    WT_ALL(a == b && b == c);
    WT_ALL(strcmp(weft_mesh_axis_name(b, 0), "DP") == 0);
    WT_ALL(strcmp(weft_mesh_axis_name(b, 1), "TP") == 0);
    WT_RELEASE(weft_mesh_release, a, b, c);
}

/* MESH-10, MESH-11: and other shapes and names that do not fit together */
WT_TEST(meshes__with_wrong_names_are_refused)
{
    int n = wt_ranks();

    WT_ALL(!weft_mesh_from_ranks(WEFT_CPU, (int[]){n, 1}, 2, "dp,dp", NULL));
    WT_FAILED(WEFT_ERR_ARG, "each axis name must be unique");
    WT_ALL(!weft_mesh_new(WEFT_CPU, "dp=%d,tp=1,dp=1", n));
    WT_FAILED(WEFT_ERR_ARG, "each axis name must be unique");
    WT_ALL(!weft_mesh_from_ranks(WEFT_CPU, (int[]){n}, 1, "dp,tp", NULL));
    WT_FAILED(WEFT_ERR_ARG, "mesh shape and axis names should have the same length");
    WT_ALL(!weft_mesh_from_ranks(WEFT_CPU, (int[]){n, 1, 1}, 3, "dp,tp", NULL));
    WT_FAILED(WEFT_ERR_ARG, "should have the same length");
    WT_ALL(!weft_mesh_from_ranks(WEFT_CPU, (int[]){n}, 1, "d p", NULL));
    WT_FAILED(WEFT_ERR_ARG, "unexpected 'p'");
    WT_ALL(!weft_mesh_from_ranks(WEFT_CPU, (int[]){n}, 1, "", NULL));
    WT_FAILED(WEFT_ERR_ARG, "a name is missing");
}

WT_TEST(meshes__of_wrong_ranks_are_refused)
{
    int n = wt_ranks();

    WT_ALL(!weft_mesh_from_ranks(WEFT_CPU, (int[]){n, 2}, 2, NULL, NULL));
    WT_FAILED(WEFT_ERR_COMM, "the world has");
    WT_ALL(!weft_mesh_from_ranks(WEFT_CPU, (int[]){1}, 1, NULL, (int[]){n}));
    WT_FAILED(WEFT_ERR_ARG, "is not in the world");
    WT_ALL(!weft_mesh_from_ranks(WEFT_CPU, (int[]){1}, 1, NULL, (int[]){-1}));
    WT_FAILED(WEFT_ERR_ARG, "is not in the world");
    if (n > 1) {
        WT_ALL(!weft_mesh_from_ranks(WEFT_CPU, (int[]){2}, 1, NULL, (int[]){1, 1}));
        WT_FAILED(WEFT_ERR_ARG, "rank 1 stands there twice");
    }
    WT_ALL(!weft_mesh_from_ranks(WEFT_CPU, (int[]){0}, 1, NULL, NULL));
    WT_FAILED(WEFT_ERR_ARG, "has the size 0");
    WT_ALL(!weft_mesh_from_ranks(WEFT_CPU, NULL, 0, NULL, NULL));
    WT_FAILED(WEFT_ERR_ARG, "a mesh has 1 to");
    WT_ALL(!weft_mesh_from_ranks(WEFT_CPU, (int[]){1}, WEFT_MAX_AXES + 1, NULL, NULL));
    WT_FAILED(WEFT_ERR_ARG, "a mesh has 1 to");
}

/* MESH-26 */
WT_TEST(meshes__are_on_a_kind_of_device_not_on_one_of_them)
{
    weft_device device = WEFT_META;

    WT_ALL(weft_device_parse(&device, "cpu:0") == WEFT_ERR_ARG);
    WT_FAILED(WEFT_ERR_ARG, "a device type with an index is not supported");
    WT_ALL(weft_device_parse(&device, "cuda:0") == WEFT_ERR_ARG);
    WT_FAILED(WEFT_ERR_ARG, "a device type with an index is not supported");
    WT_FAILS(weft_device_parse(&device, "quantum"), WEFT_ERR_ARG, "unknown device");
    WT_ALL(weft_device_parse(&device, "cpu") == WEFT_OK && device == WEFT_CPU);
    WT_FAILS(weft_mesh_new(WEFT_DEVICES, "tp=1"), WEFT_ERR_ARG, "device");
}

/* MESH-27: a mesh of all ranks has the world's communicator; permuted ranks have their own */
WT_TEST(meshes__of_the_whole_world_communicate_over_it)
{
    int before = weft_mesh_communicator_count(), n = wt_ranks(), backwards[MOST];
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", n), *turned;

    for (int i = 0; i < n; i++) backwards[i] = n - 1 - i;
    WT_ALL(wf_comm_size(wf_mesh_axis_comm(mesh, 0)) == n);
    WT_EQ(weft_mesh_size(mesh), weft_world_size());
    WT_EQ(weft_mesh_communicator_count(), before);
    turned = weft_mesh_from_ranks(WEFT_CPU, &n, 1, "tp", backwards);
    WT_ALL(wf_comm_rank(wf_mesh_axis_comm(turned, 0)) == n - 1 - wt_rank());
    WT_ALL(n == 1 || turned != mesh);
    WT_RELEASE(weft_mesh_release, turned, mesh);
}

/* MESH-23, MESH-37: coordinates and plans, but nobody to talk to */
WT_TEST(meshes__without_ranks_are_for_planning)
{
    weft_mesh *mesh = weft_mesh_new_fake(1000, "dp=16,cp=4,tp=16"),
              *four = weft_mesh_new_fake(2, "tp=4");
    weft_tensor *meta, *real;

    WT_ALL(weft_mesh_coordinate(mesh, 0) == 15 && weft_mesh_coordinate(mesh, 1) == 2);
    WT_ALL(weft_mesh_coordinate(mesh, 2) == 8 && weft_mesh_local_rank(mesh, "tp") == 8);
    WT_ALL(weft_mesh_group_ranks_of(mesh, "cp", NULL, 0) == -1);
    WT_FAILED(WEFT_ERR_COMM, "a fake mesh");
    real = weft_full(WEFT_F32, (int64_t[]){2, 8}, 2, 1);
    meta = weft_to_device(real, WEFT_META);
    WT_FAILS(weft_mesh_all_gather(real, 0, NULL, four, 0), WEFT_ERR_COMM, "a fake mesh");
    WT_ALL(wt_has_shape(weft_mesh_all_gather(meta, 0, NULL, four, 0), 2, 8, 8));
    WT_ALL(wt_has_shape(weft_mesh_all_gather(meta, 1, NULL, mesh, 2), 2, 2, 128));
    WT_ALL(wt_has_shape(weft_mesh_reduce_scatter(meta, 1, WEFT_SUM, four, 0), 2, 2, 2));
    WT_ALL(wt_has_shape(weft_mesh_all_to_all(meta, 1, 0, NULL, four, 0), 2, 8, 2));
    WT_RELEASE(weft_mesh_release, mesh, four);
}

/* Distributed tensors over such a mesh: meta ones go anywhere, real ones where nothing is sent. */
WT_TEST(meshes__without_ranks_carry_distributed_tensors)
{
    weft_mesh *mesh = weft_mesh_new_fake(3, "tp=4");
    weft_placement sharded = weft_shard(0), whole = weft_replicate();
    weft_tensor *real = weft_full(WEFT_F32, (int64_t[]){10, 8}, 2, 1), *spread;

    spread = weft_distribute_tensor(real, mesh, &sharded, -1);
    WT_EQ(weft_local_size(spread, 0), 1); /* 3, 3, 3, 1 */
    WT_FAILS(weft_redistribute(spread, &whole), WEFT_ERR_COMM, "a fake mesh");
    spread = weft_redistribute(weft_to_device(spread, WEFT_META), &whole);
    WT_EQ(weft_local_size(spread, 0), 10);
    weft_mesh_release(mesh);
}

/* Threads have no communicators of MPI; how processes use theirs is in starts.c. */
WT_TEST(meshes__from_mpi_need_processes)
{
    if (strcmp(wf_comm_backend_name(wf_comm_world()), "local") != 0) return;
    WT_ALL(!weft_mesh_from_mpi(WEFT_CPU, 0, NULL, 1, "tp"));
    WT_FAILED(WEFT_ERR_STATE, "threads have no communicators of MPI");
}

WT_TEST(meshes__without_ranks_have_the_rank_that_is_played)
{
    WT_FAILS(weft_mesh_new_fake(4, "tp=4"), WEFT_ERR_ARG, "there is no rank 4 among 4");
    WT_FAILS(weft_mesh_new_fake(-1, "tp=4"), WEFT_ERR_ARG, "there is no rank -1");
    WT_FAILS(weft_mesh_new_fake(0, "tp"), WEFT_ERR_ARG, "'=' is missing");
    WT_FAILS(weft_mesh_new_fake(0, "a=65536,b=65536"), WEFT_ERR_ARG, "more than");
}

/* MESH-25 */
WT_TEST(meshes__come_from_the_groups_of_another)
{
    static const char *const names[] = {"dp_replicate", "dp_shard"};
    weft_mesh *whole, *groups[2], *made, *slice;
    int wide = wt_ranks() / 4, ranks[4], my_tp = wt_rank() % (wide ? wide : 1), before;

    if (wt_ranks() % 4) return;
    whole = weft_mesh_new(WEFT_CPU, "dp_replicate=2,dp_shard=2,tp=%d", wide);
    for (int g = 0; g < 2; g++) {
        groups[g] = weft_mesh_sub(whole, names[g]);
        wf_mesh_axis_comm(groups[g], 0);
    }
    before = weft_mesh_communicator_count();
    for (int i = 0; i < 4; i++) ranks[i] = i * wide + my_tp;
    made = weft_mesh_from_groups(groups, 2, "dp_replicate,dp_shard", ranks);
    for (int g = 0; g < 2; g++) {
        WT_ALL(wf_mesh_axis_comm(made, g) == wf_mesh_axis_comm(whole, g));
        slice = weft_mesh_sub(made, names[g]);
        WT_ALL(slice == groups[g]);
        weft_mesh_release(slice);
    }
    WT_EQ(weft_mesh_communicator_count(), before);
    slice = weft_mesh_from_groups(groups, 1, "dp_replicate", NULL);
    WT_ALL(slice == groups[0]);
    weft_mesh_release(slice);
    weft_mesh_ranks(groups[0], ranks, 2); /* MESH-24 */
    WT_FAILS(weft_mesh_from_groups(groups, 1, "a", (int[]){ranks[1], ranks[0]}), WEFT_ERR_ARG,
             "invalid grid");
    WT_ALL(!weft_mesh_from_groups(groups, 2, NULL, NULL));
    WT_FAILED(WEFT_ERR_ARG, "the grid of ranks is needed");
    WT_RELEASE(weft_mesh_release, groups[0], groups[1], made, whole);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "meshes"); }
