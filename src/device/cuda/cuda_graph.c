/*
 * cuda_graph.c: work of both streams as one graph. A capture begins in the compute stream, the
 * communication stream joins it by an event, and leaves it so at the end. The kernels of a part are
 * nodes whose handles are noted while they are captured; the graph that they are of is kept, since
 * the arguments of the executable one are set by them.
 */
#include "device/cuda/cuda_graph.h"

#include "base/array_grow.h"
#include "base/mem.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_rank.h"

/* Nodes of kernels: those of a part are `count` from `first` on. */
struct part {
    int first, count;
};

struct wf_device_graph {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaEvent_t order; /* between the two streams */
    cudaGraphNode_t *nodes;
    struct part *parts;
    int n_nodes, n_parts;
};

/* What launches do beside, or instead. */
enum mode { LAUNCH, NOTE_NODE, UPDATE_NODE };

static _Thread_local struct {
    struct wf_device_graph *capturing; /* NULL: none */
    enum mode mode;
    struct wf_device_graph *updating;
    int node, end; /* the next to update, and the end of the part */
    bool differs;
    int count;
} state;

int wf_cuda_graph_count(void) { return state.count; }

/* What `later` is given from now on comes after what `earlier` has been given. */
static void order_streams(const struct wf_device_graph *g, enum wf_stream earlier,
                          enum wf_stream later)
{
    WF_CUDA_CHECK(cudaEventRecord(g->order, wf_cuda_stream(earlier)));
    WF_CUDA_CHECK(cudaStreamWaitEvent(wf_cuda_stream(later), g->order, 0));
}

/* ---- capturing ---- */

/* Relaxed: a step may need more memory, and other ranks, which are threads, do as they like. */
static void begin(void)
{
    struct wf_device_graph *g = WF_NEW(struct wf_device_graph);

    WF_CUDA_CHECK(cudaEventCreateWithFlags(&g->order, cudaEventDisableTiming));
    WF_CUDA_CHECK(
        cudaStreamBeginCapture(wf_cuda_stream(WF_STREAM_COMPUTE), cudaStreamCaptureModeRelaxed));
    order_streams(g, WF_STREAM_COMPUTE, WF_STREAM_COMM);
    state.capturing = g;
    state.count++;
}

/* It takes memory of the device, and the pool may have all of it. */
static void instantiate(struct wf_device_graph *g)
{
    cudaError_t error = cudaGraphInstantiate(&g->executable, g->graph, 0);

    if (wf_cuda_give_back_after(error)) error = cudaGraphInstantiate(&g->executable, g->graph, 0);
    wf_cuda_check(error, "cudaGraphInstantiate");
}

static struct wf_device_graph *end(void)
{
    struct wf_device_graph *g = state.capturing;

    order_streams(g, WF_STREAM_COMM, WF_STREAM_COMPUTE);
    WF_CUDA_CHECK(cudaStreamEndCapture(wf_cuda_stream(WF_STREAM_COMPUTE), &g->graph));
    instantiate(g);
    state.capturing = NULL;
    state.mode = LAUNCH;
    return g;
}

static void part_begin(void)
{
    struct wf_device_graph *g = state.capturing;

    g->parts = wf_array_grow(g->parts, g->n_parts, sizeof *g->parts);
    g->parts[g->n_parts++] = (struct part){g->n_nodes, 0};
    state.mode = NOTE_NODE;
}

static void part_end(void) { state.mode = LAUNCH; }

/* The node of the launch before is what the stream's next one will depend on. */
static cudaError_t note_node(cudaStream_t stream)
{
    struct wf_device_graph *g = state.capturing;
    enum cudaStreamCaptureStatus status;
    const cudaGraphNode_t *last = NULL;
    size_t n = 0;
#if CUDART_VERSION >= 13000
    cudaError_t error = cudaStreamGetCaptureInfo(stream, &status, NULL, NULL, &last, NULL, &n);
#else
    cudaError_t error = cudaStreamGetCaptureInfo_v2(stream, &status, NULL, NULL, &last, &n);
#endif

    if (error != cudaSuccess) return error;
    if (n != 1) return cudaErrorStreamCaptureUnmatched;
    g->nodes = wf_array_grow(g->nodes, g->n_nodes, sizeof(cudaGraphNode_t));
    g->nodes[g->n_nodes++] = last[0];
    g->parts[g->n_parts - 1].count++;
    return cudaSuccess;
}

/* ---- launches of kernels ---- */

static cudaError_t update_node(const struct cudaKernelNodeParams *kernel)
{
    struct wf_device_graph *g = state.updating;

    if (state.node == state.end) {
        state.differs = true;
        return cudaSuccess;
    }
    return cudaGraphExecKernelNodeSetParams(g->executable, g->nodes[state.node++], kernel);
}

cudaError_t wf_cuda_launch(const void *kernel, dim3 grid, dim3 block, void **arguments,
                           size_t shared, cudaStream_t stream)
{
    cudaError_t error;

    if (state.mode == UPDATE_NODE)
        return update_node(&(struct cudaKernelNodeParams){.func = (void *)kernel,
                                                          .gridDim = grid,
                                                          .blockDim = block,
                                                          .sharedMemBytes = (unsigned)shared,
                                                          .kernelParams = arguments});
    error = cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
    if (wf_cuda_give_back_after(error)) /* a kernel's first launch may load it */
        error = cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
    return error == cudaSuccess && state.mode == NOTE_NODE ? note_node(stream) : error;
}

static void update_begin(struct wf_device_graph *g, int part)
{
    state.mode = UPDATE_NODE;
    state.updating = g;
    state.node = g->parts[part].first;
    state.end = state.node + g->parts[part].count;
    state.differs = false;
}

static bool update_end(void)
{
    state.mode = LAUNCH;
    return !state.differs && state.node == state.end;
}

/* ---- graphs ---- */

static void launch(struct wf_device_graph *g)
{
    order_streams(g, WF_STREAM_COMM, WF_STREAM_COMPUTE);
    WF_CUDA_CHECK(cudaGraphLaunch(g->executable, wf_cuda_stream(WF_STREAM_COMPUTE)));
    order_streams(g, WF_STREAM_COMPUTE, WF_STREAM_COMM);
}

static void free_graph(struct wf_device_graph *g)
{
    WF_CUDA_CHECK(cudaGraphExecDestroy(g->executable));
    WF_CUDA_CHECK(cudaGraphDestroy(g->graph));
    WF_CUDA_CHECK(cudaEventDestroy(g->order));
    wf_free(g->nodes);
    wf_free(g->parts);
    wf_free(g);
    state.count--;
}

const struct wf_device_graphs wf_cuda_graphs = {
    .begin = begin,
    .end = end,
    .part_begin = part_begin,
    .part_end = part_end,
    .launch = launch,
    .update_begin = update_begin,
    .update_end = update_end,
    .free = free_graph,
};
