/*
 * ptx.h: what C that was translated from PTX (translate) is written in. Registers are unions, since
 * PTX's have a width and no type. Rounding is to nearest unless an instruction says otherwise, and
 * nothing is contracted. Approximations (ex2, lg2, rcp, rsqrt) are as exact as libm; ptxas and the
 * hardware may be off by the ulps that PTX's manual allows.
 */
#pragma once

#include <fenv.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

union ptx16 {
    uint16_t u;
    int16_t s;
};
union ptx32 {
    uint32_t u;
    int32_t s;
    float f;
};
union ptx64 {
    uint64_t u;
    int64_t s;
    double f;
};

/* The engine and the stand-in for the CUDA runtime, from C (ptx_engine.cc). */

struct ptx_shared_array {
    size_t bytes;
    const char *name;
    size_t offset;
    uint64_t block;
};

struct ptx_kernel {
    const char *name;
    int parameters;
    const uint16_t *bytes;
    void (*run)(void *const *arguments);
    unsigned most_threads;
    const char *const *accesses; /* instructions that reach memory, by number in the module */
    struct ptx_kernel *next;
};

void ptx_add_kernel(struct ptx_kernel *kernel);
/** threadIdx, blockIdx, blockDim, gridDim: three words each. */
const unsigned *ptx_position(void);
void ptx_barrier(const char *function, int place);
void ptx_sync_warp(uint32_t mask, const char *function, int place);
/** how: 0 idx, 1 bfly, 2 down, 3 up; `bounds` is PTX's operand c; `valid` may be NULL. */
uint32_t ptx_shuffle(int how, uint32_t mask, uint32_t value, uint32_t argument, uint32_t bounds,
                     bool *valid, const char *function, int place);
uint32_t ptx_ballot(uint32_t mask, bool predicate, const char *function, int place);
void ptx_mma_bf16(float *d, const uint32_t *a, const uint32_t *b, const char *function, int place);
void ptx_mma_f16(float *d, const uint32_t *a, const uint32_t *b, const char *function, int place);
void ptx_ldmatrix(uint32_t *r, const void *row, int transposed, const char *function, int place);
void ptx_copy_async(void *to, const void *from);
void ptx_copy_commit(void);
void ptx_copy_wait(int newest);
void ptx_fence(void);
uint32_t ptx_atomic_add_u32(void *p, uint32_t value);
uint64_t ptx_atomic_add_u64(void *p, uint64_t value);
uint32_t ptx_atomic_max_u32(void *p, uint32_t value);
uint32_t ptx_shared(struct ptx_shared_array *array);
uint32_t ptx_dynamic_shared(void);
_Noreturn void ptx_trap(void);
_Noreturn void ptx_misaligned(uint64_t address, size_t bytes);

/** Bytes of an address in shared memory, in global memory, and where the instruction does not say.
 *  `number`: of the instruction among its module's (ptx_kernel.accesses). */
void *ptx_shared_at(uint32_t address, size_t bytes, int number);
void *ptx_find_global(uint64_t address, size_t bytes, int number);

/** Whether a trace counts what kernels do (access_trace.h). */
extern bool ptx_tracing;
void ptx_count_flops(int count);

/* Addresses of shared memory among those of all memory. */
#define PTX_SHARED_WINDOW (1ull << 56)
#define PTX_INLINE static inline __attribute__((always_inline, unused))

/** The straight code that begins here has so many operations on floats. */
PTX_INLINE void ptx_flops(int count)
{
    if (ptx_tracing) ptx_count_flops(count);
}

PTX_INLINE void *ptx_global_at(uint64_t address, size_t bytes, int number)
{
    if (address & (bytes - 1)) ptx_misaligned(address, bytes);
    return ptx_find_global(address, bytes, number);
}

PTX_INLINE void *ptx_generic_at(uint64_t address, size_t bytes, int number)
{
    if (address >= PTX_SHARED_WINDOW && address < PTX_SHARED_WINDOW + (1u << 30))
        return ptx_shared_at((uint32_t)(address - PTX_SHARED_WINDOW), bytes, number);
    return ptx_global_at(address, bytes, number);
}

PTX_INLINE uint64_t ptx_generic_of_shared(uint64_t address) { return address + PTX_SHARED_WINDOW; }
PTX_INLINE uint64_t ptx_shared_of_generic(uint64_t address) { return address - PTX_SHARED_WINDOW; }

PTX_INLINE uint32_t ptx_lane(const unsigned *at)
{
    return ((at[2] * at[7] + at[1]) * at[6] + at[0]) & 31;
}

/* Bits. */

#define ptx_sign_f32 0x80000000u
#define ptx_sign_f64 0x8000000000000000ull

PTX_INLINE float ptx_f32(uint32_t bits) { return (union ptx32){.u = bits}.f; }
PTX_INLINE double ptx_f64(uint64_t bits) { return (union ptx64){.u = bits}.f; }
PTX_INLINE uint32_t ptx_pack_b32(uint16_t low, uint16_t high) { return low | (uint32_t)high << 16; }
PTX_INLINE uint64_t ptx_pack_b64(uint32_t low, uint32_t high) { return low | (uint64_t)high << 32; }

#define PTX_SHIFTS(kind, type, bits)                                                               \
    PTX_INLINE type ptx_shl_##kind(type a, uint32_t n) { return n < bits ? (type)(a << n) : 0; }   \
    PTX_INLINE type ptx_shr_##kind(type a, uint32_t n) { return n < bits ? (type)(a >> n) : 0; }
PTX_SHIFTS(b16, uint16_t, 16)
PTX_SHIFTS(b32, uint32_t, 32)
PTX_SHIFTS(b64, uint64_t, 64)
PTX_SHIFTS(u16, uint16_t, 16)
PTX_SHIFTS(u32, uint32_t, 32)
PTX_SHIFTS(u64, uint64_t, 64)
PTX_INLINE int16_t ptx_shr_s16(int16_t a, uint32_t n) { return (int16_t)(a >> (n < 16 ? n : 15)); }
PTX_INLINE int32_t ptx_shr_s32(int32_t a, uint32_t n) { return a >> (n < 32 ? n : 31); }
PTX_INLINE int64_t ptx_shr_s64(int64_t a, uint32_t n) { return a >> (n < 64 ? n : 63); }

PTX_INLINE uint16_t ptx_mulhi_u16(uint16_t a, uint16_t b)
{
    return (uint16_t)((uint32_t)a * b >> 16);
}
PTX_INLINE uint32_t ptx_mulhi_u32(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}
PTX_INLINE int32_t ptx_mulhi_s32(int32_t a, int32_t b) { return (int32_t)((int64_t)a * b >> 32); }
__extension__ typedef unsigned __int128 ptx_u128;
__extension__ typedef __int128 ptx_s128;
PTX_INLINE uint64_t ptx_mulhi_u64(uint64_t a, uint64_t b)
{
    return (uint64_t)((ptx_u128)a * b >> 64);
}
PTX_INLINE int64_t ptx_mulhi_s64(int64_t a, int64_t b) { return (int64_t)((ptx_s128)a * b >> 64); }

PTX_INLINE uint32_t ptx_mask(uint32_t length) { return length < 32 ? (1u << length) - 1 : ~0u; }
PTX_INLINE uint32_t ptx_bfe_u32(uint32_t a, uint32_t position, uint32_t length)
{
    return ptx_shr_u32(a, position & 255) & ptx_mask(length & 255);
}
PTX_INLINE uint32_t ptx_bfi_b32(uint32_t a, uint32_t b, uint32_t position, uint32_t length)
{
    uint32_t mask = ptx_shl_b32(ptx_mask(length & 255), position & 255);

    return (b & ~mask) | (ptx_shl_b32(a, position & 255) & mask);
}

/** Each nibble of `selector` chooses one of eight bytes; its top bit spreads that byte's sign. */
PTX_INLINE uint32_t ptx_prmt(uint32_t a, uint32_t b, uint32_t selector)
{
    uint64_t bytes = ptx_pack_b64(a, b);
    uint32_t result = 0;

    for (int i = 0; i < 4; i++) {
        uint32_t choice = selector >> 4 * i & 15;
        uint32_t byte = (uint32_t)(bytes >> 8 * (choice & 7)) & 255;

        if (choice & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << 8 * i;
    }
    return result;
}

/** Bit i of `table` is the result where the bits of a, b, c make i. */
PTX_INLINE uint32_t ptx_lop3(uint32_t a, uint32_t b, uint32_t c, unsigned table)
{
    uint32_t result = 0;

    for (int i = 0; i < 8; i++)
        if (table >> i & 1) result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return result;
}

PTX_INLINE uint32_t ptx_shf_l_wrap(uint32_t low, uint32_t high, uint32_t n)
{
    return (uint32_t)(ptx_pack_b64(low, high) << (n & 31) >> 32);
}
PTX_INLINE uint32_t ptx_shf_r_wrap(uint32_t low, uint32_t high, uint32_t n)
{
    return (uint32_t)(ptx_pack_b64(low, high) >> (n & 31));
}
PTX_INLINE uint32_t ptx_shf_l_clamp(uint32_t low, uint32_t high, uint32_t n)
{
    return n < 32 ? ptx_shf_l_wrap(low, high, n) : low;
}
PTX_INLINE uint32_t ptx_shf_r_clamp(uint32_t low, uint32_t high, uint32_t n)
{
    return n < 32 ? ptx_shf_r_wrap(low, high, n) : high;
}

PTX_INLINE uint32_t ptx_popc_b32(uint32_t a) { return (uint32_t)__builtin_popcount(a); }
PTX_INLINE uint32_t ptx_popc_b64(uint64_t a) { return (uint32_t)__builtin_popcountll(a); }
PTX_INLINE uint32_t ptx_clz_b32(uint32_t a) { return a ? (uint32_t)__builtin_clz(a) : 32; }
PTX_INLINE uint32_t ptx_clz_b64(uint64_t a) { return a ? (uint32_t)__builtin_clzll(a) : 64; }
PTX_INLINE uint32_t ptx_bfind_u32(uint32_t a) { return 31 - ptx_clz_b32(a); }
PTX_INLINE uint32_t ptx_bfind_shiftamt_u32(uint32_t a) { return a ? ptx_clz_b32(a) : ~0u; }
PTX_INLINE uint32_t ptx_brev_b32(uint32_t a)
{
    uint32_t result = 0;

    for (int i = 0; i < 32; i++) result |= (a >> i & 1) << (31 - i);
    return result;
}

/* Integers: a division by 0 gives all ones, as hardware does; the least number by -1 wraps. */

#define PTX_UNSIGNED(kind, type)                                                                   \
    PTX_INLINE type ptx_div_##kind(type a, type b) { return b ? (type)(a / b) : (type)-1; }        \
    PTX_INLINE type ptx_rem_##kind(type a, type b) { return b ? (type)(a % b) : a; }               \
    PTX_INLINE type ptx_min_##kind(type a, type b) { return a < b ? a : b; }                       \
    PTX_INLINE type ptx_max_##kind(type a, type b) { return a > b ? a : b; }
PTX_UNSIGNED(u16, uint16_t)
PTX_UNSIGNED(u32, uint32_t)
PTX_UNSIGNED(u64, uint64_t)
#define PTX_SIGNED(kind, type, as_unsigned)                                                        \
    PTX_INLINE type ptx_div_##kind(type a, type b)                                                 \
    {                                                                                              \
        if (b == -1) return (type)(0 - (as_unsigned)a);                                            \
        return b ? (type)(a / b) : -1;                                                             \
    }                                                                                              \
    PTX_INLINE type ptx_rem_##kind(type a, type b)                                                 \
    {                                                                                              \
        if (b == -1) return 0;                                                                     \
        return b ? (type)(a % b) : a;                                                              \
    }                                                                                              \
    PTX_INLINE as_unsigned ptx_abs_##kind(type a)                                                  \
    {                                                                                              \
        return a < 0 ? (as_unsigned)(0 - (as_unsigned)a) : (as_unsigned)a;                         \
    }                                                                                              \
    PTX_INLINE type ptx_min_##kind(type a, type b) { return a < b ? a : b; }                       \
    PTX_INLINE type ptx_max_##kind(type a, type b) { return a > b ? a : b; }
PTX_SIGNED(s16, int16_t, uint16_t)
PTX_SIGNED(s32, int32_t, uint32_t)
PTX_SIGNED(s64, int64_t, uint64_t)

/* Floats. */

/** The other operand where one is NaN; +0 is above -0. */
#define PTX_FLOAT_ORDER(kind, type)                                                                \
    PTX_INLINE type ptx_min_##kind(type a, type b)                                                 \
    {                                                                                              \
        if (a != a) return b;                                                                      \
        if (b != b) return a;                                                                      \
        return a < b || (a == b && signbit(a)) ? a : b;                                            \
    }                                                                                              \
    PTX_INLINE type ptx_max_##kind(type a, type b)                                                 \
    {                                                                                              \
        if (a != a) return b;                                                                      \
        if (b != b) return a;                                                                      \
        return a > b || (a == b && !signbit(a)) ? a : b;                                           \
    }
PTX_FLOAT_ORDER(f32, float)
PTX_FLOAT_ORDER(f64, double)

PTX_INLINE float ptx_sqrt_f32(float a) { return sqrtf(a); }
PTX_INLINE double ptx_sqrt_f64(double a) { return sqrt(a); }
PTX_INLINE float ptx_saturate(float a) { return a > 0 ? (a < 1 ? a : 1) : 0; }

/** Integers saturate, and NaN is 0; `above` is the first number that is too large. */
#define PTX_TO_INTEGER(kind, type, least, most, above)                                             \
    PTX_INLINE type ptx_to_##kind(double a)                                                        \
    {                                                                                              \
        if (a != a) return 0;                                                                      \
        if (a < least) return (type)least;                                                         \
        return a < above ? (type)a : most;                                                         \
    }
PTX_TO_INTEGER(s32, int32_t, -0x1p31, INT32_MAX, 0x1p31)
PTX_TO_INTEGER(u32, uint32_t, 0.0, UINT32_MAX, 0x1p32)
PTX_TO_INTEGER(s64, int64_t, -0x1p63, INT64_MAX, 0x1p63)
PTX_TO_INTEGER(u64, uint64_t, 0.0, UINT64_MAX, 0x1p64)

float ptx_fma_downf(float a, float b, float c);
float ptx_fma_to_zerof(float a, float b, float c);

/** Subnormals are 0, before and after. */
PTX_INLINE float ptx_flush(float a) { return fabsf(a) < 0x1p-126f ? copysignf(0, a) : a; }
PTX_INLINE float ptx_ex2_ftz(float a) { return ptx_flush(exp2f(ptx_flush(a))); }
PTX_INLINE float ptx_rcp_ftz(float a) { return ptx_flush(1 / ptx_flush(a)); }
PTX_INLINE float ptx_lg2_ftz(float a) { return ptx_flush(log2f(ptx_flush(a))); }

/** These see and give the upper word of an f64 only. */
PTX_INLINE double ptx_upper_word(double a)
{
    return ptx_f64((union ptx64){.f = a}.u & 0xffffffff00000000ull);
}
PTX_INLINE double ptx_rcp_approx_f64(double a) { return ptx_upper_word(1 / ptx_upper_word(a)); }
PTX_INLINE double ptx_rsqrt_approx_f64(double a)
{
    return ptx_upper_word(1 / sqrt(ptx_upper_word(a)));
}

PTX_INLINE float ptx_f32_of_bf16(uint16_t a) { return ptx_f32((uint32_t)a << 16); }
PTX_INLINE uint16_t ptx_bf16_of_f32(float a)
{
    uint32_t bits = (union ptx32){.f = a}.u;

    if (a != a) return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
float ptx_f32_of_f16(uint16_t a);
uint16_t ptx_f16_of_f32(float a);
