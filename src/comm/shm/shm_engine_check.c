/*
 * shm_engine_check.c: is a peer about to do what this rank does? Its slot says so without a
 * message, so that ranks which disagree on a kind, a root or a count never read each other's
 * memory. Names of modules are compared by fingerprint.c, when asked for.
 *
 * A rank sees the slots of those it reads from only. What it cannot see so (another root, counts of
 * others) is in the history that every slot carries, and ends the job at the next collective.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/hash.h"
#include "comm/shm/shm_engine.h"

uint64_t wf_shm_engine_hash_history(uint64_t history, const struct wf_coll *coll)
{
    return wf_coll_hash_counts(wf_hash_mix(history, wf_coll_signature(coll)), coll);
}

/* Bytes that this rank takes a peer to send: all of them, or of an all-to-all those for this rank.
 */
static uint64_t expected_bytes(const struct wf_shm_engine_op *op, int rank)
{
    const struct wf_coll *coll = op->coll;
    size_t element = weft_dtype_size(coll->dtype);

    switch (coll->kind) {
    case WEFT_COLL_ALL_GATHER:
    case WEFT_COLL_GATHER:
    case WEFT_COLL_ALL_TO_ALL:
        return coll->recv_counts[rank] * element;
    case WEFT_COLL_SCATTER:
        return wf_counts_prefix_sum(coll->send_counts, op->engine->size) * element;
    case WEFT_COLL_BROADCAST:
    case WEFT_COLL_RECV:
        return coll->count * element;
    default:
        return op->bytes; /* every rank sends as much as this one */
    }
}

static uint64_t posted_bytes(const struct wf_shm_engine_op *op,
                             const struct wf_shm_engine_slot *slot)
{
    int me = op->engine->rank;

    if ((slot->what & 0xff) != WEFT_COLL_ALL_TO_ALL) return slot->bytes;
    return slot->words[me + 1] - slot->words[me];
}

static _Noreturn void die_naming_difference(const struct wf_shm_engine_op *op, int rank)
{
    const struct wf_coll *coll = op->coll;
    const struct wf_shm_engine_slot *slot = wf_shm_engine_slot(op, rank);
    const int *world = coll->comm->world_ranks;
    unsigned long long wanted = expected_bytes(op, rank), sent = posted_bytes(op, slot);
    char mine[512], theirs[64];

    wf_coll_describe_with_caller(coll, mine, sizeof mine);
    wf_coll_describe_signature(slot->what, coll->comm, theirs, sizeof theirs);
    if (slot->what == wf_coll_signature(coll) && wanted == sent)
        WF_DIE("ranks do different collectives: rank %d: %s; rank %d splits it in another way, or "
               "they differed in an earlier one (WEFT_CHECK=2 says more)",
               world[op->engine->rank], mine, world[rank]);
    WF_DIE("ranks do different collectives: rank %d: %s, taking %llu bytes of rank %d; rank %d: "
           "%s, giving %llu bytes (WEFT_CHECK=2 says more)",
           world[op->engine->rank], mine, wanted, world[rank], world[rank], theirs, sent);
}

void wf_shm_engine_check_peer(const struct wf_shm_engine_op *op, int rank)
{
    const struct wf_shm_engine_slot *slot = wf_shm_engine_slot(op, rank);

    if (slot->what != wf_coll_signature(op->coll) || slot->history != op->history ||
        posted_bytes(op, slot) != expected_bytes(op, rank))
        die_naming_difference(op, rank);
}
