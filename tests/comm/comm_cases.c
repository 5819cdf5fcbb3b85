/*
 * comm_cases.c: one request per row of the tables at the end: made, run, compared with what a
 * serial program would have written, including the bytes behind the buffer.
 */
#include "comm_cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "comm/stream_ordered.h"
#include "device/device.h"
#include "device/pool.h"
#include "reference.h"

enum { MAX_RANKS = 64, GUARD = 64, IN_FLIGHT = 12 };

/* How a case's elements are dealt to the ranks. */
enum deal { EVEN, UNEVEN, SOME_EMPTY, ALL_ON_LAST };

struct test_case {
    weft_coll kind;
    weft_dtype dtype;
    weft_reduce reduce;
    size_t count;
    enum deal deal;
    bool in_place, shared;
    bool send_apart, odd_apart; /* send, and all of odd ranks, lies in the other kind of memory */
    int root;                   /* modulo the number of ranks */
};

/* A case in the making on one communicator. */
struct run {
    struct test_case test;
    struct wf_coll coll;
    unsigned salt;
    size_t element;
    size_t send_counts[MAX_RANKS], recv_counts[MAX_RANKS];
    struct wf_block *send_block, *recv_block;
    unsigned char *send, *recv, *expected;
    size_t recv_bytes, room;
    struct wf_block *send_there, *recv_there; /* on a device */
};

static _Thread_local weft_device device; /* of the cases */

static size_t dealt(enum deal deal, size_t count, int rank, int size)
{
    size_t r = (size_t)rank, n = (size_t)size;

    switch (deal) {
    case EVEN:
        return count / n;
    case UNEVEN:
        return count * (r + 1) / n - count * r / n + (r % 3);
    case SOME_EMPTY:
        return rank % 2 ? count / n + r : 0;
    default:
        return rank == size - 1 ? count : 0;
    }
}

static bool is_dealt(weft_coll kind)
{
    return kind == WEFT_COLL_ALL_GATHER || kind == WEFT_COLL_GATHER || kind == WEFT_COLL_SCATTER ||
           kind == WEFT_COLL_REDUCE_SCATTER || kind == WEFT_COLL_ALL_TO_ALL;
}

/* What `from` sends to `to` in an all-to-all: symmetric in nothing. */
static size_t all_to_all_count(const struct test_case *test, int from, int to, int size)
{
    return dealt(test->deal, test->count, (from + 2 * to) % size, size) + (size_t)(to % 2);
}

static void set_counts(struct run *run)
{
    int size = run->coll.comm ? wf_comm_size(run->coll.comm) : 1, me = wf_comm_rank(run->coll.comm);

    for (int rank = 0; rank < size; rank++) {
        run->send_counts[rank] = run->recv_counts[rank] =
            dealt(run->test.deal, run->test.count, rank, size);
        if (run->test.kind != WEFT_COLL_ALL_TO_ALL) continue;
        run->send_counts[rank] = all_to_all_count(&run->test, me, rank, size);
        run->recv_counts[rank] = all_to_all_count(&run->test, rank, me, size);
    }
}

static size_t sum(const size_t *counts, int n)
{
    size_t total = 0;

    for (int i = 0; i < n; i++) total += counts[i];
    return total;
}

static size_t send_count(const struct run *run)
{
    int size = wf_comm_size(run->coll.comm), me = wf_comm_rank(run->coll.comm);
    bool root = run->coll.peer == me;

    switch (run->test.kind) {
    case WEFT_COLL_ALL_REDUCE:
        return run->test.count;
    case WEFT_COLL_ALL_GATHER:
    case WEFT_COLL_GATHER:
        return run->recv_counts[me];
    case WEFT_COLL_BROADCAST:
        return root ? run->test.count : 0;
    case WEFT_COLL_SCATTER:
        return root ? sum(run->send_counts, size) : 0;
    default:
        return sum(run->send_counts, size);
    }
}

static size_t recv_count(const struct run *run)
{
    int size = wf_comm_size(run->coll.comm), me = wf_comm_rank(run->coll.comm);

    switch (run->test.kind) {
    case WEFT_COLL_ALL_REDUCE:
    case WEFT_COLL_BROADCAST:
        return run->test.count;
    case WEFT_COLL_GATHER:
        return run->coll.peer == me ? sum(run->recv_counts, size) : 0;
    case WEFT_COLL_REDUCE_SCATTER:
    case WEFT_COLL_SCATTER:
        return run->send_counts[me];
    default:
        return sum(run->recv_counts, size);
    }
}

static unsigned char *buffer(struct wf_block **block, size_t bytes, bool shared)
{
    *block = NULL;
    if (!shared) return wf_malloc(bytes);
    *block = wf_block_new(bytes, WF_MEM_COMM);
    if (!*block) WF_DIE("no block of %zu bytes", bytes);
    return (*block)->data;
}

static void drop(unsigned char *p, struct wf_block *block)
{
    if (block)
        wf_block_release(block);
    else
        wf_free(p);
}

static void fill(struct run *run, unsigned char *p, size_t count)
{
    for (size_t i = 0; i < count; i++)
        reference_element(p + i * run->element, run->test.dtype, wf_comm_rank(run->coll.comm), i,
                          run->salt);
}

/* ---- what recv must hold ---- */

static size_t expect_from(struct run *run, size_t at, int rank, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++)
        reference_element(run->expected + (at + i) * run->element, run->test.dtype, rank, first + i,
                          run->salt);
    return at + count;
}

static void expect_reduced(struct run *run, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++)
        reference_reduce(run->expected + i * run->element, run->test.dtype, run->test.reduce,
                         wf_comm_size(run->coll.comm), first + i, run->salt);
}

static size_t first_for(const struct run *run, int from, int to)
{
    size_t first = 0;

    for (int rank = 0; rank < to; rank++)
        first += all_to_all_count(&run->test, from, rank, wf_comm_size(run->coll.comm));
    return first;
}

static void expect(struct run *run)
{
    int size = wf_comm_size(run->coll.comm), me = wf_comm_rank(run->coll.comm);
    size_t at = 0, count = recv_count(run);

    switch (run->test.kind) {
    case WEFT_COLL_ALL_REDUCE:
        expect_reduced(run, 0, count);
        break;
    case WEFT_COLL_REDUCE_SCATTER:
        expect_reduced(run, sum(run->send_counts, me), count);
        break;
    case WEFT_COLL_BROADCAST:
        expect_from(run, 0, run->coll.peer, 0, count);
        break;
    case WEFT_COLL_SCATTER:
        expect_from(run, 0, run->coll.peer, sum(run->send_counts, me), count);
        break;
    case WEFT_COLL_ALL_TO_ALL:
        for (int rank = 0; rank < size; rank++)
            at = expect_from(run, at, rank, first_for(run, rank, me), run->recv_counts[rank]);
        break;
    default:
        for (int rank = 0; rank < size && count; rank++)
            at = expect_from(run, at, rank, 0, run->recv_counts[rank]);
    }
}

/* ---- on a device ---- */

static struct wf_block *copy_to_device(const void *bytes, size_t room)
{
    struct wf_block *block = wf_block_new_on(device, room, WF_MEM_COMM);

    if (!block) WF_DIE("%s", weft_error_message());
    wf_device_upload(device, block->data, bytes, room);
    return block;
}

static void move_to_device(struct run *run)
{
    run->recv_there = copy_to_device(run->recv, run->room);
    run->send_there = run->test.in_place ? run->recv_there : copy_to_device(run->send, run->room);
    run->coll.device = device;
    run->coll.send = run->send_there->data;
    run->coll.recv = run->recv_there->data;
}

static void move_from_device(struct run *run)
{
    wf_device_download(device, run->recv, run->recv_there->data, run->room, "a test");
    if (!run->test.in_place) wf_block_release(run->send_there);
    wf_block_release(run->recv_there);
}

/* By how much a sum in another order, rounded after each term, may differ; terms are below 3. */
static double rounding(const struct run *run)
{
    const struct wf_device_comm *there = run->coll.comm->device;
    double ranks = wf_comm_size(run->coll.comm), most = 3 * ranks;

    if (device == WEFT_CPU || !there || there->backend != &wf_backend_stream_ordered ||
        !weft_dtype_is_float(run->test.dtype))
        return 0;
    if (run->test.reduce == WEFT_PRODUCT) most = pow(3, ranks);
    return most * ranks *
           (run->test.dtype == WEFT_F64   ? 0x1p-53
            : run->test.dtype == WEFT_F32 ? 0x1p-24
                                          : 0x1p-8);
}

/* As far as the bytes before `at`, which differ, may. */
static bool is_near(const struct run *run, size_t at)
{
    size_t first = at / run->element * run->element;
    double got = wf_dtypes[run->test.dtype].load(run->recv + first);
    double want = wf_dtypes[run->test.dtype].load(run->expected + first);

    return fabs(got - want) <= rounding(run);
}

/* ---- one case ---- */

static void begin(struct run *run, struct wf_comm *comm, const struct test_case *test,
                  unsigned salt)
{
    bool shared = test->shared != (test->odd_apart && wf_comm_rank(comm) % 2);
    size_t sends, bytes;

    memset(run, 0, sizeof *run);
    run->test = *test;
    run->salt = salt;
    run->element = weft_dtype_size(test->dtype);
    run->coll = (struct wf_coll){
        .kind = test->kind, .comm = comm, .dtype = test->dtype, .reduce = test->reduce};
    run->coll.peer = test->root % wf_comm_size(comm);
    run->coll.count = test->count;
    if (is_dealt(test->kind)) set_counts(run);
    run->coll.send_counts = run->send_counts;
    run->coll.recv_counts = run->recv_counts;
    sends = send_count(run);
    run->recv_bytes = recv_count(run) * run->element;
    bytes = sends * run->element > run->recv_bytes ? sends * run->element : run->recv_bytes;
    run->recv = buffer(&run->recv_block, bytes + GUARD, shared);
    run->room = bytes + GUARD;
    memset(run->recv, 0xA5, run->room);
    run->send = test->in_place
                    ? run->recv
                    : buffer(&run->send_block, bytes + GUARD, shared != test->send_apart);
    fill(run, run->send, sends);
    run->coll.send = run->send;
    run->coll.recv = run->recv;
    if (device != WEFT_CPU) move_to_device(run);
    wf_comm_start(&run->coll);
}

static int verdict(const struct run *run, const struct wf_comm *comm)
{
    size_t at = 0;

    while (at < run->recv_bytes && (run->recv[at] == run->expected[at] || is_near(run, at))) at++;
    if (at == run->recv_bytes && run->recv[at] != 0xA5 && !run->test.in_place) {
        WF_FAIL(WEFT_ERR_COMM, "%s wrote behind its buffer", wf_coll_name(run->test.kind));
        return 1;
    }
    if (at == run->recv_bytes) return 0;
    WF_FAIL(WEFT_ERR_COMM,
            "%s %s reduce %d count %zu deal %d in_place %d shared %d root %d, rank %d of %d (%s): "
            "element %zu is wrong",
            wf_coll_name(run->test.kind), weft_dtype_name(run->test.dtype), (int)run->test.reduce,
            run->test.count, (int)run->test.deal, run->test.in_place, run->test.shared,
            run->coll.peer, wf_comm_rank(comm), wf_comm_size(comm), wf_comm_backend_name(comm),
            at / run->element);
    return 1;
}

static int end(struct run *run)
{
    int failed;

    wf_comm_wait(&run->coll);
    if (device != WEFT_CPU) move_from_device(run);
    run->expected = wf_malloc(run->recv_bytes + 8);
    expect(run);
    failed = verdict(run, run->coll.comm);
    wf_free(run->expected);
    if (!run->test.in_place) drop(run->send, run->send_block);
    drop(run->recv, run->recv_block);
    return failed;
}

static int run_one(struct wf_comm *comm, const struct test_case *test)
{
    static _Thread_local unsigned salt;
    struct run run;

    begin(&run, comm, test, ++salt);
    return end(&run);
}

/* ---- the tables ---- */

static const weft_dtype reduced[] = {WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_F16, WEFT_I32, WEFT_I64};
static const weft_reduce reduces[] = {WEFT_SUM, WEFT_PRODUCT, WEFT_MAX, WEFT_MIN};
/* around the end of inline messages (4096 bytes) and of staging chunks (262144 bytes) for 4-byte
 * elements */
static const size_t sizes[] = {0, 1, 7, 1024, 1025, 20000, 65536, 65537, 200001};
static const weft_coll kinds[] = {
    WEFT_COLL_ALL_REDUCE, WEFT_COLL_ALL_GATHER, WEFT_COLL_REDUCE_SCATTER, WEFT_COLL_ALL_TO_ALL,
    WEFT_COLL_BROADCAST,  WEFT_COLL_SCATTER,    WEFT_COLL_GATHER};

#define EACH(i, table)                                                                             \
    size_t i = 0;                                                                                  \
    i < sizeof table / sizeof *table;                                                              \
    i++

static int reductions(struct wf_comm *comm, bool shared)
{
    int failed = 0;

    for (EACH(d, reduced))
        for (EACH(r, reduces))
            for (size_t s = 1; s < 5; s++) {
                struct test_case test = {.kind = WEFT_COLL_ALL_REDUCE,
                                         .dtype = reduced[d],
                                         .reduce = reduces[r],
                                         .count = s * s * 777,
                                         .in_place = s % 2,
                                         .shared = shared};
                failed += run_one(comm, &test);
                test.kind = WEFT_COLL_REDUCE_SCATTER;
                test.in_place = false;
                test.deal = UNEVEN;
                failed += run_one(comm, &test);
            }
    return failed;
}

static int shapes(struct wf_comm *comm, bool shared, size_t limit)
{
    int failed = 0;

    for (EACH(k, kinds))
        for (EACH(s, sizes))
            for (enum deal deal = EVEN; deal <= ALL_ON_LAST; deal++) {
                struct test_case test = {.kind = kinds[k],
                                         .count = sizes[s],
                                         .deal = deal,
                                         .shared = shared,
                                         .root = (int)s};
                bool can = test.kind == WEFT_COLL_ALL_REDUCE || test.kind == WEFT_COLL_BROADCAST;

                test.in_place = can && deal % 2;
                if (sizes[s] > limit || (can && deal > UNEVEN)) continue;
                if (!weft_dtype_is_float(test.dtype)) continue;
                failed += run_one(comm, &test);
            }
    return failed;
}

/* What peers can read and write in place beside what they cannot, over many staging chunks. */
static int mixtures(struct wf_comm *comm)
{
    int failed = 0;

    for (EACH(k, kinds))
        for (int mix = 0; mix < 8; mix++) {
            struct test_case test = {.kind = kinds[k],
                                     .count = 350003,
                                     .deal = UNEVEN,
                                     .shared = mix & 1,
                                     .send_apart = mix & 2,
                                     .odd_apart = mix & 4};

            failed += run_one(comm, &test);
        }
    return failed;
}

/* Bytes, not numbers: kinds that only copy take every dtype. */
static int copies(struct wf_comm *comm)
{
    int failed = 0;

    for (weft_dtype dtype = WEFT_F32; dtype < WEFT_C64; dtype++)
        for (EACH(k, kinds)) {
            struct test_case test = {
                .kind = kinds[k], .dtype = dtype, .count = 5001, .deal = UNEVEN, .root = 1};
            bool adds = test.kind == WEFT_COLL_ALL_REDUCE || test.kind == WEFT_COLL_REDUCE_SCATTER;

            if (!adds) failed += run_one(comm, &test);
        }
    return failed;
}

/* Many collectives begun before the first is waited for, more than slots are in a ring. */
static int in_flight(struct wf_comm *comm, struct wf_comm *other, bool shared)
{
    static const size_t counts[] = {3, 70001, 1500, 9};
    struct run *runs = wf_calloc(IN_FLIGHT, sizeof *runs);
    int failed = 0;

    for (int i = 0; i < IN_FLIGHT; i++) {
        struct test_case test = {
            .kind = kinds[i % 7], .count = counts[i % 4], .deal = UNEVEN, .shared = shared};

        begin(&runs[i], i % 3 == 2 ? other : comm, &test, 1000u + (unsigned)i);
    }
    for (int i = 0; i < IN_FLIGHT; i++) failed += end(&runs[i]);
    wf_free(runs);
    return failed;
}

/* ---- pairs ---- */

static struct wf_coll message(struct wf_comm *comm, weft_coll kind, int peer, size_t count, void *p)
{
    struct wf_coll coll = {
        .kind = kind, .comm = comm, .dtype = WEFT_I32, .peer = peer, .count = count};

    if (kind == WEFT_COLL_SEND)
        coll.send = p;
    else
        coll.recv = p;
    return coll;
}

/* Everybody sends `count` numbers around the ring, twice to the same neighbour, and waits in the
 * order that would deadlock if waiting for a send did not move the receives forward. */
static int ring_of_messages(struct wf_comm *comm, size_t count)
{
    int size = wf_comm_size(comm), me = wf_comm_rank(comm), failed = 0;
    int to = (me + 1) % size, from = (me + size - 1) % size;
    int32_t *out = wf_malloc((2 * count + 1) * sizeof *out),
            *in = wf_malloc((2 * count + 1) * sizeof *in);
    struct wf_coll colls[4] = {message(comm, WEFT_COLL_SEND, to, count, out),
                               message(comm, WEFT_COLL_SEND, to, count, out + count),
                               message(comm, WEFT_COLL_RECV, from, count, in),
                               message(comm, WEFT_COLL_RECV, from, count, in + count)};

    for (size_t i = 0; i < 2 * count; i++) reference_element(&out[i], WEFT_I32, me, i, 77);
    for (int i = 0; i < 4; i++) wf_comm_start(&colls[i]);
    for (int i = 0; i < 4; i++) wf_comm_wait(&colls[i]);
    for (size_t i = 0; i < 2 * count; i++) {
        int32_t expected;

        reference_element(&expected, WEFT_I32, from, i, 77);
        failed += in[i] != expected;
    }
    wf_free(out);
    wf_free(in);
    if (failed)
        WF_FAIL(WEFT_ERR_COMM, "%d of 2 x %zu numbers from rank %d are wrong", failed, count, from);
    return failed;
}

static int messages(struct wf_comm *comm)
{
    static const size_t counts[] = {0, 1, 1024, 1025, 2048, 30011};
    int failed = 0;

    if (wf_comm_size(comm) == 1) return 0;
    for (EACH(i, counts)) failed += ring_of_messages(comm, counts[i]);
    return failed;
}

static void barrier(struct wf_comm *comm)
{
    struct wf_coll coll = {.kind = WEFT_COLL_BARRIER, .comm = comm};

    wf_comm_run(&coll);
}

/* ---- communicators ---- */

static struct wf_comm *reversed(void)
{
    int ranks[MAX_RANKS], size = wf_comm_size(wf_comm_world());

    for (int i = 0; i < size; i++) ranks[i] = size - 1 - i;
    return wf_comm_for_ranks(ranks, size, "back");
}

static struct wf_comm *same_parity(void)
{
    int ranks[MAX_RANKS], count = 0;
    int size = wf_comm_size(wf_comm_world()), me = wf_comm_rank(wf_comm_world());

    for (int i = me % 2; i < size; i += 2) ranks[count++] = i;
    return wf_comm_for_ranks(ranks, count, "parity");
}

static int caching(void)
{
    struct wf_comm *first = same_parity(), *back = reversed();
    int made = wf_comm_created_count(), failed = 0;

    failed += same_parity() != first || reversed() != back;
    failed += wf_comm_created_count() != made;
    failed += strcmp(wf_comm_label(first), "parity") != 0;
    if (failed) WF_FAIL(WEFT_ERR_COMM, "a communicator was made twice");
    return failed;
}

int comm_cases(void *payload)
{
    struct wf_comm *world = wf_comm_world(), *back = reversed(), *parity = same_parity();
    size_t most = wf_comm_size(world) > 4 ? 20000 : SIZE_MAX; /* keeps sanitizer runs short */
    int failed = 0;

    (void)payload;
    failed += caching();
    failed += reductions(world, true) + reductions(back, false);
    failed += shapes(world, true, most) + shapes(world, false, most);
    failed += shapes(parity, true, 20000) + shapes(back, false, 20000);
    failed += copies(world) + copies(parity);
    if (strcmp(wf_comm_backend_name(world), "local") != 0)
        failed += mixtures(world); /* threads read all */
    failed += in_flight(world, parity, true) + in_flight(back, parity, false);
    failed += messages(world) + messages(back) + messages(parity);
    barrier(world);
    barrier(parity);
    return failed;
}

int comm_cases_on_gpu(void *payload)
{
    int failed;

    if (wf_device_ensure_open(WEFT_CUDA) != WEFT_OK) return 1;
    device = WEFT_CUDA;
    failed = comm_cases(payload);
    device = WEFT_CPU;
    return failed;
}
