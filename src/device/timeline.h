/*
 * timeline.h: what this rank's device ran when, stream by stream and by the device's own clock,
 * while somebody records it (debug's traces). The host is ahead of the device, so its own times
 * only say when work was given.
 */
#pragma once

#include "device/capture.h"
#include "device/device_driver.h"

/** One kernel of an op on the compute stream, or one collective on the communication stream. */
struct wf_span {
    enum wf_stream stream;
    char *name;
    double began, ended;                  /* wf_monotonic_seconds; set by wf_timeline_read */
    struct wf_device_event *first, *last; /* NULL then */
};

/** How many record on this thread. */
extern _Thread_local int wf_timeline_recorders;

/** Record from now on, until as many stops. gives: the number of the next span */
int wf_timeline_start(void);
int wf_timeline_length(void);
/** The last forgets all spans. */
void wf_timeline_stop(void);

/** Around what is given to a stream. Nothing happens where nobody records, nor in a capture, whose
 * events have no time. */
int wf_span_open_recorded(enum wf_stream stream, const char *name);
void wf_span_close_recorded(int span);
static inline int wf_span_open(enum wf_stream stream, const char *name)
{
    bool records = wf_timeline_recorders && !wf_capture_of_thread;

    return records ? wf_span_open_recorded(stream, name) : -1;
}
static inline void wf_span_close(int span)
{
    if (span >= 0) wf_span_close_recorded(span);
}

/** All spans so far, in the order in which they were given; waits for the device. */
const struct wf_span *wf_timeline_read(int *n);

/** Seconds of one communication span during which no span of the compute stream ran. */
double wf_span_exposed(const struct wf_span *span, const struct wf_span *all, int n);
