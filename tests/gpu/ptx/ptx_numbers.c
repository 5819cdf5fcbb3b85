/* ptx_numbers.c: numbers of ptx.h that are too long to be inline. */
#include "ptx.h"

static float fma_rounded(float a, float b, float c, int direction)
{
    volatile float x = a, y = b, z = c, result;
    int before = fegetround();

    fesetround(direction);
    result = fmaf(x, y, z);
    fesetround(before);
    return result;
}

float ptx_fma_downf(float a, float b, float c) { return fma_rounded(a, b, c, FE_DOWNWARD); }
float ptx_fma_to_zerof(float a, float b, float c) { return fma_rounded(a, b, c, FE_TOWARDZERO); }

float ptx_f32_of_f16(uint16_t a)
{
    int exponent = a >> 10 & 31, fraction = a & 1023;
    double value = exponent == 0    ? ldexp(fraction, -24)
                   : exponent == 31 ? (fraction ? NAN : INFINITY)
                                    : ldexp(1024 + fraction, exponent - 25);

    return (float)(a & 0x8000 ? -value : value);
}

uint16_t ptx_f16_of_f32(float a)
{
    uint16_t sign = signbit(a) ? 0x8000 : 0;
    double size = fabs((double)a);
    int exponent;

    if (a != a) return 0x7fff;
    if (size >= 65520) return sign | 0x7c00; /* half way beyond the largest */
    if (size < 0x1p-14) return (uint16_t)(sign | (int)rint(ldexp(size, 24)));
    frexp(size, &exponent); /* units of the last place: 1024 to 2048 of them */
    return (uint16_t)(sign |
                      (((exponent + 14) << 10) + (int)rint(ldexp(size, 11 - exponent)) - 1024));
}
