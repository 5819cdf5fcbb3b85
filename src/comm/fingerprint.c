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

static uint64_t collective_fingerprint(const struct wf_coll *coll)
{
    const char *module = coll->where.module ? coll->where.module : "";
    uint64_t hash = wf_hash_mix(*coll->comm->calls, (uint64_t)coll->kind);

    if (coll->kind == WEFT_COLL_BARRIER) return wf_hash_mix(hash, 0);
    hash = wf_hash_mix(hash, (uint64_t)coll->dtype);
    hash = wf_hash_mix(hash, wf_coll_reduces(coll->kind) ? (uint64_t)coll->reduce : 0);
    hash = wf_hash_mix(hash, wf_coll_has_root(coll->kind) ? (uint64_t)coll->peer : 0);
    hash = wf_hash_mix(hash, wf_hash_bytes(coll->comm->label, strlen(coll->comm->label)));
    hash = wf_hash_mix(hash, wf_hash_bytes(module, strlen(module)));
    return wf_coll_hash_counts(hash, coll);
}

void wf_comm_allgather_bytes(struct wf_comm *comm, const void *mine, void *all, size_t bytes)
{
    struct wf_coll gather = {.kind = WEFT_COLL_ALL_GATHER,
                             .comm = comm,
                             .dtype = WEFT_U8,
                             .recv_counts = comm->equal_counts,
                             .send = mine,
                             .recv = all};

    for (int r = 0; r < comm->size; r++) comm->equal_counts[r] = bytes;
    wf_comm_run_unobserved(&gather);
}

int wf_comm_least(struct wf_comm *comm, int mine)
{
    int *all = wf_calloc((size_t)comm->size, sizeof *all), least = mine;

    wf_comm_allgather_bytes(comm, &mine, all, sizeof mine);
    for (int r = 0; r < comm->size; r++)
        if (all[r] < least) least = all[r];
    wf_free(all);
    return least;
}

static _Noreturn void die_naming_mismatch(const struct wf_coll *coll, int other)
{
    int size = coll->comm->size, me = coll->comm->rank;
    char mine[TEXT_BYTES] = "", what[TEXT_BYTES - 40];
    char *all = wf_malloc((size_t)size * TEXT_BYTES);

    wf_coll_describe_with_caller(coll, what, sizeof what);
    snprintf(mine, sizeof mine, "%s (collective %llu)", what,
             (unsigned long long)*coll->comm->calls);
    wf_comm_allgather_bytes(coll->comm, mine, all, TEXT_BYTES);
    WF_DIE("ranks are about to do different collectives: rank %d: %s; rank %d: %s",
           coll->comm->world_ranks[me], mine, coll->comm->world_ranks[other],
           all + (size_t)other * TEXT_BYTES);
}

/* Counts of an all-to-all are each rank's own: what one sends is what the other expects. All ranks
 * see the whole table, so all of them end here or none. */
static void compare_all_to_all_counts(const struct wf_coll *coll)
{
    size_t n = (size_t)coll->comm->size, bytes = n * sizeof(size_t);
    size_t *mine = wf_malloc(2 * bytes), *all = wf_malloc(2 * bytes * n);

    memcpy(mine, coll->send_counts, bytes);
    memcpy(mine + n, coll->recv_counts, bytes);
    wf_comm_allgather_bytes(coll->comm, mine, all, 2 * bytes);
    for (size_t from = 0; from < n; from++)
        for (size_t to = 0; to < n; to++) {
            size_t sent = all[2 * n * from + to], wanted = all[2 * n * to + n + from];
            char what[TEXT_BYTES];

            if (sent == wanted) continue;
            wf_coll_describe_with_caller(coll, what, sizeof what);
            WF_DIE("ranks are about to do different collectives: %s (collective %llu): rank %d "
                   "sends %zu elements to rank %d, which takes %zu",
                   what, (unsigned long long)*coll->comm->calls, coll->comm->world_ranks[from],
                   sent, coll->comm->world_ranks[to], wanted);
        }
    wf_free(mine);
    wf_free(all);
}

void wf_fingerprint_compare(const struct wf_coll *coll)
{
    uint64_t mine, *all = wf_malloc((size_t)coll->comm->size * sizeof(uint64_t));

    ++*coll->comm->calls;
    mine = collective_fingerprint(coll);
    wf_comm_allgather_bytes(coll->comm, &mine, all, sizeof mine);
    /* All ranks see the same list, so that all of them come to die_naming_mismatch or none. */
    for (int rank = 0; rank < coll->comm->size; rank++)
        if (all[rank] != mine) die_naming_mismatch(coll, rank);
    if (coll->kind == WEFT_COLL_ALL_TO_ALL) compare_all_to_all_counts(coll);
    wf_free(all);
}
