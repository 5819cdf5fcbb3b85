/*
 * fingerprint.c: WEFT_CHECK=2: before a collective its ranks compare what they are about to do, so
 * that a mismatch becomes a sentence instead of a hang or wrong numbers.
 *
 * 8 bytes per rank when all is well; the texts travel only to name a mismatch.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "comm/backend.h"

enum { TEXT_BYTES = 256 };

static uint64_t mix_counts(uint64_t hash, const struct wf_coll *coll)
{
    const size_t *counts = coll->recv_counts;

    if (coll->kind == WEFT_COLL_REDUCE_SCATTER || coll->kind == WEFT_COLL_SCATTER)
        counts = coll->send_counts;
    else if (coll->kind != WEFT_COLL_ALL_GATHER && coll->kind != WEFT_COLL_GATHER)
        return coll->kind == WEFT_COLL_ALL_TO_ALL ? hash : wf_mix(hash, coll->count);
    for (int i = 0; i < coll->comm->size; i++) hash = wf_mix(hash, counts[i]);
    return hash;
}

static bool rooted(weft_coll kind)
{
    return kind == WEFT_COLL_BROADCAST || kind == WEFT_COLL_SCATTER || kind == WEFT_COLL_GATHER;
}

static uint64_t fingerprint(const struct wf_coll *coll)
{
    const char *module = coll->where.module ? coll->where.module : "";
    bool reduces = coll->kind == WEFT_COLL_ALL_REDUCE || coll->kind == WEFT_COLL_REDUCE_SCATTER;
    uint64_t hash = wf_mix(*coll->comm->calls, (uint64_t)coll->kind);

    if (coll->kind == WEFT_COLL_BARRIER) return wf_mix(hash, 0);
    hash = wf_mix(hash, (uint64_t)coll->dtype);
    hash = wf_mix(hash, reduces ? (uint64_t)coll->reduce : 0);
    hash = wf_mix(hash, rooted(coll->kind) ? (uint64_t)coll->peer : 0);
    hash = wf_mix(hash, wf_hash_bytes(coll->comm->label, strlen(coll->comm->label)));
    hash = wf_mix(hash, wf_hash_bytes(module, strlen(module)));
    return mix_counts(hash, coll);
}

void wf_comm_share(struct wf_comm *comm, const void *mine, void *all, size_t bytes)
{
    int size = comm->size;
    size_t *counts = wf_malloc((size_t)size * sizeof(size_t));
    struct wf_coll gather = {.kind = WEFT_COLL_ALL_GATHER,
                             .comm = comm,
                             .dtype = WEFT_U8,
                             .recv_counts = counts,
                             .send = mine,
                             .recv = all};

    for (int i = 0; i < size; i++) counts[i] = bytes;
    wf_comm_run_quiet(&gather);
    wf_free(counts);
}

static _Noreturn void name_mismatch(const struct wf_coll *coll, int other)
{
    int size = coll->comm->size, me = coll->comm->rank;
    char mine[TEXT_BYTES] = "", what[TEXT_BYTES - 100];
    char *all = wf_malloc((size_t)size * TEXT_BYTES);

    wf_coll_describe(coll, what, sizeof what);
    snprintf(mine, sizeof mine, "%s%s%.64s (collective %llu)", what,
             coll->where.module ? " in module " : "", coll->where.module ? coll->where.module : "",
             (unsigned long long)*coll->comm->calls);
    wf_comm_share(coll->comm, mine, all, TEXT_BYTES);
    WF_DIE("ranks are about to do different collectives: rank %d: %s; rank %d: %s",
           coll->comm->world_ranks[me], mine, coll->comm->world_ranks[other],
           all + (size_t)other * TEXT_BYTES);
}

/* All ranks see the same list, so that all of them come to name_mismatch or none. */
static int first_difference(const uint64_t *prints, int size, int me)
{
    for (int i = 0; i < size; i++)
        if (prints[i] != prints[me]) return i;
    return -1;
}

void wf_fingerprint_compare(const struct wf_coll *coll)
{
    uint64_t mine, *all = wf_malloc((size_t)coll->comm->size * sizeof(uint64_t));
    int other;

    ++*coll->comm->calls;
    mine = fingerprint(coll);
    wf_comm_share(coll->comm, &mine, all, sizeof mine);
    other = first_difference(all, coll->comm->size, coll->comm->rank);
    if (other >= 0) name_mismatch(coll, other);
    wf_free(all);
}
