/*
 * driver.c: a device whose compute stream runs at once and whose communication stream runs as late
 * as it may: what was given to it runs when the host waits for an event behind it, or asks for one
 * a second time, or when the compute stream waits for one and is given something. So a missing wait
 * shows as a wrong result. What is given while a graph is captured is graphs.c's.
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
    int capture; /* that it was recorded in; 0: none */
    double at;   /* wf_monotonic_seconds, when it was recorded */
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

void test_driver_run_all(void) { run_until(comm.given); }

void test_driver_give(test_work *run, const void *arguments, size_t bytes)
{
    if (test_graphs_take_work()) {
        test_graphs_add(run, arguments, bytes);
        return;
    }
    run_until(comm.before_compute);
    run(arguments);
}

static void run_copy(const void *arguments)
{
    const struct copy *c = arguments;

    memcpy(c->to, c->from, c->bytes);
}

static void give(enum wf_stream stream, void *to, const void *from, size_t bytes)
{
    if (!comm.open) WF_DIE("test driver: a rank without device copies");
    if (stream == WF_STREAM_COMPUTE || test_graphs_take_work()) {
        test_driver_give(run_copy, &(struct copy){to, from, bytes}, sizeof(struct copy));
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
                                      test_graphs_capture(), wf_monotonic_seconds()};
}

/* The host knows nothing of what was captured. */
static void check_not_captured(const struct wf_device_event *event)
{
    if (event->capture) WF_DIE("test driver: the host waits for an event of a capture");
}

static bool event_done(struct wf_device_event *event)
{
    check_not_captured(event);
    if (event->after <= comm.done) return true;
    if (event->asked++ == 0) return false;
    run_until(event->after);
    return true;
}

static void event_wait(struct wf_device_event *event)
{
    check_not_captured(event);
    run_until(event->after);
}

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
    if (event->capture != test_graphs_capture())
        WF_DIE("test driver: a stream waits for an event of another capture, or of none");
    if (event->capture) return;
    if (stream == WF_STREAM_COMPUTE && event->after > comm.before_compute)
        comm.before_compute = event->after;
}

static void synchronize(void)
{
    if (test_graphs_take_work()) WF_DIE("test driver: the host waits in a capture");
    test_driver_run_all();
}

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
    size_t used, total;

    fenced_count(&used, &total);
    return (struct wf_device_memory){(int64_t)(total - used), (int64_t)total};
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

struct strided {
    struct wf_strided_copy copy;
    void *to;
    const void *from;
};

static void run_strided(const void *arguments)
{
    const struct strided *s = arguments;

    wf_strided_copy_run(&s->copy, s->to, s->from);
}

static void strided_copy(const struct wf_strided_copy *c, void *to, const void *from)
{
    struct strided s = {*c, fenced_open(to), fenced_open(from)};

    test_driver_give(run_strided, &s, sizeof s);
}

/* Of n elements from x on. */
struct loop {
    void *x;
    size_t n, element_bytes;
    char element[8];
    weft_dtype dtype;
    int divisor;
    double p;
};

static void run_fill(const void *arguments)
{
    const struct loop *l = arguments;
    char *at = l->x;

    for (size_t i = 0; i < l->n; i++, at += l->element_bytes)
        memcpy(at, l->element, l->element_bytes);
}

static void fill(void *to, const void *element, size_t element_bytes, size_t n)
{
    struct loop l = {.x = fenced_open(to), .n = n, .element_bytes = element_bytes};

    memcpy(l.element, element, element_bytes);
    test_driver_give(run_fill, &l, sizeof l);
}

static void run_divide(const void *arguments)
{
    const struct loop *l = arguments;

    wf_elements_divide(l->dtype, l->n, l->x, l->divisor);
}

static void divide(weft_dtype dtype, size_t n, void *x, int divisor)
{
    struct loop l = {.x = fenced_open(x), .n = n, .dtype = dtype, .divisor = divisor};

    test_driver_give(run_divide, &l, sizeof l);
}

static void run_power(const void *arguments)
{
    const struct loop *l = arguments;

    wf_elements_power(l->dtype, l->n, l->x, l->p);
}

static void power(weft_dtype dtype, size_t n, void *x, double p)
{
    struct loop l = {.x = fenced_open(x), .n = n, .dtype = dtype, .p = p};

    test_driver_give(run_power, &l, sizeof l);
}

struct wf_device_driver test_driver = {
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
    .graphs = &test_graphs,
};

void test_driver_init(void)
{
    if (getenv("WEFT_TEST_DEVICE_GRAPHS")) test_driver.graphs = NULL;
}
