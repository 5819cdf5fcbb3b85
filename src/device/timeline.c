/* timeline.c: see timeline.h. Each span lies between two events that have times. */
#include "device/timeline.h"

#include "base/array_grow.h"
#include "base/sys.h"
#include "device/device.h"

_Thread_local int wf_timeline_recorders;

static _Thread_local struct timeline {
    struct wf_span *spans;
    int n, n_read;                  /* the first n_read have times */
    struct wf_device_event *origin; /* when it ran, the host's clock was at origin_seconds */
    double origin_seconds;
} timeline;

int wf_timeline_start(void)
{
    wf_timeline_recorders++;
    return timeline.n;
}

int wf_timeline_length(void) { return timeline.n; }

static void free_events(struct wf_span *span)
{
    if (span->first) wf_device_driver->event_free(span->first);
    if (span->last) wf_device_driver->event_free(span->last);
    span->first = span->last = NULL;
}

void wf_timeline_stop(void)
{
    if (--wf_timeline_recorders) return;
    for (int i = 0; i < timeline.n; i++) {
        if (wf_device_driver) free_events(&timeline.spans[i]);
        wf_free(timeline.spans[i].name);
    }
    if (timeline.origin && wf_device_driver) wf_device_driver->event_free(timeline.origin);
    wf_free(timeline.spans);
    timeline = (struct timeline){0};
}

static struct wf_device_event *record_time(enum wf_stream stream)
{
    struct wf_device_event *event = wf_device_driver->event_new_timed();

    wf_device_driver->event_record(event, stream);
    return event;
}

/* The only time that the host waits for. */
static void set_origin(void)
{
    timeline.origin = record_time(WF_STREAM_COMPUTE);
    wf_device_event_wait(timeline.origin);
    timeline.origin_seconds = wf_monotonic_seconds();
}

int wf_span_open_recorded(enum wf_stream stream, const char *name)
{
    if (!timeline.origin) set_origin();
    timeline.spans = wf_array_grow(timeline.spans, timeline.n, sizeof *timeline.spans);
    timeline.spans[timeline.n] =
        (struct wf_span){.stream = stream, .name = wf_strdup(name), .first = record_time(stream)};
    return timeline.n++;
}

void wf_span_close_recorded(int span)
{
    struct wf_span *s = &timeline.spans[span];

    s->last = record_time(s->stream);
}

const struct wf_span *wf_timeline_read(int *n)
{
    *n = timeline.n;
    if (timeline.n_read < timeline.n) wf_device_synchronize();
    for (; timeline.n_read < timeline.n; timeline.n_read++) {
        struct wf_span *s = &timeline.spans[timeline.n_read];
        const struct wf_device_driver *driver = wf_device_driver;

        s->began = timeline.origin_seconds + driver->event_seconds(timeline.origin, s->first);
        /* a float of milliseconds: of a short time it is exact */
        s->ended = s->began + driver->event_seconds(s->first, s->last);
        free_events(s);
    }
    return timeline.spans;
}

/* Spans of a stream follow each other; those of an op within an op lie inside. */
double wf_span_exposed(const struct wf_span *span, const struct wf_span *all, int n)
{
    double until = span->began, exposed = 0;

    for (int i = 0; i < n; i++) {
        const struct wf_span *s = &all[i];

        if (s->stream != WF_STREAM_COMPUTE || s->ended <= until) continue;
        if (s->began >= span->ended) break;
        if (s->began > until) exposed += s->began - until;
        until = s->ended;
    }
    return until < span->ended ? exposed + span->ended - until : exposed;
}
