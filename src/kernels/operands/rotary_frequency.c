/* rotary_frequency.c: Su et al. 2021, and the scalings of rotary positions. */
#include "kernels/operands/rotary_frequency.h"

#include <math.h>

/* Llama 3.1: long waves are stretched, short ones kept, those between blended. */
static double llama3_frequency(double frequency, const struct wf_rotary_attrs *attrs)
{
    const double pi = 3.14159265358979323846;
    double turns = attrs->length * frequency / (2 * pi), smooth;

    if (turns < attrs->low) return frequency / attrs->factor;
    if (turns > attrs->high) return frequency;
    smooth = (turns - attrs->low) / (attrs->high - attrs->low);
    return (1 - smooth) * frequency / attrs->factor + smooth * frequency;
}

static double scaled_frequency(double frequency, const struct wf_rotary_attrs *attrs)
{
    if (attrs->scaling == WF_ROTARY_LINEAR) return frequency / attrs->factor;
    return attrs->scaling == WF_ROTARY_LLAMA3 ? llama3_frequency(frequency, attrs) : frequency;
}

void wf_rotary_frequencies(double *frequency, const struct wf_rotary_attrs *attrs)
{
    int64_t half = attrs->dims / 2;
    double dims = (double)(2 * half);

    for (int64_t j = 0; j < half; j++)
        frequency[j] = scaled_frequency(pow(attrs->base, -2.0 * (double)j / dims), attrs);
}
