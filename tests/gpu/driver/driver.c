/*
 * driver.c: a device whose compute stream runs at once and whose communication stream runs as late
 * as it may: what was given to it runs when the host waits for an event behind it, or asks for one
 * a second time, or when the compute stream waits for one and is given something. So a missing wait
 * shows as a wrong result.
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/element_loops.h"
#include "base/elements/strided_copy.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/sys.h"
#include "device/device_driver.h"
#include "fenced.h"

struct copy {
    void *to;
    const void *from;
    size_t bytes;
};

struct wf_device_event {
    enum wf_stream stream;
    long after; /* this many copies of the stream */
    int asked;
    double at; /* wf_monotonic_seconds, when it was recorded */
};

/* This rank's communication stream: copies given and done. */
static _Thread_local struct {
    struct copy *copies;
    long given, done, room;
    long before_compute; /* the compute stream waits for so many of them */
    bool open;
} comm;

/* ---- the stream ---- */

static void run_until(long after)
{
    for (; comm.done < after; comm.done++) {
        const struct copy *c = &comm.copies[comm.done % comm.room];

        memcpy(c->to, c->from, c->bytes);
    }
}

void test_driver_begin_compute(void) { run_until(comm.before_compute); }

static void give(enum wf_stream stream, void *to, const void *from, size_t bytes)
{
    if (!comm.open) WF_DIE("test driver: a rank without device copies");
    if (stream == WF_STREAM_COMPUTE) {
        test_driver_begin_compute();
        memcpy(to, from, bytes);
        return;
    }
    if (comm.given - comm.done == comm.room) run_until(comm.given - comm.room / 2);
    comm.copies[comm.given++ % comm.room] = (struct copy){to, from, bytes};
}

static void upload(void *to, const void *host, size_t bytes, enum wf_stream stream)
{
    pinned_check(host, bytes);
    give(stream, fenced_open(to), host, bytes);
}

static void download(void *host, const void *from, size_t bytes, enum wf_stream stream)
{
    pinned_check(host, bytes);
    give(stream, host, fenced_open(from), bytes);
}

static void copy(void *to, const void *from, size_t bytes, enum wf_stream stream)
{
    give(stream, fenced_open(to), fenced_open(from), bytes);
}

static struct wf_device_event *event_new(void) { return WF_NEW(struct wf_device_event); }

static void event_free(struct wf_device_event *event) { wf_free(event); }

static void event_record(struct wf_device_event *event, enum wf_stream stream)
{
    *event = (struct wf_device_event){stream, stream == WF_STREAM_COMM ? comm.given : 0, 0,
                                      wf_monotonic_seconds()};
}

static bool event_done(struct wf_device_event *event)
{
    if (event->after <= comm.done) return true;
    if (event->asked++ == 0) return false;
    run_until(event->after);
    return true;
}

static void event_wait(struct wf_device_event *event) { run_until(event->after); }

/* Of the compute stream, which runs at once. */
static double event_seconds(struct wf_device_event *from, struct wf_device_event *to)
{
    if (from->stream != WF_STREAM_COMPUTE || to->stream != WF_STREAM_COMPUTE)
        WF_DIE("test driver: only events of the compute stream have a time");
    return to->at - from->at;
}

/* The other stream is never ahead of this one. */
static void stream_wait(enum wf_stream stream, struct wf_device_event *event)
{
    if (stream == WF_STREAM_COMPUTE && event->after > comm.before_compute)
        comm.before_compute = event->after;
}

static void synchronize(void) { run_until(comm.given); }

/* ---- the device ---- */

static int count(char *why, size_t room)
{
    const char *text = getenv("WEFT_TEST_DEVICE_COUNT");
    int n = text ? atoi(text) : 8;

    if (n == 0) snprintf(why, room, "WEFT_TEST_DEVICE_COUNT is 0");
    return n;
}

static bool open_device(int number, char *why, size_t room)
{
    const char *busy = getenv("WEFT_TEST_DEVICE_BUSY");

    if (busy && atoi(busy) == number) {
        snprintf(why, room, "WEFT_TEST_DEVICE_BUSY is %d", number);
        return false;
    }
    comm.room = 64;
    comm.copies = wf_calloc((size_t)comm.room, sizeof *comm.copies);
    comm.given = comm.done = comm.before_compute = 0;
    comm.open = true;
    return true;
}

static void close_device(void)
{
    synchronize();
    wf_free(comm.copies);
    comm.copies = NULL;
    comm.open = false;
}

static void describe(char *text, size_t room) { snprintf(text, room, "fenced host memory"); }

static struct wf_device_memory memory(void)
{
    return (struct wf_device_memory){(int64_t)(fenced_total() - fenced_used()),
                                     (int64_t)fenced_total()};
}

static bool pin(void *host, size_t bytes)
{
    pinned_add(host, bytes);
    return true;
}

static void unpin(void *host, size_t bytes)
{
    (void)bytes;
    pinned_remove(host);
}

/* ---- loops, on the compute stream ---- */

static void strided_copy(const struct wf_strided_copy *c, void *to, const void *from)
{
    test_driver_begin_compute();
    wf_strided_copy_run(c, fenced_open(to), fenced_open(from));
}

static void fill(void *to, const void *element, size_t element_bytes, size_t n)
{
    char *at = fenced_open(to);

    test_driver_begin_compute();
    for (size_t i = 0; i < n; i++, at += element_bytes) memcpy(at, element, element_bytes);
}

static void divide(weft_dtype dtype, size_t n, void *x, int divisor)
{
    test_driver_begin_compute();
    wf_elements_divide(dtype, n, fenced_open(x), divisor);
}

static void power(weft_dtype dtype, size_t n, void *x, double p)
{
    test_driver_begin_compute();
    wf_elements_power(dtype, n, fenced_open(x), p);
}

const struct wf_device_driver test_driver = {
    .name = "test driver",
    .count = count,
    .open = open_device,
    .close = close_device,
    .describe = describe,
    .memory = memory,
    .map = fenced_map,
    .unmap = fenced_unmap,
    .pin = pin,
    .unpin = unpin,
    .upload = upload,
    .download = download,
    .copy = copy,
    .strided_copy = strided_copy,
    .fill = fill,
    .divide = divide,
    .power = power,
    .event_new = event_new,
    .event_new_timed = event_new,
    .event_free = event_free,
    .event_record = event_record,
    .event_done = event_done,
    .event_wait = event_wait,
    .event_seconds = event_seconds,
    .stream_wait = stream_wait,
    .synchronize = synchronize,
};
