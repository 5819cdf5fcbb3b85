/*
 * library.cc: the functions of cuda_kernel.h for tests of kernels. Device memory is plain memory, a
 * launch has run when it returns, and the device is small, so that loops over the grid go round:
 * WT_GPU_MULTIPROCESSORS (3 unless told) multiprocessors with WT_GPU_SHARED_KIB (163, an A100's) of
 * shared memory for a block. With WT_CUDA_RUNTIME launches go through the stand-in for the CUDA
 * runtime, which is told to be eager and to let kernels touch the memory of the host.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/fault.h"

extern "C" {
#include "base/settings/knob.h"
}

static int number_of_environment(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text ? atoi(text) : otherwise;
}

/* Products run on the library's own kernels unless WT_GPU_CUBLAS is 1. */
static const bool products_are_chosen = [] {
    wf_knobs.cublas = number_of_environment("WT_GPU_CUBLAS", 0);
    return true;
}();

struct CUstream_st *wf_cuda_compute_stream(void)
{
    static thread_local cudaStream_t stream;

#ifdef WT_CUDA_RUNTIME
    if (!stream)
        wf_cuda_check_launch(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
#endif
    return stream;
}

namespace
{

/* Freed with its OS thread. As large as the last call asked for, so that AddressSanitizer sees what
 * goes beyond. */
struct scratch {
    void *memory = nullptr;
    size_t bytes = 0;
    ~scratch() { free(memory); }
};

} // namespace

void *wf_cuda_scratch(size_t bytes)
{
    static thread_local scratch kept;

    if (bytes != kept.bytes) {
        free(kept.memory);
        kept.memory = malloc(bytes);
        kept.bytes = bytes;
    }
    memset(kept.memory, 0xff, kept.bytes); /* NaN */
    return kept.memory;
}

namespace
{

/* A rank gives its device back where its OS thread ends. */
struct closing {
    void (*close[4])(void);
    int n = 0;
    ~closing()
    {
        while (n) close[--n]();
    }
};

} // namespace

void wf_cuda_at_close(void (*close)(void))
{
    static thread_local closing functions;

    functions.close[functions.n++] = close;
}

int wf_cuda_multiprocessors(void) { return number_of_environment("WT_GPU_MULTIPROCESSORS", 3); }

size_t wf_cuda_max_shared_bytes(void)
{
    return static_cast<size_t>(number_of_environment("WT_GPU_SHARED_KIB", 163)) << 10;
}

struct wf_cuda_fault *wf_cuda_fault_memory(void)
{
    static thread_local struct wf_cuda_fault memory;

    return &memory;
}

void wf_cuda_check_launch(int error, const char *op)
{
    if (error == cudaSuccess) return wf_cuda_die_on_fault();
    WF_DIE("%s: %s (%d)", op,
           error == cudaErrorInvalidConfiguration ? "invalid configuration argument"
           : error == cudaErrorInvalidValue       ? "invalid argument"
                                                  : "the launch failed",
           error);
}
