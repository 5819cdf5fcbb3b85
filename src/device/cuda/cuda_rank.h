/* cuda_rank.h: the device and the streams of this rank, which is a thread. */
#pragma once

#include <cuda_runtime_api.h>

#include "device/device_driver.h"

int wf_cuda_count(char *why, size_t room);
bool wf_cuda_open_device(int number, char *why, size_t room);
void wf_cuda_close_device(void);
void wf_cuda_describe(char *text, size_t room);
struct wf_device_memory wf_cuda_memory(void);

cudaStream_t wf_cuda_stream(enum wf_stream stream);
/** Wait for both streams; a fault that a kernel told ends the job. */
void wf_cuda_synchronize(void);
