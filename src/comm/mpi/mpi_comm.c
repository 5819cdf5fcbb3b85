/* mpi_comm.c: communicators of MPI and the few exchanges that start-up needs. Collectives:
 * mpi_backend.c. */
#include "comm/mpi/mpi_comm.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/settings/knob.h"
#include "base/sys.h"

const char *wf_mpi_error_text(int code, const char *call)
{
    static _Thread_local char text[MPI_MAX_ERROR_STRING + 128];
    char said[MPI_MAX_ERROR_STRING] = "unknown error";
    int length;

    MPI_Error_string(code, said, &length);
    snprintf(text, sizeof text, "%.100s: %s", call, said);
    return text;
}

static MPI_Comm duplicate_mpi_comm(MPI_Comm comm)
{
    MPI_Comm twin;
    MPI_Request request;

    WF_MPI(MPI_Comm_idup(comm, &twin, &request));
    wf_mpi_wait(&request, "a new communicator");
    WF_MPI(MPI_Comm_set_errhandler(twin, MPI_ERRORS_RETURN));
    return twin;
}

static struct wf_mpi_comm *wrap_mpi_comm(MPI_Comm comm)
{
    struct wf_mpi_comm *net = WF_NEW(struct wf_mpi_comm);

    net->first = comm;
    net->second = duplicate_mpi_comm(comm);
    net->agreeing = duplicate_mpi_comm(comm);
    return net;
}

struct wf_mpi_comm *wf_mpi_comm_new(MPI_Comm comm)
{
    return wrap_mpi_comm(duplicate_mpi_comm(comm));
}

struct wf_mpi_comm *wf_mpi_comm_new_for_ranks(const struct wf_mpi_comm *world,
                                              const int *world_ranks, int count, int tag)
{
    MPI_Group all, some;
    MPI_Comm comm;

    WF_MPI(MPI_Comm_group(world->first, &all));
    WF_MPI(MPI_Group_incl(all, count, world_ranks, &some));
    WF_MPI(MPI_Comm_create_group(world->first, some, tag, &comm));
    WF_MPI(MPI_Group_free(&some));
    WF_MPI(MPI_Group_free(&all));
    return wrap_mpi_comm(comm);
}

MPI_Datatype wf_mpi_datatype(size_t element)
{
    switch (element) {
    case 1:
        return MPI_UINT8_T;
    case 2:
        return MPI_UINT16_T;
    case 4:
        return MPI_UINT32_T;
    default:
        return MPI_UINT64_T;
    }
}

int wf_mpi_int_count(size_t count)
{
    if (count > INT_MAX) WF_DIE("%zu elements are more than one MPI message carries", count);
    return (int)count;
}

void wf_mpi_wait(MPI_Request *request, const char *what)
{
    struct wf_backoff patience = {0};
    int done = 0;
    double waited;

    for (;;) {
        WF_MPI(MPI_Test(request, &done, MPI_STATUS_IGNORE));
        if (done) return;
        waited = wf_backoff_wait(&patience);
        if (waited > (double)wf_knobs.timeout)
            WF_DIE("%s: peers missing after %.0f s (WEFT_TIMEOUT)", what, waited);
    }
}

void wf_mpi_allgather_bytes(MPI_Comm comm, const void *mine, void *all, size_t bytes)
{
    MPI_Request request;

    WF_MPI(MPI_Iallgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, comm, &request));
    wf_mpi_wait(&request, "start-up");
}

bool wf_mpi_all_true(MPI_Comm comm, bool ok)
{
    int mine = ok, all = 0;
    MPI_Request request;

    WF_MPI(MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm, &request));
    wf_mpi_wait(&request, "start-up");
    return all;
}
