/* int_math.h: sizes cut and rounded. */
#pragma once

#include <stdint.h>

static inline int64_t wf_min_i64(int64_t x, int64_t limit) { return x < limit ? x : limit; }

/** How many units hold x, which is not negative. */
static inline int64_t wf_ceil_div(int64_t x, int64_t unit) { return (x + unit - 1) / unit; }

static inline int64_t wf_round_up(int64_t x, int64_t unit) { return wf_ceil_div(x, unit) * unit; }
