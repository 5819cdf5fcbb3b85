/*
 * device_collectives.h: what a device's shared object offers to collectives whose bytes it can move
 * from device to device by itself, in the order of the communication stream. CUDA's is NCCL
 * (comm/nccl). What is ordered with it, waited for and reported is stream_ordered.c's.
 *
 * No function waits for a peer or for the device: opening a communicator and giving it a collective
 * go on in the background until `status` says that they are over. A rank is a thread.
 */
#pragma once

#include "comm/comm.h"

enum { WF_DEVICE_ID_BYTES = 16, WF_COMM_ID_BYTES = 128, WF_PEER_INFO_TEXT = 256 };

/** What every rank tells the others before a communicator is opened. */
struct wf_peer_info {
    char why_not[WF_PEER_INFO_TEXT]; /* this rank cannot; empty: it can */
    int version;                     /* of the library that moves bytes */
    bool has_its_memory;             /* what this rank has on the device is the library's */
    unsigned char device[WF_DEVICE_ID_BYTES]; /* no two devices have the same */
    unsigned char comm[WF_COMM_ID_BYTES];     /* of the first rank: the new communicator */
};

enum wf_device_comm_status {
    WF_DEVICE_COMM_READY, /* what was asked for is in the stream */
    WF_DEVICE_COMM_BUSY,  /* it is not there yet */
    WF_DEVICE_COMM_FAILED
};

struct wf_device_collectives {
    const char *name; /* "nccl" */

    /** `first`: of the new communicator, whose id it makes up. */
    void (*fill_peer_info)(bool first, struct wf_peer_info *mine);
    /** Begin to open the communicator of this id; collective. `all_have_its_memory`: all of its
     * ranks do. gives: its state, for the others */
    void *(*open)(const unsigned char *comm, int size, int rank, bool all_have_its_memory);
    /** FAILED: `why` has the call and the library's own text. Also of what went wrong later. */
    enum wf_device_comm_status (*status)(void *state, char *why, size_t room);
    /** Give the collective to the communication stream. Not of one that is BUSY; no send, recv or
     * barrier. */
    void (*issue)(void *state, const struct wf_coll *coll);
    /** Begin to take leave of the peers; collective. Then, when READY, or at any time when the job
     * ends: free it. */
    void (*finish)(void *state);
    void (*close)(void *state);
};
