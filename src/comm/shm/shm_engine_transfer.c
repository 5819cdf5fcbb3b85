/*
 * shm_engine_transfer.c: the bytes of one round: what a rank copies or reduces from which peer to
 * where. shm_engine.c has made sure that they are there.
 *
 * A round looks at a window of the senders' bytes: everything when all of them can be read in place
 * or lie inline, else the k-th chunk (the last round has no upper end).
 */
#include <string.h>

#include "base/elements/dtype.h"
#include "base/mem.h"
#include "comm/reduce.h"
#include "comm/shm/shm_engine.h"

enum { MANY_RANKS = 64 };

struct byte_span {
    size_t low, high;
};

static struct byte_span round_window(const struct wf_shm_engine_op *op, uint64_t round)
{
    size_t chunk = wf_shm_engine_chunk_bytes(op);
    struct byte_span byte_span = {round * chunk, (round + 1) * chunk};

    if (round + 1 == op->rounds) byte_span.high = SIZE_MAX;
    return byte_span;
}

static struct byte_span intersect_spans(struct byte_span a, struct byte_span b)
{
    struct byte_span both = {a.low > b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};

    if (both.high < both.low) both.high = both.low;
    return both;
}

/* ---- laying ready ---- */

void wf_shm_engine_fill_slot(struct wf_shm_engine_op *op, struct wf_shm_engine_slot *mine)
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
        memcpy(wf_shm_engine_inline_payload(op, op->engine->rank), coll->send, op->bytes);
}

void wf_shm_engine_stage_chunk(struct wf_shm_engine_op *op)
{
    size_t chunk = wf_shm_engine_chunk_bytes(op), at = op->staged * chunk;
    size_t bytes = op->bytes - at < chunk ? op->bytes - at : chunk;

    memcpy(wf_shm_engine_staging_buffer(op, op->engine->rank, op->staged),
           (const char *)op->coll->send + at, bytes);
}

void wf_shm_engine_unstage_chunk(struct wf_shm_engine_op *op)
{
    size_t chunk = wf_shm_engine_chunk_bytes(op), at = op->unstaged * chunk;
    size_t bytes = op->bytes - at < chunk ? op->bytes - at : chunk;

    memcpy((char *)op->coll->recv + at,
           wf_shm_engine_staging_buffer(op, op->engine->rank, op->unstaged), bytes);
}

/* ---- where a peer's bytes lie ---- */

static const char *source_address(const struct wf_shm_engine_op *op, int rank, size_t at)
{
    const struct wf_shm_engine_slot *slot = wf_shm_engine_slot(op, rank);

    if (rank == op->engine->rank) return (const char *)op->coll->send + at;
    if (slot->mode == WF_MODE_INLINE) return wf_shm_engine_inline_payload(op, rank) + at;
    if (slot->mode == WF_MODE_DIRECT)
        return (const char *)(op->engine->base[rank] + slot->send) + at;
    return wf_shm_engine_staging_buffer(op, rank, op->worked) +
           (at - op->worked * wf_shm_engine_chunk_bytes(op));
}

/* Where the result of an all-reduce goes on a rank. */
static char *result_address(const struct wf_shm_engine_op *op, int rank, size_t at)
{
    const struct wf_shm_engine_slot *slot = wf_shm_engine_slot(op, rank);

    if (slot->recv_staged)
        return wf_shm_engine_staging_buffer(op, rank, op->worked) +
               (at - op->worked * wf_shm_engine_chunk_bytes(op));
    if (rank == op->engine->rank) return (char *)op->coll->recv + at;
    return (char *)(op->engine->base[rank] + slot->recv) + at;
}

/* ---- reductions ---- */

/* Reduce the senders' bytes of `byte_span` into recv (at `shift` from the byte_span), or into every
 * rank's.
 */
static void reduce_span(const struct wf_shm_engine_op *op, struct byte_span byte_span,
                        bool everywhere, size_t shift)
{
    size_t widening =
        op->coll->wide == WF_WIDE_OUT && wf_dtype_is_16_bit_float(op->coll->dtype) ? 2 : 1;
    const struct wf_coll *coll = op->coll;
    int size = op->engine->size;
    const void *ins_few[MANY_RANKS], **ins = ins_few;
    void *outs_few[MANY_RANKS], **outs = outs_few;

    if (byte_span.low >= byte_span.high) return;
    if (size > MANY_RANKS) {
        ins = wf_malloc((size_t)size * sizeof *ins);
        outs = wf_malloc((size_t)size * sizeof *outs);
    }
    for (int rank = 0; rank < size; rank++) ins[rank] = source_address(op, rank, byte_span.low);
    outs[0] = (char *)coll->recv + (byte_span.low - shift) * widening;
    for (int rank = 0; everywhere && rank < size; rank++)
        outs[rank] = result_address(op, rank, byte_span.low);
    wf_reduce_tree_wide(outs, everywhere ? size : 1, ins, size,
                        (byte_span.high - byte_span.low) / weft_dtype_size(coll->dtype),
                        coll->dtype, coll->reduce, coll->wide);
    if (size <= MANY_RANKS) return;
    wf_free(ins);
    wf_free(outs);
}

/* This rank's shard of a byte_span: whole cache lines, nearly equal. */
static struct byte_span own_slice_of_span(const struct wf_shm_engine *engine,
                                          struct byte_span byte_span)
{
    size_t lines = (byte_span.high - byte_span.low + 63) / 64, size = (size_t)engine->size;
    size_t first = lines * (size_t)engine->rank / size,
           end = lines * ((size_t)engine->rank + 1) / size;

    return intersect_spans(
        byte_span, (struct byte_span){byte_span.low + 64 * first, byte_span.low + 64 * end});
}

static void all_reduce_round(const struct wf_shm_engine_op *op)
{
    struct byte_span all = {0, op->bytes};

    if (op->mode == WF_MODE_INLINE)
        reduce_span(op, all, false, 0);
    else
        reduce_span(
            op, own_slice_of_span(op->engine, intersect_spans(round_window(op, op->worked), all)),
            true, 0);
}

static void reduce_scatter_round(const struct wf_shm_engine_op *op)
{
    const struct wf_coll *coll = op->coll;
    size_t element = weft_dtype_size(coll->dtype);
    size_t first = wf_counts_prefix_sum(coll->send_counts, op->engine->rank) * element;
    struct byte_span span = {first, first + coll->send_counts[op->engine->rank] * element};

    reduce_span(op, intersect_spans(round_window(op, op->worked), span), false, first);
}

static void reduce_columns_round(const struct wf_shm_engine_op *op)
{
    const struct wf_coll *coll = op->coll;
    size_t element = weft_dtype_size(coll->dtype), at = 0, before = 0;
    int size = op->engine->size, blocks = size * (int)coll->count;

    for (int block = 0; block < blocks; block++) {
        size_t bytes = coll->send_counts[block] * element;

        if (block % size == op->engine->rank) {
            reduce_span(
                op,
                intersect_spans(round_window(op, op->worked), (struct byte_span){at, at + bytes}),
                false, at - before);
            before += bytes;
        }
        at += bytes;
    }
}

/* ---- copies ---- */

/* Copy the window's share of bytes `span` of a rank's send to `to`, where that span begins. */
static void copy_span_from_rank(const struct wf_shm_engine_op *op, int rank, struct byte_span span,
                                char *to)
{
    struct byte_span now = intersect_spans(round_window(op, op->worked), span);
    const char *from;

    if (now.low >= now.high) return;
    from = source_address(op, rank, now.low);
    if (from != to + (now.low - span.low))
        memcpy(to + (now.low - span.low), from, now.high - now.low);
}

static void copy_from_all_ranks(const struct wf_shm_engine_op *op)
{
    const struct wf_coll *coll = op->coll;
    size_t element = weft_dtype_size(coll->dtype);
    char *to = coll->recv;

    for (int rank = 0; rank < op->engine->size; rank++) {
        size_t first = 0, bytes = coll->recv_counts[rank] * element;

        if (coll->kind == WEFT_COLL_ALL_TO_ALL)
            first = wf_shm_engine_slot(op, rank)->words[op->engine->rank];
        copy_span_from_rank(op, rank, (struct byte_span){first, first + bytes}, to);
        to += bytes;
    }
}

static void copy_columns_from_ranks(const struct wf_shm_engine_op *op)
{
    const struct wf_coll *coll = op->coll;
    size_t element = weft_dtype_size(coll->dtype), at = 0;
    int size = op->engine->size, blocks = size * (int)coll->count;

    for (int block = 0; block < blocks; block++) {
        size_t bytes = coll->recv_counts[block] * element;

        if (block % size != op->engine->rank)
            copy_span_from_rank(op, block % size, (struct byte_span){at, at + bytes},
                                (char *)coll->recv + at);
        at += bytes;
    }
}

static void copy_from_one_rank(const struct wf_shm_engine_op *op)
{
    const struct wf_coll *coll = op->coll;
    size_t element = weft_dtype_size(coll->dtype), first = 0;

    if (coll->kind == WEFT_COLL_SCATTER)
        first = wf_counts_prefix_sum(coll->send_counts, op->engine->rank) * element;
    copy_span_from_rank(op, coll->peer,
                        (struct byte_span){first, first + wf_coll_recv_count(coll) * element},
                        coll->recv);
}

void wf_shm_engine_transfer_round(struct wf_shm_engine_op *op)
{
    switch ((int)op->coll->kind) {
    case WF_COLL_GATHER_COLUMNS:
        copy_columns_from_ranks(op);
        break;
    case WF_COLL_REDUCE_COLUMNS:
        reduce_columns_round(op);
        break;
    case WEFT_COLL_ALL_REDUCE:
        all_reduce_round(op);
        break;
    case WEFT_COLL_REDUCE_SCATTER:
        reduce_scatter_round(op);
        break;
    case WEFT_COLL_ALL_GATHER:
    case WEFT_COLL_GATHER:
    case WEFT_COLL_ALL_TO_ALL:
        copy_from_all_ranks(op);
        break;
    case WEFT_COLL_BROADCAST:
    case WEFT_COLL_SCATTER:
    case WEFT_COLL_RECV:
        copy_from_one_rank(op);
        break;
    default:
        break;
    }
}
