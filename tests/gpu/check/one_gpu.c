/*
 * one_gpu.c: preloaded into each rank (scripts/gpu-check --one-gpu), it gives the rank's GPU a
 * number of its own, and the rank a machine of its own in NCCL's eyes: so NCCL, which refuses ranks
 * that share a GPU, connects them by sockets. For a machine that has one GPU only.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* Some toolkits name another version by a macro. */
#define TEXT(name) #name
#define TEXT_OF(macro) TEXT(macro)

static int process_rank(void)
{
    static const char *const variables[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"};

    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i])) return atoi(getenv(variables[i]));
    return 0;
}

__attribute__((constructor)) static void name_machine(void)
{
    char name[32];

    snprintf(name, sizeof name, "rank-%d", process_rank());
    setenv("NCCL_HOSTID", name, 1);
}

__attribute__((visibility("default"))) cudaError_t
cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    cudaError_t (*of_runtime)(struct cudaDeviceProp *, int) = NULL;
    /* libweft-cuda.so has loaded it, out of RTLD_NEXT's sight */
    void *runtime = dlopen("libcudart.so." ONE_GPU_CUDART, RTLD_NOW | RTLD_NOLOAD);
    cudaError_t result = cudaErrorInvalidValue;

    if (runtime) *(void **)&of_runtime = dlsym(runtime, TEXT_OF(cudaGetDeviceProperties));
    if (of_runtime) result = of_runtime(properties, device);
    if (result == cudaSuccess)
        properties->uuid.bytes[0] = (char)(properties->uuid.bytes[0] + 1 + process_rank());
    return result;
}
