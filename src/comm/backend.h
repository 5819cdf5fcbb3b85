/*
 * backend.h: what the files of this folder share: the table of functions that a backend fills, the
 * communicator, and the state of one rank. Nobody outside src/comm includes it.
 */
#pragma once

#include "comm/comm.h"

struct wf_backend {
    const char *name;
    /** Begin and set coll->complete if that was all. Never waits for a peer. */
    void (*start)(struct wf_coll *coll);
    /** Go on as far as possible without waiting; true once complete. */
    bool (*step)(struct wf_coll *coll);
    /** Instead of waiting: what the compute stream of the device is given from now on comes after
     *  it. NULL: wf_comm_wait waits until it is complete. */
    void (*order)(struct wf_coll *coll);
    /** For the time-out: what is missing, as "not arrived: rank 1, 3". */
    void (*missing)(const struct wf_coll *coll, char *text, size_t bytes);
    /** The MPI state over which ranks compare their requests (mpi_agreement.c); NULL where the
     *  backend compares them itself. */
    struct wf_mpi_comm *(*compares_over)(const struct wf_comm *comm);
    /** The state of a new communicator of these world ranks; sets comm->backend and comm->state. */
    void (*open)(struct wf_comm *comm, const struct wf_comm *world);
    void (*close)(struct wf_comm *comm);
};

/* The same ranks under two labels are two communicators over one state. */
struct wf_comm {
    const struct wf_backend *backend;
    void *state;
    const char *label;
    int rank, size;
    int *world_ranks;
    struct wf_device_comm *device; /* for collectives on a device: stream_ordered.h */
    uint64_t *calls;               /* collectives so far: the sequence number of fingerprints */
    size_t *equal_counts;          /* a number per rank: room for wf_comm_allgather_bytes */
    bool shares;                   /* all that is pointed to belongs to another communicator */
};

struct wf_comm_node;
struct wf_mpi_comm;

/* One rank: a process, or a thread of wf_comm_run_rank_threads. */
struct wf_comm_thread_state {
    struct wf_comm *world;  /* NULL: a world of one */
    struct wf_comm **comms; /* made by wf_comm_for_ranks */
    int n_comms, made;
    struct wf_coll *first, *last; /* in flight */
    struct wf_staged *waiting;    /* staged ones that have not begun, oldest first (staged.c) */
    struct wf_last_collective { /* the one started last, for the message of a rank that exits early
                                 */
        weft_coll kind;
        const char *label; /* NULL: nothing has */
        struct wf_call_context where;
    } recent;
    struct wf_mpi_comm *net;   /* of all processes, under mpiexec only */
    struct wf_comm_node *node; /* NULL without shared memory */
};

extern _Thread_local struct wf_comm_thread_state wf_comm_thread_state;

extern const struct wf_backend wf_backend_self, wf_backend_local, wf_backend_mpi, wf_backend_shm,
    wf_backend_multi_node;

/** For collectives on a device: through pinned host memory and the communicator's own backend. */
extern const struct wf_backend wf_backend_staged;

/** Begin the collectives of this rank that wait for bytes of its device, waiting for those: before
 * another begins on the same communicators, since all ranks begin them in one order. */
void wf_staged_start_queued(void);

/** A communicator with room for its ranks; backend and state are still to be set. */
struct wf_comm *wf_comm_alloc(const int *world_ranks, int size, int rank, const char *label);
/** Free a communicator, and its state unless it is shared. */
void wf_comm_free(struct wf_comm *comm);
/** Forget all communicators of this rank but the world. */
void wf_comm_free_all_but_world(void);

/** start + wait without observers and checks: for what comm itself needs to tell its peers. */
void wf_comm_run_unobserved(struct wf_coll *coll);

/** "all-reduce sum of 64 f32 on axis tp" */
void wf_coll_describe(const struct wf_coll *coll, char *text, size_t bytes);
/** The same, and " for matmul in module blocks.0" where these are known. */
void wf_coll_describe_with_caller(const struct wf_coll *coll, char *text, size_t bytes);
/** Append "1, 3" style lists: one world rank of the communicator to `text`. */
void wf_comm_append_rank_text(const struct wf_comm *comm, int rank, char *text, size_t bytes);

/**
 * Two collectives that only comm itself uses, on ranks whose blocks of a larger communicator lie in
 * columns: of count * size blocks, rank r owns r, r + size, r + 2 size, ...
 *   gather-columns  recv holds this rank's own blocks already; the others' come from the peers
 *   reduce-columns  send[all blocks] -> recv, this rank's blocks reduced over all, one after
 *                   another
 */
enum { WF_COLL_GATHER_COLUMNS = WEFT_COLL_COUNT, WF_COLL_REDUCE_COLUMNS };

/** Elements this rank sends / receives in one collective, 0 where it does not. */
size_t wf_coll_send_count(const struct wf_coll *coll);
size_t wf_coll_recv_count(const struct wf_coll *coll);
/** True of kinds that add up, and of those in which one rank, `peer`, sends or receives all. */
bool wf_coll_reduces(weft_coll kind);
bool wf_coll_has_root(weft_coll kind);
/** Kind, dtype, reduction and root in a word, the same for a send and its recv; and that word in
 *  words, "gather of f32, root 2". */
uint64_t wf_coll_signature(const struct wf_coll *coll);
void wf_coll_describe_signature(uint64_t what, const struct wf_comm *comm, char *text,
                                size_t bytes);
/** The hash with the counts that all ranks give alike; those of an all-to-all are each rank's own.
 */
uint64_t wf_coll_hash_counts(uint64_t hash, const struct wf_coll *coll);
/** The sum of counts before `index`. */
size_t wf_counts_prefix_sum(const size_t *counts, int index);

/**
 * Compare over MPI what all ranks of coll->comm ask for: start, make progress, and list the ranks
 * that have not answered (for the time-out's message). Ends the job where ranks differ;
 * coll->agreement is NULL once they agree.
 */
void wf_mpi_agreement_start(struct wf_coll *coll);
void wf_mpi_agreement_progress(struct wf_coll *coll);
void wf_mpi_agreement_describe_missing_ranks(const struct wf_coll *coll, char *text, size_t bytes);

/** End the job unless all ranks of coll->comm are about to do the same collective. */
void wf_fingerprint_compare(const struct wf_coll *coll);
