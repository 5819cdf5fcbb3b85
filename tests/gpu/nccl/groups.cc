/* groups.cc: groups of calls, and the calls themselves: what may be asked for, and when it begins.
 */
#include "nccl_stand_in.h"

namespace nccl_stand_in
{

const char *const kind_names[] = {
    "all-reduce", "all-gather", "reduce-scatter", "reduce", "broadcast", "send", "recv"};

static thread_local int depth;
static thread_local std::vector<request> grouped;

int open_groups() { return depth; }

/* A thread or program that ends within a group has lost what is in it. */
static struct at_end {
    ~at_end()
    {
        if (depth) refuse("the program ends between ncclGroupStart and ncclGroupEnd");
    }
} at_end;

size_t bytes_of(ncclDataType_t type)
{
    switch (type) {
    case ncclInt8:
    case ncclUint8:
        return 1;
    case ncclFloat16:
    case ncclBfloat16:
        return 2;
    case ncclInt32:
    case ncclFloat32:
        return 4;
    case ncclInt64:
    case ncclFloat64:
        return 8;
    default:
        refuse("type %d is one that the stand-in does not know", type);
    }
}

std::string describe(const request &r)
{
    std::string text = std::string(kind_names[r.kind]) + " of " + std::to_string(r.count) +
                       " elements of type " + std::to_string(r.type);

    if (r.kind == reduce || r.kind == broadcast) text += ", root " + std::to_string(r.peer);
    if (r.kind == all_reduce || r.kind == reduce_scatter || r.kind == reduce)
        text += ", reduction " + std::to_string(r.op);
    return text;
}

static void check_pointer(const request &r, const void *p)
{
    if (!stand_in::is_device_address(p))
        refuse("%s: %p is no device memory", describe(r).c_str(), p);
    if (stand_in::device_of_address(p) != r.comm->device)
        refuse("%s: the memory is of device %d, the communicator's device is %d",
               describe(r).c_str(), stand_in::device_of_address(p), r.comm->device);
}

/* The manual wants all of a collective's buffers registered, or none. */
static void note_registered(request &r)
{
    bool reads = r.from && r.kind != recv && (r.kind != broadcast || r.peer == r.comm->rank);
    bool writes = r.to && r.kind != send && (r.kind != reduce || r.peer == r.comm->rank);
    bool from = reads && is_registered(r.comm, r.from), to = writes && is_registered(r.comm, r.to);

    if (reads && writes && from != to)
        refuse("%s: one of its buffers is registered, and one is not", describe(r).c_str());
    r.registered = from || to;
}

static ncclResult_t check_request(request &r)
{
    bool has_peer = r.kind == reduce || r.kind == broadcast || r.kind == send || r.kind == recv;

    check_usable(r.comm, kind_names[r.kind]);
    if (stand_in::check_stream(r.stream, kind_names[r.kind]) != cudaSuccess)
        return ncclInvalidArgument;
    if (r.stream->device != r.comm->device)
        refuse("%s: the stream is of device %d, the communicator's device is %d",
               describe(r).c_str(), r.stream->device, r.comm->device);
    if (has_peer && (r.peer < 0 || r.peer >= r.comm->clique->size)) return ncclInvalidArgument;
    if (!r.count) return ncclSuccess;
    if (r.kind != recv && (r.kind != broadcast || r.peer == r.comm->rank)) check_pointer(r, r.from);
    if (r.kind != send && (r.kind != reduce || r.peer == r.comm->rank)) check_pointer(r, r.to);
    note_registered(r);
    return ncclSuccess;
}

static ncclResult_t ask(request r)
{
    return nccl_call(kind_names[r.kind], [&](locked &lock) {
        ncclResult_t result = check_request(r);

        if (result != ncclSuccess) return result;
        if (depth) {
            grouped.push_back(r);
            return ncclSuccess;
        }
        return begin(r.comm, {r}, lock);
    });
}

/* Of each communicator its requests, in order. */
static ncclResult_t end_group(locked &lock)
{
    std::vector<request> requests = std::move(grouped), of_comm;
    ncclResult_t result = ncclSuccess;

    grouped.clear();
    while (!requests.empty()) {
        ncclComm_t comm = requests.front().comm;
        std::vector<request> others;

        of_comm.clear();
        for (auto &r : requests) (r.comm == comm ? of_comm : others).push_back(r);
        if (begin(comm, of_comm, lock) == ncclInProgress) result = ncclInProgress;
        requests = std::move(others);
    }
    return result;
}

} // namespace nccl_stand_in

using namespace nccl_stand_in;

extern "C" {

ncclResult_t ncclGroupStart(void)
{
    return nccl_call(__func__, [&](locked &) {
        depth++;
        return ncclSuccess;
    });
}

ncclResult_t ncclGroupEnd(void)
{
    return nccl_call(__func__, [&](locked &lock) {
        if (!depth) refuse("ncclGroupEnd without ncclGroupStart");
        return --depth ? ncclSuccess : end_group(lock);
    });
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return ask({all_reduce, from, to, count, type, op, 0, comm, stream, false, false});
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return ask({all_gather, from, to, count, type, ncclSum, 0, comm, stream, false, false});
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return ask({reduce_scatter, from, to, count, type, op, 0, comm, stream, false, false});
}

ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    return ask({reduce, from, to, count, type, op, root, comm, stream, false, false});
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    return ask({broadcast, from, to, count, type, ncclSum, root, comm, stream, false, false});
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    return ask({send, from, nullptr, count, type, ncclSum, peer, comm, stream, false, false});
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return ask({recv, nullptr, to, count, type, ncclSum, peer, comm, stream, false, false});
}
}
