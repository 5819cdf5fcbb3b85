/*
 * engine_move.c: the bytes of one round: what a rank copies or reduces from which peer to where.
 * engine.c has made sure that they are there.
 *
 * A round looks at a window of the senders' bytes: everything when all of them can be read in place
 * or lie inline, else the k-th chunk (the last round has no upper end).
 */
#include <string.h>

#include "base/mem.h"
#include "comm/engine.h"
#include "comm/reduce.h"

enum { MANY_RANKS = 64 };

struct span {
    size_t low, high;
};

static struct span window(const struct wf_engine_op *op, uint64_t round)
{
    size_t chunk = wf_engine_chunk(op);
    struct span span = {round * chunk, (round + 1) * chunk};

    if (round + 1 == op->rounds) span.high = SIZE_MAX;
    return span;
}

static struct span meet(struct span a, struct span b)
{
    struct span both = {a.low > b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};

    if (both.high < both.low) both.high = both.low;
    return both;
}

/* ---- laying ready ---- */

void wf_engine_fill(struct wf_engine_op *op, struct wf_engine_slot *mine)
{
    const struct wf_coll *coll = op->coll;
    size_t element = weft_dtype_size(coll->dtype), at = 0;

    if (coll->kind == WEFT_COLL_ALL_TO_ALL) {
        for (int rank = 0; rank < op->engine->size; rank++) {
            mine->words[rank] = at;
            at += coll->send_counts[rank] * element;
        }
        mine->words[op->engine->size] = at;
    }
    if (op->mode == WF_MODE_INLINE && op->bytes)
        memcpy(wf_engine_payload(op, op->engine->rank), coll->send, op->bytes);
}

void wf_engine_lay_ready(struct wf_engine_op *op)
{
    size_t chunk = wf_engine_chunk(op), at = op->staged * chunk;
    size_t bytes = op->bytes - at < chunk ? op->bytes - at : chunk;

    memcpy(wf_engine_stage(op, op->engine->rank, op->staged), (const char *)op->coll->send + at,
           bytes);
}

void wf_engine_take_out(struct wf_engine_op *op)
{
    size_t chunk = wf_engine_chunk(op), at = op->unstaged * chunk;
    size_t bytes = op->bytes - at < chunk ? op->bytes - at : chunk;

    memcpy((char *)op->coll->recv + at, wf_engine_stage(op, op->engine->rank, op->unstaged), bytes);
}

/* ---- where a peer's bytes lie ---- */

static const char *source(const struct wf_engine_op *op, int rank, size_t at)
{
    const struct wf_engine_slot *slot = wf_engine_slot(op, rank);

    if (rank == op->engine->rank) return (const char *)op->coll->send + at;
    if (slot->mode == WF_MODE_INLINE) return wf_engine_payload(op, rank) + at;
    if (slot->mode == WF_MODE_DIRECT)
        return (const char *)(op->engine->base[rank] + slot->send) + at;
    return wf_engine_stage(op, rank, op->worked) + (at - op->worked * wf_engine_chunk(op));
}

/* Where the result of an all-reduce goes on a rank. */
static char *target(const struct wf_engine_op *op, int rank, size_t at)
{
    const struct wf_engine_slot *slot = wf_engine_slot(op, rank);

    if (slot->recv_staged)
        return wf_engine_stage(op, rank, op->worked) + (at - op->worked * wf_engine_chunk(op));
    if (rank == op->engine->rank) return (char *)op->coll->recv + at;
    return (char *)(op->engine->base[rank] + slot->recv) + at;
}

/* ---- reductions ---- */

/* Reduce the senders' bytes of `span` into recv (at `shift` from the span), or into every rank's.
 */
static void reduce_span(const struct wf_engine_op *op, struct span span, bool everywhere,
                        size_t shift)
{
    size_t widening = op->coll->wide == WF_WIDE_OUT && op->coll->dtype == WEFT_BF16 ? 2 : 1;
    const struct wf_coll *coll = op->coll;
    int size = op->engine->size;
    const void *ins_few[MANY_RANKS], **ins = ins_few;
    void *outs_few[MANY_RANKS], **outs = outs_few;

    if (span.low >= span.high) return;
    if (size > MANY_RANKS) {
        ins = wf_malloc((size_t)size * sizeof *ins);
        outs = wf_malloc((size_t)size * sizeof *outs);
    }
    for (int rank = 0; rank < size; rank++) ins[rank] = source(op, rank, span.low);
    outs[0] = (char *)coll->recv + (span.low - shift) * widening;
    for (int rank = 0; everywhere && rank < size; rank++) outs[rank] = target(op, rank, span.low);
    wf_reduce_tree_wide(outs, everywhere ? size : 1, ins, size,
                        (span.high - span.low) / weft_dtype_size(coll->dtype), coll->dtype,
                        coll->reduce, coll->wide);
    if (size <= MANY_RANKS) return;
    wf_free(ins);
    wf_free(outs);
}

/* This rank's part of a span: whole cache lines, nearly equal. */
static struct span slice(const struct wf_engine *engine, struct span span)
{
    size_t lines = (span.high - span.low + 63) / 64, size = (size_t)engine->size;
    size_t first = lines * (size_t)engine->rank / size,
           end = lines * ((size_t)engine->rank + 1) / size;

    return meet(span, (struct span){span.low + 64 * first, span.low + 64 * end});
}

static void all_reduce(const struct wf_engine_op *op)
{
    struct span all = {0, op->bytes};

    if (op->mode == WF_MODE_INLINE)
        reduce_span(op, all, false, 0);
    else
        reduce_span(op, slice(op->engine, meet(window(op, op->worked), all)), true, 0);
}

static void reduce_scatter(const struct wf_engine_op *op)
{
    const struct wf_coll *coll = op->coll;
    size_t element = weft_dtype_size(coll->dtype);
    size_t first = wf_counts_before(coll->send_counts, op->engine->rank) * element;
    struct span part = {first, first + coll->send_counts[op->engine->rank] * element};

    reduce_span(op, meet(window(op, op->worked), part), false, first);
}

static void reduce_columns(const struct wf_engine_op *op)
{
    const struct wf_coll *coll = op->coll;
    size_t element = weft_dtype_size(coll->dtype), at = 0, before = 0;
    int size = op->engine->size, blocks = size * (int)coll->count;

    for (int block = 0; block < blocks; block++) {
        size_t bytes = coll->send_counts[block] * element;

        if (block % size == op->engine->rank) {
            reduce_span(op, meet(window(op, op->worked), (struct span){at, at + bytes}), false,
                        at - before);
            before += bytes;
        }
        at += bytes;
    }
}

/* ---- copies ---- */

/* Copy the window's share of bytes `part` of a rank's send to `to`, where the part begins. */
static void pull(const struct wf_engine_op *op, int rank, struct span part, char *to)
{
    struct span now = meet(window(op, op->worked), part);
    const char *from;

    if (now.low >= now.high) return;
    from = source(op, rank, now.low);
    if (from != to + (now.low - part.low))
        memcpy(to + (now.low - part.low), from, now.high - now.low);
}

static void pull_all(const struct wf_engine_op *op)
{
    const struct wf_coll *coll = op->coll;
    size_t element = weft_dtype_size(coll->dtype);
    char *to = coll->recv;

    for (int rank = 0; rank < op->engine->size; rank++) {
        size_t first = 0, bytes = coll->recv_counts[rank] * element;

        if (coll->kind == WEFT_COLL_ALL_TO_ALL)
            first = wf_engine_slot(op, rank)->words[op->engine->rank];
        pull(op, rank, (struct span){first, first + bytes}, to);
        to += bytes;
    }
}

static void pull_columns(const struct wf_engine_op *op)
{
    const struct wf_coll *coll = op->coll;
    size_t element = weft_dtype_size(coll->dtype), at = 0;
    int size = op->engine->size, blocks = size * (int)coll->count;

    for (int block = 0; block < blocks; block++) {
        size_t bytes = coll->recv_counts[block] * element;

        if (block % size != op->engine->rank)
            pull(op, block % size, (struct span){at, at + bytes}, (char *)coll->recv + at);
        at += bytes;
    }
}

static void pull_one(const struct wf_engine_op *op)
{
    const struct wf_coll *coll = op->coll;
    size_t element = weft_dtype_size(coll->dtype), first = 0;

    if (coll->kind == WEFT_COLL_SCATTER)
        first = wf_counts_before(coll->send_counts, op->engine->rank) * element;
    pull(op, coll->peer, (struct span){first, first + wf_coll_recv_count(coll) * element},
         coll->recv);
}

void wf_engine_move(struct wf_engine_op *op)
{
    switch ((int)op->coll->kind) {
    case WF_COLL_GATHER_COLUMNS:
        pull_columns(op);
        break;
    case WF_COLL_REDUCE_COLUMNS:
        reduce_columns(op);
        break;
    case WEFT_COLL_ALL_REDUCE:
        all_reduce(op);
        break;
    case WEFT_COLL_REDUCE_SCATTER:
        reduce_scatter(op);
        break;
    case WEFT_COLL_ALL_GATHER:
    case WEFT_COLL_GATHER:
    case WEFT_COLL_ALL_TO_ALL:
        pull_all(op);
        break;
    case WEFT_COLL_BROADCAST:
    case WEFT_COLL_SCATTER:
    case WEFT_COLL_RECV:
        pull_one(op);
        break;
    default:
        break;
    }
}
