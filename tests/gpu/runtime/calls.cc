/* calls.cc: every call of the API passes here: it is counted, fails when it is the one that is to
 * fail, and leaves its error behind as the runtime does. */
#include "stand_in.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace stand_in
{

thread_local bool in_host_function;
static thread_local cudaError_t last_error;
static std::mutex lock;
static cudaError_t sticky_error;
static long calls;

void refuse(const char *format, ...)
{
    va_list list;

    fputs("cudart stand-in: ", stderr);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    fflush(stderr);
    _Exit(1);
}

long setting(const char *name, long otherwise)
{
    const char *text = getenv(name);

    return text ? atol(text) : otherwise;
}

void set_sticky_error(cudaError_t error)
{
    if (sticky_error == cudaSuccess) sticky_error = error;
}

/* The error of the call that WT_CUDA_FAIL asks for: N or N:ERROR; NAME:ERROR: the first of that
 * name. */
static cudaError_t planned_error(const char *name)
{
    static const char *plan = getenv("WT_CUDA_FAIL");
    const char *colon = plan ? strchr(plan, ':') : nullptr;
    cudaError_t error = strstr(name, "Alloc") || strstr(name, "Register")
                            ? cudaErrorMemoryAllocation
                            : cudaErrorUnknown;

    static bool failed;
    bool is_named = colon && strncmp(plan, name, static_cast<size_t>(colon - plan)) == 0 &&
                    !name[colon - plan] && !failed;

    calls++;
    if (!plan || (atol(plan) != calls && !is_named)) return cudaSuccess;
    failed = true;
    if (colon) error = static_cast<cudaError_t>(atoi(colon + 1));
    fprintf(stderr, "cudart stand-in: call %ld, %s, fails with error %d\n", calls, name, error);
    return error;
}

cudaError_t api_call(const char *name, const call_body &body)
{
    if (in_host_function) refuse("%s is called in a host function", name);

    locked l(lock);
    cudaError_t error = planned_error(name);

    if (error == cudaSuccess) error = sticky_error;
    if (error == cudaSuccess) error = body(l);
    if (error == cudaSuccess) error = sticky_error;
    if (error != cudaSuccess) last_error = error;
    return error;
}

void with_runtime_lock(const char *name, const std::function<void(locked &)> &body)
{
    if (in_host_function) refuse("%s is called in a host function", name);

    locked l(lock);

    body(l);
}

} // namespace stand_in

using namespace stand_in;

extern "C" {

cudaError_t cudaPeekAtLastError(void) { return last_error; }

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;

    last_error = sticky_error;
    return error;
}

struct error_text {
    cudaError_t error;
    const char *name, *text;
};

static const error_text &text_of(cudaError_t error)
{
    static const error_text texts[] = {
        {cudaSuccess, "cudaSuccess", "no error"},
        {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
        {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
        {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
         "invalid configuration argument"},
        {cudaErrorInvalidPitchValue, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
        {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction",
         "invalid device function"},
        {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
        {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
        {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
         "CUDA driver version is insufficient for CUDA runtime version"},
        {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle",
         "invalid resource handle"},
        {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
        {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
         "an illegal memory access was encountered"},
        {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
         "too many resources requested for launch"},
        {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
        {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
         "operation not permitted when stream is capturing"},
        {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
         "operation failed due to a previous error during capture"},
        {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
         "capturing stream has unjoined work"},
        {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
         "dependency created on uncaptured work in another stream"},
        {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
    };
    static const error_text other = {cudaErrorUnknown, "an error", "an error of the stand-in"};

    for (auto &t : texts)
        if (t.error == error) return t;
    return other;
}

const char *cudaGetErrorName(cudaError_t error) { return text_of(error).name; }
const char *cudaGetErrorString(cudaError_t error) { return text_of(error).text; }

/** How many calls of the API there were. */
long wt_cuda_calls(void) { return calls; }
}
