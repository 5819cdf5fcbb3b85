/*
 * access_trace.h: what translated kernels ask of memory, counted as a multiprocessor serves it: an
 * instruction that a warp executes is one request, which moves sectors of 32 bytes of global memory
 * or takes passes over the 32 banks of shared memory. For programs that are linked with the
 * stand-in for the CUDA runtime.
 *
 * Lanes run one after the other here, so what they execute for the n-th time at one instruction
 * counts as one request.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wt_cuda_launch {
    const char *kernel; /* mangled */
    unsigned grid[3], block[3];
    size_t shared;        /* that the launch gave, bytes */
    double blocks_traced; /* of the grid's; all figures below are theirs */
    double sectors_read, sectors_written;
    double sectors_of_blocks; /* each once for every block that touches it */
    double useful_bytes;      /* that the lanes of requests ask for, each byte once a request */
    double shared_passes, shared_passes_least;
    double flops, tensor_flops;
    const char *worst; /* the access to shared memory with the most passes too many */
    double worst_ratio;
};

/** From now on launches are noted, and run so many of their blocks, spread over the grid (0: all,
 * -1: none). What they compute is then not to be looked at. */
void wt_cuda_trace_begin(int blocks);
/** How many launches were noted; the first `room` of them are in `launches`. */
int wt_cuda_trace_end(struct wt_cuda_launch *launches, int room);

#ifdef __cplusplus
}
#endif
