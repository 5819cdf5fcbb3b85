/*
 * mpi_comm.h: what the files that speak MPI share. Only Init, Finalize and the making of
 * communicators block; everything else is started, tested and waited for by turns.
 */
#pragma once

#include <mpi.h>

#include "base/error.h"
#include "comm/backend.h"

#define WF_MPI(call)                                                                               \
    do {                                                                                           \
        int wf_mpi_code = (call);                                                                  \
        if (wf_mpi_code != MPI_SUCCESS) WF_DIE("%s", wf_mpi_error_text(wf_mpi_code, #call));       \
    } while (0)

/** What MPI says of an error, with the call; a static buffer of the thread. */
const char *wf_mpi_error_text(int code, const char *call);

struct wf_mpi_op;
struct wf_mpi_agreement;

/* The state of a communicator of backend `mpi`. */
struct wf_mpi_comm {
    MPI_Comm first,
        second;        /* `second`: for the second step of collectives, which has its own order */
    MPI_Comm agreeing; /* for mpi_agreement.c */
    uint64_t tickets, turn; /* second steps announced, second steps begun */
    uint64_t calls;         /* collectives so far */
    uint64_t turns, said;   /* of liveness answers (mpi_liveness.c) */
    struct wf_mpi_op *spare;
    struct wf_mpi_agreement *spare_agreement;
};

/** For a time-out: "not arrived: rank 1, 3", of those that have not come to collective number
 *  `wanted` of the communicator that `net` is the state of; asks them, which takes a second. */
void wf_mpi_list_absent_ranks(struct wf_mpi_comm *net, const struct wf_comm *comm, uint64_t wanted,
                              char *text, size_t bytes);
/** Called while waiting: answer such questions. */
void wf_mpi_answer_liveness(struct wf_mpi_comm *net);

/** Over all ranks of an MPI communicator / over some world ranks; both collective over them. */
struct wf_mpi_comm *wf_mpi_comm_new(MPI_Comm comm);
struct wf_mpi_comm *wf_mpi_comm_new_for_ranks(const struct wf_mpi_comm *world,
                                              const int *world_ranks, int count, int tag);
void wf_mpi_comm_free(struct wf_mpi_comm *net);
void wf_mpi_agreements_free(struct wf_mpi_comm *net); /* what comparisons keep for later ones */

/** The MPI type of elements of this size; a count as MPI wants it (fatal beyond 2^31 - 1). */
MPI_Datatype wf_mpi_datatype(size_t element);
int wf_mpi_int_count(size_t count);

/** Wait for a request by turns, with the time-out; `what` names it. */
void wf_mpi_wait(MPI_Request *request, const char *what);
/** All-gather `bytes` bytes per rank, and wait. */
void wf_mpi_allgather_bytes(MPI_Comm comm, const void *mine, void *all, size_t bytes);
/** True when `ok` is true on all ranks. */
bool wf_mpi_all_true(MPI_Comm comm, bool ok);

/** The ranks of `world` that run on this rank's node, in the order of `world`. Collective over
 *  `world`; the caller frees the communicator. */
MPI_Comm wf_mpi_comm_of_node(MPI_Comm world);
