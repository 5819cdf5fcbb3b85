/*
 * window_sum.cu: convolutions with few channels in a group, depthwise ones above all, and their
 * gradients, where tiles of a product would be mostly empty.
 *
 * Of a convolution and of dx a thread has one result. Of dw a block has a few neighbouring weights:
 * its threads go through the places, and what they have is added up in a fixed order. Sums of
 * 16-bit floats are f32.
 */
#include "kernels/cuda/convolution/convolution.h"
#include "kernels/cuda/group_reduce.h"

namespace
{

enum { TAPS = 9 }; /* weights of a block: a window of 3 x 3 */

/* The sum over the window at these positions, of one channel: x and w are its first elements. */
template <class E, bool divided>
__device__ __forceinline__ real<E>
sum_window(const conv_arguments &p, const int32_t (&at)[WF_SPATIAL], const E *x, const E *w)
{
    const conv_dim(&dim)[WF_SPATIAL] = p.dim;
    real<E> sum = 0;

    for (uint32_t a = 0; a < dim[0].taps.value; a++) {
        uint32_t i;

        if (!conv_index<divided>(dim[0], at[0] + (int32_t)a * dim[0].tap_step, &i)) continue;
        for (uint32_t b = 0; b < dim[1].taps.value; b++) {
            const E *weight = w + a * dim[0].plain_stride + b * dim[1].plain_stride;
            uint32_t j, k;

            if (!conv_index<divided>(dim[1], at[1] + (int32_t)b * dim[1].tap_step, &j)) continue;
            const E *line = x + i * dim[0].stride + j * dim[1].stride;
            for (uint32_t c = 0; c < dim[2].taps.value; c++, weight += dim[2].plain_stride)
                if (conv_index<divided>(dim[2], at[2] + (int32_t)c * dim[2].tap_step, &k))
                    sum += to_real(*weight) * to_real(line[k * dim[2].stride]);
        }
    }
    return sum;
}

/* first_block and end_block count planes of the result. */
template <class E, bool divided>
__global__ void __launch_bounds__(BLOCK, 3) sum_windows(conv_arguments p)
{
    uint32_t number = blockIdx.x * BLOCK + threadIdx.x, of_launch = divide(number, p.plane);
    uint32_t place = number - of_launch * p.plane.value, channel, group, row;
    int64_t plane = p.first_block + of_launch, image = divide_wide(plane, p.wide_planes), unused;
    const E *x = (const E *)p.gathered, *w = (const E *)p.plain;
    real<E> sum = 0;

    if (plane >= p.end_block) return;
    conv_part from = place_part(p, 0, place, &unused);
    channel = (uint32_t)(plane - image * (int64_t)p.wide_planes.value);
    group = divide(channel, p.row_divisor);
    row = channel - group * p.row_divisor.value;
    x += image * p.gathered_stride.image + group * p.gathered_stride.group;
    w += group * p.plain_stride.group + row * p.plain_stride.row;
    for (uint32_t c = 0; c < p.channels; c++) {
        sum += sum_window<E, divided>(p, from.at, x, w);
        x += p.gathered_stride.channel;
        w += p.plain_stride.outer;
    }
    if (p.bias)
        sum += to_real(((const E *)p.bias)[group * p.bias_stride.group + row * p.bias_stride.row]);
    ((E *)p.result)[plane * p.plane.value + place] = from_real<E>(sum);
}

template <class E> __global__ void __launch_bounds__(BLOCK, 2) sum_places(conv_arguments p)
{
    typedef real<E> T;
    GPU_SHARED(conv_part, taps, [TAPS]);
    GPU_SHARED(T, of_warps, [WARPS]);
    conv_tile at = conv_tile_of(p, 1, TAPS);
    conv_origin first = origin_of(p, at.k_begin);
    const E *x = (const E *)p.gathered + at.group * p.gathered_stride.group;
    const E *d = (const E *)p.plain + at.group * p.plain_stride.group + at.row * p.plain_stride.row;
    uint32_t count = (uint32_t)(at.k_end - at.k_begin);
    int64_t column = at.column + threadIdx.x, offset;
    T sum[TAPS] = {};

    if (threadIdx.x < TAPS)
        taps[threadIdx.x] =
            column < p.columns ? tap_part(p, (uint32_t)column, &offset) : conv_part_outside();
    __syncthreads();
    for (uint32_t k = threadIdx.x; k < count; k += BLOCK) {
        conv_part place = place_part(p, first.image, first.place + k, &offset);
        T of_d = to_real(d[offset]);

#pragma unroll
        for (int i = 0; i < TAPS; i++)
            sum[i] += of_d * to_real(gather<false>(p, x, place, taps[i]));
    }
    offset = at.group * p.result_stride.group + at.row * p.result_stride.row + column;
#pragma unroll
    for (int i = 0; i < TAPS; i++) {
        T all = group_reduce(sum[i], take_sum(), of_warps);

        if (threadIdx.x != (unsigned)i || column >= p.columns) continue;
        if (p.partial)
            ((T *)p.result)[blockIdx.y * p.results + offset] = all;
        else
            ((E *)p.result)[offset] = from_real<E>(all);
    }
}

} // namespace

conv_kernel wf_cuda_window_sum(uint8_t dtype, bool by_places, bool divided)
{
    conv_kernel kernel = {NULL, BLOCK, by_places ? 1 : 0, by_places ? (int64_t)TAPS : 0};

    with_float_type(dtype, [&](auto e) {
        typedef typename decltype(e)::type E;

        if (by_places)
            kernel.run = sum_places<E>;
        else
            kernel.run = divided ? sum_windows<E, true> : sum_windows<E, false>;
    });
    return kernel;
}
