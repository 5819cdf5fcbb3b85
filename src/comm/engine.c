/*
 * engine.c: who waits for whom. What is copied or reduced is in engine_move.c.
 *
 * NOTE [engine protocol]
 * Every rank owns control memory that all peers can read: a ring of slots for collectives, one slot
 * per peer for sends, and marks of its own progress. Only the owner writes there.
 *   post   the owner describes its part in a slot: up to WF_ENGINE_INLINE bytes themselves, else
 *          where they lie (direct), else that they come in chunks through its staging buffer.
 *   work   a reader whose sources have posted copies or reduces straight from their memory.
 *          All-reduce also writes results straight into every peer's recv.
 *   done   a rank whose part was inline is done when it has worked: one synchronisation. One whose
 *          memory was read waits until its readers' progress has passed the collective.
 * A slot is written again WF_ENGINE_DEPTH collectives later, once every rank's progress has passed
 * its last use. Collectives of one communicator post at once but work in order, so progress is one
 * number. With staging, rounds follow one another: chunk k goes to buffer k % 2 when the readers
 * have worked through round k - 2.
 */
#include "comm/engine.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static size_t round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

static size_t words_bytes(int size)
{
    return round_up(sizeof(struct wf_engine_slot) + ((size_t)size + 1) * sizeof(uint64_t));
}

static size_t slot_bytes(int size) { return words_bytes(size) + WF_ENGINE_INLINE; }

static size_t pair_bytes(int size) { return words_bytes(size) + 2 * WF_ENGINE_PAIR_CHUNK; }

/* Control memory: own mark | marks for sends from each rank | slots | a slot per peer | staging */
static size_t slots_at(int size) { return sizeof(struct wf_engine_mark) * ((size_t)size + 1); }

static size_t pairs_at(int size) { return slots_at(size) + WF_ENGINE_DEPTH * slot_bytes(size); }

static size_t stage_at(int size) { return pairs_at(size) + (size_t)size * pair_bytes(size); }

size_t wf_engine_ring_bytes(int size, bool staging)
{
    return stage_at(size) + (staging ? 2 * (size_t)WF_ENGINE_STAGE_CHUNK : 0);
}

struct wf_engine *wf_engine_new(int rank, int size, bool staging)
{
    struct wf_engine *engine = WF_NEW(struct wf_engine);

    engine->rank = rank;
    engine->size = size;
    engine->staging = staging;
    engine->base = wf_calloc((size_t)size, sizeof *engine->base);
    engine->ring = wf_calloc((size_t)size, sizeof *engine->ring);
    engine->sent = wf_calloc((size_t)size, sizeof *engine->sent);
    engine->received = wf_calloc((size_t)size, sizeof *engine->received);
    return engine;
}

void wf_engine_free(struct wf_engine *engine)
{
    struct wf_engine_op *op;

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

static bool reaches(const struct wf_engine *engine, const void *p, size_t bytes)
{
    uintptr_t at = (uintptr_t)p;

    return at >= engine->low && at < engine->high && bytes <= engine->high - at;
}

bool wf_engine_reads(const struct wf_comm *comm, const void *p)
{
    return reaches(comm->state, p, 1);
}

struct wf_engine_slot *wf_engine_slot(const struct wf_engine_op *op, int rank)
{
    const struct wf_engine *engine = op->engine;
    const struct wf_coll *coll = op->coll;
    int to = coll->kind == WEFT_COLL_SEND ? coll->peer : engine->rank;
    char *ring = engine->ring[rank];

    if (op->pair)
        return (void *)(ring + pairs_at(engine->size) + (size_t)to * pair_bytes(engine->size));
    return (void *)(ring + slots_at(engine->size) +
                    (size_t)(op->number % WF_ENGINE_DEPTH) * slot_bytes(engine->size));
}

char *wf_engine_payload(const struct wf_engine_op *op, int rank)
{
    return (char *)wf_engine_slot(op, rank) + words_bytes(op->engine->size);
}

size_t wf_engine_chunk(const struct wf_engine_op *op)
{
    return op->pair ? WF_ENGINE_PAIR_CHUNK : WF_ENGINE_STAGE_CHUNK;
}

char *wf_engine_stage(const struct wf_engine_op *op, int rank, uint64_t round)
{
    char *first = op->pair ? wf_engine_payload(op, rank)
                           : op->engine->ring[rank] + stage_at(op->engine->size);

    return first + (round % 2) * wf_engine_chunk(op);
}

/* The mark of `rank` that tells how far it has read: of collectives, or of what `from` sends it. */
static _Atomic uint64_t *mark(const struct wf_engine_op *op, int rank, int from)
{
    struct wf_engine_mark *marks = (void *)op->engine->ring[rank];

    return &marks[op->pair ? 1 + from : 0].progress;
}

static uint64_t stamp(uint64_t number, uint64_t rounds)
{
    return (number << WF_ROUND_BITS) + rounds;
}

/* ---- who takes part in what ---- */

static bool from_one(weft_coll kind)
{
    return kind == WEFT_COLL_BROADCAST || kind == WEFT_COLL_SCATTER || kind == WEFT_COLL_RECV;
}

static bool reads_any(const struct wf_engine_op *op)
{
    if (op->coll->kind == WEFT_COLL_GATHER) return op->coll->peer == op->engine->rank;
    return op->coll->kind != WEFT_COLL_SEND;
}

static bool reads_from(const struct wf_engine_op *op, int rank)
{
    return !from_one(op->coll->kind) || rank == op->coll->peer;
}

static bool sends_any(const struct wf_engine_op *op)
{
    if (op->coll->kind == WEFT_COLL_RECV) return false;
    return !from_one(op->coll->kind) || op->coll->peer == op->engine->rank;
}

static bool is_read_by(const struct wf_engine_op *op, int rank)
{
    if (rank == op->engine->rank) return false;
    return (op->coll->kind != WEFT_COLL_GATHER && op->coll->kind != WEFT_COLL_SEND) ||
           rank == op->coll->peer;
}

static bool readers_passed(const struct wf_engine_op *op, uint64_t wanted)
{
    for (int rank = 0; rank < op->engine->size; rank++)
        if (is_read_by(op, rank) &&
            atomic_load_explicit(mark(op, rank, op->engine->rank), memory_order_acquire) < wanted)
            return false;
    return true;
}

/* ---- post ---- */

/* May the slot be written again? A collective's slot is looked at by all ranks. */
static bool slot_is_free(const struct wf_engine_op *op)
{
    uint64_t depth = op->pair ? 1 : WF_ENGINE_DEPTH, wanted;

    if (op->number < depth) return true;
    wanted = stamp(op->number - depth + 1, 0);
    if (op->pair) return readers_passed(op, wanted);
    for (int rank = 0; rank < op->engine->size; rank++)
        if (atomic_load_explicit(mark(op, rank, 0), memory_order_acquire) < wanted) return false;
    return true;
}

/* Peers write an all-reduce's result where they can, else into this rank's staging buffer. They
 * take its next chunk as leave to write there again, so what comes back staged is sent staged. */
static bool comes_back_staged(const struct wf_engine_op *op)
{
    return op->coll->kind == WEFT_COLL_ALL_REDUCE && op->bytes > WF_ENGINE_INLINE &&
           !reaches(op->engine, op->coll->recv, op->bytes);
}

static enum wf_engine_mode choose_mode(const struct wf_engine_op *op)
{
    if (!sends_any(op)) return WF_MODE_NONE;
    if (op->bytes <= WF_ENGINE_INLINE) return WF_MODE_INLINE;
    if (comes_back_staged(op)) return WF_MODE_STAGED;
    if (reaches(op->engine, op->coll->send, op->bytes)) return WF_MODE_DIRECT;
    return WF_MODE_STAGED;
}

static void post(struct wf_engine_op *op)
{
    const struct wf_engine *engine = op->engine;
    const struct wf_coll *coll = op->coll;
    struct wf_engine_slot *mine = wf_engine_slot(op, engine->rank);

    op->posted = true;
    op->mode = choose_mode(op);
    atomic_store_explicit(&mine->staged, 0, memory_order_relaxed);
    mine->mode = (uint32_t)op->mode;
    mine->bytes = op->bytes;
    mine->send = (uintptr_t)coll->send - engine->low;
    mine->recv = (uintptr_t)coll->recv - engine->low;
    mine->recv_staged = comes_back_staged(op);
    mine->what = wf_coll_what(coll);
    mine->history = op->history;
    wf_engine_fill(op, mine);
    atomic_store_explicit(&mine->posted, op->number + 1, memory_order_release);
}

/* ---- work ---- */

static uint64_t rounds_of(const struct wf_engine_op *op, const struct wf_engine_slot *slot)
{
    size_t chunk = wf_engine_chunk(op);

    if (slot->mode != WF_MODE_STAGED && !slot->recv_staged) return 1;
    return (slot->bytes + chunk - 1) / chunk;
}

static bool has_posted(const struct wf_engine_op *op, int rank)
{
    const struct wf_engine_slot *slot = wf_engine_slot(op, rank);

    return atomic_load_explicit(&slot->posted, memory_order_acquire) >= op->number + 1;
}

static bool have_arrived(struct wf_engine_op *op)
{
    uint64_t rounds = 1;

    if (op->arrived) return true;
    for (int rank = 0; rank < op->engine->size; rank++) {
        uint64_t needs;

        if (!reads_from(op, rank)) continue;
        if (!has_posted(op, rank)) return false;
        wf_engine_agree(op, rank);
        needs = rounds_of(op, wf_engine_slot(op, rank));
        rounds = needs > rounds ? needs : rounds;
    }
    op->rounds = rounds;
    return op->arrived = true;
}

static void lay_ready(struct wf_engine_op *op)
{
    size_t chunk = wf_engine_chunk(op);
    uint64_t chunks = (op->bytes + chunk - 1) / chunk;
    bool back = wf_engine_slot(op, op->engine->rank)->recv_staged != 0;

    while (op->staged < chunks) {
        uint64_t k = op->staged;

        if (k >= 2 && !readers_passed(op, stamp(op->number, k - 1))) return;
        if (k >= 2 && back && op->unstaged < k - 1) return;
        wf_engine_lay_ready(op);
        op->staged++;
        atomic_store_explicit(&wf_engine_slot(op, op->engine->rank)->staged, op->staged,
                              memory_order_release);
    }
}

static bool round_is_ready(const struct wf_engine_op *op)
{
    for (int rank = 0; rank < op->engine->size; rank++) {
        const struct wf_engine_slot *slot = wf_engine_slot(op, rank);
        uint64_t wanted = op->worked + 1, chunks;

        if (!reads_from(op, rank) || slot->mode != WF_MODE_STAGED) continue;
        chunks = rounds_of(op, slot);
        if (atomic_load_explicit(&slot->staged, memory_order_acquire) <
            (wanted < chunks ? wanted : chunks))
            return false;
    }
    return true;
}

static void take_out(struct wf_engine_op *op)
{
    while (op->unstaged < op->worked && readers_passed(op, stamp(op->number, op->unstaged + 1))) {
        wf_engine_take_out(op);
        op->unstaged++;
    }
}

/* Rounds of reading; true when there is nothing left to read. */
static bool work(struct wf_engine_op *op)
{
    bool through = op->coll->kind == WEFT_COLL_ALL_REDUCE && op->posted &&
                   wf_engine_slot(op, op->engine->rank)->recv_staged;
    int from = op->pair ? op->coll->peer : 0;

    if (!have_arrived(op)) return false;
    for (;;) {
        if (through) take_out(op);
        if (op->mode == WF_MODE_STAGED) lay_ready(op);
        if (op->worked == op->rounds) return !through || op->unstaged == op->rounds;
        if (!round_is_ready(op)) return false;
        if (through && op->worked >= 2 && op->unstaged < op->worked - 1) return false;
        wf_engine_move(op);
        op->worked++;
        atomic_store_explicit(mark(op, op->engine->rank, from),
                              op->worked == op->rounds ? stamp(op->number + 1, 0)
                                                       : stamp(op->number, op->worked),
                              memory_order_release);
    }
}

/* A rank that reads nothing passes the collective when its turn comes. */
static void pass(struct wf_engine_op *op)
{
    if (op->worked || op->pair) return;
    op->worked = 1;
    atomic_store_explicit(mark(op, op->engine->rank, 0), stamp(op->number + 1, 0),
                          memory_order_release);
}

/* ---- one operation ---- */

static bool advance(struct wf_engine_op *op)
{
    bool sends = op->coll->kind != WEFT_COLL_RECV;

    if (!op->posted && sends) {
        if (!slot_is_free(op)) return false;
        post(op);
    }
    if (!op->pair && op->engine->head != op) return false;
    if (op->mode == WF_MODE_STAGED) lay_ready(op);
    if (!reads_any(op))
        pass(op);
    else if (!work(op))
        return false;
    if (op->mode != WF_MODE_DIRECT && op->mode != WF_MODE_STAGED) return true;
    return readers_passed(op, stamp(op->number + 1, 0));
}

static struct wf_engine_op *new_op(struct wf_engine *engine, struct wf_coll *coll)
{
    struct wf_engine_op *op = engine->spare;

    if (op)
        engine->spare = op->next;
    else
        op = wf_malloc(sizeof *op);
    *op = (struct wf_engine_op){.coll = coll, .engine = engine};
    op->pair = coll->kind == WEFT_COLL_SEND || coll->kind == WEFT_COLL_RECV;
    if (coll->kind == WEFT_COLL_SEND) {
        op->number = engine->sent[coll->peer]++;
    } else if (coll->kind == WEFT_COLL_RECV) {
        op->number = engine->received[coll->peer]++;
    } else {
        op->number = engine->calls++;
        op->history = engine->history = wf_engine_note(engine->history, coll);
    }
    op->bytes = wf_coll_send_count(coll) * weft_dtype_size(coll->dtype);
    return op;
}

static void enqueue(struct wf_engine *engine, struct wf_engine_op *op)
{
    if (engine->tail)
        engine->tail->next = op;
    else
        engine->head = op;
    engine->tail = op;
}

static void retire(struct wf_engine_op *op)
{
    struct wf_engine *engine = op->engine;

    if (!op->pair) {
        engine->head = op->next;
        if (!engine->head) engine->tail = NULL;
    }
    op->next = engine->spare;
    engine->spare = op;
}

bool wf_engine_step(struct wf_coll *coll)
{
    struct wf_engine_op *op = coll->state;

    if (!advance(op)) return false;
    coll->state = NULL;
    retire(op);
    return true;
}

void wf_engine_start(struct wf_coll *coll)
{
    struct wf_engine *engine = coll->comm->state;
    struct wf_engine_op *op = new_op(engine, coll);

    coll->state = op;
    if (!op->pair) enqueue(engine, op);
    coll->complete = wf_engine_step(coll);
}

/* ---- for the time-out ---- */

void wf_engine_missing(const struct wf_coll *coll, char *text, size_t bytes)
{
    const struct wf_engine_op *op = coll->state;
    uint64_t passed = stamp(op->number + 1, 0);
    char absent[256] = "", busy[256] = "";

    for (int rank = 0; rank < op->engine->size; rank++) {
        if (rank == op->engine->rank) continue;
        if (coll->kind != WEFT_COLL_SEND && reads_from(op, rank) && !has_posted(op, rank))
            wf_comm_list_rank(coll->comm, rank, absent, sizeof absent);
        else if (is_read_by(op, rank) && coll->kind != WEFT_COLL_RECV &&
                 atomic_load_explicit(mark(op, rank, op->engine->rank), memory_order_acquire) <
                     passed)
            wf_comm_list_rank(coll->comm, rank, busy, sizeof busy);
    }
    if (absent[0])
        snprintf(text, bytes, "not arrived: rank %s", absent);
    else if (busy[0])
        snprintf(text, bytes, "arrived but not through: rank %s", busy);
    else
        snprintf(text, bytes, "waiting for an earlier one");
}
