/*
 * check_engine.cu: the engine tested by kernels that are right, and by the same with a fault
 * planted.
 *
 *     check_engine            every kernel gives the right result in every order of threads
 *     check_engine FAULT      the kernel with that fault; exits 0 when nothing was noticed
 *
 * Which message each fault is to be noticed by stands in faults.cmake. By nvcc it is the program
 * that shows that translated PTX does the same (tests/gpu/ptx).
 */
#include "kernels/cuda/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

enum { threads = 128, warp = 32, orders = 4 };

#if defined(__CUDACC__)

static cudaStream_t stream;

static void use_order(int)
{
    if (!stream) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
}

/* Numbers where the kernel can reach them, and back. */
template <class T> struct device_array {
    T *at;
    std::vector<T> &host;
    explicit device_array(std::vector<T> &v) : at(nullptr), host(v)
    {
        cudaMalloc((void **)&at, v.size() * sizeof(T));
        cudaMemcpyAsync(at, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice, stream);
    }
    void read()
    {
        cudaMemcpyAsync(host.data(), at, host.size() * sizeof(T), cudaMemcpyDeviceToHost, stream);
        cudaStreamSynchronize(stream);
    }
    ~device_array() { cudaFree(at); }
};

#else

static const cudaStream_t stream = nullptr;

static void use_order(int o) { engine::order_set(static_cast<engine::order>(o)); }

template <class T> struct device_array {
    T *at;
    explicit device_array(std::vector<T> &v) : at(v.data()) {}
    void read() {}
};

#endif

static bool failed;

static void expect(const char *what, bool right)
{
    if (right) return;
    printf("%s: wrong result\n", what);
    failed = true;
}

/* The result of a launch on `count` numbers, which begin as -1. */
template <class T, class... P, class... A>
static std::vector<T> result_of(size_t count, void (*kernel)(T *, P...), dim3 grid, dim3 block,
                                size_t shared, A... arguments)
{
    std::vector<T> y(count, static_cast<T>(-1));
    device_array<T> there(y);
    cudaError_t error = gpu_launch(kernel, grid, block, shared, stream, there.at, arguments...);

    if (error != cudaSuccess) printf("refused launch: error %d\n", error);
    failed |= error != cudaSuccess;
    there.read();
    return y;
}

template <class F> static bool all_of(size_t count, F right)
{
    for (size_t i = 0; i < count; i++)
        if (!right(static_cast<int>(i))) return false;
    return true;
}

__global__ void turn_in_shared(int *y, bool fault)
{
    GPU_SHARED(int, row, [threads]);
    unsigned i = threadIdx.x;

    row[i] = static_cast<int>(i);
    if (!fault) __syncthreads();
    y[i] = row[threads - 1 - i];
}

static void check_barrier(bool fault)
{
    auto y = result_of(threads, turn_in_shared, 1, threads, 0, fault);

    expect("barrier", all_of(threads, [&](int i) { return y[i] == threads - 1 - i; }));
}

/* Two rounds through one buffer: the second write must wait for the first reads. */
__global__ void turn_twice(int *y, bool fault)
{
    GPU_SHARED(int, row, [threads]);
    unsigned i = threadIdx.x;
    int first;

    row[i] = static_cast<int>(i);
    __syncthreads();
    first = row[threads - 1 - i];
    if (!fault) __syncthreads();
    row[i] = first + 1000;
    __syncthreads();
    y[i] = row[threads - 1 - i];
}

static void check_buffer_reuse(bool fault)
{
    auto y = result_of(threads, turn_twice, 1, threads, 0, fault);

    expect("buffer_reuse", all_of(threads, [&](int i) { return y[i] == i + 1000; }));
}

__global__ void barrier_of_some(int *y, bool fault)
{
    if (!fault || threadIdx.x < 100) __syncthreads();
    y[threadIdx.x] = 1;
}

static void check_divergent_barrier(bool fault)
{
    result_of(threads, barrier_of_some, 1, threads, 0, fault);
}

__global__ void two_barriers(int *y, bool fault)
{
    if (fault && threadIdx.x < warp)
        __syncthreads();
    else
        __syncthreads();
    y[threadIdx.x] = 1;
}

static void check_two_barriers(bool fault)
{
    if (fault) result_of(threads, two_barriers, 1, threads, 0, fault);
}

__global__ void copy_through_shared(float *y, const float *x, bool fault)
{
    GPU_SHARED(float, row, [2][4 * threads]);
    unsigned i = threadIdx.x;

    for (int k = 0; k < 2; k++) {
        gpu_copy_async(&row[k][4 * i], x + 4 * i + k * 4 * threads);
        gpu_copy_commit();
    }
    gpu_copy_wait<1>();
    __syncthreads();
    for (unsigned j = i; j < 4 * threads; j += threads) y[j] = row[0][4 * threads - 1 - j];
    if (!fault) gpu_copy_wait<0>();
    __syncthreads();
    for (unsigned j = i; j < 4 * threads; j += threads)
        y[j + 4 * threads] = row[1][4 * threads - 1 - j];
}

static void check_copy_wait(bool fault)
{
    std::vector<float> x(8 * threads);

    for (size_t i = 0; i < x.size(); i++) x[i] = static_cast<float>(i);
    device_array<float> there(x);
    auto y = result_of<float>(x.size(), copy_through_shared, 1, threads, 0, there.at, fault);

    expect("copy_wait", all_of(4 * threads, [&](int i) {
               return y[i] == x[4 * threads - 1 - i] &&
                      y[i + 4 * threads] == x[8 * threads - 1 - i];
           }));
}

__global__ void copy_unaligned(float *y, const float *x, bool fault)
{
    GPU_DYNAMIC_SHARED(float, row);

    gpu_copy_async(row, x + fault);
    gpu_copy_commit();
    gpu_copy_wait<0>();
    y[threadIdx.x] = row[threadIdx.x];
}

static void check_copy_aligned(bool fault)
{
    std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
    device_array<float> there(x);
    auto y = result_of<float>(1, copy_unaligned, 1, 1, 64, there.at, fault);

    expect("copy_aligned", y[0] == 1);
}

__global__ void sum_of_warp(int *y, bool fault)
{
    int sum = static_cast<int>(threadIdx.x);

    if (!fault || threadIdx.x % 2)
        for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    y[threadIdx.x] = sum;
}

static void check_part_of_mask(bool fault)
{
    auto y = result_of(threads, sum_of_warp, 1, threads, 0, fault);

    expect("part_of_mask", all_of(threads, [&](int i) { return y[i] == i / 32 * 1024 + 496; }));
}

__global__ void shuffle_in_halves(int *y, bool fault)
{
    int i = static_cast<int>(threadIdx.x), half = i / 16 % 2;
    unsigned mask = fault ? 0xffffu : 0xffffu << 16 * half;

    y[i] = __shfl_sync(mask, i, 3, 16);
}

static void check_left_out(bool fault)
{
    auto y = result_of(threads, shuffle_in_halves, 1, threads, 0, fault);

    expect("left_out", all_of(threads, [&](int i) { return y[i] == i / 16 * 16 + 3; }));
}

__global__ void write_behind(int *y, bool fault)
{
    GPU_SHARED(int, row, [threads]);

    row[threadIdx.x + fault] = 1;
    __syncthreads();
    y[threadIdx.x] = row[threadIdx.x];
}

static void check_shared_bounds(bool fault)
{
    result_of(threads, write_behind, 1, threads, 0, fault);
}

__global__ void read_unwritten(float *y, bool fault)
{
    GPU_SHARED(float, row, [threads]);

    if (!fault || threadIdx.x) row[threadIdx.x] = 1;
    __syncthreads();
    y[threadIdx.x] = row[threadIdx.x];
}

static void check_unwritten(bool fault)
{
    auto y = result_of(threads, read_unwritten, 1, threads, 0, fault);

    expect("unwritten", all_of(threads, [&](int i) { return y[i] == 1; }));
}

__global__ void return_early(int *y, bool fault)
{
    if (fault && threadIdx.x == 5) return;
    __syncthreads();
    y[threadIdx.x] = 1;
}

static void check_early_return(bool fault)
{
    result_of(threads, return_early, 1, threads, 0, fault);
}

__global__ void nothing(int *, bool) {}

static void check_empty_grid(bool fault)
{
    result_of(1, nothing, fault ? 0 : 1, threads, 0, fault);
}

static void check_shared_size(bool fault)
{
    result_of(1, nothing, 1, 1, fault ? (48 << 10) + 16 : 48 << 10, fault);
}

__global__ void count_blocks(int *y, unsigned *counter, bool fault)
{
    GPU_SHARED(bool, last, [1]);

    if (threadIdx.x == 0) {
        y[blockIdx.x] = static_cast<int>(blockIdx.x);
        if (!fault) __threadfence();
        last[0] = atomicAdd(counter, 1u) == gridDim.x - 1;
        if (!fault) __threadfence();
    }
    __syncthreads();
    if (!last[0] || threadIdx.x) return;
    y[gridDim.x] = 0;
    for (unsigned b = 0; b < gridDim.x; b++) y[gridDim.x] += y[b];
}

static void check_fence(bool fault)
{
    std::vector<unsigned> counter(1, 0);
    device_array<unsigned> there(counter);
    auto y = result_of<int>(9, count_blocks, 8, threads, 0, there.at, fault);

    expect("fence", y[8] == 28);
}

__global__ void swap_in_warp(int *y, bool fault)
{
    GPU_SHARED(int, row, [threads]);

    row[threadIdx.x] = static_cast<int>(threadIdx.x);
    if (!fault) __syncwarp();
    y[threadIdx.x] = row[threadIdx.x ^ 1];
}

static void check_warp_order(bool fault)
{
    auto y = result_of(threads, swap_in_warp, 1, threads, 0, fault);

    expect("warp_order", all_of(threads, [&](int i) { return y[i] == (i ^ 1); }));
}

__global__ void count_without_atomic(unsigned *y, bool fault)
{
    if (!threadIdx.x && fault) y[0]++;
    if (!threadIdx.x && !fault) atomicAdd(y, 1u);
}

static void check_two_blocks(bool fault)
{
    auto y = result_of<unsigned>(1, count_without_atomic, 8, threads, 0, fault);

    expect("two_blocks", y[0] == 7);
}

__global__ void write_beyond(int *y, bool fault) { y[threadIdx.x + fault] = 1; }

static void check_global_bounds(bool fault)
{
    result_of(threads, write_beyond, 1, threads, 0, fault);
}

__global__ void write_vector(float *y, bool fault)
{
    *reinterpret_cast<float4 *>(y + fault) = make_float4(1, 2, 3, 4);
}

static void check_vector_aligned(bool fault) { result_of<float>(8, write_vector, 1, 1, 0, fault); }

/* What has no fault to plant. */

__global__ void shuffles(int *y)
{
    int i = static_cast<int>(threadIdx.x);
    double wide = __shfl_down_sync(~0u, i + 0.25, 4);

    y[0 * threads + i] = __shfl_sync(~0u, i, 7);
    y[1 * threads + i] = __shfl_xor_sync(~0u, i, 5, 8);
    y[2 * threads + i] = __shfl_down_sync(~0u, i, 3);
    y[3 * threads + i] = __shfl_up_sync(~0u, i, 2, 16);
    y[4 * threads + i] = static_cast<int>(__ballot_sync(~0u, i % 3 == 0));
    y[5 * threads + i] = static_cast<int>(wide * 4);
}

static void check_shuffles()
{
    auto y = result_of(6 * threads, shuffles, 1, threads, 0);
    auto right = [&](int i) {
        unsigned ballot = 0;

        for (int l = 0; l < warp; l++) ballot |= (i / warp * warp + l) % 3 == 0 ? 1u << l : 0;
        return y[0 * threads + i] == i / warp * warp + 7 && y[1 * threads + i] == (i ^ 5) &&
               y[2 * threads + i] == (i % warp + 3 < warp ? i + 3 : i) &&
               y[3 * threads + i] == (i % 16 >= 2 ? i - 2 : i) &&
               static_cast<unsigned>(y[4 * threads + i]) == ballot &&
               y[5 * threads + i] == 4 * (i % warp + 4 < warp ? i + 4 : i) + 1;
    };

    expect("shuffles", all_of(threads, right));
}

/* d = a b + d by way of shared memory, ldmatrix and the fragments; b lies turned. */
__global__ void product(float *d, const uint16_t *a, const uint16_t *b, bool f16, bool turned)
{
    GPU_SHARED(uint16_t, tile, [16][24]);
    GPU_SHARED(uint16_t, other, [16][24]);
    int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4 * 2;
    uint32_t fa[4], fb[4], only[2];
    float sum[4];

    for (int i = lane; i < 256; i += warp) tile[i / 16][i % 16] = a[i];
    for (int i = lane; i < 128; i += warp) { /* b is [16,8] */
        if (turned)
            other[i % 8][i / 8] = b[i];
        else
            other[i / 8][i % 8] = b[i];
    }
    __syncwarp();
    gpu_ldmatrix(fa, &tile[lane % 16][lane / 16 * 8]);
    if (turned)
        gpu_ldmatrix(fb, &other[lane % 8][lane / 8 % 2 * 8]);
    else
        gpu_ldmatrix_transposed(fb, &other[lane % 16][0]);
    only[0] = fb[0];
    only[1] = fb[1];
    for (int k = 0; k < 4; k++) sum[k] = d[(g + k / 2 * 8) * 8 + t + k % 2];
    if (f16)
        gpu_mma_f16(sum, fa, only);
    else
        gpu_mma_bf16(sum, fa, only);
    for (int k = 0; k < 4; k++) d[(g + k / 2 * 8) * 8 + t + k % 2] = sum[k];
}

/* Small whole numbers, which all formats hold. */
static uint16_t bits_of(int value, bool f16)
{
    static const uint16_t f16_bits[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400};
    static const uint16_t bf16_bits[] = {0, 0x3f80, 0x4000, 0x4040, 0x4080};
    const uint16_t *bits = f16 ? f16_bits : bf16_bits;

    return static_cast<uint16_t>(value < 0 ? 0x8000 | bits[-value] : bits[value]);
}

static void check_product(bool f16, bool turned)
{
    std::vector<uint16_t> a(256), b(128);
    auto value_a = [](int i) { return i * 7 % 9 - 4; };
    auto value_b = [](int i) { return i * 5 % 9 - 4; };

    for (int i = 0; i < 256; i++) a[i] = bits_of(value_a(i), f16);
    for (int i = 0; i < 128; i++) b[i] = bits_of(value_b(i), f16);
    device_array<uint16_t> there_a(a), there_b(b);
    auto d = result_of<float>(128, product, 1, warp, 0, there_a.at, there_b.at, f16, turned);

    expect("product", all_of(128, [&](int i) {
               int sum = -1;

               for (int k = 0; k < 16; k++) sum += value_a(i / 8 * 16 + k) * value_b(k * 8 + i % 8);
               return d[i] == static_cast<float>(sum);
           }));
}

/* Every thread of every block once, in blocks and grids of three dims and with a part of a warp. */
__global__ void positions(int *y)
{
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    unsigned size = blockDim.x * blockDim.y * blockDim.z;

    __syncwarp();
    __syncthreads();
    y[block * size + thread] += static_cast<int>(block * size + thread);
}

static void check_positions()
{
    const int count = 2 * 3 * 4 * 5 * 3 * 3;
    auto y = result_of(count, positions, dim3(2, 3, 4), dim3(5, 3, 3), 0);

    expect("positions", all_of(count, [&](int i) { return y[i] == i - 1; }));
}

static const struct {
    const char *name;
    void (*check)(bool fault);
} faults[] = {
    {"barrier", check_barrier},
    {"buffer_reuse", check_buffer_reuse},
    {"divergent_barrier", check_divergent_barrier},
    {"two_barriers", check_two_barriers},
    {"copy_wait", check_copy_wait},
    {"copy_aligned", check_copy_aligned},
    {"part_of_mask", check_part_of_mask},
    {"left_out", check_left_out},
    {"shared_bounds", check_shared_bounds},
    {"unwritten", check_unwritten},
    {"early_return", check_early_return},
    {"empty_grid", check_empty_grid},
    {"shared_size", check_shared_size},
    {"fence", check_fence},
    {"warp_order", check_warp_order},
    {"two_blocks", check_two_blocks},
    {"global_bounds", check_global_bounds},
    {"vector_aligned", check_vector_aligned},
};

int main(int argc, char **argv)
{
    for (int o = 0; o < orders; o++) {
        use_order(o);
        for (auto &f : faults) {
            if (argc == 1) f.check(false);
            if (argc > 1 && strcmp(f.name, argv[1]) == 0) f.check(true);
        }
        if (argc > 1) continue;
        check_shuffles();
        check_positions();
        for (int k = 0; k < 4; k++) check_product(k & 1, k & 2);
    }
    return failed;
}
