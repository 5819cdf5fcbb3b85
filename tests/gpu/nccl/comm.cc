/*
 * comm.cc: communicators. One that does not block is opened, and has what it is given in its
 * stream, some polls later: how many is the policy's of the streams (lazy: 3).
 */
#include "nccl_stand_in.h"

#include <algorithm>
#include <condition_variable>
#include <string.h>

namespace nccl_stand_in
{

static std::map<uint64_t, clique> cliques;
static std::vector<ncclComm_t> comms;
static std::condition_variable came;
static long polls;

bool clique::complete() const
{
    return std::find(ranks.begin(), ranks.end(), nullptr) == ranks.end();
}

static long polls_of_policy()
{
    switch (stand_in::stream_policy()) {
    case stand_in::lazy:
        return 3;
    case stand_in::eager:
        return 0;
    default:
        return stand_in::chance(4);
    }
}

bool has_graphs(ncclComm_t comm) { return comm->held_by_graphs.use_count() > 1; }

void check_usable(ncclComm_t comm, const char *what)
{
    if (std::find(comms.begin(), comms.end(), comm) == comms.end() || comm->state == comm->ended)
        refuse("%s: no communicator, or one that was destroyed", what);
    if (comm->state == comm->opening || !comm->asked.empty())
        refuse("%s: the communicator is still ncclInProgress", what);
    if (comm->state != comm->ready) refuse("%s: the communicator was finalized", what);
}

ncclResult_t begin(ncclComm_t comm, const std::vector<request> &requests, locked &lock)
{
    if (comm->blocking) {
        give(comm, requests, lock);
        return ncclSuccess;
    }
    comm->polls_left = polls_of_policy();
    comm->asked.push_back(requests);
    if (comm->polls_left) return ncclInProgress;
    give(comm, requests, lock);
    comm->asked.clear();
    return ncclSuccess;
}

/* NCCL before 2.30 refuses two ranks on one device. */
static void check_devices(clique &c)
{
    for (ncclComm_t one : c.ranks)
        for (ncclComm_t other : c.ranks)
            if (one->rank < other->rank && one->device == other->device)
                for (ncclComm_t each : c.ranks) {
                    each->error = ncclInvalidUsage;
                    each->last_error = "Duplicate GPU detected : rank " +
                                       std::to_string(other->rank) + " and rank " +
                                       std::to_string(one->rank) + " both on CUDA device " +
                                       std::to_string(one->device);
                }
}

static ncclResult_t join(ncclComm_t *comm, int size, const ncclUniqueId &id, int rank,
                         bool blocking, locked &lock)
{
    uint64_t number;

    memcpy(&number, &id, sizeof number);
    clique &c = cliques[number];
    if (!number) refuse("ncclCommInitRank: this id is none of ncclGetUniqueId");
    if (c.ranks.empty()) {
        c.size = size;
        c.ranks.resize(static_cast<size_t>(size));
        c.given.resize(static_cast<size_t>(size));
    }
    if (c.size != size)
        refuse("ncclCommInitRank: ranks say that there are %d and %d", c.size, size);
    if (rank < 0 || rank >= size) return ncclInvalidArgument;
    if (c.ranks[static_cast<size_t>(rank)]) refuse("ncclCommInitRank: rank %d comes twice", rank);
    *comm = new ncclComm{&c,          rank, stand_in::current_device, blocking, ncclComm::opening,
                         ncclSuccess, "",   polls_of_policy(),        {},       {}};
    comms.push_back(*comm);
    c.ranks[static_cast<size_t>(rank)] = *comm;
    if (c.complete()) check_devices(c);
    came.notify_all();
    if (!blocking) return ncclInProgress;
    while (!c.complete()) came.wait(lock);
    (*comm)->state = ncclComm::ready;
    return (*comm)->error;
}

/* Goes on with what the communicator does in the background. */
static ncclResult_t poll(ncclComm_t comm, locked &lock)
{
    if (comm->error != ncclSuccess) return comm->error;
    if (comm->state == comm->opening) {
        if (!comm->clique->complete() || comm->polls_left-- > 0) return ncclInProgress;
        comm->state = comm->ready;
    }
    if (!comm->asked.empty()) {
        if (comm->polls_left-- > 0) return ncclInProgress;
        auto asked = std::move(comm->asked);

        comm->asked.clear();
        for (auto &requests : asked) give(comm, requests, lock);
    }
    if (comm->state == comm->finishing) {
        for (auto &part : comm->parts)
            if (!part->done && !stand_in::step_stream(part->stream, lock)) return ncclInProgress;
        comm->state = comm->finished;
    }
    return ncclSuccess;
}

} // namespace nccl_stand_in

using namespace nccl_stand_in;

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    static uint64_t ids;

    return nccl_call(__func__, [&](locked &) {
        memset(id, 0x5a, sizeof *id);
        ids++;
        memcpy(id, &ids, sizeof ids);
        return ncclSuccess;
    });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    const ncclConfig_t fresh = NCCL_CONFIG_INITIALIZER;

    return nccl_call(__func__, [&](locked &lock) {
        if (config->magic != fresh.magic || config->size != sizeof *config)
            refuse("ncclCommInitRankConfig: the configuration was not initialised");
        return join(comm, size, id, rank, config->blocking != 0, lock);
    });
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank)
{
    return nccl_call(__func__,
                     [&](locked &lock) { return join(comm, size, id, rank, true, lock); });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    static const long fails_at = stand_in::setting("WT_NCCL_ASYNC_ERROR", 0);

    return nccl_call(__func__, [&](locked &lock) {
        if (std::find(comms.begin(), comms.end(), comm) == comms.end() ||
            comm->state == comm->ended)
            refuse("ncclCommGetAsyncError: no communicator, or one that was destroyed");
        if (++polls == fails_at) {
            comm->error = ncclRemoteError;
            comm->last_error = "NET/Socket : remote peer closed the connection";
        }
        *error = poll(comm, lock);
        return ncclSuccess;
    });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    return nccl_call(__func__, [&](locked &lock) {
        check_usable(comm, "ncclCommFinalize");
        if (open_groups()) refuse("ncclCommFinalize: a group is open");
        if (has_graphs(comm))
            refuse("ncclCommFinalize: a graph that captured on the communicator is still there");
        comm->state = comm->finishing;
        if (!comm->blocking) return ncclInProgress;
        for (auto &part : comm->parts)
            if (!part->done) stand_in::run_until_empty(part->stream, lock);
        comm->state = comm->finished;
        return ncclSuccess;
    });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    return nccl_call(__func__, [&](locked &) {
        if (std::find(comms.begin(), comms.end(), comm) == comms.end() ||
            comm->state == comm->ended)
            refuse("ncclCommDestroy: no communicator, or one that was destroyed");
        if (comm->state != comm->finished)
            refuse("ncclCommDestroy: before the end of ncclCommFinalize");
        comm->state = comm->ended;
        forget_registered(comm);
        return ncclSuccess;
    });
}

/* What is in the streams ends without its work. Of a communicator with graphs it waits for ever, as
 * nobody destroys them meanwhile. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    return nccl_call(__func__, [&](locked &lock) {
        if (std::find(comms.begin(), comms.end(), comm) == comms.end() ||
            comm->state == comm->ended)
            refuse("ncclCommAbort: no communicator, or one that was destroyed");
        for (auto &part : comm->parts)
            if (!part->done) stand_in::cancel(part.get());
        while (has_graphs(comm)) came.wait(lock);
        comm->state = comm->ended;
        forget_registered(comm);
        return ncclSuccess;
    });
}

const char *ncclGetLastError(ncclComm_t comm) { return comm ? comm->last_error.c_str() : ""; }
}
