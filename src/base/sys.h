/* sys.h: time, chance, and how to wait without taking the core away from the rank one waits for. */
#pragma once

#include <stdint.h>

/** Seconds on a steady clock. */
double wf_monotonic_seconds(void);

/** A number that nobody else can know: for names of files that others must not be able to make
 * first. */
uint64_t wf_system_random(void);

/** Open a file to read: a plain one, not a pipe or a device, which would wait or never end. gives:
 * -1 with errno, which is 0 for what is no file */
int wf_open_regular_file(const char *path);

/** A waiting loop's patience: a few pauses, then sched_yield, then sleeps up to 1 ms. */
struct wf_backoff {
    int turns;
    double since; /* when waiting began, 0 until the first yield */
};

/**
 * One turn of waiting. Returns the seconds waited so far (0 while still spinning), so that the
 * caller can compare with its time-out without reading the clock itself.
 */
double wf_backoff_wait(struct wf_backoff *patience);
