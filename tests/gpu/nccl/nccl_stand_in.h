/*
 * nccl_stand_in.h: what the files of the stand-in for libnccl share. Ranks are threads, their
 * devices those of the stand-in for CUDA's runtime, of which this is a part: a collective is an
 * operation in each rank's stream, and runs when it is the next in all of them.
 *
 *     calls.cc    every call: counted, the one that is to fail; versions and texts
 *     comm.cc     communicators: opening, polling, ending
 *     groups.cc   groups, and what may be asked for
 *     give.cc     from calls to operations in streams, with those of the peers
 *     move.cc     the bytes
 *     memory.cc   its allocator, and memory that is registered with communicators
 */
#pragma once

#include <deque>
#include <map>
#include <nccl.h>
#include <string>

#include "stand_in.h"

namespace nccl_stand_in
{

using stand_in::locked;
using stand_in::refuse;
using stand_in::stream_part;

/** What one call gives back; it runs with the lock of the runtime. */
typedef std::function<ncclResult_t(locked &)> call_body;
ncclResult_t nccl_call(const char *name, const call_body &body);

enum kind { all_reduce, all_gather, reduce_scatter, reduce, broadcast, send, recv };
extern const char *const kind_names[];

/* One call. */
struct request {
    enum kind kind;
    const void *from;
    void *to;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int peer; /* root, or the other rank of a send or recv */
    ncclComm_t comm;
    cudaStream_t stream;
    bool registered; /* the memory, with the communicator */
    bool captured;   /* a launch of a graph gives it */
};

size_t bytes_of(ncclDataType_t type);
/** "all-reduce of 64 elements of type 7" */
std::string describe(const request &r);

/* Parts of streams. */

/** A rank's part in a collective of all ranks. */
struct collective_part : stream_part {
    request asked;

    explicit collective_part(const request &r) : asked(r) {}
    void run(const std::vector<stream_part *> &all) override;
};

/** A rank's sends and recvs of one group. A partner for each of them that goes to another rank. */
struct exchange_part : stream_part {
    struct transfer {
        request asked;
        exchange_part *other;
        size_t number; /* of the other's transfers */
    };
    std::vector<transfer> transfers;

    void run(const std::vector<stream_part *> &all) override;
};

/* All ranks of one id. */
struct clique {
    int size;
    std::vector<ncclComm_t> ranks; /* nullptr: has not come */
    std::vector<uint64_t> given;   /* collectives of each rank so far */
    std::vector<std::vector<std::shared_ptr<collective_part>>> collectives; /* [number][rank] */
    std::vector<std::shared_ptr<exchange_part>> exchanges;
    /* Sends and recvs without their other half: by kind, sender, receiver. */
    typedef std::pair<exchange_part *, size_t> half;
    std::map<std::tuple<int, int, int>, std::deque<half>> halves;

    bool complete() const;
};

/** Put what a group asked of one communicator into its streams. */
void give(ncclComm_t comm, const std::vector<request> &requests, locked &lock);

/** Begin it: at once, or in a later poll of a communicator that does not block. */
ncclResult_t begin(ncclComm_t comm, const std::vector<request> &requests, locked &lock);
/** A graph that captured on it is still there: NCCL waits for its end, whatever ends the
 * communicator. */
bool has_graphs(ncclComm_t comm);
/** Refuse what nobody may do with the communicator now. */
void check_usable(ncclComm_t comm, const char *what);
/** Whether p lies in memory that is registered with the communicator. */
bool is_registered(ncclComm_t comm, const void *p);
/** What is registered with it at its end is no longer. */
void forget_registered(ncclComm_t comm);
/** Groups that the calling thread has begun and not ended. */
int open_groups();

} // namespace nccl_stand_in

struct ncclComm {
    nccl_stand_in::clique *clique;
    int rank, device;
    bool blocking;
    enum { opening, ready, finishing, finished, ended } state;
    ncclResult_t error;
    std::string last_error;
    long polls_left; /* before what was asked for is in the stream */
    std::vector<std::vector<nccl_stand_in::request>> asked;
    std::vector<std::shared_ptr<nccl_stand_in::stream_part>> parts;
    /* Each graph that captured on it has one too, until it is destroyed. */
    std::shared_ptr<char> held_by_graphs = std::make_shared<char>();
};
