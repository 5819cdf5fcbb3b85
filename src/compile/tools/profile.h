/* profile.h: where the time of compiled calls goes, and why no list fitted. */
#pragma once

#include <stdint.h>

#include "base/sys.h"
#include "compile/record/recorder.h"

enum wf_compile_phase {
    WF_COMPILE_RECORD, /* calls that were recorded, with the function and all but backward */
    WF_COMPILE_PASSES,
    WF_COMPILE_LOWER,
    WF_COMPILE_PLAN,
    WF_COMPILE_RUN,
    WF_COMPILE_RUN_BACKWARD,
    WF_COMPILE_PHASES
};

struct wf_compile_times {
    double seconds[WF_COMPILE_PHASES];
    int64_t count[WF_COMPILE_PHASES];
};

/** What has passed since `began` belongs to the phase. gives: now */
static inline double wf_compile_times_add(struct wf_compile_times *times,
                                          enum wf_compile_phase phase, double began)
{
    double now = wf_monotonic_seconds();

    times->seconds[phase] += now - began;
    times->count[phase]++;
    return now;
}

/** Reasons why calls found no list, and how often each. */
struct wf_misses {
    struct wf_miss {
        char reason[WF_REASON_BYTES];
        int64_t count;
    } * of;
    int n;
    int64_t others; /* beyond the number of reasons that are kept */
};

void wf_misses_add(struct wf_misses *misses, const char *reason);
