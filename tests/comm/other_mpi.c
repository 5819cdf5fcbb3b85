/*
 * other_mpi.c: preloaded into the ranks of a job, it gives them an MPI that differs from the one of
 * this machine in what the standard leaves open. WT_MPI names the differences, in any order:
 *
 *   unaligned     shared windows begin 8 bytes after a multiple of 64, as in Open MPI 4.1.4
 *
 *   knows-nobody  MPI_COMM_TYPE_SHARED puts each rank on a node of its own, as in MPICH 5.0.2
 *
 *   no-windows    shared windows cannot be made
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define REPLACES __attribute__((visibility("default")))

enum { ROOM = 72 };

static int differs_in(const char *what)
{
    const char *wanted = getenv("WT_MPI");

    return wanted && strstr(wanted, what) != NULL;
}

/* The segment's first address that is 8 more than a multiple of 64: every rank skips as many bytes.
 */
static void shift(void *base)
{
    char *first;

    if (!differs_in("unaligned")) return;
    memcpy(&first, base, sizeof first);
    while ((size_t)first % 64 != 8) first++;
    memcpy(base, &first, sizeof first);
}

REPLACES int MPI_Win_allocate_shared(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm,
                                     void *base, MPI_Win *window)
{
    int code;

    if (differs_in("no-windows")) return MPI_ERR_RMA_SHARED;
    code = PMPI_Win_allocate_shared(size + ROOM, unit, info, comm, base, window);
    if (code == MPI_SUCCESS) shift(base);
    return code;
}

REPLACES int MPI_Win_shared_query(MPI_Win window, int rank, MPI_Aint *size, int *unit, void *base)
{
    int code = PMPI_Win_shared_query(window, rank, size, unit, base);

    if (code == MPI_SUCCESS) shift(base);
    return code;
}

REPLACES int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *part)
{
    int rank;

    if (type != MPI_COMM_TYPE_SHARED || !differs_in("knows-nobody"))
        return PMPI_Comm_split_type(comm, type, key, info, part);
    MPI_Comm_rank(comm, &rank);
    return MPI_Comm_split(comm, rank, key, part);
}
