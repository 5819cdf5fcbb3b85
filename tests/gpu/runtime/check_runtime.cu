/*
 * check_runtime.cu: the stand-in for the CUDA runtime, tested by programs of streams that are right
 * and by programs with a fault.
 *
 *     check_runtime CASE    exits 0 when the results are right and every call gave what is expected
 *
 * What each case is to end with stands in CMakeLists.txt. Errors of calls that nobody expects are
 * printed with the call, which a test that lets the n-th call fail looks for.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { count = 3000 };

static bool failed;

static void expect(bool right, const char *what)
{
    if (right) return;
    printf("wrong: %s\n", what);
    failed = true;
}

static void check(cudaError_t error, const char *call, int line)
{
    if (error == cudaSuccess) return;
    printf("line %d: %s: %s\n", line, call, cudaGetErrorString(error));
    exit(3);
}
#define CHECK(call) check((call), #call, __LINE__)
/* A call that is refused with this error. */
#define REFUSED(call, error)                                                                       \
    do {                                                                                           \
        expect((call) == (error), #call);                                                          \
        cudaGetLastError();                                                                        \
    } while (0)

__global__ void add_times(float *y, const float *x, float a, int n)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

    if (i < n) y[i] += a * x[i];
}

/* Two streams, device arrays, a pinned buffer. */
struct world {
    cudaStream_t compute, copy;
    cudaEvent_t event, other;
    float *a, *b, *c, *pinned;
};

static world begin()
{
    world w;
    float one[count];

    for (float &x : one) x = 1;
    CHECK(cudaStreamCreateWithFlags(&w.compute, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithPriority(&w.copy, cudaStreamNonBlocking, -1));
    CHECK(cudaEventCreateWithFlags(&w.event, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&w.other, cudaEventDisableTiming));
    CHECK(cudaMallocAsync((void **)&w.a, sizeof one, w.compute));
    CHECK(cudaMalloc((void **)&w.b, sizeof one));
    CHECK(cudaMalloc((void **)&w.c, sizeof one));
    CHECK(cudaMallocHost((void **)&w.pinned, sizeof one));
    CHECK(cudaMemcpyAsync(w.a, one, sizeof one, cudaMemcpyHostToDevice, w.compute));
    CHECK(cudaMemcpyAsync(w.b, one, sizeof one, cudaMemcpyHostToDevice, w.compute));
    return w;
}

static void add(world &w, float *y, const float *x, float a)
{
    add_times<<<(count + 255) / 256, 256, 0, w.compute>>>(y, x, a, count);
    CHECK(cudaGetLastError());
}

static void copy_on(cudaStream_t stream, float *to, const float *from)
{
    CHECK(cudaMemcpyAsync(to, from, count * sizeof *to, cudaMemcpyDefault, stream));
}

static void order(cudaStream_t before, cudaStream_t after, cudaEvent_t event)
{
    CHECK(cudaEventRecord(event, before));
    CHECK(cudaStreamWaitEvent(after, event, 0));
}

/* All of c is `want`, once the copy stream has come to an end. */
static void expect_c(world &w, float want)
{
    int wrong = 0;

    copy_on(w.copy, w.pinned, w.c);
    CHECK(cudaStreamSynchronize(w.copy));
    for (int i = 0; i < count; i++) wrong += w.pinned[i] != want;
    expect(wrong == 0, "the values");
    CHECK(cudaDeviceSynchronize());
}

static void end(world &w)
{
    CHECK(cudaFreeAsync(w.a, w.compute));
    CHECK(cudaFree(w.b));
    CHECK(cudaFree(w.c));
    CHECK(cudaFreeHost(w.pinned));
    CHECK(cudaEventDestroy(w.event));
    CHECK(cudaEventDestroy(w.other));
    CHECK(cudaStreamSynchronize(w.compute));
    CHECK(cudaStreamDestroy(w.compute));
    CHECK(cudaStreamDestroy(w.copy));
}

static void two_streams(world &w)
{
    add(w, w.b, w.a, 2); /* 3 */
    order(w.compute, w.copy, w.event);
    copy_on(w.copy, w.c, w.b);
    order(w.copy, w.compute, w.other);
    add(w, w.b, w.a, 5);
    expect_c(w, 3);
    end(w);
}

static void no_wait(world &w)
{
    add(w, w.b, w.a, 2);
    copy_on(w.copy, w.c, w.b);
    expect_c(w, 3);
}

static void wait_before_record(world &w)
{
    add(w, w.b, w.a, 2);
    CHECK(cudaStreamWaitEvent(w.copy, w.event, 0));
    CHECK(cudaEventRecord(w.event, w.compute));
    copy_on(w.copy, w.c, w.b);
    expect_c(w, 3);
}

static void overwritten(world &w)
{
    add(w, w.b, w.a, 2);
    order(w.compute, w.copy, w.event);
    copy_on(w.copy, w.c, w.b);
    add(w, w.b, w.a, 5);
    CHECK(cudaStreamSynchronize(w.compute));
    expect_c(w, 3);
}

static void freed_elsewhere(world &w)
{
    order(w.compute, w.copy, w.event);
    copy_on(w.copy, w.c, w.b);
    CHECK(cudaFreeAsync(w.b, w.compute));
    CHECK(cudaStreamSynchronize(w.compute));
    expect_c(w, 1);
}

static void used_before_allocation(world &w)
{
    copy_on(w.copy, w.c, w.a);
    expect_c(w, 1);
}

static void pinned_reused(world &w)
{
    for (int i = 0; i < count; i++) w.pinned[i] = 1;
    copy_on(w.copy, w.c, w.pinned);
    for (int i = 0; i < count; i++) w.pinned[i] = 7;
    expect_c(w, 1);
}

static void read_too_early(world &w)
{
    order(w.compute, w.copy, w.event);
    copy_on(w.copy, w.pinned, w.b);
    expect(w.pinned[5] == 1, "the pinned value");
    CHECK(cudaStreamSynchronize(w.copy));
}

static void host_touches(world &w)
{
    CHECK(cudaDeviceSynchronize());
    printf("%g\n", *(volatile float *)w.b);
}

static void beyond_allocation(world &w)
{
    CHECK(cudaMemcpyAsync(w.c, w.b, count * sizeof(float) + 4, cudaMemcpyDeviceToDevice, w.copy));
    CHECK(cudaStreamSynchronize(w.copy));
}

static void kernel_beyond(world &w)
{
    add_times<<<(count + 1024) / 256, 256, 0, w.compute>>>(w.b, w.a, 1, count + 900);
    CHECK(cudaStreamSynchronize(w.compute));
}

static void kernel_on_freed(world &w)
{
    CHECK(cudaFree(w.c));
    add(w, w.c, w.a, 1);
    CHECK(cudaStreamSynchronize(w.compute));
}

static void kernel_on_host(world &w)
{
    static float x[count];

    add(w, w.b, x, 1);
    CHECK(cudaStreamSynchronize(w.compute));
}

static void default_stream(world &w) { add_times<<<1, 256>>>(w.b, w.a, 1, 5); }

static void overlap(world &w)
{
    CHECK(cudaMemcpyAsync(w.b + 1, w.b, 400, cudaMemcpyDeviceToDevice, w.copy));
}

static void count_up(void *number) { ++*(int *)number; }

static void call_from_host_function(void *) { cudaDeviceSynchronize(); }

static void host_function_calls(world &w)
{
    CHECK(cudaLaunchHostFunc(w.copy, call_from_host_function, nullptr));
    CHECK(cudaStreamSynchronize(w.copy));
}

/* Calls that the runtime refuses with an error. */
static void refused(world &w)
{
    float *p = w.b;
    int number = 0;

    REFUSED(cudaMemcpyAsync(w.c, w.b, 4, cudaMemcpyHostToDevice, w.copy), cudaErrorInvalidValue);
    REFUSED(cudaMemcpy2DAsync(w.c, 8, w.b, 8, 12, 2, cudaMemcpyDeviceToDevice, w.copy),
            cudaErrorInvalidPitchValue);
    REFUSED(cudaStreamCreateWithFlags(&w.copy, 64), cudaErrorInvalidValue);
    REFUSED(cudaSetDevice(1), cudaErrorInvalidDevice);
    REFUSED(cudaHostUnregister(w.a), cudaErrorHostMemoryNotRegistered);
    add_times<<<0, 256, 0, w.compute>>>(w.b, w.a, 1, 5);
    REFUSED(cudaGetLastError(), cudaErrorInvalidConfiguration);
    add_times<<<1, 2048, 0, w.compute>>>(w.b, w.a, 1, 5);
    REFUSED(cudaGetLastError(), cudaErrorInvalidConfiguration);
    add_times<<<1, 256, 64 << 10, w.compute>>>(w.b, w.a, 1, 5);
    REFUSED(cudaGetLastError(), cudaErrorInvalidValue);
    REFUSED(cudaFuncSetAttribute((const void *)add_times,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, 400 << 10),
            cudaErrorInvalidValue);
    CHECK(cudaFree(p));
    REFUSED(cudaFree(p), cudaErrorInvalidValue);
    REFUSED(cudaMalloc((void **)&p, (size_t)1 << 50), cudaErrorMemoryAllocation);
    CHECK(cudaLaunchHostFunc(w.copy, count_up, &number));
    CHECK(cudaStreamSynchronize(w.copy));
    expect(number == 1, "the host function runs once");
    CHECK(cudaStreamDestroy(w.copy));
    REFUSED(cudaStreamSynchronize(w.copy), cudaErrorInvalidResourceHandle);
    CHECK(cudaEventDestroy(w.event));
    REFUSED(cudaEventRecord(w.event, w.compute), cudaErrorInvalidResourceHandle);
}

/* b += 2 a on one stream, c = b on the other, both in one graph. */
static cudaGraphExec_t capture(world &w)
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    size_t nodes = 0;

    CHECK(cudaStreamBeginCapture(w.compute, cudaStreamCaptureModeThreadLocal));
    add(w, w.b, w.a, 2);
    order(w.compute, w.copy, w.event);
    copy_on(w.copy, w.c, w.b);
    order(w.copy, w.compute, w.other);
    add(w, w.b, w.a, 5);
    CHECK(cudaStreamEndCapture(w.compute, &graph));
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    expect(nodes == 3, "three nodes");
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return executable;
}

static void graph(world &w)
{
    cudaGraphExec_t executable = capture(w);

    CHECK(cudaGraphLaunch(executable, w.compute));
    CHECK(cudaGraphLaunch(executable, w.compute)); /* b was 8 */
    order(w.compute, w.copy, w.event);
    CHECK(cudaGraphExecDestroy(executable));
    expect_c(w, 10);
    end(w);
}

/* The node of the last operation that the stream was given. */
static cudaGraphNode_t last_node(cudaStream_t stream)
{
    cudaStreamCaptureStatus status;
    const cudaGraphNode_t *nodes = nullptr;
    size_t n = 0;

    CHECK(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, nullptr, &n));
    expect(status == cudaStreamCaptureStatusActive && n == 1, "one node comes last");
    return nodes[0];
}

/* Other arguments for a kernel of a graph: launches that were given before have the old ones. */
static void graph_updated(world &w)
{
    cudaGraph_t graph, other;
    cudaGraphExec_t executable;
    cudaGraphNode_t kernel, copy;
    float factor = 7, *y = w.b, *x = w.a;
    int n = count;
    void *arguments[] = {&y, &x, &factor, &n};
    cudaKernelNodeParams params = {};

    params.func = (void *)add_times;
    params.gridDim = dim3((count + 255) / 256);
    params.blockDim = dim3(256);
    params.kernelParams = arguments;
    CHECK(cudaStreamBeginCapture(w.compute, cudaStreamCaptureModeRelaxed));
    CHECK(cudaMalloc((void **)&x, 4)); /* allowed in this mode */
    x = w.a;
    add(w, w.b, w.a, 2);
    kernel = last_node(w.compute);
    copy_on(w.compute, w.c, w.b);
    copy = last_node(w.compute);
    CHECK(cudaStreamEndCapture(w.compute, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, w.compute)); /* b is 1 + 2 */
    CHECK(cudaGraphExecKernelNodeSetParams(executable, kernel, &params));
    factor = 100; /* the arguments were read */
    CHECK(cudaGraphLaunch(executable, w.compute));
    order(w.compute, w.copy, w.event);
    expect_c(w, 10);
    REFUSED(cudaGraphExecKernelNodeSetParams(executable, copy, &params), cudaErrorInvalidValue);
    CHECK(cudaStreamBeginCapture(w.compute, cudaStreamCaptureModeRelaxed));
    add(w, w.b, w.a, 2);
    copy = last_node(w.compute);
    CHECK(cudaStreamEndCapture(w.compute, &other));
    REFUSED(cudaGraphExecKernelNodeSetParams(executable, copy, &params), cudaErrorInvalidValue);
    params.blockDim = dim3(4096);
    REFUSED(cudaGraphExecKernelNodeSetParams(executable, kernel, &params),
            cudaErrorInvalidConfiguration);
    params.blockDim = dim3(256);
    CHECK(cudaGraphDestroy(graph)); /* and its nodes with it */
    REFUSED(cudaGraphExecKernelNodeSetParams(executable, kernel, &params), cudaErrorInvalidValue);
    CHECK(cudaGraphExecDestroy(executable));
    REFUSED(cudaGraphLaunch(executable, w.compute), cudaErrorInvalidValue);
    CHECK(cudaGraphDestroy(other));
}

static void expect_no_graph(cudaStream_t stream, cudaError_t error)
{
    cudaGraph_t graph;

    REFUSED(cudaStreamEndCapture(stream, &graph), error);
    expect(!graph, "no graph");
}

static void capture_refused(world &w)
{
    float *p;

    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventRecord(w.other, w.copy));
    CHECK(cudaStreamBeginCapture(w.compute, cudaStreamCaptureModeGlobal));
    REFUSED(cudaStreamSynchronize(w.compute), cudaErrorStreamCaptureUnsupported);
    expect_no_graph(w.compute, cudaErrorStreamCaptureInvalidated);
    CHECK(cudaStreamBeginCapture(w.compute, cudaStreamCaptureModeGlobal));
    REFUSED(cudaMalloc((void **)&p, 4), cudaErrorStreamCaptureUnsupported);
    expect_no_graph(w.compute, cudaErrorStreamCaptureInvalidated);
    CHECK(cudaStreamBeginCapture(w.compute, cudaStreamCaptureModeThreadLocal));
    REFUSED(cudaStreamWaitEvent(w.compute, w.other, 0), cudaErrorStreamCaptureIsolation);
    expect_no_graph(w.compute, cudaErrorStreamCaptureInvalidated);
    CHECK(cudaStreamBeginCapture(w.compute, cudaStreamCaptureModeRelaxed));
    CHECK(cudaEventRecord(w.event, w.compute));
    REFUSED(cudaEventQuery(w.event), cudaErrorCapturedEvent);
    expect_no_graph(w.compute, cudaErrorStreamCaptureInvalidated);
    REFUSED(cudaEventSynchronize(w.event), cudaErrorCapturedEvent); /* until it is recorded anew */
    CHECK(cudaStreamBeginCapture(w.compute, cudaStreamCaptureModeThreadLocal));
    order(w.compute, w.copy, w.event);
    copy_on(w.copy, w.c, w.b);
    expect_no_graph(w.compute, cudaErrorStreamCaptureUnjoined);
    order(w.compute, w.copy, w.event); /* the streams are as before */
    copy_on(w.copy, w.c, w.b);
    expect_c(w, 1);
}

/* What the library never does. */
static void graph_in_graph(world &w)
{
    cudaGraphExec_t executable = capture(w);

    CHECK(cudaStreamBeginCapture(w.compute, cudaStreamCaptureModeRelaxed));
    CHECK(cudaGraphLaunch(executable, w.compute));
}

/* Polls until the event has happened. */
static void poll(world &w)
{
    cudaError_t error;

    add(w, w.b, w.a, 2);
    order(w.compute, w.copy, w.event);
    copy_on(w.copy, w.c, w.b);
    CHECK(cudaEventRecord(w.other, w.copy));
    while ((error = cudaEventQuery(w.other)) == cudaErrorNotReady) continue;
    CHECK(error);
    cudaGetLastError();
    expect_c(w, 3);
    end(w);
}

/* With two devices: what belongs to one of them. */
static void devices(world &w)
{
    cudaStream_t stream;
    float *p;

    CHECK(cudaSetDevice(1));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&p, count * sizeof *p));
    add_times<<<1, 256, 0, w.compute>>>(w.b, w.a, 1, 5);
    REFUSED(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    REFUSED(cudaEventRecord(w.event, stream), cudaErrorInvalidResourceHandle);
    order(w.compute, stream, w.event);
    copy_on(stream, p, w.b); /* copies go between devices, kernels do not */
    CHECK(cudaDeviceEnablePeerAccess(0, 0));
    add_times<<<1, 256, 0, stream>>>(p, w.a, 1, 5);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaSetDevice(0));
    add(w, w.b, p, 1);
    CHECK(cudaStreamSynchronize(w.compute));
}

static const struct {
    const char *name;
    void (*run)(world &);
} cases[] = {
    {"two_streams", two_streams},
    {"graph", graph},
    {"graph_updated", graph_updated},
    {"graph_in_graph", graph_in_graph},
    {"poll", poll},
    {"refused", refused},
    {"capture_refused", capture_refused},
    {"no_wait", no_wait},
    {"wait_before_record", wait_before_record},
    {"overwritten", overwritten},
    {"freed_elsewhere", freed_elsewhere},
    {"used_before_allocation", used_before_allocation},
    {"pinned_reused", pinned_reused},
    {"read_too_early", read_too_early},
    {"host_touches", host_touches},
    {"beyond_allocation", beyond_allocation},
    {"kernel_beyond", kernel_beyond},
    {"kernel_on_freed", kernel_on_freed},
    {"kernel_on_host", kernel_on_host},
    {"default_stream", default_stream},
    {"overlap", overlap},
    {"host_function_calls", host_function_calls},
    {"devices", devices},
};

int main(int argc, char **argv)
{
    for (auto &c : cases) {
        if (argc != 2 || strcmp(argv[1], c.name) != 0) continue;
        world w = begin();

        c.run(w);
        return failed;
    }
    printf("check_runtime CASE\n");
    return 2;
}
