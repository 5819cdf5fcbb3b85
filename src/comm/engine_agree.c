/*
 * engine_agree.c: is a peer about to do what this rank does? Its slot says so without a message, so
 * that ranks which disagree on a kind or a size never read beyond each other's memory. Names of
 * modules and counts of all others are compared by fingerprint.c, when asked for.
 */
#include "base/error.h"
#include "comm/engine.h"

static bool adds_up(weft_coll kind)
{
    return kind == WEFT_COLL_ALL_REDUCE || kind == WEFT_COLL_REDUCE_SCATTER;
}

uint64_t wf_engine_what(const struct wf_coll *coll)
{
    uint64_t kind = (uint64_t)coll->kind;

    return adds_up(coll->kind) ? kind | (uint64_t)coll->dtype << 8 | (uint64_t)coll->reduce << 16
                               : kind;
}

static uint64_t wanted_bytes(const struct wf_engine_op *op, int rank, uint64_t there)
{
    const struct wf_coll *coll = op->coll;

    if (adds_up(coll->kind)) return op->bytes;
    if (coll->kind == WEFT_COLL_ALL_GATHER)
        return coll->recv_counts[rank] * weft_dtype_size(coll->dtype);
    return there;
}

static _Noreturn void name_difference(const struct wf_engine_op *op, int rank)
{
    const struct wf_coll *coll = op->coll;
    const struct wf_engine_slot *slot = wf_engine_slot(op, rank);
    char mine[256];

    wf_coll_describe(coll, mine, sizeof mine);
    WF_DIE("ranks do different collectives: rank %d: %s%s%s, taking %llu bytes of rank %d; rank "
           "%d: %s of %llu bytes (WEFT_CHECK=2 says more)",
           coll->comm->world_ranks[op->engine->rank], mine, coll->where.module ? " in module " : "",
           coll->where.module ? coll->where.module : "",
           (unsigned long long)wanted_bytes(op, rank, slot->bytes), coll->comm->world_ranks[rank],
           coll->comm->world_ranks[rank], wf_coll_name((weft_coll)(slot->what & 0xff)),
           (unsigned long long)slot->bytes);
}

void wf_engine_agree(const struct wf_engine_op *op, int rank)
{
    const struct wf_engine_slot *slot = wf_engine_slot(op, rank);

    if (slot->what != wf_engine_what(op->coll) ||
        slot->bytes != wanted_bytes(op, rank, slot->bytes))
        name_difference(op, rank);
}
