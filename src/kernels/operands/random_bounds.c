/* random_bounds.c: bounds of random numbers as values of their dtype. */
#include "kernels/operands/random_bounds.h"

#include <math.h>
#include <string.h>

#include "base/elements/dtype.h"

/* Bits of f16 count up from 0 and down from -0. */
static double largest_f16_below(double high)
{
    wf_f16 half = wf_f32_to_f16((float)high);

    if ((double)wf_f16_to_f32(half) >= high)
        half = (wf_f16)(half & 0x8000u ? half + 1u : half ? half - 1u : 0x8001u);
    return (double)wf_f16_to_f32(half);
}

double wf_random_largest_below(uint8_t dtype, double low, double high)
{
    double below = nextafter(high, -INFINITY);

    if (dtype == WEFT_F32) {
        below = (double)(float)high < high ? (double)(float)high
                                           : (double)nextafterf((float)high, -INFINITY);
    } else if (dtype == WEFT_BF16) {
        /* Cutting the lower half of a float rounds towards 0; below 0 the next larger size. */
        float f = nextafterf((float)high, -INFINITY);
        uint32_t bits;

        memcpy(&bits, &f, sizeof bits);
        if (f < 0) bits += 0xffffu;
        below = (double)wf_bf16_to_f32((wf_bf16)(bits >> 16));
    } else if (dtype == WEFT_F16) {
        below = largest_f16_below(high);
    }
    return below < low ? low : below;
}

void wf_random_bounds(uint8_t dtype, double *low, double *high)
{
    double above = -wf_random_largest_below(dtype, -INFINITY, -*low),
           below = wf_random_largest_below(dtype, -INFINITY, *high);
    char element[8];

    wf_dtypes[dtype].store(element, *low);
    if (wf_dtypes[dtype].load(element) != *low) *low = above;
    wf_dtypes[dtype].store(element, *high);
    if (wf_dtypes[dtype].load(element) != *high) *high = below;
}

double wf_random_largest_integer(uint8_t dtype)
{
    static const double largest[WEFT_DTYPE_COUNT] = {
        [WEFT_F16] = 65504, [WEFT_I32] = 0x7fffffff, [WEFT_I64] = 0x1p63 - 0x1p10,
        [WEFT_U8] = 255,    [WEFT_I16] = 0x7fff,     [WEFT_I8] = 0x7f};

    return largest[dtype] > 0 ? largest[dtype] : INFINITY;
}

uint64_t wf_random_threshold(double p) { return (uint64_t)ceil(p * 0x1p32); }
