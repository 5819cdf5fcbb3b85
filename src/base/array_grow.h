/* array_grow.h: lists that get longer one item at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

/** `items` with room for one more than `count`, which is how many there are: doubled when full. */
static inline void *wf_array_grow(void *items, int64_t count, size_t size)
{
    bool full = (count & (count - 1)) == 0;

    return full ? wf_realloc(items, (size_t)(count ? 2 * count : 1) * size) : items;
}
