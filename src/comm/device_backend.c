/*
 * device_backend.c: which backend moves the bytes of a communicator's collectives on a device:
 * chosen by all its ranks together, in the first of these collectives. The device's own library
 * (device_collectives.h) where every rank has it, in one version, and a GPU of its own; else pinned
 * host memory (staged.c), and one line in the log says why.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/settings/knob.h"
#include "comm/stream_ordered.h"
#include "device/device.h"

enum { WHY_BYTES = 512 };

/* Two ranks with one GPU, in *other and the result; -1: none. */
static int find_shared_device(const struct wf_peer_info *all, int size, int *other)
{
    for (int rank = 1; rank < size; rank++)
        for (*other = 0; *other < rank; ++*other)
            if (memcmp(all[rank].device, all[*other].device, WF_DEVICE_ID_BYTES) == 0) return rank;
    return -1;
}

/* The same on all ranks. gives: false and the reason */
static bool all_can(const struct wf_comm *comm, const struct wf_peer_info *all, char *why)
{
    int other, rank;

    for (rank = 0; rank < comm->size; rank++) {
        if (all[rank].why_not[0]) {
            snprintf(why, WHY_BYTES, "rank %d: %s", comm->world_ranks[rank], all[rank].why_not);
            return false;
        }
        if (all[rank].version == all[0].version) continue;
        snprintf(why, WHY_BYTES, "rank %d has version %d of it, rank %d version %d",
                 comm->world_ranks[0], all[0].version, comm->world_ranks[rank], all[rank].version);
        return false;
    }
    rank = find_shared_device(all, comm->size, &other);
    if (rank < 0) return true;
    snprintf(why, WHY_BYTES, "ranks %d and %d share a GPU", comm->world_ranks[other],
             comm->world_ranks[rank]);
    return false;
}

/* Once, by the first rank of the first communicator. */
static void log_staging(const struct wf_comm *comm, const char *name, const char *why)
{
    static _Thread_local bool told;

    if (!told && comm->rank == 0)
        WF_LOG(wf_knobs.nccl ? WF_LOG_WARN : WF_LOG_INFO, "comm",
               "collectives between GPUs go through host memory, without %s: %s", name, why);
    told = true;
}

static void fill_peer_info(const struct wf_device_collectives *library, bool first,
                           struct wf_peer_info *mine)
{
    if (wf_knobs.nccl)
        library->fill_peer_info(first, mine);
    else
        snprintf(mine->why_not, sizeof mine->why_not, "WEFT_NCCL is 0");
}

static void choose(struct wf_comm *comm)
{
    const struct wf_device_collectives *library = wf_device_library()->collectives;
    struct wf_peer_info mine = {.version = 0}, *all = wf_calloc((size_t)comm->size, sizeof *all);
    char why[WHY_BYTES];

    fill_peer_info(library, comm->rank == 0, &mine);
    wf_comm_allgather_bytes(comm, &mine, all, sizeof mine);
    if (all_can(comm, all, why)) {
        wf_stream_ordered_open(comm, all);
    } else {
        log_staging(comm, library->name, why);
        comm->device->backend = &wf_backend_staged;
    }
    wf_free(all);
}

/* Ranks that the library would keep waiting in the stream for each other's messages, in whatever
 * order these are sent and received, go through the host. */
const struct wf_backend *wf_comm_device_backend(struct wf_comm *comm, const struct wf_coll *coll)
{
    weft_coll kind = coll->kind;
    bool unknown_sum =
        wf_coll_reduces(kind) &&
        (coll->dtype == WEFT_I16 || coll->dtype == WEFT_C64); /* NCCL has no such types */

    if (comm->size == 1 || unknown_sum || kind == WEFT_COLL_SEND || kind == WEFT_COLL_RECV ||
        kind == WEFT_COLL_BARRIER || !wf_device_library()->collectives)
        return &wf_backend_staged;
    if (!comm->device->backend) choose(comm);
    return comm->device->backend;
}
