/*
 * occupancy.cc: how many blocks of a kernel an H100's multiprocessor holds, by CUDA's own formulas.
 * Lines "registers static-shared dynamic-shared threads" come in, "blocks limit" go out; the limit
 * is what there would have to be more of.
 */
#include <cuda_occupancy.h>
#include <stdio.h>

static cudaOccDeviceProp h100()
{
    cudaOccDeviceProp p = {};

    p.computeMajor = 9;
    p.maxThreadsPerBlock = 1024;
    p.maxThreadsPerMultiprocessor = 2048;
    p.regsPerBlock = p.regsPerMultiprocessor = 65536;
    p.warpSize = 32;
    p.sharedMemPerBlock = 48 << 10;
    p.sharedMemPerMultiprocessor = 228 << 10;
    p.sharedMemPerBlockOptin = 227 << 10;
    p.reservedSharedMemPerBlock = 1 << 10;
    p.numSms = 132;
    return p;
}

static const char *limit_of(unsigned factors)
{
    if (factors & OCC_LIMIT_WARPS) return "threads";
    if (factors & OCC_LIMIT_REGISTERS) return "registers";
    if (factors & OCC_LIMIT_SHARED_MEMORY) return "shared memory";
    return "blocks";
}

int main()
{
    const cudaOccDeviceProp device = h100();
    cudaOccDeviceState state = {};
    int registers, fixed, given, threads;

    while (scanf("%d %d %d %d", &registers, &fixed, &given, &threads) == 4) {
        cudaOccFuncAttributes kernel = {};
        cudaOccResult result;

        kernel.maxThreadsPerBlock = 1024;
        kernel.numRegs = registers;
        kernel.sharedSizeBytes = static_cast<size_t>(fixed);
        kernel.maxDynamicSharedSizeBytes = device.sharedMemPerBlockOptin;
        kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads,
                                                    static_cast<size_t>(given)) != CUDA_OCC_SUCCESS)
            return 1;
        printf("%d %s\n", result.activeBlocksPerMultiprocessor, limit_of(result.limitingFactors));
    }
}
