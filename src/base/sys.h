/* sys.h: time, and how to wait without taking the core away from the rank one waits for. */
#pragma once

/** Seconds on a steady clock. */
double wf_now(void);

/** A waiting loop's patience: a few pauses, then sched_yield, then sleeps up to 1 ms. */
struct wf_patience {
    int turns;
    double since; /* when waiting began, 0 until the first yield */
};

/**
 * One turn of waiting. Returns the seconds waited so far (0 while still spinning), so that the
 * caller can compare with its time-out without reading the clock itself.
 */
double wf_wait_turn(struct wf_patience *patience);
