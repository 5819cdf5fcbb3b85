/*
 * describe_collective.c: what a collective is, in numbers and in words: bytes for the ledger,
 * counts on this rank, and the texts of errors. Pure functions of the request.
 */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "comm/backend.h"

static const char *const names[WEFT_COLL_COUNT] = {
    [WEFT_COLL_ALL_REDUCE] = "all-reduce",
    [WEFT_COLL_ALL_GATHER] = "all-gather",
    [WEFT_COLL_REDUCE_SCATTER] = "reduce-scatter",
    [WEFT_COLL_ALL_TO_ALL] = "all-to-all",
    [WEFT_COLL_BROADCAST] = "broadcast",
    [WEFT_COLL_SCATTER] = "scatter",
    [WEFT_COLL_GATHER] = "gather",
    [WEFT_COLL_SEND] = "send",
    [WEFT_COLL_RECV] = "recv",
    [WEFT_COLL_BARRIER] = "barrier",
    [WEFT_COLL_REDUCE] = "reduce",
};

static const char *const reduce_names[WEFT_REDUCE_COUNT] = {
    [WEFT_SUM] = "sum", [WEFT_AVG] = "average", [WEFT_PRODUCT] = "product",
    [WEFT_MAX] = "max", [WEFT_MIN] = "min",
};

const char *wf_coll_name(weft_coll kind)
{
    return (unsigned)kind < WEFT_COLL_COUNT ? names[kind] : "unknown collective";
}

size_t wf_counts_prefix_sum(const size_t *counts, int index)
{
    size_t sum = 0;

    for (int i = 0; i < index; i++) sum += counts[i];
    return sum;
}

size_t wf_coll_send_count(const struct wf_coll *coll)
{
    int rank = coll->comm->rank, size = coll->comm->size;

    switch ((int)coll->kind) {
    case WF_COLL_GATHER_COLUMNS:
        return wf_counts_prefix_sum(coll->recv_counts, size * (int)coll->count);
    case WF_COLL_REDUCE_COLUMNS:
        return wf_counts_prefix_sum(coll->send_counts, size * (int)coll->count);
    case WEFT_COLL_ALL_REDUCE:
    case WEFT_COLL_SEND:
        return coll->count;
    case WEFT_COLL_ALL_GATHER:
    case WEFT_COLL_GATHER:
        return coll->recv_counts[rank];
    case WEFT_COLL_REDUCE_SCATTER:
    case WEFT_COLL_ALL_TO_ALL:
        return wf_counts_prefix_sum(coll->send_counts, size);
    case WEFT_COLL_SCATTER:
        return rank == coll->peer ? wf_counts_prefix_sum(coll->send_counts, size) : 0;
    case WEFT_COLL_BROADCAST:
        return rank == coll->peer ? coll->count : 0;
    default:
        return 0;
    }
}

size_t wf_coll_recv_count(const struct wf_coll *coll)
{
    int rank = coll->comm->rank, size = coll->comm->size;

    switch (coll->kind) {
    case WEFT_COLL_ALL_REDUCE:
    case WEFT_COLL_BROADCAST:
    case WEFT_COLL_RECV:
        return coll->count;
    case WEFT_COLL_ALL_GATHER:
    case WEFT_COLL_ALL_TO_ALL:
        return wf_counts_prefix_sum(coll->recv_counts, size);
    case WEFT_COLL_GATHER:
        return rank == coll->peer ? wf_counts_prefix_sum(coll->recv_counts, size) : 0;
    case WEFT_COLL_REDUCE_SCATTER:
    case WEFT_COLL_SCATTER:
        return coll->send_counts[rank];
    default:
        return 0;
    }
}

size_t wf_coll_payload_bytes(const struct wf_coll *coll)
{
    size_t element = weft_dtype_size(coll->dtype);
    int size = coll->comm->size;

    switch (coll->kind) {
    case WEFT_COLL_ALL_GATHER:
    case WEFT_COLL_GATHER:
        return wf_counts_prefix_sum(coll->recv_counts, size) * element;
    case WEFT_COLL_REDUCE_SCATTER:
    case WEFT_COLL_SCATTER:
    case WEFT_COLL_ALL_TO_ALL:
        return wf_counts_prefix_sum(coll->send_counts, size) * element;
    case WEFT_COLL_BARRIER:
        return 0;
    default:
        return coll->count * element;
    }
}

size_t wf_coll_bytes_sent(const struct wf_coll *coll)
{
    size_t element = weft_dtype_size(coll->dtype), others = (size_t)coll->comm->size - 1;
    int rank = coll->comm->rank;
    size_t sent = wf_coll_send_count(coll);

    switch (coll->kind) {
    case WEFT_COLL_ALL_REDUCE:
        return 2 * sent * others / (others + 1) * element;
    case WEFT_COLL_ALL_GATHER:
        return sent * others * element;
    case WEFT_COLL_REDUCE_SCATTER:
    case WEFT_COLL_ALL_TO_ALL:
        return (sent - coll->send_counts[rank]) * element;
    case WEFT_COLL_SCATTER:
        return rank == coll->peer ? (sent - coll->send_counts[rank]) * element : 0;
    case WEFT_COLL_GATHER:
        return rank == coll->peer ? 0 : sent * element;
    default:
        return others ? sent * element : 0;
    }
}

bool wf_coll_reduces(weft_coll kind)
{
    return kind == WEFT_COLL_ALL_REDUCE || kind == WEFT_COLL_REDUCE_SCATTER ||
           (int)kind == WF_COLL_REDUCE_COLUMNS;
}

bool wf_coll_has_root(weft_coll kind)
{
    return kind == WEFT_COLL_BROADCAST || kind == WEFT_COLL_SCATTER || kind == WEFT_COLL_GATHER;
}

uint64_t wf_coll_signature(const struct wf_coll *coll)
{
    uint64_t kind = coll->kind == WEFT_COLL_RECV ? WEFT_COLL_SEND : (uint64_t)coll->kind,
             what = kind;

    if (coll->kind == WEFT_COLL_BARRIER) return kind;
    what |= (uint64_t)coll->dtype << 8;
    if (wf_coll_reduces(coll->kind)) what |= (uint64_t)coll->reduce << 16;
    if (wf_coll_has_root(coll->kind)) what |= (uint64_t)coll->peer << 32;
    return what;
}

void wf_coll_describe_signature(uint64_t what, const struct wf_comm *comm, char *text, size_t bytes)
{
    weft_coll kind = (weft_coll)(what & 0xff);
    bool typed = kind != WEFT_COLL_BARRIER;
    char root[32] = "";

    if (wf_coll_has_root(kind))
        snprintf(root, sizeof root, ", root %d", comm->world_ranks[what >> 32]);
    snprintf(text, bytes, "%s%s%s%s", wf_coll_name(kind), typed ? " of " : "",
             typed ? weft_dtype_name((weft_dtype)(what >> 8 & 0xff)) : "", root);
}

uint64_t wf_coll_hash_counts(uint64_t hash, const struct wf_coll *coll)
{
    const size_t *counts = coll->recv_counts;
    int n = coll->comm->size;

    switch ((int)coll->kind) {
    case WEFT_COLL_ALL_TO_ALL:
    case WEFT_COLL_BARRIER:
        return hash;
    case WEFT_COLL_REDUCE_SCATTER:
    case WEFT_COLL_SCATTER:
        counts = coll->send_counts;
        break;
    case WF_COLL_REDUCE_COLUMNS:
        counts = coll->send_counts;
        n *= (int)coll->count;
        break;
    case WF_COLL_GATHER_COLUMNS:
        n *= (int)coll->count;
        break;
    case WEFT_COLL_ALL_GATHER:
    case WEFT_COLL_GATHER:
        break;
    default:
        return wf_hash_mix(hash, coll->count);
    }
    for (int i = 0; i < n; i++) hash = wf_hash_mix(hash, counts[i]);
    return hash;
}

void wf_coll_describe(const struct wf_coll *coll, char *text, size_t bytes)
{
    const char *label = coll->comm->label;
    size_t count = wf_coll_payload_bytes(coll) / weft_dtype_size(coll->dtype);
    int used = snprintf(text, bytes, "%s", wf_coll_name(coll->kind));

    if (coll->kind != WEFT_COLL_BARRIER)
        used += snprintf(text + used, bytes - (size_t)used, "%s%s of %zu %s",
                         wf_coll_reduces(coll->kind) ? " " : "",
                         wf_coll_reduces(coll->kind) ? reduce_names[coll->reduce] : "", count,
                         weft_dtype_name(coll->dtype));
    snprintf(text + used, bytes - (size_t)used, "%s%s", label[0] ? " on axis " : "", label);
}

void wf_coll_describe_with_caller(const struct wf_coll *coll, char *text, size_t bytes)
{
    const struct wf_call_context *where = &coll->where;
    size_t used;

    wf_coll_describe(coll, text, bytes);
    used = strlen(text);
    snprintf(text + used, bytes - used, "%s%s%s%s", where->op ? " for " : "",
             where->op ? where->op : "", where->module && where->module[0] ? " in module " : "",
             where->module ? where->module : "");
}

void wf_comm_append_rank_text(const struct wf_comm *comm, int rank, char *text, size_t bytes)
{
    size_t used = strlen(text);

    snprintf(text + used, bytes - used, "%s%d", used ? ", " : "", comm->world_ranks[rank]);
}
