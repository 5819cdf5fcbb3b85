/* rotary.h: what the attributes of rotary mean; for the op and for the kernel. */
#pragma once

#include <stdint.h>
#include <string.h>

enum wf_rotary_attr {
    WF_ROTARY_BACK,        /* turn the other way: the gradient */
    WF_ROTARY_INTERLEAVED, /* pairs are neighbours, not halves apart */
    WF_ROTARY_DIMS,        /* leading elements of a head that turn */
    WF_ROTARY_HEADS,       /* leading entries of the dim before the last that turn */
    WF_ROTARY_SCALING,     /* enum wf_rotary_scaling */
    WF_ROTARY_BASE,        /* from here on the bits of doubles */
    WF_ROTARY_FACTOR,
    WF_ROTARY_LOW,
    WF_ROTARY_HIGH,
    WF_ROTARY_LENGTH,
    WF_ROTARY_ATTRS
};

enum wf_rotary_scaling { WF_ROTARY_UNSCALED, WF_ROTARY_LINEAR, WF_ROTARY_LLAMA3 };

static inline int64_t wf_double_to_bits(double x)
{
    int64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double wf_bits_to_double(int64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof x);
    return x;
}
