/*
 * engine_agree.c: is a peer about to do what this rank does? Its slot says so without a message, so
 * that ranks which disagree on a kind, a root or a count never read each other's memory. Names of
 * modules are compared by fingerprint.c, when asked for.
 *
 * A rank sees the slots of those it reads from only. What it cannot see so (another root, counts of
 * others) is in the history that every slot carries, and ends the job at the next collective.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/hash.h"
#include "comm/engine.h"

uint64_t wf_engine_note(uint64_t history, const struct wf_coll *coll)
{
    return wf_coll_mix_counts(wf_mix(history, wf_coll_what(coll)), coll);
}

/* Bytes that this rank takes a peer to send: all of them, or of an all-to-all those for this rank.
 */
static uint64_t wanted_bytes(const struct wf_engine_op *op, int rank)
{
    const struct wf_coll *coll = op->coll;
    size_t element = weft_dtype_size(coll->dtype);

    switch (coll->kind) {
    case WEFT_COLL_ALL_GATHER:
    case WEFT_COLL_GATHER:
    case WEFT_COLL_ALL_TO_ALL:
        return coll->recv_counts[rank] * element;
    case WEFT_COLL_SCATTER:
        return wf_counts_before(coll->send_counts, op->engine->size) * element;
    case WEFT_COLL_BROADCAST:
    case WEFT_COLL_RECV:
        return coll->count * element;
    default:
        return op->bytes; /* every rank sends as much as this one */
    }
}

static uint64_t sent_bytes(const struct wf_engine_op *op, const struct wf_engine_slot *slot)
{
    int me = op->engine->rank;

    if ((slot->what & 0xff) != WEFT_COLL_ALL_TO_ALL) return slot->bytes;
    return slot->words[me + 1] - slot->words[me];
}

static _Noreturn void name_difference(const struct wf_engine_op *op, int rank)
{
    const struct wf_coll *coll = op->coll;
    const struct wf_engine_slot *slot = wf_engine_slot(op, rank);
    const int *world = coll->comm->world_ranks;
    unsigned long long wanted = wanted_bytes(op, rank), sent = sent_bytes(op, slot);
    char mine[512], theirs[64];

    wf_coll_describe_place(coll, mine, sizeof mine);
    wf_coll_describe_what(slot->what, coll->comm, theirs, sizeof theirs);
    if (slot->what == wf_coll_what(coll) && wanted == sent)
        WF_DIE("ranks do different collectives: rank %d: %s; rank %d splits it in another way, or "
               "they differed in an earlier one (WEFT_CHECK=2 says more)",
               world[op->engine->rank], mine, world[rank]);
    WF_DIE("ranks do different collectives: rank %d: %s, taking %llu bytes of rank %d; rank %d: "
           "%s, giving %llu bytes (WEFT_CHECK=2 says more)",
           world[op->engine->rank], mine, wanted, world[rank], world[rank], theirs, sent);
}

void wf_engine_agree(const struct wf_engine_op *op, int rank)
{
    const struct wf_engine_slot *slot = wf_engine_slot(op, rank);

    if (slot->what != wf_coll_what(op->coll) || slot->history != op->history ||
        sent_bytes(op, slot) != wanted_bytes(op, rank))
        name_difference(op, rank);
}
