/*
 * graphs.cc: operations captured into graphs. A node knows which nodes it comes after; a launch
 * runs all nodes in one operation, in the order of capture (eager), in the latest order that the
 * dependencies allow (lazy), or by chance.
 */
#include "stand_in.h"

#include <algorithm>
#include <set>
#include <thread>

namespace stand_in
{

static std::vector<capture *> open_captures;
static std::vector<CUgraph_st *> graphs;
static std::vector<CUgraphExec_st *> executables;

static uint64_t this_thread() { return std::hash<std::thread::id>()(std::this_thread::get_id()); }

static cudaError_t invalidate(capture *c, cudaError_t error)
{
    c->invalid = true;
    return error;
}

cudaError_t check_no_capture()
{
    cudaError_t error = cudaSuccess;

    for (auto c : open_captures) {
        bool forbids = c->mode == cudaStreamCaptureModeGlobal ||
                       (c->mode == cudaStreamCaptureModeThreadLocal && c->thread == this_thread());

        if (forbids) error = invalidate(c, cudaErrorStreamCaptureUnsupported);
    }
    return error;
}

cudaError_t check_not_captured(CUstream_st *stream)
{
    if (!stream->capture) return cudaSuccess;
    return invalidate(stream->capture, cudaErrorStreamCaptureUnsupported);
}

cudaError_t check_not_captured(CUevent_st *event)
{
    if (event->capture) return invalidate(event->capture, cudaErrorCapturedEvent);
    return check_no_capture();
}

cudaError_t capture_operation(CUstream_st *stream, operation work)
{
    auto node = std::make_shared<graph_node>(std::move(work));

    if (stream->capture->invalid) return cudaErrorStreamCaptureInvalidated;
    node->after = stream->captured_last;
    stream->captured_last = {node.get()};
    stream->capture->graph->nodes.push_back(node);
    return cudaSuccess;
}

cudaError_t capture_record(CUstream_st *stream, CUevent_st *event)
{
    if (stream->capture->invalid) return cudaErrorStreamCaptureInvalidated;
    event->capture = stream->capture;
    event->captured_after = stream->captured_last;
    return cudaSuccess;
}

/* A stream that waits for a captured event is captured too. */
cudaError_t capture_wait(CUstream_st *stream, CUevent_st *event)
{
    capture *c = stream->capture;

    if (c && c->invalid) return cudaErrorStreamCaptureInvalidated;
    if (!event->capture) {
        if (!event->recorded) return cudaSuccess;
        return invalidate(c, cudaErrorStreamCaptureIsolation);
    }
    if (c && c != event->capture) return invalidate(c, cudaErrorStreamCaptureMerge);
    if (!c) {
        if (std::find(open_captures.begin(), open_captures.end(), event->capture) ==
            open_captures.end())
            return cudaErrorCapturedEvent;
        stream->capture = event->capture;
        stream->captured_last.clear();
        event->capture->streams.push_back(stream);
    }
    for (auto node : event->captured_after) stream->captured_last.push_back(node);
    return cudaSuccess;
}

/* All that other streams do is waited for by the stream that the capture began in. */
static bool joined(const capture &c)
{
    std::set<const graph_node *> reached;
    std::vector<const graph_node *> next(c.origin->captured_last.begin(),
                                         c.origin->captured_last.end());

    while (!next.empty()) {
        const graph_node *node = next.back();

        next.pop_back();
        if (!reached.insert(node).second) continue;
        next.insert(next.end(), node->after.begin(), node->after.end());
    }
    return reached.size() == c.graph->nodes.size();
}

static void end_capture(capture *c)
{
    for (auto s : c->streams) {
        s->capture = nullptr;
        s->captured_last.clear();
    }
    open_captures.erase(std::find(open_captures.begin(), open_captures.end(), c));
}

/* The nodes of a graph, and what each of them does. */
struct graph_run {
    std::vector<std::shared_ptr<graph_node>> nodes;
    std::vector<operation> works;
};

/* An order in which the nodes may run; `which` chooses among those whose turn it is. */
static std::vector<size_t> order_of_nodes(const graph_run &run)
{
    std::set<const graph_node *> done;
    std::vector<size_t> ready, order;

    while (order.size() < run.nodes.size()) {
        size_t which = 0;

        ready.clear();
        for (size_t i = 0; i < run.nodes.size(); i++) {
            bool waits = done.count(run.nodes[i].get()) > 0;

            for (auto before : run.nodes[i]->after) waits |= done.count(before) == 0;
            if (!waits) ready.push_back(i);
        }
        if (stream_policy() == lazy) which = ready.size() - 1;
        if (stream_policy() == random_steps) which = chance(static_cast<unsigned>(ready.size()));
        order.push_back(ready[which]);
        done.insert(run.nodes[ready[which]].get());
    }
    return order;
}

static void run_nodes(const graph_run &run)
{
    for (size_t i : order_of_nodes(run))
        if (run.works[i].run) run.works[i].run();
}

/* What other streams have a part in is given to the stream, node by node. */
static cudaError_t give_nodes(const graph_run &run, CUstream_st *stream, locked &lock)
{
    for (size_t i : order_of_nodes(run)) {
        if (run.works[i].give)
            run.works[i].give(stream, lock);
        else
            (void)enqueue(stream, run.works[i], lock);
    }
    return cudaSuccess;
}

static bool has_parts(const graph_run &run)
{
    return std::any_of(run.works.begin(), run.works.end(),
                       [](const operation &work) { return static_cast<bool>(work.give); });
}

static cudaStreamCaptureStatus capture_status(const CUstream_st *stream)
{
    if (!stream->capture) return cudaStreamCaptureStatusNone;
    return stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                    : cudaStreamCaptureStatusActive;
}

static bool known(const CUgraph_st *graph)
{
    return std::find(graphs.begin(), graphs.end(), graph) != graphs.end();
}

static bool known(const CUgraphExec_st *executable)
{
    return std::find(executables.begin(), executables.end(), executable) != executables.end() &&
           !executable->destroyed;
}

} // namespace stand_in

using namespace stand_in;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    return api_call("cudaStreamBeginCapture", [&](locked &) {
        cudaError_t error = check_stream(stream, "cudaStreamBeginCapture");

        if (error != cudaSuccess) return error;
        if (stream->capture) return invalidate(stream->capture, cudaErrorIllegalState);
        stream->capture =
            new capture{new CUgraph_st(), stream, mode, {stream}, this_thread(), false};
        open_captures.push_back(stream->capture);
        return cudaSuccess;
    });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    return api_call("cudaStreamEndCapture", [&](locked &) {
        cudaError_t error = check_stream(stream, "cudaStreamEndCapture");
        capture *c = error == cudaSuccess ? stream->capture : nullptr;

        if (error != cudaSuccess) return error;
        *graph = nullptr;
        if (!c) return cudaErrorIllegalState;
        if (c->origin != stream) return invalidate(c, cudaErrorStreamCaptureUnmatched);
        if (c->mode != cudaStreamCaptureModeRelaxed && c->thread != this_thread())
            return invalidate(c, cudaErrorStreamCaptureWrongThread);
        if (c->invalid) error = cudaErrorStreamCaptureInvalidated;
        if (!c->invalid && !joined(*c)) error = cudaErrorStreamCaptureUnjoined;
        end_capture(c);
        if (error != cudaSuccess) return error;
        graphs.push_back(c->graph);
        *graph = c->graph;
        return cudaSuccess;
    });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status)
{
    return api_call("cudaStreamIsCapturing", [&](locked &) {
        cudaError_t error = check_stream(stream, "cudaStreamIsCapturing");

        if (error != cudaSuccess) return error;
        *status = capture_status(stream);
        return cudaSuccess;
    });
}

/* What a stream that is captured has given so far: the nodes that its next one comes after. */
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus *status,
                                     unsigned long long *, cudaGraph_t *graph,
                                     const cudaGraphNode_t **dependencies,
                                     const cudaGraphEdgeData **edges, size_t *count)
{
    return api_call("cudaStreamGetCaptureInfo", [&](locked &) {
        cudaError_t error = check_stream(stream, "cudaStreamGetCaptureInfo");

        if (error != cudaSuccess) return error;
        *status = capture_status(stream);
        if (*status != cudaStreamCaptureStatusActive) return cudaSuccess;
        if (graph) *graph = stream->capture->graph;
        if (dependencies)
            *dependencies = reinterpret_cast<cudaGraphNode_t *>(stream->captured_last.data());
        if (edges) *edges = nullptr;
        if (count) *count = stream->captured_last.size();
        return cudaSuccess;
    });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode)
{
    static thread_local cudaStreamCaptureMode own = cudaStreamCaptureModeGlobal;

    return api_call(__func__, [&](locked &) {
        std::swap(own, *mode);
        return cudaSuccess;
    });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph,
                                 unsigned long long flags)
{
    return api_call(__func__, [&](locked &) {
        if (!executable || !known(graph) || flags) return cudaErrorInvalidValue;
        *executable = new CUgraphExec_st{graph, graph->nodes, {}, current_device, false};
        for (auto &node : graph->nodes) (*executable)->works.push_back(node->work);
        executables.push_back(*executable);
        return cudaSuccess;
    });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph,
                                          unsigned long long flags)
{
    return cudaGraphInstantiate(executable, graph, flags);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
    return api_call("cudaGraphLaunch", [&](locked &lock) {
        cudaError_t error = check_stream(stream, "cudaGraphLaunch");

        if (error == cudaSuccess && !known(executable)) error = cudaErrorInvalidValue;
        if (error == cudaSuccess && stream->capture) refuse("a graph is launched in a capture");
        if (error != cudaSuccess) return error;
        /* As it is now: what is set later is for later launches. */
        auto now = std::make_shared<graph_run>(graph_run{executable->nodes, executable->works});
        if (has_parts(*now)) return give_nodes(*now, stream, lock);
        return enqueue(stream, {"cudaGraphLaunch", [=] { run_nodes(*now); }}, lock);
    });
}

/* The node is one of the graph that the executable was made of, which is still there; it is a
 * kernel and stays one, on the same device. */
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const cudaKernelNodeParams *kernel)
{
    return api_call(__func__, [&](locked &) {
        operation made("a kernel", nullptr);
        size_t i = 0;
        cudaError_t error;

        if (!known(executable) || !known(executable->graph) || !kernel)
            return cudaErrorInvalidValue;
        while (i < executable->nodes.size() &&
               executable->nodes[i].get() != reinterpret_cast<graph_node *>(node))
            i++;
        if (i == executable->nodes.size() || !executable->works[i].is_kernel || kernel->extra)
            return cudaErrorInvalidValue;
        if (current_device != executable->device) return cudaErrorInvalidValue;
        error = make_launch(kernel->func, kernel->gridDim, kernel->blockDim, kernel->kernelParams,
                            kernel->sharedMemBytes, made);
        if (error == cudaSuccess) executable->works[i] = std::move(made);
        return error;
    });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *, size_t *count)
{
    return api_call(__func__, [&](locked &) {
        if (!known(graph) || !count) return cudaErrorInvalidValue;
        *count = graph->nodes.size();
        return cudaSuccess;
    });
}

/* An executable graph keeps the nodes. */
cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    return api_call(__func__, [&](locked &) {
        if (!known(graph)) return cudaErrorInvalidValue;
        for (auto &node : graph->nodes) node->work.give = nullptr; /* with what it holds */
        graphs.erase(std::find(graphs.begin(), graphs.end(), graph));
        return cudaSuccess;
    });
}

/* A launch that has not run yet still does. */
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable)
{
    return api_call(__func__, [&](locked &) {
        if (!known(executable)) return cudaErrorInvalidValue;
        executable->destroyed = true;
        executable->works.clear();
        return cudaSuccess;
    });
}
}
