/*
 * api_memory.cc: allocations, pinned memory, copies. A copy from pageable memory reads it at once
 * and one to it waits, as the manual says; pinned memory is read and written when the stream comes
 * to the copy, and what a copy is going to write holds no value until then.
 */
#include "stand_in.h"

#include <map>
#include <string.h>
#include <sys/mman.h>

namespace stand_in
{

enum { not_written_yet = 0xfb };

/* A rectangle of bytes. */
struct copy_shape {
    size_t to_pitch, from_pitch, width, height;
};

/* One past the last byte. */
static size_t extent(size_t pitch, const copy_shape &s)
{
    return s.height ? pitch * (s.height - 1) + s.width : 0;
}

static void copy_rows(char *to, const char *from, const copy_shape &s)
{
    for (size_t row = 0; row < s.height; row++)
        memcpy(to + row * s.to_pitch, from + row * s.from_pitch, s.width);
}

static bool kind_is_right(bool to_device, bool from_device, cudaMemcpyKind kind)
{
    switch (kind) {
    case cudaMemcpyHostToHost:
        return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
        return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
        return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
        return to_device && from_device;
    default:
        return kind == cudaMemcpyDefault;
    }
}

static char *bytes_of(const void *p, size_t bytes, const char *what)
{
    return is_device_address(p) ? device_bytes(p, bytes, what)
                                : static_cast<char *>(const_cast<void *>(p));
}

/* Pageable memory of the host as it is now. */
static std::shared_ptr<std::vector<char>> read_at_once(const void *from, copy_shape &shape)
{
    auto copy = std::make_shared<std::vector<char>>(shape.width * shape.height);
    copy_shape packed = {shape.width, shape.from_pitch, shape.width, shape.height};

    copy_rows(copy->data(), static_cast<const char *>(from), packed);
    shape.from_pitch = shape.width;
    return copy;
}

static cudaError_t copy(void *to, const void *from, copy_shape shape, cudaMemcpyKind kind,
                        CUstream_st *stream, const char *what, locked &lock)
{
    bool to_device = is_device_address(to), from_device = is_device_address(from);
    size_t to_bytes = extent(shape.to_pitch, shape), from_bytes = extent(shape.from_pitch, shape);
    bool to_pageable = !to_device && !host_registered(to, to_bytes);
    bool from_pageable = !from_device && !host_registered(from, from_bytes);
    std::shared_ptr<std::vector<char>> kept;
    cudaError_t error = check_stream(stream, what);

    if (error != cudaSuccess) return error;
    if (shape.width > shape.to_pitch || shape.width > shape.from_pitch)
        return cudaErrorInvalidPitchValue;
    if (!to_bytes) return cudaSuccess;
    if (!to || !from || !kind_is_right(to_device, from_device, kind)) return cudaErrorInvalidValue;
    if (static_cast<char *>(to) < static_cast<const char *>(from) + from_bytes &&
        static_cast<const char *>(from) < static_cast<char *>(to) + to_bytes)
        refuse("%s: the source and the target overlap", what);
    if (stream->capture && (to_pageable || from_pageable)) return check_not_captured(stream);
    if (from_pageable) kept = read_at_once(from, shape);
    if (!to_device && !to_pageable && !stream->capture)
        for (size_t row = 0; row < shape.height; row++)
            memset(static_cast<char *>(to) + row * shape.to_pitch, not_written_yet, shape.width);
    auto run = [=] {
        copy_rows(bytes_of(to, to_bytes, what),
                  kept ? kept->data() : bytes_of(from, from_bytes, what), shape);
    };
    error = enqueue(stream, {what, run}, lock);
    if (to_pageable) run_until_empty(stream, lock);
    return error;
}

static cudaError_t fill(void *at, int value, size_t pitch, size_t width, size_t height,
                        CUstream_st *stream, const char *what, locked &lock)
{
    copy_shape shape = {pitch, pitch, width, height};
    cudaError_t error = check_stream(stream, what);
    auto run = [=] {
        char *p = device_bytes(at, extent(pitch, shape), what);

        for (size_t row = 0; row < height; row++) memset(p + row * pitch, value, width);
    };

    if (error != cudaSuccess) return error;
    if (width > pitch) return cudaErrorInvalidPitchValue;
    if (!width || !height) return cudaSuccess;
    if (!is_device_address(at)) return cudaErrorInvalidValue;
    return enqueue(stream, {what, run}, lock);
}

/* Allocations of pinned memory, with their bytes. */
static std::map<void *, size_t> &pinned()
{
    static std::map<void *, size_t> allocations;

    return allocations;
}

static cudaError_t allocate(void **p, size_t bytes)
{
    if (!p) return cudaErrorInvalidValue;
    *p = nullptr;
    if (!device_count()) return cudaErrorNoDevice;
    if (bytes) *p = device_reserve(current_device, bytes);
    return *p || !bytes ? cudaSuccess : cudaErrorMemoryAllocation;
}

} // namespace stand_in

using namespace stand_in;

extern "C" {

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    return api_call("cudaMalloc", [&](locked &) {
        cudaError_t error = check_no_capture();

        if (error == cudaSuccess) error = allocate(p, bytes);
        if (error == cudaSuccess && *p) device_make_live(*p);
        return error;
    });
}

cudaError_t cudaFree(void *p)
{
    return api_call(__func__, [&](locked &lock) {
        cudaError_t error = check_no_capture();

        if (error != cudaSuccess || !p) return error;
        if (!is_device_address(p) || !device_begin_free(p)) return cudaErrorInvalidValue;
        run_until_empty(device_of_address(p), lock);
        device_end_free(p);
        return cudaSuccess;
    });
}

cudaError_t cudaMallocAsync(void **p, size_t bytes, cudaStream_t stream)
{
    return api_call("cudaMallocAsync", [&](locked &lock) {
        cudaError_t error = check_stream(stream, "cudaMallocAsync");
        void *at;

        if (error == cudaSuccess) error = check_not_captured(stream);
        if (error == cudaSuccess) error = allocate(p, bytes);
        if (error != cudaSuccess || !*p) return error;
        at = *p;
        return enqueue(stream, {"cudaMallocAsync", [=] { device_make_live(at); }}, lock);
    });
}

cudaError_t cudaFreeAsync(void *p, cudaStream_t stream)
{
    return api_call("cudaFreeAsync", [&](locked &lock) {
        cudaError_t error = check_stream(stream, "cudaFreeAsync");

        if (error == cudaSuccess) error = check_not_captured(stream);
        if (error != cudaSuccess || !p) return error;
        if (!is_device_address(p) || !device_begin_free(p)) return cudaErrorInvalidValue;
        return enqueue(stream, {"cudaFreeAsync", [=] { device_end_free(p); }}, lock);
    });
}

/* The one pool of each device. */
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    return api_call(__func__, [&](locked &) {
        if (device < 0 || device >= device_count()) return cudaErrorInvalidDevice;
        *pool = reinterpret_cast<cudaMemPool_t>(static_cast<uintptr_t>(device + 1));
        return cudaSuccess;
    });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr, void *value)
{
    return api_call(__func__,
                    [&](locked &) { return pool && value ? cudaSuccess : cudaErrorInvalidValue; });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t)
{
    return api_call(__func__, [&](locked &) { return pool ? cudaSuccess : cudaErrorInvalidValue; });
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned)
{
    return api_call("cudaHostAlloc", [&](locked &) {
        cudaError_t error = check_no_capture();

        if (error != cudaSuccess) return error;
        *p = nullptr;
        if (!bytes) return cudaSuccess;
        *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (*p == MAP_FAILED) return cudaErrorMemoryAllocation;
        memset(*p, not_written_yet, bytes);
        host_register(*p, bytes);
        pinned()[*p] = bytes;
        return cudaSuccess;
    });
}

cudaError_t cudaMallocHost(void **p, size_t bytes) { return cudaHostAlloc(p, bytes, 0); }

cudaError_t cudaFreeHost(void *p)
{
    return api_call(__func__, [&](locked &lock) {
        cudaError_t error = check_no_capture();
        auto found = pinned().find(p);

        if (error != cudaSuccess || !p) return error;
        if (found == pinned().end()) return cudaErrorInvalidValue;
        for (int d = 0; d < device_count(); d++) run_until_empty(d, lock);
        host_unregister(p);
        munmap(p, found->second);
        pinned().erase(found);
        return cudaSuccess;
    });
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned)
{
    return api_call(__func__, [&](locked &) {
        cudaError_t error = check_no_capture();

        if (error == cudaSuccess && (!p || !bytes)) error = cudaErrorInvalidValue;
        if (error != cudaSuccess) return error;
        if (host_registered(p, 1)) return cudaErrorHostMemoryAlreadyRegistered;
        host_register(p, bytes);
        return cudaSuccess;
    });
}

cudaError_t cudaHostUnregister(void *p)
{
    return api_call(__func__, [&](locked &lock) {
        cudaError_t error = check_no_capture();

        if (error != cudaSuccess) return error;
        for (int d = 0; d < device_count(); d++) run_until_empty(d, lock);
        return host_unregister(p) ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
    });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *p)
{
    return api_call(__func__, [&](locked &) {
        memset(attributes, 0, sizeof *attributes);
        attributes->type = is_device_address(p)    ? cudaMemoryTypeDevice
                           : host_registered(p, 1) ? cudaMemoryTypeHost
                                                   : cudaMemoryTypeUnregistered;
        attributes->device = is_device_address(p) ? device_of_address(p) : current_device;
        if (is_device_address(p)) attributes->devicePointer = const_cast<void *>(p);
        return cudaSuccess;
    });
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    return api_call("cudaMemcpyAsync", [&](locked &lock) {
        return copy(to, from, {bytes, bytes, bytes, 1}, kind, stream, "cudaMemcpyAsync", lock);
    });
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream)
{
    return api_call("cudaMemcpy2DAsync", [&](locked &lock) {
        return copy(to, from, {to_pitch, from_pitch, width, height}, kind, stream,
                    "cudaMemcpy2DAsync", lock);
    });
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t bytes, cudaStream_t stream)
{
    return api_call("cudaMemcpyPeerAsync", [&](locked &lock) {
        bool right = is_device_address(to) && is_device_address(from) &&
                     device_of_address(to) == to_device && device_of_address(from) == from_device;

        if (!right) return cudaErrorInvalidValue;
        return copy(to, from, {bytes, bytes, bytes, 1}, cudaMemcpyDeviceToDevice, stream,
                    "cudaMemcpyPeerAsync", lock);
    });
}

cudaError_t cudaMemcpy(void *, const void *, size_t, cudaMemcpyKind)
{
    refuse("cudaMemcpy uses a default stream");
}

cudaError_t cudaMemset(void *, int, size_t) { refuse("cudaMemset uses a default stream"); }

cudaError_t cudaMemsetAsync(void *at, int value, size_t bytes, cudaStream_t stream)
{
    return api_call("cudaMemsetAsync", [&](locked &lock) {
        return fill(at, value, bytes, bytes, 1, stream, "cudaMemsetAsync", lock);
    });
}

cudaError_t cudaMemset2DAsync(void *at, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream)
{
    return api_call("cudaMemset2DAsync", [&](locked &lock) {
        return fill(at, value, pitch, width, height, stream, "cudaMemset2DAsync", lock);
    });
}
}
