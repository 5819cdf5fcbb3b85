/*
 * nccl_comm.c: communicators of NCCL: made from an id of the first rank, asked for errors, ended.
 * They do not block: a call returns at once, and what it began is over when ncclCommGetAsyncError
 * no longer says ncclInProgress.
 */
#include "comm/nccl/nccl_comm.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "device/cuda/cuda_check.h"

_Static_assert(WF_COMM_ID_BYTES == sizeof(ncclUniqueId), "an id of NCCL");
_Static_assert(WF_DEVICE_ID_BYTES == sizeof(cudaUUID_t), "an id of CUDA");

void wf_nccl_note(struct wf_nccl_comm *comm, ncclResult_t result, const char *call)
{
    if (result == ncclSuccess || result == ncclInProgress || comm->failed != ncclSuccess) return;
    comm->failed = result;
    comm->call = call;
}

static void fill_peer_info(bool first, struct wf_peer_info *mine)
{
    struct cudaDeviceProp is;
    ncclResult_t result;
    int device;

    mine->version = wf_nccl_load(mine->why_not, sizeof mine->why_not);
    if (!mine->version) return;
    WF_CUDA_CHECK(cudaGetDevice(&device));
    WF_CUDA_CHECK(cudaGetDeviceProperties(&is, device));
    memcpy(mine->device, &is.uuid, sizeof is.uuid);
    mine->has_its_memory = wf_nccl_gives_memory();
    if (!first) return;
    result = wf_nccl.GetUniqueId((ncclUniqueId *)mine->comm);
    if (result != ncclSuccess)
        snprintf(mine->why_not, sizeof mine->why_not, "ncclGetUniqueId: %s",
                 wf_nccl.GetErrorString(result));
}

static void *open_comm(const unsigned char *id, int size, int rank, bool all_have_its_memory)
{
    struct wf_nccl_comm *comm = WF_NEW(struct wf_nccl_comm);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId unique;

    config.blocking = 0;
    memcpy(&unique, id, sizeof unique);
    comm->size = size;
    comm->rank = rank;
    comm->registers = all_have_its_memory;
    WF_NCCL(comm, CommInitRankConfig(&comm->comm, size, unique, rank, &config));
    return comm;
}

/* "ncclAllReduce: unhandled system error: connection refused" */
static void describe_failure(const struct wf_nccl_comm *comm, char *why, size_t room)
{
    const char *last = comm->comm ? wf_nccl.GetLastError(comm->comm) : NULL;

    snprintf(why, room, "%.*s: %s%s%s", (int)strcspn(comm->call, "("), comm->call,
             wf_nccl.GetErrorString(comm->failed), last && last[0] ? ": " : "", last ? last : "");
}

static enum wf_device_comm_status status_of(void *state, char *why, size_t room)
{
    struct wf_nccl_comm *comm = state;
    ncclResult_t error = ncclSuccess;

    if (comm->failed == ncclSuccess) {
        WF_NCCL(comm, CommGetAsyncError(comm->comm, &error));
        if (error == ncclInProgress) return WF_DEVICE_COMM_BUSY;
        wf_nccl_note(comm, error, "ncclCommGetAsyncError");
    }
    if (comm->failed == ncclSuccess) return WF_DEVICE_COMM_READY;
    describe_failure(comm, why, room);
    return WF_DEVICE_COMM_FAILED;
}

static void finish(void *state)
{
    struct wf_nccl_comm *comm = state;

    wf_nccl_deregister_all(comm);
    WF_NCCL(comm, CommFinalize(comm->comm));
}

static void close_comm(void *state)
{
    struct wf_nccl_comm *comm = state;

    ncclResult_t result = wf_nccl.CommDestroy(comm->comm);

    if (result != ncclSuccess) WF_DIE("ncclCommDestroy: %s", wf_nccl.GetErrorString(result));
    wf_free(comm);
}

const struct wf_device_collectives wf_nccl_collectives = {
    .name = "NCCL",
    .fill_peer_info = fill_peer_info,
    .open = open_comm,
    .status = status_of,
    .issue = wf_nccl_issue,
    .finish = finish,
    .close = close_comm,
};
