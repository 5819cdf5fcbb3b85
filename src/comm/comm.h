/*
 * comm.h: collectives on raw buffers. The only folder that says MPI_ and nccl.
 *
 * Every collective passes wf_comm_start (the funnel): argument check, comparison of what ranks ask
 * for (before their bytes are read in shared memory, beside the messages of MPI, and with names of
 * modules before anything else with WEFT_CHECK=2), backend, observers. Reductions add in one order,
 * the balanced binary tree over ranks, in every backend, so results are bitwise equal on all ranks
 * and from run to run. Waiting yields and then sleeps; after WEFT_TIMEOUT seconds the job ends with
 * a sentence.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/dtype.h>
#include <weft/error.h>
#include <weft/types.h>

#include "base/call_context.h"

struct wf_backend; /* comm/backend.h */
struct wf_comm;    /* a group of ranks that communicate, in a fixed order */

/* ---- the world ---- */

/** mpiexec's world when this process was started by it, else a world of one. Main thread, once. */
weft_status wf_comm_init(int *argc, char ***argv);
/** The same for the members of a communicator of MPI, which runs already. `comm` is MPI_Comm_c2f of
 *  it. */
weft_status wf_comm_init_mpi(int comm);
/** True if mpiexec started this process. Reads the environment only: a lone process never touches
 *  MPI. */
bool wf_comm_is_started_by_mpiexec(void);
/** False when this thread has no world yet and wf_comm_init was not called. */
bool wf_comm_is_initialized(void);
/** It was called on behalf of a program that may still call it itself, once. */
void wf_comm_mark_early_init(void);
/** Collective. Frees communicators and shared memory. */
void wf_comm_finalize(void);

/** Collective. End what communicators have on this rank's device, before it is given back. */
void wf_comm_close_on_device(void);

/** Run body on n threads that are ranks of a world of their own (backend `local`). */
int wf_comm_run_rank_threads(int ranks, int (*body)(void *payload), void *payload);

/** True on such a thread. */
bool wf_comm_is_rank_thread(void);

/** What each such thread calls before and after its body (state of other layers); NULL: nothing. */
void wf_comm_set_thread_hooks(void (*start)(void), void (*finish)(void));

/** This thread's world; a world of one (backend `self`) until wf_comm_init or inside no rank. */
struct wf_comm *wf_comm_world(void);

/**
 * The communicator of these world ranks, in this order; made once and cached. Members only call it,
 * all of them. `label` names it in errors and the ledger ("tp"); borrowed, must outlive the world.
 */
struct wf_comm *wf_comm_for_ranks(const int *world_ranks, int count, const char *label);

/** The members of a communicator of MPI (MPI_Comm_c2f of it) as world ranks; the caller frees them.
 *  fails: WEFT_ERR_STATE without MPI, WEFT_ERR_ARG when one is not in the world */
weft_status wf_comm_world_ranks_of_mpi(int comm, int **world_ranks, int *count);

int wf_comm_rank(const struct wf_comm *comm);
int wf_comm_size(const struct wf_comm *comm);
const char *wf_comm_label(const struct wf_comm *comm);
/** What moves bytes of the host: "self", "local", "shm" (one node), "nodes" (equal blocks of ranks
 *  on several nodes: shared memory inside, MPI between) or "mpi". Those of a device go by "nccl" or
 *  "staged", which is chosen in the first such collective (device_backend.c). */
const char *wf_comm_backend_name(const struct wf_comm *comm);
/** Communicators made so far on this rank (tests of caching). */
int wf_comm_created_count(void);

/* ---- collectives ---- */

/**
 * One collective. Counts are elements of `dtype`, per rank of the communicator.
 *
 *   all-reduce      send[count] -> recv[count]; send == recv allowed
 *   all-gather      send[recv_counts[me]] -> recv, the ranks' shards one after another
 *   reduce-scatter  send, the segments for rank 0, 1, ... (send_counts) -> recv[send_counts[me]]
 *   all-to-all      send by send_counts -> recv by recv_counts
 *   broadcast       send[count] on `peer` (== recv allowed) -> recv[count] everywhere
 *   scatter         send by send_counts on `peer` -> recv[send_counts[me]]
 *   gather          send[recv_counts[me]] -> recv by recv_counts on `peer`
 *   send, recv      send[count] to / recv[count] from `peer`
 *   barrier         nothing
 * Whole count arrays are given on every rank, and equal on all but for all-to-all. Unequal and
 * zero counts are allowed. send and recv must not overlap except where said; both stay untouched
 * by the caller between start and wait. On a device both are ordered with what its compute stream
 * is given: start comes after what it was given before, and what it is given after wait comes after
 * the collective. Reductions: sum, product, max, min (wf_coll_has_reduction) of the dtypes that
 * have them (wf_dtype_can_reduce); bf16 and f16 are added in f32 and rounded once at the end. All
 * else moves every dtype.
 */
struct wf_coll {
    weft_coll kind;
    struct wf_comm *comm;
    weft_device device; /* of send and recv */
    weft_dtype dtype;
    weft_reduce reduce;
    int peer;
    size_t count;
    const size_t *send_counts, *recv_counts;
    const void *send;
    void *recv;
    bool coalesced; /* for observers: several tensors, one after another */
    bool rooted;    /* for observers: a reduce-scatter whose whole result goes to one rank */
    /* filled in by the funnel */
    const struct wf_backend *backend;
    void *state;                  /* of the backend */
    size_t bytes;                 /* wf_coll_payload_bytes */
    double began;                 /* at start, when somebody listens, */
    double seconds;               /* and what start and wait took so far */
    bool moved;                   /* the backend is done, */
    bool complete;                /* and the ranks have compared what they asked for */
    void *agreement;              /* that comparison; NULL: none, or over */
    uint8_t wide;                 /* part of a tree: enum wf_reduce_wide */
    struct wf_call_context where; /* at start */
    struct wf_coll *next;         /* in flight on this rank */
};

/** Begin; the struct must live until wf_comm_wait. Several may be in flight per communicator, and
 *  are waited for in the order in which they began. */
void wf_comm_start(struct wf_coll *coll);
/** Move everything that this thread has in flight, oldest first, without waiting. ranks: any; local
 */
void wf_comm_progress(void);
/** Some of them have not ended yet. */
bool wf_comm_in_flight(void);
/** It goes on by MPI, and only while wf_comm_progress is called. */
bool wf_comm_needs_progress(const struct wf_coll *coll);

/** True when wf_comm_wait would not have to wait; makes progress. */
bool wf_comm_test(struct wf_coll *coll);
void wf_comm_wait(struct wf_coll *coll);

/** What the compute stream of the device is given from now on comes after all that this thread has
 * in flight there. Before a capture: what began earlier cannot end in it. ranks: any; local */
void wf_comm_order_in_flight(void);

/** Give the device its idle memory back, for others who need it, unless a collective may be in
 * flight there: it takes waiting for the device, and peers may wait for this rank. ranks: any;
 * local */
void wf_comm_trim_device(void);

/** Every rank's `bytes` bytes, in rank order. Not compared between ranks and not in the ledger: for
 *  the library's own messages. No malloc. */
void wf_comm_allgather_bytes(struct wf_comm *comm, const void *mine, void *all, size_t bytes);
/** The least of what the ranks give: 1 of flags when all have it. As that. */
int wf_comm_least(struct wf_comm *comm, int mine);

/** start + wait. A bad argument or a lost peer ends the job: checks belong to the plan, before. */
void wf_comm_run(struct wf_coll *coll);

/**
 * Tell observers of a simulated collective: nothing is sent, `comm` and the buffers are not
 * read. The line would be `axis` of `ranks` ranks, of which this is number `rank`.
 */
void wf_comm_report_simulated(const struct wf_coll *coll, const char *axis, int ranks, int rank);

/** Payload bytes that the ledger books, per rank: all-reduce count; all-gather and gather the
 *  result; reduce-scatter and scatter the input; all-to-all what this rank sends; broadcast, send,
 *  recv count; barrier 0; all times the element size. */
size_t wf_coll_payload_bytes(const struct wf_coll *coll);
/**
 * Bytes that this rank sends, at least: of n bytes over t ranks an all-reduce sends 2 (t-1)/t n; an
 * all-gather this rank's shard to all others; a reduce-scatter, all-to-all and scatter what is not
 * for itself; a gather its shard; a broadcast and a send what the sender has. Others send nothing.
 */
size_t wf_coll_bytes_sent(const struct wf_coll *coll);
const char *wf_coll_name(weft_coll kind);

/** Collectives reduce so. Averages, masked terms and norms are sums to them. */
static inline bool wf_coll_has_reduction(weft_reduce reduce)
{
    return reduce == WEFT_SUM || reduce == WEFT_PRODUCT || reduce == WEFT_MAX || reduce == WEFT_MIN;
}
