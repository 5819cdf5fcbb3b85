/* cuda_check.h: errors of CUDA calls. None is expected where this is asked: they end the job. */
#pragma once

#include <stdbool.h>

#include <cuda_runtime_api.h>

/** End the job when `error` is one, with the call and CUDA's own text. */
#define WF_CUDA_CHECK(call) wf_cuda_check((call), #call)
void wf_cuda_check(cudaError_t error, const char *call);

/** There was no memory on the GPU: the pool gives back what is idle, and the call is worth another
 * try. */
bool wf_cuda_give_back_after(cudaError_t error);

/** "no CUDA-capable device is detected (cudaErrorNoDevice)"; the error is forgotten. */
void wf_cuda_format_error(char *text, size_t room, cudaError_t error);
