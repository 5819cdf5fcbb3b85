/*
 * api_device.cc: devices and what they are like. WT_CUDA_DEVICES (1 unless told, at most 8) says
 * how many there are, WT_CUDA_CAPABILITY (90; 80, 100) which kind, WT_GPU_MULTIPROCESSORS (3) their
 * size.
 */
#include "stand_in.h"

#include <stdio.h>
#include <string.h>

namespace stand_in
{

thread_local int current_device;

int device_count()
{
    static long count = setting("WT_CUDA_DEVICES", 1);

    return static_cast<int>(count);
}

int capability()
{
    static long number = setting("WT_CUDA_CAPABILITY", 90);

    return static_cast<int>(number);
}

size_t most_shared_bytes() { return static_cast<size_t>(capability() == 80 ? 163 : 227) << 10; }

static int multiprocessors() { return static_cast<int>(setting("WT_GPU_MULTIPROCESSORS", 3)); }

static cudaError_t check_device(int device)
{
    if (!device_count()) return cudaErrorNoDevice;
    return device >= 0 && device < device_count() ? cudaSuccess : cudaErrorInvalidDevice;
}

static void describe(cudaDeviceProp *p, int device)
{
    size_t used;

    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "stand-in %d", device);
    p->uuid.bytes[0] = static_cast<char>(device + 1);
    device_use(device, &used, &p->totalGlobalMem);
    p->sharedMemPerBlock = 48 << 10;
    p->sharedMemPerBlockOptin = most_shared_bytes();
    p->sharedMemPerMultiprocessor = most_shared_bytes() + 1024;
    p->reservedSharedMemPerBlock = 1024;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    p->warpSize = 32;
    p->memPitch = 0x7fffffff;
    p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxThreadsPerMultiProcessor = 2048;
    p->maxBlocksPerMultiProcessor = 32;
    p->maxGridSize[0] = 0x7fffffff;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->major = capability() / 10;
    p->minor = capability() % 10;
    p->multiProcessorCount = multiprocessors();
    p->concurrentKernels = p->unifiedAddressing = p->canMapHostMemory = 1;
    p->streamPrioritiesSupported = p->memoryPoolsSupported = p->hostRegisterSupported = 1;
    p->asyncEngineCount = 2;
    p->pciBusID = device + 1;
}

static cudaError_t attribute_of(int *value, cudaDeviceAttr attribute)
{
    switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
        *value = multiprocessors();
        break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = 48 << 10;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = static_cast<int>(most_shared_bytes());
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = capability() / 10;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = capability() % 10;
        break;
    case cudaDevAttrMaxThreadsPerBlock:
        *value = 1024;
        break;
    case cudaDevAttrWarpSize:
        *value = 32;
        break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = 2048;
        break;
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrConcurrentKernels:
        *value = 1;
        break;
    case cudaDevAttrIntegrated:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrComputeMode:
        *value = 0;
        break;
    default:
        refuse("cudaDeviceGetAttribute: attribute %d is one that the stand-in does not know",
               attribute);
    }
    return cudaSuccess;
}

} // namespace stand_in

using namespace stand_in;

extern "C" {

cudaError_t cudaGetDeviceCount(int *count)
{
    return api_call(__func__, [&](locked &) {
        *count = device_count();
        return *count ? cudaSuccess : cudaErrorNoDevice;
    });
}

cudaError_t cudaSetDevice(int device)
{
    return api_call(__func__, [&](locked &) {
        cudaError_t error = check_device(device);

        if (error == cudaSuccess) current_device = device;
        return error;
    });
}

cudaError_t cudaGetDevice(int *device)
{
    return api_call(__func__, [&](locked &) {
        *device = current_device;
        return check_device(current_device);
    });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device)
{
    return api_call(__func__, [&](locked &) {
        cudaError_t error = check_device(device);

        if (error == cudaSuccess) describe(properties, device);
        return error;
    });
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
    return api_call(__func__, [&](locked &) {
        cudaError_t error = check_device(device);

        return error == cudaSuccess ? attribute_of(value, attribute) : error;
    });
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int bytes, int device)
{
    return api_call(__func__, [&](locked &) {
        cudaError_t error = check_device(device);

        if (error == cudaSuccess)
            snprintf(id, static_cast<size_t>(bytes), "0000:%02x:00.0", device + 1);
        return error;
    });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    return api_call(__func__, [&](locked &) {
        *least = 0;
        *greatest = -5;
        return check_device(current_device);
    });
}

cudaError_t cudaDriverGetVersion(int *version)
{
    return api_call(__func__, [&](locked &) {
        *version = device_count() ? CUDART_VERSION : 0;
        return cudaSuccess;
    });
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    return api_call(__func__, [&](locked &) {
        *version = CUDART_VERSION;
        return cudaSuccess;
    });
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    return api_call(__func__, [&](locked &) {
        size_t used;

        device_use(current_device, &used, total);
        *available = *total - used;
        return check_device(current_device);
    });
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    return api_call(__func__, [&](locked &) {
        cudaError_t error = check_device(device);

        if (error == cudaSuccess) error = check_device(peer);
        *can = device != peer;
        return error;
    });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    return api_call(__func__, [&](locked &) {
        cudaError_t error = check_device(peer);

        if (error == cudaSuccess && (flags || peer == current_device))
            error = cudaErrorInvalidValue;
        if (error != cudaSuccess) return error;
        if (peer_allowed(current_device, peer)) return cudaErrorPeerAccessAlreadyEnabled;
        allow_peer(current_device, peer);
        return cudaSuccess;
    });
}
}
