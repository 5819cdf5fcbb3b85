/* isa.c: which of the three compilations of cpu/isa/ this machine runs, and whether cpu/amx/. */
#include "kernels/cpu/isa.h"

#include <stdatomic.h>

#include "base/settings/knob.h"
#include "kernels/cpu/products/amx_tiles.h"
#include "kernels/cpu/products/gemm_dnnl.h"

/* Relaxed: ranks may be threads, but every one of them computes the same value. */
static _Atomic int level;

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>

/* Not every compiler's __builtin_cpu_supports knows the name. */
static bool cpu_has_f16c(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}
#endif

static int detect_isa_level(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2") || !cpu_has_f16c())
        return 2;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl"))
        return 3;
    if (wf_amx_is_available()) return 6;
    return __builtin_cpu_supports("avx512bf16") ? 5 : 4;
#else
    return 2;
#endif
}

void wf_kernels_choose_isa(void)
{
    int found = detect_isa_level();

    if (wf_knobs.isa > 0 && wf_knobs.isa < found) found = wf_knobs.isa < 2 ? 2 : (int)wf_knobs.isa;
    atomic_store_explicit(&level, found, memory_order_relaxed);
}

void wf_kernels_init_with_dnnl(void)
{
    wf_kernels_choose_isa();
    wf_dnnl_limit_isa(wf_knobs.isa > 0 ? wf_kernels_isa_level() : 0);
}

int wf_kernels_isa_level(void)
{
    int known = atomic_load_explicit(&level, memory_order_relaxed);

    if (known) return known;
    wf_kernels_choose_isa();
    return atomic_load_explicit(&level, memory_order_relaxed);
}
