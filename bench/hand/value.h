/* value.h: numbers that belong to (stream, index), in [-1, 1): equal at every number of ranks, and
 * in the library's program as in the hand-written one, so that their losses can be compared. */
#pragma once

#include <stdint.h>

static inline float hand_value(uint64_t stream, uint64_t index)
{
    uint64_t h = (stream << 40) + index;

    h = (h ^ (h >> 33)) * 0xFF51AFD7ED558CCDull;
    h = (h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53ull;
    h ^= h >> 33;
    return (float)(h >> 40) * 0x1p-23f - 1.0f;
}
