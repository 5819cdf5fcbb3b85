/*
 * cuda_driver.c: memory, copies, events and order, each by one call of CUDA. An event of the driver
 * is CUDA's, without a clock unless it is to have one.
 */
#include "device/cuda/cuda_driver.h"

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_graph.h"
#include "device/cuda/cuda_rank.h"
#include "device/cuda/kernel_services.h"

/* ---- memory ---- */

/* No memory is an answer; others are not expected. */
static void *map(size_t bytes)
{
    void *p = NULL;
    cudaError_t error = cudaMalloc(&p, bytes);

    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return NULL;
    }
    wf_cuda_check(error, "cudaMalloc");
    return p;
}

static void unmap(void *p, size_t bytes)
{
    (void)bytes;
    WF_CUDA_CHECK(cudaFree(p));
}

/* The system may allow less memory to be pinned, or none of this kind. */
static bool pin(void *host, size_t bytes)
{
    if (cudaHostRegister(host, bytes, cudaHostRegisterPortable) == cudaSuccess) return true;
    (void)cudaGetLastError();
    return false;
}

static void unpin(void *host, size_t bytes)
{
    (void)bytes;
    WF_CUDA_CHECK(cudaHostUnregister(host));
}

/* ---- copies ---- */

static void upload(void *to, const void *host, size_t bytes, enum wf_stream stream)
{
    WF_CUDA_CHECK(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, wf_cuda_stream(stream)));
}

static void download(void *host, const void *from, size_t bytes, enum wf_stream stream)
{
    WF_CUDA_CHECK(
        cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, wf_cuda_stream(stream)));
}

static void copy(void *to, const void *from, size_t bytes, enum wf_stream stream)
{
    WF_CUDA_CHECK(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, wf_cuda_stream(stream)));
}

/* ---- order ---- */

static cudaEvent_t of(struct wf_device_event *event) { return (cudaEvent_t)event; }

static struct wf_device_event *event_with_flags(unsigned flags)
{
    cudaEvent_t event;

    WF_CUDA_CHECK(cudaEventCreateWithFlags(&event, flags));
    return (struct wf_device_event *)event;
}

static struct wf_device_event *event_new(void) { return event_with_flags(cudaEventDisableTiming); }
static struct wf_device_event *event_new_timed(void) { return event_with_flags(cudaEventDefault); }

static void event_free(struct wf_device_event *event)
{
    WF_CUDA_CHECK(cudaEventDestroy(of(event)));
}

static void event_record(struct wf_device_event *event, enum wf_stream stream)
{
    WF_CUDA_CHECK(cudaEventRecord(of(event), wf_cuda_stream(stream)));
}

static bool event_done(struct wf_device_event *event)
{
    cudaError_t error = cudaEventQuery(of(event));

    if (error == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return false;
    }
    wf_cuda_check(error, "cudaEventQuery");
    return true;
}

static void event_wait(struct wf_device_event *event)
{
    WF_CUDA_CHECK(cudaEventSynchronize(of(event)));
    wf_cuda_die_on_fault();
}

static double event_seconds(struct wf_device_event *from, struct wf_device_event *to)
{
    float ms = 0;

    WF_CUDA_CHECK(cudaEventElapsedTime(&ms, of(from), of(to)));
    return (double)ms * 1e-3;
}

static void stream_wait(enum wf_stream stream, struct wf_device_event *event)
{
    WF_CUDA_CHECK(cudaStreamWaitEvent(wf_cuda_stream(stream), of(event), 0));
}

struct wf_device_driver wf_cuda_driver_without_loops(void)
{
    return (struct wf_device_driver){
        .name = "CUDA",
        .count = wf_cuda_count,
        .open = wf_cuda_open_device,
        .close = wf_cuda_close_device,
        .describe = wf_cuda_describe,
        .memory = wf_cuda_memory,
        .map = map,
        .unmap = unmap,
        .pin = pin,
        .unpin = unpin,
        .upload = upload,
        .download = download,
        .copy = copy,
        .event_new = event_new,
        .event_new_timed = event_new_timed,
        .event_free = event_free,
        .event_record = event_record,
        .event_done = event_done,
        .event_wait = event_wait,
        .event_seconds = event_seconds,
        .stream_wait = stream_wait,
        .synchronize = wf_cuda_synchronize,
        .graphs = &wf_cuda_graphs,
    };
}
