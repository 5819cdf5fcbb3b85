/*
 * report.h: what weft-gpu-check finds, line by line: a table on the way, JSON at the end.
 *
 * A line is a figure, and a bound where something is claimed of it: the claim holds when the worst
 * figure of all ranks does. All ranks call everything here alike; rank 0 prints.
 */
#pragma once

#include <stdbool.h>

#include <weft/weft.h>

enum report_bound {
    REPORT_MEASURED, /* nothing is claimed */
    REPORT_AT_MOST,
    REPORT_AT_LEAST
};

struct report_line {
    const char *group;  /* "rows" */
    const char *figure; /* "error", "GB/s" */
    enum report_bound bound;
    double value, limit;
    const char *claim; /* where the docs make it; NULL: a part of another */
};

/** `hosts`: a mesh on WEFT_CPU over all ranks, over which they compare their figures. */
void report_begin(weft_mesh *hosts);

/** One line. The name takes printf arguments. */
void report_add(struct report_line line, const char *name, ...) WEFT_PRINTF(2, 3);

/** Something could not be done: a line that fails, with the library's last error, and the claim
 * that rests on it. */
void report_failure(const char *group, const char *claim, const char *name, ...) WEFT_PRINTF(3, 4);

/** What a claim rests on was not done, for this reason: it neither holds nor fails. */
void report_untested(const char *group, const char *claim, const char *reason, const char *name,
                     ...) WEFT_PRINTF(4, 5);

/** What all of this was found with: printed at once, and kept for the JSON, which is given `key`.
 */
void report_fact(const char *key, const char *text, ...) WEFT_PRINTF(2, 3);

/** The worst of the ranks' figures: the largest, or, of at_least, the smallest. */
double report_worst(double mine, enum report_bound bound);

/** A summary, the claims, and all lines into `json` (NULL: nowhere). gives: lines that fail */
int report_end(const char *json);
