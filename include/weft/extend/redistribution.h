/*
 * redistribution.h: what a redistribution would do and cost, and the links that planning assumes
 * (docs/concepts/redistribute.md).
 */
#pragma once

#include <weft/dtensor.h>

/* ---- plans and costs ---- */

/**
 * The plan of weft_redistribute(t, placements) as text, "tp: S(0)->R all-gather 96 B; dp: ...": its
 * steps and the bytes that this rank sends in each; "" when nothing moves.
 *
 * ranks: any; local
 * gives: the length as snprintf does; -1 with an error as weft_redistribute
 */
WEFT_API int weft_redistribution_format(const weft_tensor *t, const weft_placement *placements,
                                        char *text, size_t bytes);

/** What a redistribution takes. */
typedef struct weft_redistribution_cost {
    int collectives;
    int64_t bytes; /* that a rank sends, on average; in an all-to-all as if each rank had as much
                      for every other as for itself */
    double microseconds; /* by the links that planning assumes (weft_link) */
} weft_redistribution_cost;

/**
 * What weft_redistribute(t, placements) would cost, without running it: the same on all ranks.
 *
 * ranks: any; local
 * fails: as weft_redistribute
 */
WEFT_API weft_status weft_redistribute_cost(weft_redistribution_cost *out, const weft_tensor *t,
                                            const weft_placement *placements);

/* ---- what communication should take ---- */

/**
 * Tell planning what a collective over a mesh axis of this name (NULL: over any that is not named
 * so) takes: microseconds to begin, and megabytes per second that a rank sends. The knobs
 * WEFT_LATENCY_NS and WEFT_BANDWIDTH_MBS say it for what is not set.
 *
 * ranks: local; every rank says the same, or plans differ. Plans are made anew
 * fails: WEFT_ERR_ARG for a negative latency or a bandwidth that is not positive
 */
WEFT_API weft_status weft_link_set(const char *axis, double latency_us, double megabytes_per_s);

/**
 * Measure both for every axis of the mesh, some milliseconds each, and set what the slowest rank
 * found.
 *
 * ranks: collective over the mesh
 * fails: WEFT_ERR_COMM outside the mesh or without ranks
 */
WEFT_API weft_status weft_link_measure(weft_mesh *mesh);

/** What planning assumes of an axis of this name; NULL: not asked. ranks: any; local */
WEFT_API void weft_link(const char *axis, double *latency_us, double *megabytes_per_s);
