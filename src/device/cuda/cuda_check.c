/*
 * cuda_check.c: sentences of errors. Errors of kernels are told by whichever call comes next, so
 * the sentence names the op that was launched last too.
 */
#include "device/cuda/cuda_check.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "device/cuda/kernel_services.h"
#include "device/cuda/library_calls.h"

enum { ERROR_TEXT = 256 };

static _Thread_local const char *last_op;

void wf_cuda_format_error(char *text, size_t room, cudaError_t error)
{
    snprintf(text, room, "%s (%s)", cudaGetErrorString(error), cudaGetErrorName(error));
    (void)cudaGetLastError();
}

bool wf_cuda_give_back_after(cudaError_t error)
{
    if (error != cudaErrorMemoryAllocation) return false;
    (void)cudaGetLastError();
    wf_library_give_back_memory();
    return true;
}

static _Noreturn void die(cudaError_t error, int of_call, const char *call)
{
    char text[ERROR_TEXT];

    wf_cuda_format_error(text, sizeof text, error);
    if (last_op)
        WF_DIE("CUDA: %.*s: %s; the last op that the GPU was given is %s", of_call, call, text,
               last_op);
    WF_DIE("CUDA: %.*s: %s", of_call, call, text);
}

/* Of the call's text its name: a function of CUDA. */
void wf_cuda_check(cudaError_t error, const char *call)
{
    if (error != cudaSuccess) die(error, (int)strcspn(call, "("), call);
}

void wf_cuda_check_launch(int error, const char *op)
{
    char text[ERROR_TEXT];

    last_op = op;
    if (error == cudaSuccess) return;
    wf_cuda_format_error(text, sizeof text, (cudaError_t)error);
    WF_DIE("%s: CUDA: launch: %s", op, text);
}
