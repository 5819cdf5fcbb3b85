/*
 * mpi_liveness.c: after a time-out, asks which ranks of an MPI communicator have not reached a
 * collective, since MPI does not report it. Waiting ranks answer the question; a rank that computes
 * or has died does not.
 */
#include <stdio.h>

#include "base/mem.h"
#include "base/sys.h"
#include "comm/mpi/mpi_comm.h"

enum { TAG_ASK = 1, TAG_ANSWER = 2, TURNS_BETWEEN = 64 };

static const double listening_seconds = 1;

/* A number that has arrived on `tag`; false when there is none. */
static bool receive_if_arrived(struct wf_mpi_comm *net, int tag, uint64_t *number, int *from)
{
    MPI_Request request;
    MPI_Status status;
    int there;

    WF_MPI(MPI_Iprobe(MPI_ANY_SOURCE, tag, net->second, &there, &status));
    if (!there) return false;
    *from = status.MPI_SOURCE;
    WF_MPI(MPI_Irecv(number, 1, MPI_UINT64_T, *from, tag, net->second, &request));
    wf_mpi_wait(&request, "liveness");
    return true;
}

/* Eight bytes are sent eagerly: the request need not be waited for. */
static void send_own_progress(struct wf_mpi_comm *net, int tag, int to)
{
    MPI_Request request;

    net->said = net->calls;
    WF_MPI(MPI_Isend(&net->said, 1, MPI_UINT64_T, to, tag, net->second, &request));
    WF_MPI(MPI_Request_free(&request));
}

void wf_mpi_answer_liveness(struct wf_mpi_comm *net)
{
    uint64_t asked;
    int from;

    if (++net->turns % TURNS_BETWEEN) return;
    while (receive_if_arrived(net, TAG_ASK, &asked, &from))
        send_own_progress(net, TAG_ANSWER, from);
}

/* Whether all ranks have come to collective number `wanted`; takes a second. */
static void ask_ranks_for_progress(struct wf_mpi_comm *net, int rank, int size, uint64_t wanted,
                                   bool *came)
{
    double began = wf_monotonic_seconds();
    struct wf_backoff patience = {0};
    uint64_t number;
    int from;

    for (int peer = 0; peer < size; peer++) {
        came[peer] = peer == rank;
        if (peer != rank) send_own_progress(net, TAG_ASK, peer);
    }
    while (wf_monotonic_seconds() - began < listening_seconds) {
        while (receive_if_arrived(net, TAG_ANSWER, &number, &from)) came[from] = number >= wanted;
        while (receive_if_arrived(net, TAG_ASK, &number, &from)) {
            came[from] = came[from] || number >= wanted;
            send_own_progress(net, TAG_ANSWER, from);
        }
        (void)wf_backoff_wait(&patience);
    }
}

void wf_mpi_list_absent_ranks(struct wf_mpi_comm *net, const struct wf_comm *comm, uint64_t wanted,
                              char *text, size_t bytes)
{
    bool *came = wf_calloc((size_t)comm->size, sizeof *came);
    char absent[256] = "";

    ask_ranks_for_progress(net, comm->rank, comm->size, wanted, came);
    for (int rank = 0; rank < comm->size; rank++)
        if (!came[rank]) wf_comm_append_rank_text(comm, rank, absent, sizeof absent);
    wf_free(came);
    snprintf(text, bytes, "%s%s", absent[0] ? "not arrived: rank " : "all ranks have arrived",
             absent);
}
