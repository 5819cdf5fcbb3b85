/* size_class.h: which sizes blocks have. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { WF_CLASS_UNIT = 64 }; /* smallest class, and alignment of all blocks */

/* In units of 64 bytes: 1, 2, 3, 4, then four per power of two: 5, 6, 7, 8,
 * 10, 12, 14, 16, 20, ... so that at most a fifth of a block lies unused. */
static inline unsigned wf_size_class_of(size_t bytes)
{
    uint64_t last = bytes ? (bytes - 1) / WF_CLASS_UNIT : 0; /* index of the last unit */
    unsigned power;

    if (last < 4) return (unsigned)last;
    power = 63u - (unsigned)__builtin_clzll(last);
    return 4 * (power - 1) + (unsigned)(last >> (power - 2)) - 4;
}

static inline size_t wf_size_class_capacity(unsigned size_class)
{
    if (size_class < 4) return (size_class + 1) * WF_CLASS_UNIT;
    return ((size_t)(size_class % 4 + 5) << (size_class / 4 - 1)) * WF_CLASS_UNIT;
}
