/*
 * trace.h: what a trace holds: a record per event, in the order in which they ended, and which
 * records stand inside which.
 */
#pragma once

#include <weft/extend/explain.h>

#include "base/observers.h"

struct wf_trace_record {
    enum wf_event_kind kind; /* op, collective, or the end of a module's call */
    enum wf_phase phase;
    char *text;         /* the plan; the collective's or the module's name */
    char *module;       /* path; "" at top level */
    char *moves;        /* an op's redistributions, a line each; NULL: none */
    char *axis;         /* a collective's */
    size_t bytes, sent; /* its as well */
    double began, ended;
    uint64_t hash; /* of an op's result, and its norm; 0 when not asked for */
    double norm;
    int parent; /* -1 at top level; larger than the record's own index */
};

struct weft_trace {
    struct wf_trace_record *records;
    int *open; /* records at top level so far: what ends next may contain the last of them */
    int n_records, n_open, room;
    double began;
    int first_span, end_span; /* of the device's timeline; end -1: not stopped */
    char *path;               /* NULL: no file */
    int observer;             /* -1: stopped */
    bool hashes;              /* of results too */
    struct weft_trace *next;  /* of those that this thread has open */
};

/** This rank's records as events of the Chrome format, separated by commas (trace_chrome.c). */
void wf_trace_write_events(const struct weft_trace *trace, FILE *out);

/** Collect the events of all ranks, and write the file on the first. */
weft_status wf_trace_write_file(const struct weft_trace *trace);
