/*
 * link_cost.h: what a collective should take: latency, hops and bytes, per mesh axis.
 *
 * Planners compare times, and all ranks must compare the same ones: links are set or measured by
 * all ranks alike, and never looked at on the way.
 */
#pragma once

#include <weft/mesh.h>

/* Microseconds, and bytes per microsecond (MB/s). */
struct wf_link {
    double latency, bandwidth;
};

/* A start costs as much as 11 more ranks: 6.6 us and 0.6 us in NCCL's tables. */
static const double wf_start_in_hops = 11;

/** The link of an axis by its name: as set, as measured, or the knobs' values. */
struct wf_link wf_link_of_axis(const char *axis);

/** Set the link of an axis on this thread; NULL: of all axes that have none of their own. */
void wf_link_set(const char *axis, struct wf_link link);

/** Several axes together are as slow as the slowest of them. */
struct wf_link wf_link_slowest(const struct wf_link *links, unsigned axes);

/** One collective in which each rank sends `bytes` and waits for `hops` others. */
double wf_collective_time(struct wf_link link, int hops, double bytes);

/** Forget what was set on this thread. */
void wf_link_finalize(void);
