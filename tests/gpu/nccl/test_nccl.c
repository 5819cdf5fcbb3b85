/*
 * test_nccl.c: collectives between GPUs, by NCCL where each rank has one of its own. The runtime
 * and NCCL are stand-ins; what streams and communicators are like is the environment's.
 *
 *     gpu.nccl RANKS [CASE]    exits 0 when all is right
 *     cases: those of the table of main; collectives unless told
 */
#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/settings/knob.h"
#include "comm/comm_cases.h"
#include "comm/stream_ordered.h"
#include "device/capture.h"
#include "device/device.h"
#include "device/pool.h"
#include "nccl_cases.h"

static void finish_rank(void)
{
    wf_comm_close_on_device();
    free_left_graph();
    wf_pool_finalize();
    wf_device_finalize();
}

/* The backend that the environment is to lead to; "": any. */
static int check_backend(struct wf_comm *comm)
{
    const char *want = getenv("WT_BACKEND");
    const struct wf_backend *chosen = comm->device->backend;

    if (!want || (chosen && strcmp(chosen->name, want) == 0)) return 0;
    WF_FAIL(WEFT_ERR_STATE, "the backend is %s, not %s", chosen ? chosen->name : "none", want);
    return 1;
}

static int collectives(void *payload)
{
    return comm_cases_on_gpu(payload) + check_backend(wf_comm_world());
}

/* ---- order ---- */

struct wf_block *numbers(float value)
{
    struct wf_block *block = wf_block_new_on(WEFT_CUDA, COUNT * sizeof(float), WF_MEM_COMM);
    float host[COUNT];

    for (int i = 0; i < COUNT; i++) host[i] = value;
    wf_device_upload(WEFT_CUDA, block->data, host, sizeof host);
    return block;
}

struct wf_coll sum_of(struct wf_block *from, struct wf_block *to)
{
    return (struct wf_coll){.kind = WEFT_COLL_ALL_REDUCE,
                            .comm = wf_comm_world(),
                            .device = WEFT_CUDA,
                            .count = COUNT,
                            .send = from->data,
                            .recv = to->data};
}

int expect(struct wf_block *block, float want, const char *what)
{
    float got[COUNT];

    wf_device_download(WEFT_CUDA, got, block->data, sizeof got, "a test");
    for (int i = 0; i < COUNT; i++) {
        if (got[i] == want) continue;
        WF_FAIL(WEFT_ERR_STATE, "%s: element %d is %g, not %g", what, i, (double)got[i],
                (double)want);
        return 1;
    }
    return 0;
}

/* The host waits for nothing before the last line. What the compute stream was given before comes
 * before, what it is given after the wait comes after, and what between, beside. */
static int order(void *payload)
{
    int size, failed;
    struct wf_block *a, *b, *c, *sum;
    struct wf_coll first, second;

    (void)payload;
    if (wf_device_ensure_open(WEFT_CUDA) != WEFT_OK) return 1;
    size = wf_comm_size(wf_comm_world());
    a = numbers(1);
    b = numbers(2);
    c = numbers(3);
    sum = numbers(0);
    wf_device_copy(WEFT_CUDA, a->data, b->data, COUNT * sizeof(float)); /* a: 2 */
    first = sum_of(a, sum);
    wf_comm_start(&first);
    wf_device_copy(WEFT_CUDA, b->data, c->data, COUNT * sizeof(float)); /* b: 3, beside it */
    wf_comm_wait(&first);
    wf_device_copy(WEFT_CUDA, a->data, sum->data, COUNT * sizeof(float)); /* a: 2 size */
    second = sum_of(a, c);
    wf_comm_start(&second);
    wf_comm_wait(&second);
    wf_device_copy(WEFT_CUDA, b->data, c->data, COUNT * sizeof(float));
    failed = wf_device_synchronization_count() != 0;
    failed += expect(sum, 2.0f * (float)size, "the first sum");
    failed += expect(b, 2.0f * (float)(size * size), "the second sum");
    wf_block_release(a);
    wf_block_release(b);
    wf_block_release(c);
    wf_block_release(sum);
    return failed + check_backend(wf_comm_world());
}

/* ---- registered memory ---- */

/* What the stand-in counts of this rank. */
static long counted(const char *function)
{
    void *nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
    long (*count)(void);

    if (!nccl) return -1;
    *(void **)&count = dlsym(nccl, function);
    return count();
}

static long registrations(void) { return counted("wt_cuda_registrations_made"); }

static int sum_once(float value)
{
    struct wf_block *from = numbers(value), *to = numbers(0);
    struct wf_coll coll = sum_of(from, to);
    int failed;

    wf_comm_run(&coll);
    failed = expect(to, value * (float)wf_comm_size(wf_comm_world()), "a sum");
    wf_block_release(from);
    wf_block_release(to);
    return failed;
}

/* The others' streams are empty meanwhile: pinned memory goes too, and that waits for all GPUs that
 * the process has. */
static void trim_together(void)
{
    struct wf_coll barrier = {.kind = WEFT_COLL_BARRIER, .comm = wf_comm_world()};

    wf_comm_run(&barrier);
    wf_pool_trim();
    wf_comm_run(&barrier);
}

/* Both blocks lie in one region of the pool: it is registered once, and again when it has gone and
 * come back. */
static int registered(void *payload)
{
    long each = wf_knobs.nccl_register && wf_knobs.nccl ? 1 : 0;
    int failed = 0;

    (void)payload;
    if (wf_device_ensure_open(WEFT_CUDA) != WEFT_OK) return 1;
    for (long round = 1; round <= 2; round++) {
        for (int i = 0; i < 3; i++) failed += sum_once((float)i);
        if (registrations() != round * each) {
            WF_FAIL(WEFT_ERR_STATE, "round %ld: memory was registered %ld times", round,
                    registrations());
            failed++;
        }
        trim_together();
    }
    return failed;
}

/* The environment makes one rank's first ncclMemAlloc fail. That rank has cudaMalloc's memory for
 * good, the others have NCCL's, and no rank registers any. */
static int refused_first(void *payload)
{
    static atomic_int without;
    int failed = 0;

    (void)payload;
    if (wf_device_ensure_open(WEFT_CUDA) != WEFT_OK) return 1;
    for (int round = 0; round < 2; round++) {
        failed += sum_once((float)round);
        trim_together();
    }
    if (counted("wt_cuda_nccl_memory_given") == 0) atomic_fetch_add(&without, 1);
    trim_together();
    if (atomic_load(&without) != 1 || registrations() != 0) {
        WF_FAIL(WEFT_ERR_STATE, "%d ranks have no memory of NCCL's; this one registered %ld times",
                atomic_load(&without), registrations());
        failed++;
    }
    return failed + check_backend(wf_comm_world());
}

/* A GPU of 64 MiB: what is idle is given back for what does not fit beside it. */
static int no_memory(void *payload)
{
    struct wf_block *first, *second, *instead;
    int failed;

    (void)payload;
    if (wf_device_ensure_open(WEFT_CUDA) != WEFT_OK) return 1;
    first = wf_block_new_on(WEFT_CUDA, (size_t)40 << 20, WF_MEM_COMM);
    second = wf_block_new_on(WEFT_CUDA, (size_t)40 << 20, WF_MEM_COMM);
    failed = !first || second || weft_error_status() != WEFT_ERR_MEMORY;
    weft_error_clear();
    wf_block_release(first);
    instead = wf_block_new_on(WEFT_CUDA, (size_t)50 << 20, WF_MEM_COMM);
    if (!instead) return failed + 1;
    wf_block_release(instead);
    return failed;
}

/* The environment makes the second region's ncclMemAlloc fail, once. */
static int refused_once(void *payload)
{
    struct wf_block *first, *second;

    (void)payload;
    if (wf_device_ensure_open(WEFT_CUDA) != WEFT_OK) return 1;
    first = wf_block_new_on(WEFT_CUDA, (size_t)40 << 20, WF_MEM_COMM);
    second = wf_block_new_on(WEFT_CUDA, (size_t)40 << 20, WF_MEM_COMM);
    if (!first || !second) return 1;
    wf_block_release(first);
    wf_block_release(second);
    return 0;
}

/* ---- more at the end than events rest ---- */

/* All are waited for by the stream alone: the communicator is closed while none is known to have
 * ended. */
static int many(void *payload)
{
    struct wf_block *a, *sum;

    (void)payload;
    if (wf_device_ensure_open(WEFT_CUDA) != WEFT_OK) return 1;
    a = numbers(1);
    sum = numbers(0);
    for (int i = 0; i < 63; i++) { /* the 64th start would look which have ended */
        struct wf_coll coll = sum_of(a, sum);

        wf_comm_start(&coll);
        wf_comm_wait(&coll);
    }
    wf_block_release(a);
    wf_block_release(sum);
    return check_backend(wf_comm_world());
}

/* ---- a rank that does not come ---- */

static int missing(void *payload)
{
    struct wf_block *a, *sum;
    struct wf_coll coll;
    int failed = 0;

    (void)payload;
    if (wf_device_ensure_open(WEFT_CUDA) != WEFT_OK) return 1;
    a = numbers(1);
    sum = numbers(0);
    coll = sum_of(a, sum);
    wf_comm_run(&coll);
    if (wf_comm_rank(wf_comm_world()) != 1) {
        wf_comm_run(&coll);
        failed = expect(sum, 0, "what never comes");
    }
    wf_block_release(a);
    wf_block_release(sum);
    return failed;
}

/* ---- maxima and minima ---- */

enum { EXTREMES = 600 };

/* Of a rank; some ranks have a NaN in some places, one an infinity in one. */
static double term(int rank, int size, int i)
{
    if (i % 8 == 3 && i / 8 % size == rank) return NAN;
    if (i == 4) return rank ? -INFINITY : INFINITY;
    return (rank * 7 + i * 3) % 11 - 5;
}

static double extreme_of_ranks(weft_reduce reduce, int size, int i)
{
    double most = term(0, size, i);

    for (int rank = 1; rank < size; rank++) {
        double x = term(rank, size, i);

        if (isnan(x) || (reduce == WEFT_MAX ? x > most : x < most)) most = x;
    }
    return i % 8 == 3 ? NAN : most;
}

/* The last one has more. */
static size_t part_of(int rank, int size)
{
    size_t half = EXTREMES / 2 / (size_t)size;

    if (rank == size - 1) return EXTREMES - (size_t)rank * half;
    return half;
}

static int expect_extremes(const struct wf_coll *coll, const void *recv, int first, size_t count)
{
    const char *got = recv;
    size_t element = weft_dtype_size(coll->dtype);
    int size = wf_comm_size(coll->comm);

    for (size_t i = 0; i < count; i++) {
        double want = extreme_of_ranks(coll->reduce, size, first + (int)i);
        double is = wf_dtypes[coll->dtype].load(got + i * element);

        if (isnan(want) ? isnan(is) : is == want) continue;
        WF_FAIL(WEFT_ERR_STATE, "%s, reduction %d: element %zu is %g, not %g",
                weft_dtype_name(coll->dtype), (int)coll->reduce, i, is, want);
        return 1;
    }
    return 0;
}

/* Captured; and launched, when what the capture gave has gone. gives: failures */
static int run_in_graph(struct wf_coll *coll, size_t bytes)
{
    static const char zeros[EXTREMES * sizeof(double)];
    struct wf_graph *graph;
    char why[512] = "";
    int failed;

    if (wf_capture_begin(true)) return 1;
    wf_comm_run(coll);
    graph = wf_capture_end(why, sizeof why);
    if (!graph) {
        WF_FAIL(WEFT_ERR_STATE, "no graph: %s", why);
        return 1;
    }
    wf_device_upload(WEFT_CUDA, coll->recv, zeros, bytes);
    failed = !wf_graph_launch(graph);
    wf_graph_free(graph);
    return failed;
}

static int run_extremes(struct wf_coll coll, const size_t *counts, bool in_graph)
{
    size_t element = weft_dtype_size(coll.dtype), bytes = EXTREMES * element, first = 0;
    struct wf_block *from = wf_block_new_on(WEFT_CUDA, bytes, WF_MEM_COMM);
    struct wf_block *to = wf_block_new_on(WEFT_CUDA, bytes, WF_MEM_COMM);
    bool whole = coll.kind == WEFT_COLL_ALL_REDUCE;
    int me = wf_comm_rank(coll.comm), failed = 0;
    char host[EXTREMES * sizeof(double)];

    for (int i = 0; i < EXTREMES; i++)
        wf_dtypes[coll.dtype].store(host + (size_t)i * element,
                                    term(me, wf_comm_size(coll.comm), i));
    wf_device_upload(WEFT_CUDA, from->data, host, bytes);
    coll.count = EXTREMES;
    coll.send_counts = counts;
    coll.send = from->data;
    coll.recv = to->data;
    if (in_graph)
        failed = run_in_graph(&coll, bytes);
    else
        wf_comm_run(&coll);
    for (int rank = 0; rank < me; rank++) first += whole ? 0 : counts[rank];
    wf_device_download(WEFT_CUDA, host, to->data, bytes, "a test");
    failed += expect_extremes(&coll, host, (int)first, whole ? EXTREMES : counts[me]);
    wf_block_release(from);
    wf_block_release(to);
    return failed;
}

/* A NaN stays, as in host memory: NCCL loses it. */
static int run_all_extremes(bool in_graph)
{
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_F16};
    struct wf_comm *world = wf_comm_world();
    int size = wf_comm_size(world), failed = 0;
    size_t counts[16];

    for (int rank = 0; rank < size; rank++) counts[rank] = part_of(rank, size);
    for (int i = 0; i < 16; i++) {
        struct wf_coll coll = {.kind = i & 1 ? WEFT_COLL_ALL_REDUCE : WEFT_COLL_REDUCE_SCATTER,
                               .comm = world,
                               .device = WEFT_CUDA,
                               .dtype = dtypes[i / 4],
                               .reduce = i & 2 ? WEFT_MAX : WEFT_MIN};

        failed += run_extremes(coll, counts, in_graph);
    }
    return failed + check_backend(world);
}

static int extremes(void *payload)
{
    (void)payload;
    if (wf_device_ensure_open(WEFT_CUDA) != WEFT_OK) return 1;
    return run_all_extremes(false);
}

static int extremes_in_graph(void *payload) { return extremes(payload) + run_all_extremes(true); }

/* What a script tells from a crash. */
static void leave(void) { _Exit(3); }

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*body)(void *payload);
    } cases[] = {{"collectives", collectives},
                 {"order", order},
                 {"many", many},
                 {"registered", registered},
                 {"no_memory", no_memory},
                 {"refused_once", refused_once},
                 {"refused_first", refused_first},
                 {"missing", missing},
                 {"graphs", graphs},
                 {"missing_in_graph", missing_in_graph},
                 {"graph_left", graph_left},
                 {"lacks_memory_before", lacks_memory_before},
                 {"lacks_memory_after", lacks_memory_after},
                 {"lacks_memory_alone", lacks_memory_alone},
                 {"extremes", extremes},
                 {"extremes_in_graph", extremes_in_graph},
                 {"counts_gone", counts_gone},
                 {"older", older},
                 {"older_waited_for", older_waited_for}};
    const char *name = argc > 2 ? argv[2] : "collectives";
    int failed = -1;

    wf_knobs_read();
    wf_die_set_handler(leave);
    wf_comm_set_thread_hooks(NULL, finish_rank);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc > 1 && strcmp(cases[i].name, name) == 0)
            failed = wf_comm_run_rank_threads(atoi(argv[1]), cases[i].body, NULL);
    if (failed) fprintf(stderr, "%s: %d failures, first: %s\n", name, failed, weft_error_message());
    return failed != 0;
}
