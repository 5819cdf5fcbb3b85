/*
 * device.cu: a device compiler takes the formulas of random numbers as they are. Compiled only:
 * with
 * --fmad=false nothing contracts, so what it makes has the bits that the CPU has.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define inline __host__ __device__ inline
#include "kernels/cpu/isa/philox.h"
#undef inline

/* One block of Philox per thread: four normal numbers, four quantiles. */
__global__ void draw(float *normal, double *quantile, uint64_t seed, uint64_t number, int64_t n)
{
    int64_t block = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, at = 4 * block;
    struct wf_philox_words high = philox_block((uint64_t)block, number, seed);
    struct wf_philox_words low = philox_block((uint64_t)block, number | WF_SECOND_PLANE, seed);

    if (at + 4 > n) return;
    normal_pair_f32(high.w[0], high.w[1], normal + at, normal + at + 1);
    normal_pair_f32(high.w[2], high.w[3], normal + at + 2, normal + at + 3);
    for (int i = 0; i < 4; i++)
        quantile[at + i] = normal_quantile(open_unit_f64(high.w[i], low.w[i]));
}
