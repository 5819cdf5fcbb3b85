/* tiles.c: what CPUID and the operating system say of AMX tiles. */
#include "kernels/cpu/tiles.h"

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What arch_prctl takes; older headers do not name it. */
enum { REQUEST_STATE = 0x1023, TILE_CONFIG = 17, TILE_DATA = 18 };

static bool bit(unsigned word, int number) { return (word >> number & 1) != 0; }

/* The palette is not asked for: see wf_tiles_palette_hidden. */
static bool machine_has(void)
{
    unsigned a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !bit(c, 27)) return false; /* OSXSAVE */
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    if (!bit(d, 22) || !bit(d, 24)) return false;                /* AMX-BF16, AMX-TILE */
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && bit(a, 5); /* AVX512_BF16 */
}

static bool system_saves(void)
{
    unsigned low, high;

    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return bit(low, TILE_CONFIG) && bit(low, TILE_DATA);
}

bool wf_tiles_granted(void)
{
    return wf_tiles_amx.product && machine_has() && system_saves() &&
           syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
}

bool wf_tiles_palette_hidden(void)
{
    unsigned a, b, c, d;

    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !bit(d, 24)) return false; /* AMX-TILE */
    return !__get_cpuid_count(0x1d, 0, &a, &b, &c, &d) || a == 0;
}
#else
bool wf_tiles_granted(void) { return false; }
bool wf_tiles_palette_hidden(void) { return false; }
#endif
