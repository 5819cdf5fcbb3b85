/*
 * shm_engine.h: collectives between ranks that can read and write each other's memory: threads
 * (`local`) and processes of a node (`shm`). See NOTE [engine protocol] in shm_engine.c.
 *
 * The only difference between the two is how an address of a peer is translated: what a peer posts
 * is an offset in its reach, and base[peer] is where that reach begins here. Threads have base 0.
 */
#pragma once

#include <stdatomic.h>

#include "comm/backend.h"

enum {
    WF_ENGINE_DEPTH = 8,            /* collectives that a fast rank may be ahead */
    WF_ENGINE_INLINE = 4096,        /* bytes that travel inside a slot */
    WF_ENGINE_PAIR_CHUNK = 4096,    /* staging of send and recv, twice per pair */
    WF_ENGINE_STAGE_CHUNK = 1 << 18 /* staging of collectives, twice per rank */
};

enum wf_shm_engine_mode { WF_MODE_NONE, WF_MODE_INLINE, WF_MODE_DIRECT, WF_MODE_STAGED };

/* One rank's descriptor of a collective, or of a send to one rank, which its peers read. Written
 * before `posted` is raised; only `staged` changes afterwards. */
struct wf_shm_engine_slot {
    _Alignas(64) _Atomic uint64_t posted; /* number of the collective */
    _Atomic uint64_t staged;              /* chunks ready to be read */
    uint32_t mode;                        /* of send */
    uint32_t recv_staged;                 /* all-reduce: results go through the staging buffer */
    uint64_t send, recv;                  /* offsets in the rank's shared memory */
    uint64_t bytes;                       /* of send */
    uint64_t what;                        /* wf_coll_signature */
    uint64_t history;                     /* wf_shm_engine_hash_history, up to this collective */
    uint64_t words[]; /* all-to-all: where the segment for every rank begins, and the end; then the
                         inline bytes */
};

/* progress: (collectives worked through << WF_ROUND_BITS) + rounds of the next one */
enum { WF_ROUND_BITS = 24 };
struct wf_shm_engine_progress_mark {
    _Alignas(64) _Atomic uint64_t progress;
};

struct wf_shm_engine_op;

/* One rank's state of a communicator in shared memory. */
struct wf_shm_engine {
    int rank, size;
    uintptr_t *base;                      /* per rank: where its shared memory is mapped here */
    uintptr_t low, high;                  /* this rank's shared memory, [low, high) */
    char **ring;                          /* per rank: its control memory, as seen here */
    bool staging;                         /* there are staging buffers */
    uint64_t calls;                       /* collectives so far, */
    uint64_t history;                     /* and a hash of what they were: the same on all ranks */
    uint64_t *sent, *received;            /* per peer: sends to it, receives from it */
    struct wf_shm_engine_op *head, *tail; /* collectives in flight, oldest first */
    struct wf_shm_engine_op *spare;
};

/** Bytes of zeroed control memory that each of `size` ranks provides, 64-byte aligned. */
size_t wf_shm_engine_control_bytes(int size, bool staging);

/** The caller fills in base and ring for every rank, and low and high. */
struct wf_shm_engine *wf_shm_engine_new(int rank, int size, bool staging);
void wf_shm_engine_free(struct wf_shm_engine *engine);

/* The functions of struct wf_backend for a communicator whose state is an engine. */
void wf_shm_engine_start(struct wf_coll *coll);
bool wf_shm_engine_progress(struct wf_coll *coll);
void wf_shm_engine_describe_missing_ranks(const struct wf_coll *coll, char *text, size_t bytes);

/* ---- between shm_engine.c and shm_engine_transfer.c ---- */

struct wf_shm_engine_op {
    struct wf_coll *coll;
    struct wf_shm_engine *engine;
    struct wf_shm_engine_op *next;
    uint64_t number;      /* of the collective, or of the send between the pair */
    uint64_t history;     /* of the group with this collective; a pair has none */
    bool pair;            /* send or recv */
    bool posted, arrived; /* I have; all whom I read from have */
    enum wf_shm_engine_mode mode;
    size_t bytes;            /* of send */
    uint64_t staged;         /* chunks I laid ready */
    uint64_t rounds, worked; /* of reading; rounds are known once arrived */
    uint64_t unstaged;       /* all-reduce through staging: rounds copied out */
};

size_t wf_shm_engine_chunk_bytes(const struct wf_shm_engine_op *op);
struct wf_shm_engine_slot *wf_shm_engine_slot(const struct wf_shm_engine_op *op, int rank);
/** The inline bytes of a slot; those of a pair's slot are its staging buffers too. */
char *wf_shm_engine_inline_payload(const struct wf_shm_engine_op *op, int rank);
/** Where chunk `round` of a rank's staged send lies. */
char *wf_shm_engine_staging_buffer(const struct wf_shm_engine_op *op, int rank, uint64_t round);

/** The history of a group after one more collective: what it is, and the counts that all ranks
 * give. */
uint64_t wf_shm_engine_hash_history(uint64_t history, const struct wf_coll *coll);
/** Ends the job with a sentence unless the slot of a peer, which has arrived, is of the same
 *  collective, comes after the same ones, and holds as many bytes as this rank takes it to. */
void wf_shm_engine_check_peer(const struct wf_shm_engine_op *op, int rank);

/** Fill in the slot's payload / lay chunk `op->staged` ready. */
void wf_shm_engine_fill_slot(struct wf_shm_engine_op *op, struct wf_shm_engine_slot *mine);
void wf_shm_engine_stage_chunk(struct wf_shm_engine_op *op);
/** Do round `op->worked` of what this rank reads. */
void wf_shm_engine_transfer_round(struct wf_shm_engine_op *op);
/** All-reduce through staging: copy results of round `op->unstaged` out. */
void wf_shm_engine_unstage_chunk(struct wf_shm_engine_op *op);
