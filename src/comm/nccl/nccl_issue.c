/*
 * nccl_issue.c: each kind of collective as calls of NCCL. Where its own take equal counts and these
 * are not, a group of sends and receives, or of reductions to one rank each, stands in.
 */
#include "comm/nccl/nccl_comm.h"

#include "device/cuda/cuda_rank.h"

/* Without i16 and c64, which are moved as other types of their size and reduced in host memory. */
static ncclDataType_t nccl_type_of_dtype(weft_dtype dtype)
{
    static const ncclDataType_t types[WEFT_DTYPE_COUNT] = {
        [WEFT_F32] = ncclFloat32, [WEFT_F64] = ncclFloat64, [WEFT_BF16] = ncclBfloat16,
        [WEFT_F16] = ncclFloat16, [WEFT_I32] = ncclInt32,   [WEFT_I64] = ncclInt64,
        [WEFT_U8] = ncclUint8,    [WEFT_BOOL] = ncclUint8,  [WEFT_I16] = ncclFloat16,
        [WEFT_I8] = ncclInt8,     [WEFT_C64] = ncclInt64};

    return types[dtype];
}

static ncclRedOp_t nccl_op_of_reduce(weft_reduce reduce)
{
    switch (reduce) {
    case WEFT_PRODUCT:
        return ncclProd;
    case WEFT_MAX:
        return ncclMax;
    case WEFT_MIN:
        return ncclMin;
    default: /* comm.c lets no others pass */
        return ncclSum;
    }
}

static bool counts_are_equal(const size_t *counts, int n)
{
    for (int i = 1; i < n; i++)
        if (counts[i] != counts[0]) return false;
    return true;
}

/* What the calls of one collective share. */
struct request {
    struct wf_nccl_comm *comm;
    const struct wf_coll *coll;
    ncclDataType_t type;
    ncclRedOp_t reduction;
    size_t element; /* bytes */
    cudaStream_t stream;
};

/* ---- groups ---- */

static void send_to(const struct request *r, int peer, size_t first, size_t count)
{
    const char *from = r->coll->send;

    if (count)
        WF_NCCL(r->comm,
                Send(from + first * r->element, count, r->type, peer, r->comm->comm, r->stream));
}

static void recv_from(const struct request *r, int peer, size_t first, size_t count)
{
    char *to = r->coll->recv;

    if (count)
        WF_NCCL(r->comm,
                Recv(to + first * r->element, count, r->type, peer, r->comm->comm, r->stream));
}

/* Parts one after another, each for one rank. */
static void send_parts(const struct request *r, const size_t *counts)
{
    for (size_t rank = 0, at = 0; rank < (size_t)r->comm->size; at += counts[rank++])
        send_to(r, (int)rank, at, counts[rank]);
}

static void recv_parts(const struct request *r, const size_t *counts)
{
    for (size_t rank = 0, at = 0; rank < (size_t)r->comm->size; at += counts[rank++])
        recv_from(r, (int)rank, at, counts[rank]);
}

/* The same elements to all. */
static void send_same_to_all(const struct request *r, size_t count)
{
    for (int rank = 0; rank < r->comm->size; rank++) send_to(r, rank, 0, count);
}

static void reduce_parts(const struct request *r, const size_t *counts)
{
    const char *from = r->coll->send;

    for (int rank = 0; rank < r->comm->size; from += counts[rank++] * r->element) {
        void *to = rank == r->comm->rank ? r->coll->recv : NULL;

        if (counts[rank])
            WF_NCCL(r->comm, Reduce(from, to, counts[rank], r->type, r->reduction, rank,
                                    r->comm->comm, r->stream));
    }
}

static void give_group(const struct request *r)
{
    const struct wf_coll *coll = r->coll;
    int me = r->comm->rank;

    WF_NCCL(r->comm, GroupStart());
    switch (coll->kind) {
    case WEFT_COLL_ALL_GATHER:
        send_same_to_all(r, coll->recv_counts[me]);
        recv_parts(r, coll->recv_counts);
        break;
    case WEFT_COLL_REDUCE_SCATTER:
        reduce_parts(r, coll->send_counts);
        break;
    case WEFT_COLL_SCATTER:
        if (me == coll->peer) send_parts(r, coll->send_counts);
        recv_from(r, coll->peer, 0, coll->send_counts[me]);
        break;
    case WEFT_COLL_GATHER:
        send_to(r, coll->peer, 0, coll->recv_counts[me]);
        if (me == coll->peer) recv_parts(r, coll->recv_counts);
        break;
    default: /* an all-to-all */
        send_parts(r, coll->send_counts);
        recv_parts(r, coll->recv_counts);
    }
    WF_NCCL(r->comm, GroupEnd());
}

/* ---- single calls ---- */

static void give_all_gather(const struct request *r)
{
    const struct wf_coll *coll = r->coll;

    if (coll->recv_counts[0])
        WF_NCCL(r->comm, AllGather(coll->send, coll->recv, coll->recv_counts[0], r->type,
                                   r->comm->comm, r->stream));
}

static void give_reduce_scatter(const struct request *r)
{
    const struct wf_coll *coll = r->coll;

    if (coll->send_counts[0])
        WF_NCCL(r->comm, ReduceScatter(coll->send, coll->recv, coll->send_counts[0], r->type,
                                       r->reduction, r->comm->comm, r->stream));
}

static void give_all_reduce(const struct request *r)
{
    const struct wf_coll *coll = r->coll;

    if (coll->count)
        WF_NCCL(r->comm, AllReduce(coll->send, coll->recv, coll->count, r->type, r->reduction,
                                   r->comm->comm, r->stream));
}

static void give_broadcast(const struct request *r)
{
    const struct wf_coll *coll = r->coll;
    const void *from = r->comm->rank == coll->peer ? coll->send : coll->recv;

    if (coll->count)
        WF_NCCL(r->comm, Broadcast(from, coll->recv, coll->count, r->type, coll->peer,
                                   r->comm->comm, r->stream));
}

void wf_nccl_issue(void *state, const struct wf_coll *coll)
{
    struct wf_nccl_comm *comm = state;
    struct request r = {comm,
                        coll,
                        nccl_type_of_dtype(coll->dtype),
                        nccl_op_of_reduce(coll->reduce),
                        weft_dtype_size(coll->dtype),
                        wf_cuda_stream(WF_STREAM_COMM)};

    wf_nccl_register_region_of(comm, coll->send);
    wf_nccl_register_region_of(comm, coll->recv);
    if (comm->failed != ncclSuccess) return; /* `status` says so */
    if (coll->kind == WEFT_COLL_ALL_REDUCE)
        give_all_reduce(&r);
    else if (coll->kind == WEFT_COLL_BROADCAST)
        give_broadcast(&r);
    else if (coll->kind == WEFT_COLL_ALL_GATHER && counts_are_equal(coll->recv_counts, comm->size))
        give_all_gather(&r);
    else if (coll->kind == WEFT_COLL_REDUCE_SCATTER &&
             counts_are_equal(coll->send_counts, comm->size))
        give_reduce_scatter(&r);
    else
        give_group(&r);
}
