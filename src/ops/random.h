/* random.h: the thread's generator: a seed and the number of the next draw. */
#pragma once

#include <stdint.h>

struct wf_generator {
    uint64_t seed, draw;
};

extern _Thread_local struct wf_generator wf_generator;
