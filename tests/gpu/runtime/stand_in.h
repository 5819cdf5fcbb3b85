/*
 * stand_in.h: what the files of the stand-in for libcudart share. It runs on the host what a
 * program asks of CUDA's runtime, as late as the runtime's manual allows, and refuses what the
 * manual does not allow. README.md says which environment variables it reads.
 *
 *     calls.cc          every call: counted, the one that is to fail, the last error
 *     device_memory.cc  addresses that the host cannot touch, and the bytes behind them
 *     streams.cc        streams, events, and when their operations run
 *     graphs.cc         captured operations
 *     kernels.cc        kernels by name, launches
 *     ../nccl           what streams of several devices do together
 *     api_*.cc          the functions of cuda_runtime_api.h
 */
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <stddef.h>
#include <stdint.h>
#include <vector>

#include <cuda_runtime_api.h>

#include "device_memory.h"
#include "operation.h"

namespace stand_in
{

typedef std::unique_lock<std::mutex> locked;

/** End the process: the program did what the manual leaves undefined. */
[[noreturn]] void refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** A number from the environment. */
long setting(const char *name, long otherwise);

/* calls.cc */

/** What one call of the API gives back; it runs with the lock of everything below. */
typedef std::function<cudaError_t(locked &)> call_body;
cudaError_t api_call(const char *name, const call_body &body);
/** For calls of libraries on top of it (../nccl). */
void with_runtime_lock(const char *name, const std::function<void(locked &)> &body);
/** An error that every later call gives back too. */
void set_sticky_error(cudaError_t error);
/** What this thread is doing while it is in a host function: it may call nothing. */
extern thread_local bool in_host_function;

/* Devices. */

int device_count();
/** Of the calling thread. */
extern thread_local int current_device;
/** 80, 90 or 100. */
int capability();
size_t most_shared_bytes();

/* streams.cc */

struct stream_thread; /* stream_order.h */

/* Kept after its end: events point to it. */
struct capture {
    CUgraph_st *graph;
    CUstream_st *origin;
    cudaStreamCaptureMode mode;
    std::vector<CUstream_st *> streams;
    uint64_t thread;
    bool invalid;
};

/** Put an operation into a stream, or into the graph that the stream captures. */
cudaError_t enqueue(CUstream_st *stream, operation work, locked &lock);
/** It is done without its work, and its partners wait for it in vain. */
void cancel(stream_part *p);
/** Run what is before this point, and wait for what others run. */
void run_until_empty(CUstream_st *stream, locked &lock);
void run_until_empty(int device, locked &lock);
void run_until_event(CUevent_st *event, uint64_t version, locked &lock);
/** Run one operation on the way there, without waiting for others; whether there is none left. */
bool step_stream(CUstream_st *stream, locked &lock);
bool step_event(CUevent_st *event, locked &lock);
/** The stream is one that a program may use; the default streams are refused. */
cudaError_t check_stream(CUstream_st *stream, const char *what);
cudaError_t check_event(CUevent_st *event);

/** A number below n, of the order that WT_CUDA_STREAMS asks for. */
unsigned chance(unsigned n);
enum policy { lazy, eager, random_steps };
policy stream_policy();

/* graphs.cc */

cudaError_t capture_operation(CUstream_st *stream, operation work);
cudaError_t capture_record(CUstream_st *stream, CUevent_st *event);
cudaError_t capture_wait(CUstream_st *stream, CUevent_st *event);
/** For calls that no capture of this thread allows: cudaErrorStreamCaptureUnsupported. */
cudaError_t check_no_capture();
/** For waits and queries of one stream or event. */
cudaError_t check_not_captured(CUstream_st *stream);
cudaError_t check_not_captured(CUevent_st *event);

/* kernels.cc */

cudaError_t launch(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                   CUstream_st *stream, locked &lock);
/** A launch on the current device with the arguments as they are now. */
cudaError_t make_launch(const void *function, dim3 grid, dim3 block, void **arguments,
                        size_t shared, operation &made);

} // namespace stand_in

struct CUstream_st {
    int device, priority;
    std::deque<stand_in::operation> queue;
    bool running, destroyed;
    stand_in::capture *capture;
    std::vector<stand_in::graph_node *> captured_last;
    stand_in::stream_thread *thread;
};

struct CUevent_st {
    int device;
    unsigned flags;
    uint64_t recorded, done, time;
    bool destroyed;
    stand_in::capture *capture;
    std::vector<stand_in::graph_node *> captured_after;
    std::vector<char *> order; /* by version: stream_order.h */
};

struct CUgraph_st {
    std::vector<std::shared_ptr<stand_in::graph_node>> nodes;
};

/* Its nodes are those of the graph that it was made of; what they do may be set anew. */
struct CUgraphExec_st {
    const CUgraph_st *graph;
    std::vector<std::shared_ptr<stand_in::graph_node>> nodes;
    std::vector<stand_in::operation> works;
    int device;
    bool destroyed;
};
