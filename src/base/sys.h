/* sys.h: clocks, random seeds from the system, opening files, and waiting loops that yield the
 * core. */
#pragma once

#include <stdint.h>

/** Seconds on a steady clock. */
double wf_monotonic_seconds(void);

/** An unpredictable number, for names of temporary files that nobody else can create first. */
uint64_t wf_system_random(void);

/** Open a regular file to read; pipes and devices are refused, since reading them may block. gives:
 * -1 with errno, which is 0 when it is not a regular file */
int wf_open_regular_file(const char *path);

/** Backoff of a waiting loop: a few pauses, then sched_yield, then sleeps up to 1 ms. */
struct wf_backoff {
    int turns;
    double since; /* when waiting began, 0 until the first yield */
};

/**
 * One turn of waiting. Returns the seconds waited so far (0 while still spinning), so that the
 * caller can compare with its time-out without reading the clock itself.
 */
double wf_backoff_wait(struct wf_backoff *patience);
