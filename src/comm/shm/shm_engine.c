/*
 * shm_engine.c: who waits for whom. What is copied or reduced is in shm_engine_transfer.c.
 *
 * NOTE [engine protocol]
 * Every rank owns control memory that all peers can read: a ring of slots for collectives, one slot
 * per peer for sends, and marks of its own progress. Only the owner writes there.
 *   post   the owner describes its buffers in a slot: up to WF_ENGINE_INLINE bytes themselves, else
 *          where they lie (direct), else that they come in chunks through its staging buffer.
 *   work   a reader whose sources have posted copies or reduces straight from their memory.
 *          All-reduce also writes results straight into every peer's recv.
 *   done   a rank whose bytes were inline is done when it has worked: one synchronisation. One
 *          whose memory was read waits until its readers' progress has passed the collective.
 * A slot is written again WF_ENGINE_DEPTH collectives later, once every rank's progress has passed
 * its last use. Collectives of one communicator post at once but work in order, so progress is one
 * number.
 * With staging, rounds follow one another: chunk k goes to buffer k % 2 when the readers have
 * worked through round k - 2.
 */
#include "comm/shm/shm_engine.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static size_t round_up_to_cache_line(size_t bytes) { return (bytes + 63) / 64 * 64; }

static size_t slot_header_bytes(int size)
{
    return round_up_to_cache_line(sizeof(struct wf_shm_engine_slot) +
                                  ((size_t)size + 1) * sizeof(uint64_t));
}

static size_t slot_bytes(int size) { return slot_header_bytes(size) + WF_ENGINE_INLINE; }

static size_t pair_slot_bytes(int size)
{
    return slot_header_bytes(size) + 2 * WF_ENGINE_PAIR_CHUNK;
}

/* Control memory: own mark | marks for sends from each rank | slots | a slot per peer | staging */
static size_t slots_offset(int size)
{
    return sizeof(struct wf_shm_engine_progress_mark) * ((size_t)size + 1);
}

static size_t pair_slots_offset(int size)
{
    return slots_offset(size) + WF_ENGINE_DEPTH * slot_bytes(size);
}

static size_t staging_offset(int size)
{
    return pair_slots_offset(size) + (size_t)size * pair_slot_bytes(size);
}

size_t wf_shm_engine_control_bytes(int size, bool staging)
{
    return staging_offset(size) + (staging ? 2 * (size_t)WF_ENGINE_STAGE_CHUNK : 0);
}

struct wf_shm_engine *wf_shm_engine_new(int rank, int size, bool staging)
{
    struct wf_shm_engine *engine = WF_NEW(struct wf_shm_engine);

    engine->rank = rank;
    engine->size = size;
    engine->staging = staging;
    engine->base = wf_calloc((size_t)size, sizeof *engine->base);
    engine->ring = wf_calloc((size_t)size, sizeof *engine->ring);
    engine->sent = wf_calloc((size_t)size, sizeof *engine->sent);
    engine->received = wf_calloc((size_t)size, sizeof *engine->received);
    return engine;
}

void wf_shm_engine_free(struct wf_shm_engine *engine)
{
    struct wf_shm_engine_op *op;

    while ((op = engine->spare)) {
        engine->spare = op->next;
        wf_free(op);
    }
    wf_free(engine->base);
    wf_free(engine->ring);
    wf_free(engine->sent);
    wf_free(engine->received);
    wf_free(engine);
}

/* ---- addresses ---- */

static bool is_in_shared_range(const struct wf_shm_engine *engine, const void *p, size_t bytes)
{
    uintptr_t at = (uintptr_t)p;

    return at >= engine->low && at < engine->high && bytes <= engine->high - at;
}

struct wf_shm_engine_slot *wf_shm_engine_slot(const struct wf_shm_engine_op *op, int rank)
{
    const struct wf_shm_engine *engine = op->engine;
    const struct wf_coll *coll = op->coll;
    int to = coll->kind == WEFT_COLL_SEND ? coll->peer : engine->rank;
    char *ring = engine->ring[rank];

    if (op->pair)
        return (void *)(ring + pair_slots_offset(engine->size) +
                        (size_t)to * pair_slot_bytes(engine->size));
    return (void *)(ring + slots_offset(engine->size) +
                    (size_t)(op->number % WF_ENGINE_DEPTH) * slot_bytes(engine->size));
}

char *wf_shm_engine_inline_payload(const struct wf_shm_engine_op *op, int rank)
{
    return (char *)wf_shm_engine_slot(op, rank) + slot_header_bytes(op->engine->size);
}

size_t wf_shm_engine_chunk_bytes(const struct wf_shm_engine_op *op)
{
    return op->pair ? WF_ENGINE_PAIR_CHUNK : WF_ENGINE_STAGE_CHUNK;
}

char *wf_shm_engine_staging_buffer(const struct wf_shm_engine_op *op, int rank, uint64_t round)
{
    char *first = op->pair ? wf_shm_engine_inline_payload(op, rank)
                           : op->engine->ring[rank] + staging_offset(op->engine->size);

    return first + (round % 2) * wf_shm_engine_chunk_bytes(op);
}

/* The mark of `rank` that tells how far it has read: of collectives, or of what `from` sends it. */
static _Atomic uint64_t *progress_mark_of(const struct wf_shm_engine_op *op, int rank, int from)
{
    struct wf_shm_engine_progress_mark *marks = (void *)op->engine->ring[rank];

    return &marks[op->pair ? 1 + from : 0].progress;
}

static uint64_t progress_stamp(uint64_t number, uint64_t rounds)
{
    return (number << WF_ROUND_BITS) + rounds;
}

/* ---- who takes part in what ---- */

static bool has_single_sender(weft_coll kind)
{
    return kind == WEFT_COLL_BROADCAST || kind == WEFT_COLL_SCATTER || kind == WEFT_COLL_RECV;
}

static bool reads_from_anyone(const struct wf_shm_engine_op *op)
{
    if (op->coll->kind == WEFT_COLL_GATHER) return op->coll->peer == op->engine->rank;
    return op->coll->kind != WEFT_COLL_SEND;
}

static bool reads_from_rank(const struct wf_shm_engine_op *op, int rank)
{
    return !has_single_sender(op->coll->kind) || rank == op->coll->peer;
}

static bool is_read_by(const struct wf_shm_engine_op *op, int rank)
{
    if (rank == op->engine->rank) return false;
    return (op->coll->kind != WEFT_COLL_GATHER && op->coll->kind != WEFT_COLL_SEND) ||
           rank == op->coll->peer;
}

static bool readers_passed(const struct wf_shm_engine_op *op, uint64_t wanted)
{
    for (int rank = 0; rank < op->engine->size; rank++)
        if (is_read_by(op, rank) &&
            atomic_load_explicit(progress_mark_of(op, rank, op->engine->rank),
                                 memory_order_acquire) < wanted)
            return false;
    return true;
}

/* ---- post ---- */

/* True when the slot may be written again: all ranks that read its last content are done. */
static bool slot_is_free(const struct wf_shm_engine_op *op)
{
    uint64_t depth = op->pair ? 1 : WF_ENGINE_DEPTH, wanted;

    if (op->number < depth) return true;
    wanted = progress_stamp(op->number - depth + 1, 0);
    if (op->pair) return readers_passed(op, wanted);
    for (int rank = 0; rank < op->engine->size; rank++)
        if (atomic_load_explicit(progress_mark_of(op, rank, 0), memory_order_acquire) < wanted)
            return false;
    return true;
}

/* Peers write an all-reduce's result where they can, else into this rank's staging buffer. They
 * take its next chunk as leave to write there again, so what comes back staged is sent staged. */
static bool result_is_staged(const struct wf_shm_engine_op *op)
{
    return op->coll->kind == WEFT_COLL_ALL_REDUCE && op->bytes > WF_ENGINE_INLINE &&
           !is_in_shared_range(op->engine, op->coll->recv, op->bytes);
}

static enum wf_shm_engine_mode choose_send_mode(const struct wf_shm_engine_op *op)
{
    const struct wf_coll *coll = op->coll;

    if (coll->kind == WEFT_COLL_RECV ||
        (has_single_sender(coll->kind) && coll->peer != op->engine->rank))
        return WF_MODE_NONE;
    if (op->bytes <= WF_ENGINE_INLINE) return WF_MODE_INLINE;
    if (result_is_staged(op)) return WF_MODE_STAGED;
    if (is_in_shared_range(op->engine, coll->send, op->bytes)) return WF_MODE_DIRECT;
    return WF_MODE_STAGED;
}

static void post_slot(struct wf_shm_engine_op *op)
{
    const struct wf_shm_engine *engine = op->engine;
    const struct wf_coll *coll = op->coll;
    struct wf_shm_engine_slot *mine = wf_shm_engine_slot(op, engine->rank);

    op->posted = true;
    op->mode = choose_send_mode(op);
    atomic_store_explicit(&mine->staged, 0, memory_order_relaxed);
    mine->mode = (uint32_t)op->mode;
    mine->bytes = op->bytes;
    mine->send = (uintptr_t)coll->send - engine->low;
    mine->recv = (uintptr_t)coll->recv - engine->low;
    mine->recv_staged = result_is_staged(op);
    mine->what = wf_coll_signature(coll);
    mine->history = op->history;
    wf_shm_engine_fill_slot(op, mine);
    atomic_store_explicit(&mine->posted, op->number + 1, memory_order_release);
}

/* ---- work ---- */

static uint64_t round_count(const struct wf_shm_engine_op *op,
                            const struct wf_shm_engine_slot *slot)
{
    size_t chunk = wf_shm_engine_chunk_bytes(op);

    if (slot->mode != WF_MODE_STAGED && !slot->recv_staged) return 1;
    return (slot->bytes + chunk - 1) / chunk;
}

static bool rank_has_posted(const struct wf_shm_engine_op *op, int rank)
{
    const struct wf_shm_engine_slot *slot = wf_shm_engine_slot(op, rank);

    return atomic_load_explicit(&slot->posted, memory_order_acquire) >= op->number + 1;
}

static bool all_sources_posted(struct wf_shm_engine_op *op)
{
    uint64_t rounds = 1;

    if (op->arrived) return true;
    for (int rank = 0; rank < op->engine->size; rank++) {
        uint64_t needs;

        if (!reads_from_rank(op, rank)) continue;
        if (!rank_has_posted(op, rank)) return false;
        wf_shm_engine_check_peer(op, rank);
        needs = round_count(op, wf_shm_engine_slot(op, rank));
        rounds = needs > rounds ? needs : rounds;
    }
    op->rounds = rounds;
    return op->arrived = true;
}

static void stage_ready_chunks(struct wf_shm_engine_op *op)
{
    size_t chunk = wf_shm_engine_chunk_bytes(op);
    uint64_t chunks = (op->bytes + chunk - 1) / chunk;
    bool back = wf_shm_engine_slot(op, op->engine->rank)->recv_staged != 0;

    while (op->staged < chunks) {
        uint64_t k = op->staged;

        if (k >= 2 && !readers_passed(op, progress_stamp(op->number, k - 1))) return;
        if (k >= 2 && back && op->unstaged < k - 1) return;
        wf_shm_engine_stage_chunk(op);
        op->staged++;
        atomic_store_explicit(&wf_shm_engine_slot(op, op->engine->rank)->staged, op->staged,
                              memory_order_release);
    }
}

static bool next_round_is_staged(const struct wf_shm_engine_op *op)
{
    for (int rank = 0; rank < op->engine->size; rank++) {
        const struct wf_shm_engine_slot *slot = wf_shm_engine_slot(op, rank);
        uint64_t wanted = op->worked + 1, chunks;

        if (!reads_from_rank(op, rank) || slot->mode != WF_MODE_STAGED) continue;
        chunks = round_count(op, slot);
        if (atomic_load_explicit(&slot->staged, memory_order_acquire) <
            (wanted < chunks ? wanted : chunks))
            return false;
    }
    return true;
}

static void unstage_finished_rounds(struct wf_shm_engine_op *op)
{
    while (op->unstaged < op->worked &&
           readers_passed(op, progress_stamp(op->number, op->unstaged + 1))) {
        wf_shm_engine_unstage_chunk(op);
        op->unstaged++;
    }
}

/* Rounds of reading; true when there is nothing left to read. */
static bool read_ready_rounds(struct wf_shm_engine_op *op)
{
    bool through = op->coll->kind == WEFT_COLL_ALL_REDUCE && op->posted &&
                   wf_shm_engine_slot(op, op->engine->rank)->recv_staged;
    int from = op->pair ? op->coll->peer : 0;

    if (!all_sources_posted(op)) return false;
    for (;;) {
        if (through) unstage_finished_rounds(op);
        if (op->mode == WF_MODE_STAGED) stage_ready_chunks(op);
        if (op->worked == op->rounds) return !through || op->unstaged == op->rounds;
        if (!next_round_is_staged(op)) return false;
        if (through && op->worked >= 2 && op->unstaged < op->worked - 1) return false;
        wf_shm_engine_transfer_round(op);
        op->worked++;
        atomic_store_explicit(progress_mark_of(op, op->engine->rank, from),
                              op->worked == op->rounds ? progress_stamp(op->number + 1, 0)
                                                       : progress_stamp(op->number, op->worked),
                              memory_order_release);
    }
}

/* A rank that reads nothing passes the collective when its turn comes. */
static void mark_as_passed(struct wf_shm_engine_op *op)
{
    if (op->worked || op->pair) return;
    op->worked = 1;
    atomic_store_explicit(progress_mark_of(op, op->engine->rank, 0),
                          progress_stamp(op->number + 1, 0), memory_order_release);
}

/* ---- one operation ---- */

static bool advance_op(struct wf_shm_engine_op *op)
{
    bool sends = op->coll->kind != WEFT_COLL_RECV;

    if (!op->posted && sends) {
        if (!slot_is_free(op)) return false;
        post_slot(op);
    }
    if (!op->pair && op->engine->head != op) return false;
    if (op->mode == WF_MODE_STAGED) stage_ready_chunks(op);
    if (!reads_from_anyone(op))
        mark_as_passed(op);
    else if (!read_ready_rounds(op))
        return false;
    if (op->mode != WF_MODE_DIRECT && op->mode != WF_MODE_STAGED) return true;
    return readers_passed(op, progress_stamp(op->number + 1, 0));
}

static struct wf_shm_engine_op *new_op(struct wf_shm_engine *engine, struct wf_coll *coll)
{
    struct wf_shm_engine_op *op = engine->spare;

    if (op)
        engine->spare = op->next;
    else
        op = wf_malloc(sizeof *op);
    *op = (struct wf_shm_engine_op){.coll = coll, .engine = engine};
    op->pair = coll->kind == WEFT_COLL_SEND || coll->kind == WEFT_COLL_RECV;
    if (coll->kind == WEFT_COLL_SEND) {
        op->number = engine->sent[coll->peer]++;
    } else if (coll->kind == WEFT_COLL_RECV) {
        op->number = engine->received[coll->peer]++;
    } else {
        op->number = engine->calls++;
        op->history = engine->history = wf_shm_engine_hash_history(engine->history, coll);
    }
    op->bytes = wf_coll_send_count(coll) * weft_dtype_size(coll->dtype);
    return op;
}

bool wf_shm_engine_progress(struct wf_coll *coll)
{
    struct wf_shm_engine_op *op = coll->state;
    struct wf_shm_engine *engine = op->engine;

    if (!advance_op(op)) return false;
    if (!op->pair) {
        engine->head = op->next;
        if (!engine->head) engine->tail = NULL;
    }
    op->next = engine->spare;
    engine->spare = op;
    coll->state = NULL;
    return true;
}

void wf_shm_engine_start(struct wf_coll *coll)
{
    struct wf_shm_engine *engine = coll->comm->state;
    struct wf_shm_engine_op *op = new_op(engine, coll);

    coll->state = op;
    if (!op->pair) {
        if (engine->tail)
            engine->tail->next = op;
        else
            engine->head = op;
        engine->tail = op;
    }
    coll->complete = wf_shm_engine_progress(coll);
}

/* ---- for the time-out ---- */

void wf_shm_engine_describe_missing_ranks(const struct wf_coll *coll, char *text, size_t bytes)
{
    const struct wf_shm_engine_op *op = coll->state;
    uint64_t passed = progress_stamp(op->number + 1, 0);
    char absent[256] = "", busy[256] = "";

    for (int rank = 0; rank < op->engine->size; rank++) {
        if (rank == op->engine->rank) continue;
        if (coll->kind != WEFT_COLL_SEND && reads_from_rank(op, rank) && !rank_has_posted(op, rank))
            wf_comm_append_rank_text(coll->comm, rank, absent, sizeof absent);
        else if (is_read_by(op, rank) && coll->kind != WEFT_COLL_RECV &&
                 atomic_load_explicit(progress_mark_of(op, rank, op->engine->rank),
                                      memory_order_acquire) < passed)
            wf_comm_append_rank_text(coll->comm, rank, busy, sizeof busy);
    }
    if (absent[0])
        snprintf(text, bytes, "not arrived: rank %s", absent);
    else if (busy[0])
        snprintf(text, bytes, "arrived but not through: rank %s", busy);
    else
        snprintf(text, bytes, "waiting for an earlier one");
}
