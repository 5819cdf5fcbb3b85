/*
 * check_nccl.cc: the stand-in for NCCL, tested by ranks that are right and by ranks with a fault.
 *
 *     check_nccl CASE    exits 0 when the results are right
 *
 * Ranks are threads with a device each. What each case is to end with stands in CMakeLists.txt.
 */
#include <cuda_runtime_api.h>
#include <functional>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thread>
#include <vector>

static const int ranks = 3;
static const size_t count = 4000;
static bool failed;

static void check(int error, const char *call, int line)
{
    if (error == 0) return;
    fprintf(stderr, "line %d: %s: error %d\n", line, call, error);
    exit(3);
}
#define CHECK(call) check((call), #call, __LINE__)

/* A call of NCCL, which may go on in the background. */
static void check_begun(ncclResult_t result, const char *call, int line)
{
    if (result != ncclInProgress) check(result, call, line);
}
#define BEGIN(call) check_begun((call), #call, __LINE__)

struct rank {
    int number;
    ncclComm_t comm;
    cudaStream_t stream, other;
    cudaEvent_t event;
    float *a, *b, *pinned; /* b: for each rank as much as a */
};

static void wait_until_ready(ncclComm_t comm)
{
    ncclResult_t error = ncclInProgress;

    while (error == ncclInProgress) {
        CHECK(ncclCommGetAsyncError(comm, &error));
        std::this_thread::yield();
    }
    check(error, ncclGetErrorString(error), __LINE__);
}

static void fill(rank &r, float *at, float value)
{
    for (size_t i = 0; i < count; i++) r.pinned[i] = value;
    CHECK(cudaMemcpyAsync(at, r.pinned, count * sizeof *at, cudaMemcpyHostToDevice, r.stream));
    CHECK(cudaStreamSynchronize(r.stream));
}

static void expect(rank &r, const float *at, float want)
{
    CHECK(cudaMemcpyAsync(r.pinned, at, count * sizeof *at, cudaMemcpyDeviceToHost, r.stream));
    CHECK(cudaStreamSynchronize(r.stream));
    for (size_t i = 0; i < count; i++) {
        if (r.pinned[i] == want) continue;
        fprintf(stderr, "wrong: rank %d has %g, not %g\n", r.number,
                static_cast<double>(r.pinned[i]), static_cast<double>(want));
        failed = true;
        return;
    }
}

/* ---- cases ---- */

static void sums(rank &r)
{
    BEGIN(ncclAllReduce(r.a, r.b, count, ncclFloat32, ncclSum, r.comm, r.stream));
    wait_until_ready(r.comm);
    expect(r, r.b, 6);
    BEGIN(ncclReduceScatter(r.b, r.a, count / ranks, ncclFloat32, ncclMax, r.comm, r.stream));
    wait_until_ready(r.comm);
    BEGIN(ncclReduce(r.b, r.number == 1 ? r.b : nullptr, count, ncclFloat32, ncclProd, 1, r.comm,
                     r.stream));
    wait_until_ready(r.comm);
    expect(r, r.b, r.number == 1 ? 216 : 6);
}

static void copies(rank &r)
{
    BEGIN(ncclAllGather(r.a, r.b, count, ncclFloat32, r.comm, r.stream));
    wait_until_ready(r.comm);
    for (int i = 0; i < ranks; i++) expect(r, r.b + static_cast<size_t>(i) * count, 1 + (float)i);
    BEGIN(ncclBroadcast(r.a, r.b, count, ncclFloat32, 2, r.comm, r.stream));
    wait_until_ready(r.comm);
    expect(r, r.b, 3);
}

/* To everybody, itself too. */
static void messages(rank &r)
{
    CHECK(ncclGroupStart());
    for (int i = 0; i < ranks; i++) {
        CHECK(ncclSend(r.a, count, ncclFloat32, i, r.comm, r.stream));
        CHECK(ncclRecv(r.b + static_cast<size_t>(i) * count, count, ncclFloat32, i, r.comm,
                       r.stream));
    }
    BEGIN(ncclGroupEnd());
    wait_until_ready(r.comm);
    for (int i = 0; i < ranks; i++) expect(r, r.b + static_cast<size_t>(i) * count, 1 + (float)i);
}

static void ask_for_sum(rank &r, size_t n)
{
    BEGIN(ncclAllReduce(r.a, r.b, n, ncclFloat32, ncclSum, r.comm, r.stream));
    wait_until_ready(r.comm);
    CHECK(cudaStreamSynchronize(r.stream));
}

static void other_counts(rank &r) { ask_for_sum(r, r.number == 1 ? count - 1 : count); }

static void other_kinds(rank &r)
{
    if (r.number == 2)
        BEGIN(ncclBroadcast(r.a, r.b, count, ncclFloat32, 0, r.comm, r.stream));
    else
        BEGIN(ncclAllReduce(r.a, r.b, count, ncclFloat32, ncclSum, r.comm, r.stream));
    wait_until_ready(r.comm);
}

static void other_reductions(rank &r)
{
    BEGIN(ncclAllReduce(r.a, r.b, count, ncclFloat32, r.number ? ncclSum : ncclMax, r.comm,
                        r.stream));
    wait_until_ready(r.comm);
}

static void other_message(rank &r)
{
    CHECK(ncclGroupStart());
    if (r.number == 0) CHECK(ncclSend(r.a, count, ncclFloat32, 1, r.comm, r.stream));
    if (r.number == 1) CHECK(ncclRecv(r.b, count / 2, ncclFloat32, 0, r.comm, r.stream));
    BEGIN(ncclGroupEnd());
    wait_until_ready(r.comm);
}

static void message_to_itself(rank &r)
{
    BEGIN(ncclSend(r.a, count, ncclFloat32, r.number, r.comm, r.stream));
    wait_until_ready(r.comm);
}

static void host_pointer(rank &r)
{
    BEGIN(ncclAllReduce(r.pinned, r.b, count, ncclFloat32, ncclSum, r.comm, r.stream));
}

/* Each rank is given the memory of rank 0. */
static void foreign_pointer(rank &r)
{
    static float *of_first;

    if (r.number == 0) __atomic_store_n(&of_first, r.a, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&of_first, __ATOMIC_SEQ_CST)) std::this_thread::yield();
    BEGIN(ncclAllReduce(of_first, r.b, count, ncclFloat32, ncclSum, r.comm, r.stream));
    wait_until_ready(r.comm);
}

static void beyond_allocation(rank &r) { ask_for_sum(r, count * ranks * 2); }

static void overlap(rank &r)
{
    BEGIN(ncclAllReduce(r.b, r.b + 10, count, ncclFloat32, ncclSum, r.comm, r.stream));
    wait_until_ready(r.comm);
    CHECK(cudaStreamSynchronize(r.stream));
}

static void end_without_start(rank &) { BEGIN(ncclGroupEnd()); }

static void start_without_end(rank &r)
{
    CHECK(ncclGroupStart());
    CHECK(ncclAllReduce(r.a, r.b, count, ncclFloat32, ncclSum, r.comm, r.stream));
}

/* It is not in the stream yet. */
static void not_settled(rank &r)
{
    BEGIN(ncclAllReduce(r.a, r.b, count, ncclFloat32, ncclSum, r.comm, r.stream));
    expect(r, r.b, 6);
    wait_until_ready(r.comm);
}

static void used_in_progress(rank &r)
{
    BEGIN(ncclAllReduce(r.a, r.b, count, ncclFloat32, ncclSum, r.comm, r.stream));
    BEGIN(ncclAllReduce(r.a, r.b, count, ncclFloat32, ncclSum, r.comm, r.stream));
}

/* The other stream reads before the first has come to the sum. */
static void no_event(rank &r)
{
    fill(r, r.b, 0);
    BEGIN(ncclAllReduce(r.a, r.b, count, ncclFloat32, ncclSum, r.comm, r.stream));
    wait_until_ready(r.comm);
    CHECK(cudaMemcpyAsync(r.a, r.b, count * sizeof(float), cudaMemcpyDeviceToDevice, r.other));
    CHECK(cudaStreamSynchronize(r.other));
    expect(r, r.a, 6);
}

static ncclUniqueId ids[2];

static ncclComm_t open(const rank &r, const ncclUniqueId &id)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm;

    config.blocking = 0;
    BEGIN(ncclCommInitRankConfig(&comm, ranks, id, r.number, &config));
    wait_until_ready(comm);
    return comm;
}

/* Two communicators in one stream, in another order on one rank. */
static void crossed(rank &r)
{
    ncclComm_t second = open(r, ids[1]);
    ncclComm_t order[] = {r.comm, second};

    for (int i = 0; i < 2; i++) {
        ncclComm_t comm = order[r.number == 1 ? 1 - i : i];

        BEGIN(ncclAllReduce(r.a, r.b, count, ncclFloat32, ncclSum, comm, r.stream));
        wait_until_ready(comm);
    }
    CHECK(cudaStreamSynchronize(r.stream));
}

static void destroyed_early(rank &r)
{
    ncclComm_t second = open(r, ids[1]);

    CHECK(ncclCommDestroy(second));
}

static void used_after_end(rank &r)
{
    ncclComm_t second = open(r, ids[1]);

    BEGIN(ncclCommFinalize(second));
    wait_until_ready(second);
    CHECK(ncclCommDestroy(second));
    BEGIN(ncclAllReduce(r.a, r.b, count, ncclFloat32, ncclSum, second, r.stream));
}

/* ---- registered memory ---- */

static void *registration(const rank &r, float *at, size_t n)
{
    void *handle;

    CHECK(ncclCommRegister(r.comm, at, n * sizeof(float), &handle));
    return handle;
}

static float *of_nccl(size_t n)
{
    void *p;

    CHECK(ncclMemAlloc(&p, n * sizeof(float)));
    return static_cast<float *>(p);
}

static void registered(rank &r)
{
    float *to = of_nccl(count);
    void *of_a = registration(r, r.a, count), *of_to = registration(r, to, count);

    BEGIN(ncclAllReduce(r.a, to, count, ncclFloat32, ncclSum, r.comm, r.stream));
    wait_until_ready(r.comm);
    expect(r, to, 6);
    CHECK(ncclCommDeregister(r.comm, of_to));
    CHECK(ncclCommDeregister(r.comm, of_a));
    CHECK(ncclMemFree(to));
    ask_for_sum(r, count);
}

static void freed_registered(rank &r)
{
    (void)registration(r, r.a, count);
    CHECK(cudaFree(r.a));
}

static void freed_by_cuda(rank &) { CHECK(cudaFree(of_nccl(count))); }
static void freed_by_nccl(rank &r) { CHECK(ncclMemFree(r.a)); }

static void registered_twice(rank &r)
{
    (void)registration(r, r.a, count);
    (void)registration(r, r.a, count);
}

static void registered_beyond(rank &r) { (void)registration(r, r.a, count + 1); }
static void deregistered_twice(rank &r)
{
    void *handle = registration(r, r.a, count);

    CHECK(ncclCommDeregister(r.comm, handle));
    CHECK(ncclCommDeregister(r.comm, handle));
}

static void other_comm(rank &r)
{
    ncclComm_t second = open(r, ids[1]);

    CHECK(ncclCommDeregister(second, registration(r, r.a, count)));
}

static void sum_with_registered(rank &r, bool a, bool b)
{
    if (a) (void)registration(r, r.a, count);
    if (b) (void)registration(r, r.b, ranks * count);
    ask_for_sum(r, count);
}

static void half_registered(rank &r) { sum_with_registered(r, true, false); }
static void mixed_ranks(rank &r) { sum_with_registered(r, r.number != 1, r.number != 1); }

/* Rank 1 launches it in a graph, the others as it is. */
static void captured_on_some(rank &r)
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;

    if (r.number != 1) {
        ask_for_sum(r, count);
        return;
    }
    CHECK(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeRelaxed));
    BEGIN(ncclAllReduce(r.a, r.b, count, ncclFloat32, ncclSum, r.comm, r.stream));
    wait_until_ready(r.comm);
    CHECK(cudaStreamEndCapture(r.stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, r.stream));
    CHECK(cudaStreamSynchronize(r.stream));
}

/* ---- ranks ---- */

static const struct {
    const char *name;
    void (*body)(rank &r);
} cases[] = {{"sums", sums},
             {"copies", copies},
             {"messages", messages},
             {"other_counts", other_counts},
             {"other_kinds", other_kinds},
             {"other_reductions", other_reductions},
             {"other_message", other_message},
             {"message_to_itself", message_to_itself},
             {"host_pointer", host_pointer},
             {"foreign_pointer", foreign_pointer},
             {"beyond_allocation", beyond_allocation},
             {"overlap", overlap},
             {"end_without_start", end_without_start},
             {"start_without_end", start_without_end},
             {"not_settled", not_settled},
             {"used_in_progress", used_in_progress},
             {"no_event", no_event},
             {"crossed", crossed},
             {"destroyed_early", destroyed_early},
             {"used_after_end", used_after_end},
             {"registered", registered},
             {"freed_registered", freed_registered},
             {"freed_by_cuda", freed_by_cuda},
             {"freed_by_nccl", freed_by_nccl},
             {"registered_twice", registered_twice},
             {"registered_beyond", registered_beyond},
             {"deregistered_twice", deregistered_twice},
             {"other_comm", other_comm},
             {"half_registered", half_registered},
             {"mixed_ranks", mixed_ranks},
             {"captured_on_some", captured_on_some}};

static void run_rank(int number, void (*body)(rank &r))
{
    int devices;
    rank r = {};

    CHECK(cudaGetDeviceCount(&devices));
    CHECK(cudaSetDevice(number % devices));
    r.number = number;
    r.comm = open(r, ids[0]);
    CHECK(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&r.other, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&r.event, cudaEventDisableTiming));
    CHECK(cudaMalloc(reinterpret_cast<void **>(&r.a), count * sizeof(float)));
    CHECK(cudaMalloc(reinterpret_cast<void **>(&r.b), ranks * count * sizeof(float)));
    CHECK(cudaMallocHost(reinterpret_cast<void **>(&r.pinned), count * sizeof(float)));
    fill(r, r.a, static_cast<float>(number + 1));
    body(r);
    CHECK(cudaStreamSynchronize(r.stream));
    BEGIN(ncclCommFinalize(r.comm));
    wait_until_ready(r.comm);
    CHECK(ncclCommDestroy(r.comm));
}

int main(int argc, char **argv)
{
    for (auto &c : cases) {
        std::vector<std::thread> threads;

        if (argc < 2 || strcmp(c.name, argv[1]) != 0) continue;
        for (auto &id : ids) CHECK(ncclGetUniqueId(&id));
        for (int i = 0; i < ranks; i++) threads.emplace_back(run_rank, i, c.body);
        for (auto &t : threads) t.join();
        return failed;
    }
    fprintf(stderr, "no such case\n");
    return 2;
}
