/*
 * stream_ordered.c: the backend for collectives that the device itself carries out, in the order of
 * its communication stream (device_collectives.h). That stream waits for what the compute stream
 * was given before the start; the compute stream waits for the collective from wf_comm_wait on. The
 * host waits for neither.
 *
 * So a collective that never ends is noticed by whoever waits for the device later, on the host
 * (wf_device_event_wait): meanwhile the oldest that has not ended is looked after here.
 *
 * In a captured step collectives are captured. Each launch of it is then looked after as one of
 * them: the first of each communicator. It has ended when the launch has, kernels between and
 * behind included: the host cannot tell a slow step from a rank that is missing.
 */
#include "comm/stream_ordered.h"

#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/settings/knob.h"
#include "base/sys.h"
#include "comm/float_keys.h"
#include "device/capture.h"
#include "device/device.h"
#include "device/timeline.h"

enum { TEXT_BYTES = 512, WHY_BYTES = 512, LOOK_EVERY = 64 };

#define TOO_LATE                                                                                   \
    "a rank has not begun it, or has begun something else, in the time that WEFT_TIMEOUT allows"
#define LAUNCH_TOO_LATE                                                                            \
    "a step with it, launched as a graph, has taken longer than WEFT_TIMEOUT allows: a rank has "  \
    "not launched it, or the step needs more time"

/* One that the stream was given. Freed when it has ended and nobody waits for it any more. */
struct wf_in_stream {
    struct wf_in_stream *next;
    struct wf_device_comm *comm;
    struct wf_device_event *ready, *done; /* what it comes after; its end */
    bool ended, waited_for;
    bool is_launch;   /* of a graph */
    unsigned capture; /* which it is part of; 0: none */
    double since;     /* when it was first seen to be the next that ends; 0: not yet */
    struct wf_float_keys keys;
    struct wf_coll what; /* for messages; without its arrays of counts, which are the caller's */
};

static _Thread_local struct {
    struct wf_in_stream *first, *last; /* that have not been seen to end, in the stream's order */
    unsigned count;
} given;

/* ---- messages ---- */

/* The sum of the counts stands for their arrays. */
static void describe(const struct wf_coll *coll, size_t payload_bytes, char *text, size_t room)
{
    size_t *counts = wf_calloc((size_t)coll->comm->size, sizeof *counts);
    struct wf_coll what = *coll;

    counts[0] = what.count = payload_bytes / weft_dtype_size(coll->dtype);
    what.send_counts = what.recv_counts = counts;
    wf_coll_describe_with_caller(&what, text, room);
    wf_free(counts);
}

/* The communicator is left as it is: the library's own way to abort one may wait for ever, for the
 * graphs that captured on it. What is in the stream ends with the process. */
static _Noreturn void die_describing(const struct wf_in_stream *entry, const char *why)
{
    char what[TEXT_BYTES];

    describe(&entry->what, entry->what.bytes, what, sizeof what);
    WF_DIE("%s: %s", what, why);
}

/* ---- what has not ended ---- */

static void free_unless_needed(struct wf_in_stream *entry)
{
    if (!entry->ended || !entry->waited_for) return;
    wf_device_event_free(entry->ready);
    wf_device_event_free(entry->done);
    wf_free(entry);
}

static void append_unfinished(struct wf_in_stream *entry)
{
    if (given.last)
        given.last->next = entry;
    else
        given.first = entry;
    given.last = entry;
}

static void forget_ended(void)
{
    struct wf_in_stream *first;

    while ((first = given.first) && wf_device_driver->event_done(first->done)) {
        given.first = first->next;
        if (!given.first) given.last = NULL;
        first->ended = true;
        free_unless_needed(first);
    }
}

void wf_comm_trim_device(void)
{
    if (!wf_device_driver || wf_capture_of_thread) return;
    forget_ended();
    if (!given.first) wf_pool_trim_device();
}

/* Called again and again while the host waits for the device. Time counts from when nothing but
 * peers can be missing: what comes before may take long. */
static void look_after_oldest(void)
{
    struct wf_in_stream *oldest;
    char why[WHY_BYTES];
    double now;

    forget_ended();
    oldest = given.first;
    if (!oldest) return;
    if (oldest->comm->library->status(oldest->comm->state, why, sizeof why) ==
        WF_DEVICE_COMM_FAILED)
        die_describing(oldest, why);
    if (!wf_device_driver->event_done(oldest->ready)) return;
    now = wf_monotonic_seconds();
    if (oldest->since == 0) oldest->since = now;
    if (now - oldest->since <= (double)wf_knobs.timeout) return;
    die_describing(oldest, oldest->is_launch ? LAUNCH_TOO_LATE : TOO_LATE);
}

/* ---- the backend ---- */

/* The library connects ranks when they first need each other, which waits for peers that may
 * themselves wait for what this rank has in flight. BUSY: until the time was over. */
static enum wf_device_comm_status wait_until_ready(const struct wf_device_comm *comm, char *why,
                                                   size_t room)
{
    struct wf_backoff patience = {0};
    enum wf_device_comm_status status;
    double waited;

    while ((status = comm->library->status(comm->state, why, room)) == WF_DEVICE_COMM_BUSY) {
        wf_comm_progress();
        waited = wf_backoff_wait(&patience);
        if (waited > (double)wf_knobs.timeout) return WF_DEVICE_COMM_BUSY;
    }
    return status;
}

static void issue(const struct wf_in_stream *entry, const struct wf_coll *coll)
{
    const struct wf_device_comm *comm = entry->comm;
    char why[WHY_BYTES];

    comm->library->issue(comm->state, coll);
    switch (wait_until_ready(comm, why, sizeof why)) {
    case WF_DEVICE_COMM_READY:
        break;
    case WF_DEVICE_COMM_FAILED:
        die_describing(entry, why);
    case WF_DEVICE_COMM_BUSY:
        die_describing(entry, TOO_LATE);
    }
}

/* What messages need of one that was given, and no more: the arrays may go before it ends. */
static struct wf_coll copy_without_counts(const struct wf_coll *coll)
{
    struct wf_coll what = *coll;

    what.bytes = wf_coll_payload_bytes(coll);
    what.send_counts = what.recv_counts = NULL;
    return what;
}

static struct wf_in_stream *new_entry(const struct wf_coll *what)
{
    struct wf_in_stream *entry = WF_NEW(struct wf_in_stream);

    entry->comm = what->comm->device;
    entry->ready = wf_device_event_new();
    entry->done = wf_device_event_new();
    entry->what = *what;
    return entry;
}

/* ---- launches of a graph ---- */

struct launches {
    struct wf_coll first;
    struct wf_in_stream *now; /* between before and after */
};

static void watch_one_launch(void *self, bool after)
{
    struct launches *launches = self;

    if (!after) {
        launches->now = new_entry(&launches->first);
        launches->now->waited_for = launches->now->is_launch = true;
        wf_device_driver->event_record(launches->now->ready, WF_STREAM_COMPUTE);
        return;
    }
    wf_device_driver->event_record(launches->now->done, WF_STREAM_COMM);
    append_unfinished(launches->now);
    forget_ended();
}

static void watch_launches(const struct wf_coll *what)
{
    struct launches *launches = WF_NEW(struct launches);

    launches->first = *what;
    what->comm->device->capture = wf_capture_number();
    wf_capture_add_call((struct wf_changing_call){
        .around_launch = watch_one_launch, .release = wf_free, .self = launches});
}

/* The end of some is looked for now and then, for what they hold. */
static void in_stream_start(struct wf_coll *coll)
{
    struct wf_coll what = copy_without_counts(coll), given_as = *coll;
    struct wf_in_stream *entry = new_entry(&what);
    int span;

    wf_capture_note_collective();
    entry->keys = wf_float_keys_make(&given_as);
    entry->capture = wf_capture_number();
    if (entry->capture && entry->comm->capture != entry->capture) watch_launches(&what);
    if (!entry->capture && ++given.count % LOOK_EVERY == 0) forget_ended();
    wf_device_driver->event_record(entry->ready, WF_STREAM_COMPUTE);
    wf_device_driver->stream_wait(WF_STREAM_COMM, entry->ready);
    span = wf_span_open(WF_STREAM_COMM, wf_coll_name(coll->rooted ? WEFT_COLL_REDUCE : coll->kind));
    issue(entry, &given_as);
    wf_span_close(span);
    wf_device_driver->event_record(entry->done, WF_STREAM_COMM);
    if (entry->capture)
        entry->ended = true; /* of its events nothing can be asked */
    else
        append_unfinished(entry);
    coll->state = entry;
}

static void mark_waited_for(struct wf_coll *coll)
{
    struct wf_in_stream *entry = coll->state;

    coll->state = NULL;
    wf_float_keys_read(&entry->keys, coll->recv);
    entry->waited_for = true;
    free_unless_needed(entry);
}

static bool in_stream_step(struct wf_coll *coll)
{
    struct wf_in_stream *entry = coll->state;

    if (wf_capture_of_thread) return false; /* what its end takes would be part of the graph */
    if (!entry->ended && !wf_device_driver->event_done(entry->done)) return false;
    mark_waited_for(coll);
    return true;
}

static void make_compute_stream_wait(struct wf_coll *coll)
{
    struct wf_in_stream *entry = coll->state;

    if (!entry->capture && wf_capture_of_thread)
        wf_capture_leave("%s: a collective that began before the step ends in it",
                         wf_coll_name(coll->kind));
    /* Behind its capture, both streams come after the launch. */
    if (entry->capture ? entry->capture == wf_capture_number() : !entry->ended)
        wf_device_driver->stream_wait(WF_STREAM_COMPUTE, entry->done);
    mark_waited_for(coll);
}

static void in_stream_describe_missing_ranks(const struct wf_coll *coll, char *text, size_t bytes)
{
    (void)coll;
    snprintf(text, bytes, "the GPU has not ended it");
}

const struct wf_backend wf_backend_stream_ordered = {
    .name = "nccl",
    .start = in_stream_start,
    .step = in_stream_step,
    .order = make_compute_stream_wait,
    .missing = in_stream_describe_missing_ranks,
};

/* ---- opening and closing ---- */

static _Noreturn void die_of_opening(const struct wf_comm *comm, const char *what, const char *why)
{
    WF_DIE("%s: the communicator of %d ranks%s%s cannot be %s: %s", comm->device->library->name,
           comm->size, comm->label[0] ? " on axis " : "", comm->label, what, why);
}

static void wait_or_die(const struct wf_comm *comm, const char *what)
{
    char why[WHY_BYTES] = "a rank is missing after the time that WEFT_TIMEOUT allows";

    if (wait_until_ready(comm->device, why, sizeof why) != WF_DEVICE_COMM_READY)
        die_of_opening(comm, what, why);
}

void wf_stream_ordered_open(struct wf_comm *comm, const struct wf_peer_info *all)
{
    struct wf_device_comm *device = comm->device;
    bool all_have = true;

    for (int rank = 0; rank < comm->size; rank++) all_have &= all[rank].has_its_memory;
    wf_comm_trim_device(); /* its buffers are not the pool's; where nothing is in flight */
    device->library = wf_device_library()->collectives;
    device->state = device->library->open(all[0].comm, comm->size, comm->rank, all_have);
    wait_or_die(comm, "opened");
    device->backend = &wf_backend_stream_ordered;
    wf_device_while_waiting = look_after_oldest;
}

void wf_stream_ordered_finish(struct wf_comm *comm)
{
    struct wf_backoff patience = {0};

    if (comm->shares || !comm->device->state) return;
    /* Not wf_device_event_wait: what is done meanwhile frees the event of an entry that has ended.
     */
    while (look_after_oldest(), given.first) (void)wf_backoff_wait(&patience);
    comm->device->library->finish(comm->device->state);
}

void wf_stream_ordered_close(struct wf_comm *comm)
{
    struct wf_device_comm *device = comm->device;

    if (comm->shares || !device->state) return;
    wait_or_die(comm, "closed");
    device->library->close(device->state);
    device->state = NULL;
    device->backend = NULL;
}
