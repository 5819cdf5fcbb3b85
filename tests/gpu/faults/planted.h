/* planted.h: whether a planted fault (plant) is awake: the one that the environment variable
 * WT_GPU_FAULT names. Included before each source. */
#pragma once

enum { most_gpu_faults = 4096 };

extern int gpu_fault_awake;
extern unsigned char gpu_fault_reached[most_gpu_faults];

/* All threads write the same, which is no race of the kernel. */
__attribute__((no_sanitize("thread"))) static inline int gpu_fault(int number)
{
    gpu_fault_reached[number] = 1;
    return number == gpu_fault_awake;
}
