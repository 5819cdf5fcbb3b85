/* amx_tiles.c: what CPUID and the operating system say of AMX tiles. */
#include "kernels/cpu/products/amx_tiles.h"

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What arch_prctl takes; older headers do not name it. */
enum { REQUEST_STATE = 0x1023, TILE_CONFIG = 17, TILE_DATA = 18 };

static bool has_bit(unsigned word, int number) { return (word >> number & 1) != 0; }

/* The palette is not asked for: see wf_amx_palette_is_hidden. */
static bool cpu_has_amx(void)
{
    unsigned a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !has_bit(c, 27)) return false; /* OSXSAVE */
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    if (!has_bit(d, 22) || !has_bit(d, 24)) return false;            /* AMX-BF16, AMX-TILE */
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && has_bit(a, 5); /* AVX512_BF16 */
}

static bool os_enables_amx(void)
{
    unsigned low, high;

    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return has_bit(low, TILE_CONFIG) && has_bit(low, TILE_DATA);
}

bool wf_amx_is_available(void)
{
    return wf_amx_product.product && cpu_has_amx() && os_enables_amx() &&
           syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
}

bool wf_amx_palette_is_hidden(void)
{
    unsigned a, b, c, d;

    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has_bit(d, 24)) return false; /* AMX-TILE */
    return !__get_cpuid_count(0x1d, 0, &a, &b, &c, &d) || a == 0;
}
#else
bool wf_amx_is_available(void) { return false; }
bool wf_amx_palette_is_hidden(void) { return false; }
#endif
