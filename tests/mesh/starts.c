/*
 * starts.c: the ways a world begins under mpiexec, one per run: with the first mesh, on a part of
 * MPI_COMM_WORLD, and beside a program that uses MPI itself. Ends with 0 when all is well on this
 * rank; 3 ranks.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#define NEED(cond)                                                                                 \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "rank %d: %s fails: %s\n", weft_world_rank(), #cond,                   \
                    weft_error_message());                                                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static double sum_of_ranks(weft_mesh *mesh)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *mine = weft_full(WEFT_F32, NULL, 0, weft_world_rank());
    double sum = weft_item(weft_mesh_all_reduce(mine, WEFT_SUM, mesh, 0));

    weft_scope_close(scope);
    return sum;
}

/* MESH-28: no weft_init; a late one is welcome, a second one is not */
static int with_the_first_mesh(void)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=3");

    NEED(weft_world_size() == 3);
    NEED(sum_of_ranks(mesh) == 3);
    weft_mesh_release(mesh);
    NEED(weft_init(NULL, NULL) == WEFT_OK);
    NEED(weft_init(NULL, NULL) == WEFT_ERR_STATE);
    weft_error_clear();
    return weft_finalize();
}

/* Ranks 2 and 1 of MPI_COMM_WORLD are the world, in this order; rank 0 has one of its own. */
static int on_a_part(int *argc, char ***argv)
{
    int provided, rank, failed;
    MPI_Comm part;
    weft_mesh *mesh;

    MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank > 0, -rank, &part);
    NEED(weft_init_mpi((int)MPI_Comm_c2f(MPI_COMM_NULL)) == WEFT_ERR_ARG);
    weft_error_clear();
    NEED(weft_init_mpi((int)MPI_Comm_c2f(part)) == WEFT_OK);
    NEED(weft_world_size() == (rank > 0 ? 2 : 1));
    NEED(weft_world_rank() == (rank == 1));
    mesh = weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size());
    NEED(sum_of_ranks(mesh) == (rank > 0));
    weft_mesh_release(mesh);
    if (rank == 0) { /* MPI_COMM_WORLD is larger than this rank's world */
        NEED(!weft_mesh_from_mpi(WEFT_CPU, (int)MPI_Comm_c2f(MPI_COMM_WORLD), NULL, 1, NULL));
        NEED(weft_error_status() == WEFT_ERR_ARG);
        weft_error_clear();
    }
    failed = weft_finalize();
    MPI_Comm_free(&part);
    MPI_Finalize();
    return failed;
}

static void backwards(MPI_Comm comm, int rank)
{
    int ranks[3];
    weft_mesh *mesh = weft_mesh_from_mpi(WEFT_CPU, (int)MPI_Comm_c2f(comm), NULL, 1, "tp"), *same;

    NEED(weft_mesh_ranks(mesh, ranks, 3) == 3 && ranks[0] == 2 && ranks[1] == 1 && ranks[2] == 0);
    NEED(weft_mesh_coordinate(mesh, 0) == 2 - rank);
    NEED(sum_of_ranks(mesh) == 3);
    same = weft_mesh_from_ranks(WEFT_CPU, (int[]){3}, 1, "tp", (int[]){2, 1, 0});
    NEED(same == mesh);
    weft_mesh_release(same);
    weft_mesh_release(mesh);
}

/* MESH-25: from communicators of MPI: the whole world backwards, and a part of it */
static int from_communicators(int *argc, char ***argv)
{
    int provided, rank, failed;
    MPI_Comm all, part;
    weft_mesh *mesh;

    MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided);
    NEED(weft_init(argc, argv) == WEFT_OK);
    rank = weft_world_rank();
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &all);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 1, rank, &part);
    backwards(all, rank);
    mesh = weft_mesh_from_mpi(WEFT_CPU, (int)MPI_Comm_c2f(part), (int[]){rank == 1 ? 1 : 2, 1}, 2,
                              "dp,tp");
    NEED(weft_mesh_size(mesh) == (rank == 1 ? 1 : 2));
    NEED(sum_of_ranks(mesh) == (rank == 1 ? 1 : 2));
    weft_mesh_release(mesh);
    NEED(!weft_mesh_from_mpi(WEFT_CPU, (int)MPI_Comm_c2f(part), (int[]){3}, 1, NULL));
    weft_error_clear();
    NEED(!weft_mesh_from_mpi(WEFT_CPU, (int)MPI_Comm_c2f(MPI_COMM_NULL), NULL, 1, NULL));
    weft_error_clear();
    failed = weft_finalize();
    MPI_Comm_free(&all);
    MPI_Comm_free(&part);
    MPI_Finalize();
    return failed;
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";

    if (strcmp(way, "first-mesh") == 0) return with_the_first_mesh();
    if (strcmp(way, "part") == 0) return on_a_part(&argc, &argv);
    if (strcmp(way, "communicators") == 0) return from_communicators(&argc, &argv);
    fprintf(stderr, "usage: starts first-mesh|part|communicators\n");
    return 2;
}
