/*
 * host_gpu.h: what gpu.h stands for where no nvcc compiles: CUDA's own types, and its words on top
 * of engine.h. Meant for kernels only; a word that is missing here is one that gpu.h does not
 * allow.
 */
#pragma once

#include <math.h>
#include <string.h>

#include <cuda_runtime_api.h>
#include <vector_functions.h>
#include <vector_types.h>

#include "engine.h"

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __forceinline__
#undef __launch_bounds__
#define __global__
#define __device__
#define __host__
#define __shared__ GPU_SHARED_is_the_way_to_say_it
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict

#define threadIdx (engine::here->thread)
#define blockIdx (engine::here->block)
#define blockDim (engine::here->block_size)
#define gridDim (engine::here->grid_size)

#define GPU_SHARED(type, name, dims)                                                               \
    typedef type name##_type dims;                                                                 \
    static thread_local engine::shared_array name##_array = {sizeof(name##_type), #name, 0, 0};    \
    name##_type &name = *static_cast<name##_type *>(engine::shared_memory(name##_array))
#define GPU_DYNAMIC_SHARED(type, name)                                                             \
    type *name = static_cast<type *>(engine::dynamic_shared_memory())

template <class... Parameters, class... Arguments>
static inline cudaError_t gpu_launch(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                     size_t shared, cudaStream_t, Arguments... arguments)
{
    auto call = [=] { kernel((Parameters)arguments...); };
    engine::kernel_body body = {[](void *c) { (*static_cast<decltype(call) *>(c))(); }, &call};

    return engine::launch((const void *)kernel, grid, block, shared, body);
}

template <class... Parameters>
static inline cudaError_t gpu_allow_shared(void (*kernel)(Parameters...), size_t bytes)
{
    return engine::allow_shared((const void *)kernel, bytes);
}

/* The caller's place, as arguments that nobody gives. */
#define HOST_GPU_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(HOST_GPU_PLACE) { engine::barrier({file, line}); }
inline void __syncwarp(unsigned mask = ~0u, HOST_GPU_PLACE)
{
    engine::sync_warp(mask, {file, line});
}

inline uint32_t host_gpu_shuffle(const char *name, engine::place at,
                                 enum engine::shuffle::from from, unsigned mask, uint32_t value,
                                 int argument, int width)
{
    engine::shuffle s;

    s.name = name;
    s.at = at;
    s.mask = mask;
    s.from = from;
    s.value = value;
    s.argument = argument;
    s.width = width;
    engine::meet(s);
    return s.value;
}

/* Values of 4 and, in two steps, of 8 bytes. */
template <class T>
inline T host_gpu_shuffle_value(const char *name, engine::place at, enum engine::shuffle::from from,
                                unsigned mask, T value, int argument, int width)
{
    uint32_t words[sizeof(T) / 4];

    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle moves 4 or 8 bytes");
    __builtin_memcpy(words, &value, sizeof value);
    for (auto &word : words) word = host_gpu_shuffle(name, at, from, mask, word, argument, width);
    __builtin_memcpy(&value, words, sizeof value);
    return value;
}

#define HOST_GPU_SHUFFLE(name, from)                                                               \
    template <class T>                                                                             \
    inline T name(unsigned mask, T value, int argument, int width = 32, HOST_GPU_PLACE)            \
    {                                                                                              \
        return host_gpu_shuffle_value(#name, {file, line}, engine::shuffle::from, mask, value,     \
                                      argument, width);                                            \
    }
HOST_GPU_SHUFFLE(__shfl_sync, index)
HOST_GPU_SHUFFLE(__shfl_xor_sync, exclusive_or)
HOST_GPU_SHUFFLE(__shfl_down_sync, below)
HOST_GPU_SHUFFLE(__shfl_up_sync, above)

inline unsigned __ballot_sync(unsigned mask, int predicate, HOST_GPU_PLACE)
{
    engine::vote v;

    v.name = "__ballot_sync";
    v.at = {file, line};
    v.mask = mask;
    v.predicate = predicate != 0;
    engine::meet(v);
    return v.ballot;
}

inline void host_gpu_multiply(const char *name, engine::place at,
                              void multiply(engine::matrix_product &), float (&d)[4],
                              const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    engine::matrix_product m;

    m.name = name;
    m.at = at;
    __builtin_memcpy(m.a, a, sizeof a);
    __builtin_memcpy(m.b, b, sizeof b);
    __builtin_memcpy(m.d, d, sizeof d);
    multiply(m);
    __builtin_memcpy(d, m.d, sizeof d);
}
inline void gpu_mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                         HOST_GPU_PLACE)
{
    host_gpu_multiply("gpu_mma_bf16", {file, line}, engine::multiply_bf16, d, a, b);
}
inline void gpu_mma_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                        HOST_GPU_PLACE)
{
    host_gpu_multiply("gpu_mma_f16", {file, line}, engine::multiply_f16, d, a, b);
}

inline uint32_t host_gpu_bf16(float a)
{
    uint32_t bits;

    __builtin_memcpy(&bits, &a, sizeof bits);
    return a != a ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
inline uint16_t gpu_f32_to_bf16(float value) { return static_cast<uint16_t>(host_gpu_bf16(value)); }
inline uint32_t gpu_pack_bf16(float low, float high)
{
    return host_gpu_bf16(low) | host_gpu_bf16(high) << 16;
}

/* By way of f64, which has all of them: none of this is the library's own conversion. */
inline float gpu_f16_to_f32(uint16_t half)
{
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double size = exponent == 31  ? (fraction ? NAN : INFINITY)
                  : exponent == 0 ? ldexp(fraction, -24)
                                  : ldexp(1024 + fraction, exponent - 25);

    return static_cast<float>(half & 0x8000 ? -size : size);
}
inline uint16_t gpu_f32_to_f16(float value)
{
    double size = fabs(static_cast<double>(value));
    int sign = signbit(value) ? 0x8000 : 0, exponent = -13, units;

    if (value != value) return 0x7fff;
    if (size >= 65520) return static_cast<uint16_t>(sign | 0x7c00); /* half way to the next */
    if (size >= 0x1p-14) frexp(size, &exponent);
    units = static_cast<int>(rint(ldexp(size, 11 - exponent)));
    return static_cast<uint16_t>(sign | (((exponent + 13) << 10) + units));
}
inline uint32_t gpu_pack_f16(float low, float high)
{
    return gpu_f32_to_f16(low) | static_cast<uint32_t>(gpu_f32_to_f16(high)) << 16;
}

inline float gpu_exp2(float x) { return exp2f(x); }
inline float host_gpu_flush(float x) { return fabsf(x) < 1.17549435e-38f ? copysignf(0, x) : x; }
inline float gpu_inverse(float x) { return host_gpu_flush(1 / host_gpu_flush(x)); }

inline void host_gpu_load_matrix(engine::place at, bool transposed, uint32_t (&r)[4],
                                 const void *row)
{
    engine::matrix_load m;

    m.name = transposed ? "gpu_ldmatrix_transposed" : "gpu_ldmatrix";
    m.at = at;
    m.row = row;
    m.transposed = transposed;
    engine::meet(m);
    __builtin_memcpy(r, m.result, sizeof r);
}
inline void gpu_ldmatrix(uint32_t (&r)[4], const void *row, HOST_GPU_PLACE)
{
    host_gpu_load_matrix({file, line}, false, r, row);
}
inline void gpu_ldmatrix_transposed(uint32_t (&r)[4], const void *row, HOST_GPU_PLACE)
{
    host_gpu_load_matrix({file, line}, true, r, row);
}

struct alignas(16) host_gpu_words {
    uint32_t at[4];
};
inline void gpu_store_16(void *global, const uint32_t (&words)[4])
{
    *static_cast<host_gpu_words *>(global) = {{words[0], words[1], words[2], words[3]}};
}
inline void gpu_store_shared_16(void *shared, const uint32_t (&words)[4])
{
    gpu_store_16(shared, words);
}

inline void gpu_copy_async(void *shared, const void *global) { engine::copy_async(shared, global); }
inline void gpu_copy_commit() { engine::copy_commit(); }
template <int n> inline void gpu_copy_wait() { engine::copy_wait(n); }

inline void __threadfence() { engine::fence(); }
inline void __threadfence_system() { engine::fence(); }

template <class T> inline T host_gpu_atomic_add(T *p, T value)
{
    T before;

    engine::before_atomic(p);
    before = __atomic_fetch_add(p, value, __ATOMIC_RELAXED);
    engine::after_atomic(p);
    return before;
}
inline int atomicAdd(int *p, int value) { return host_gpu_atomic_add(p, value); }
inline unsigned atomicAdd(unsigned *p, unsigned value) { return host_gpu_atomic_add(p, value); }
inline unsigned long long atomicAdd(unsigned long long *p, unsigned long long value)
{
    return host_gpu_atomic_add(p, value);
}

inline unsigned atomicMax(unsigned *p, unsigned value)
{
    unsigned before;

    engine::before_atomic(p);
    before = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (before < value && !__atomic_compare_exchange_n(p, &before, value, false,
                                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
    engine::after_atomic(p);
    return before;
}

/* Compiled with -ffp-contract=off. */
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline double __dsqrt_rn(double a) { return sqrt(a); }

inline unsigned __umulhi(unsigned a, unsigned b)
{
    return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    __extension__ typedef unsigned __int128 wide;

    return static_cast<unsigned long long>(static_cast<wide>(a) * b >> 64);
}
inline int __clz(int a) { return a ? __builtin_clz(static_cast<unsigned>(a)) : 32; }
inline int __ffs(int a) { return __builtin_ffs(a); }
inline int __popc(unsigned a) { return __builtin_popcount(a); }

template <class To, class From> inline To host_gpu_same_bits(From from)
{
    To to;

    static_assert(sizeof(To) == sizeof(From), "as many bits");
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
inline float __uint_as_float(unsigned a) { return host_gpu_same_bits<float>(a); }
inline float __int_as_float(int a) { return host_gpu_same_bits<float>(a); }
inline unsigned __float_as_uint(float a) { return host_gpu_same_bits<unsigned>(a); }
inline int __float_as_int(float a) { return host_gpu_same_bits<int>(a); }
inline double __longlong_as_double(long long a) { return host_gpu_same_bits<double>(a); }
inline long long __double_as_longlong(double a) { return host_gpu_same_bits<long long>(a); }

template <class T> inline T __ldg(const T *p) { return *p; }
