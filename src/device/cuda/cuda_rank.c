/*
 * cuda_rank.c: which GPU a rank has and what it keeps there: two streams, scratch memory of
 * kernels, and the place where they tell faults.
 */
#include "device/cuda/cuda_rank.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_graph.h"
#include "device/cuda/kernel_services.h"
#include "device/cuda/library_calls.h"

enum {
    LEAST_CAPABILITY = 80, /* of the kernels in this file: compute capability 8.0 */
    AT_CLOSE = 4
};
static const size_t LEAST_SCRATCH = (size_t)1 << 20;

static _Thread_local struct {
    int number;
    cudaStream_t streams[WF_STREAMS];
    void *scratch;
    size_t scratch_bytes;
    void *kept_scratch[64]; /* smaller ones, which graphs use; each has at least twice the bytes of
                               the one before */
    int n_kept;
    struct wf_cuda_fault *fault;
    int multiprocessors, shared_bytes;
    void (*at_close[AT_CLOSE])(void);
    int n_at_close;
} rank;

/* ---- which device ---- */

int wf_cuda_count(char *why, size_t room)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);

    if (error == cudaSuccess && count > 0) return count;
    wf_cuda_format_error(why, room, error == cudaSuccess ? cudaErrorNoDevice : error);
    return 0;
}

static int attribute(enum cudaDeviceAttr which)
{
    int value = 0;

    WF_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, rank.number));
    return value;
}

static bool is_new_enough(char *why, size_t room)
{
    int major = attribute(cudaDevAttrComputeCapabilityMajor);
    int minor = attribute(cudaDevAttrComputeCapabilityMinor);

    if (10 * major + minor >= LEAST_CAPABILITY) return true;
    snprintf(why, room, "its compute capability is %d.%d, and %d.%d is the least", major, minor,
             LEAST_CAPABILITY / 10, LEAST_CAPABILITY % 10);
    return false;
}

/* What moves for others comes first: the kernels of the compute stream fill the device anyhow. */
static void make_streams(void)
{
    int least, greatest;

    WF_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    WF_CUDA_CHECK(cudaStreamCreateWithPriority(&rank.streams[WF_STREAM_COMPUTE],
                                               cudaStreamNonBlocking, least));
    WF_CUDA_CHECK(cudaStreamCreateWithPriority(&rank.streams[WF_STREAM_COMM], cudaStreamNonBlocking,
                                               greatest));
}

bool wf_cuda_open_device(int number, char *why, size_t room)
{
    cudaError_t error = cudaSetDevice(number);
    void *fault = NULL;

    rank.number = number;
    if (error == cudaSuccess && !is_new_enough(why, room)) return false;
    /* The first call that needs the device itself: others may have it for themselves alone. */
    if (error == cudaSuccess)
        error =
            cudaHostAlloc(&fault, sizeof *rank.fault, cudaHostAllocPortable | cudaHostAllocMapped);
    if (error != cudaSuccess) {
        wf_cuda_format_error(why, room, error);
        return false;
    }
    rank.fault = memset(fault, 0, sizeof *rank.fault);
    rank.multiprocessors = attribute(cudaDevAttrMultiProcessorCount);
    rank.shared_bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    make_streams();
    return true;
}

void wf_cuda_close_device(void)
{
    wf_cuda_synchronize();
    while (rank.n_at_close) rank.at_close[--rank.n_at_close]();
    for (int s = 0; s < WF_STREAMS; s++) WF_CUDA_CHECK(cudaStreamDestroy(rank.streams[s]));
    WF_CUDA_CHECK(cudaFree(rank.scratch));
    while (rank.n_kept) WF_CUDA_CHECK(cudaFree(rank.kept_scratch[--rank.n_kept]));
    WF_CUDA_CHECK(cudaFreeHost(rank.fault));
    memset(&rank, 0, sizeof rank);
}

void wf_cuda_describe(char *text, size_t room)
{
    struct cudaDeviceProp is;

    WF_CUDA_CHECK(cudaGetDeviceProperties(&is, rank.number));
    snprintf(text, room, "%s, %zu GiB, compute capability %d.%d", is.name, is.totalGlobalMem >> 30,
             is.major, is.minor);
}

struct wf_device_memory wf_cuda_memory(void)
{
    size_t unused, total;

    WF_CUDA_CHECK(cudaMemGetInfo(&unused, &total));
    return (struct wf_device_memory){(int64_t)unused, (int64_t)total};
}

/* ---- for the driver and the kernels ---- */

void wf_cuda_at_close(void (*close)(void))
{
    if (rank.n_at_close == AT_CLOSE) WF_DIE("CUDA: more than %d functions at close", (int)AT_CLOSE);
    rank.at_close[rank.n_at_close++] = close;
}

cudaStream_t wf_cuda_stream(enum wf_stream stream) { return rank.streams[stream]; }

void wf_cuda_synchronize(void)
{
    for (int s = 0; s < WF_STREAMS; s++) WF_CUDA_CHECK(cudaStreamSynchronize(rank.streams[s]));
    wf_cuda_die_on_fault();
}

struct CUstream_st *wf_cuda_compute_stream(void) { return rank.streams[WF_STREAM_COMPUTE]; }

int wf_cuda_multiprocessors(void) { return rank.multiprocessors; }

size_t wf_cuda_max_shared_bytes(void) { return (size_t)rank.shared_bytes; }

struct wf_cuda_fault *wf_cuda_fault_memory(void) { return rank.fault; }

static size_t round_up_to_power_of_two(size_t bytes)
{
    size_t room = LEAST_SCRATCH;

    while (room < bytes) room *= 2;
    return room;
}

/* Kernels that use the old memory may not have run; those of graphs run again. */
static void drop_scratch(void)
{
    if (!rank.scratch) return;
    if (wf_cuda_graph_count()) {
        rank.kept_scratch[rank.n_kept++] = rank.scratch;
    } else {
        WF_CUDA_CHECK(cudaStreamSynchronize(rank.streams[WF_STREAM_COMPUTE]));
        WF_CUDA_CHECK(cudaFree(rank.scratch));
    }
    rank.scratch = NULL;
}

static void grow_scratch(size_t bytes)
{
    cudaError_t error;

    drop_scratch();
    rank.scratch_bytes = round_up_to_power_of_two(bytes);
    error = cudaMalloc(&rank.scratch, rank.scratch_bytes);
    if (wf_cuda_give_back_after(error)) error = cudaMalloc(&rank.scratch, rank.scratch_bytes);
    if (error == cudaErrorMemoryAllocation)
        WF_DIE("CUDA: no memory on the GPU for %zu bytes that a kernel needs", rank.scratch_bytes);
    wf_cuda_check(error, "cudaMalloc");
}

void *wf_cuda_scratch(size_t bytes)
{
    if (bytes > rank.scratch_bytes) grow_scratch(bytes);
    return rank.scratch;
}
