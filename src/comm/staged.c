/*
 * staged.c: the backend for collectives whose bytes are on a device, where no library moves them
 * from device to device: copies to pinned host memory, the communicator's own backend, and copies
 * back. MPI never sees a pointer of a device.
 *
 * Copies go to the communication stream, so that kernels run meanwhile. It waits for what the
 * compute stream was given before the collective, and the compute stream for what arrives. The host
 * waits for nothing: a collective begins on the host's backend in a later step, when its bytes are
 * there. All ranks must begin collectives in one order, so they queue up.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "comm/backend.h"
#include "device/device.h"
#include "device/pool.h"

struct wf_staged {
    struct wf_staged *next; /* that waits to begin */
    struct wf_coll *coll, host;
    struct wf_block *send, *recv;   /* pinned; NULL: nothing is sent, or received */
    struct wf_device_event *copied; /* all that this rank sends is in host memory */
    bool begun;
};

static size_t bytes_sent(const struct wf_coll *coll)
{
    return wf_coll_send_count(coll) * weft_dtype_size(coll->dtype);
}

static size_t bytes_received(const struct wf_coll *coll)
{
    return wf_coll_recv_count(coll) * weft_dtype_size(coll->dtype);
}

/* What is given to `later` from now on comes after what `earlier` has been given so far. */
static void order_streams(enum wf_stream earlier, enum wf_stream later)
{
    struct wf_device_event *event = wf_device_event_new();

    wf_device_driver->event_record(event, earlier);
    wf_device_driver->stream_wait(later, event);
    wf_device_event_free(event);
}

/* ---- the order of beginning ---- */

static void append_to_queue(struct wf_staged *staged)
{
    struct wf_staged **link = &wf_comm_thread_state.waiting;

    while (*link) link = &(*link)->next;
    *link = staged;
}

static void start_oldest_queued(void)
{
    struct wf_staged *staged = wf_comm_thread_state.waiting;

    wf_comm_thread_state.waiting = staged->next;
    wf_device_event_free(staged->copied);
    staged->begun = true;
    staged->host.backend->start(&staged->host);
}

void wf_staged_start_queued(void)
{
    while (wf_comm_thread_state.waiting) {
        wf_device_event_wait(wf_comm_thread_state.waiting->copied);
        start_oldest_queued();
    }
}

/* ---- one collective ---- */

static void copy_to_host(struct wf_staged *staged)
{
    const struct wf_coll *coll = staged->coll;
    size_t sent = bytes_sent(coll), received = bytes_received(coll);

    order_streams(WF_STREAM_COMPUTE, WF_STREAM_COMM);
    if (sent) {
        staged->send = wf_block_new_pinned_or_die(sent, "collective");
        wf_device_driver->download(staged->send->data, coll->send, sent, WF_STREAM_COMM);
    }
    if (received)
        staged->recv = staged->send && coll->send == coll->recv
                           ? wf_block_retain(staged->send)
                           : wf_block_new_pinned_or_die(received, "collective");
    staged->copied = wf_device_event_new();
    wf_device_driver->event_record(staged->copied, WF_STREAM_COMM);
}

static void staged_start(struct wf_coll *coll)
{
    struct wf_staged *staged;

    if (coll->comm->size == 1) {
        if (coll->send != coll->recv)
            wf_device_copy(coll->device, coll->recv, coll->send, bytes_received(coll));
        coll->complete = true;
        return;
    }
    staged = WF_NEW(struct wf_staged);
    staged->coll = coll;
    copy_to_host(staged);
    staged->host = *coll;
    staged->host.device = WEFT_CPU;
    staged->host.backend = coll->comm->backend;
    staged->host.send = staged->send ? staged->send->data : NULL;
    staged->host.recv = staged->recv ? staged->recv->data : NULL;
    coll->state = staged;
    append_to_queue(staged);
}

static void finish(struct wf_staged *staged)
{
    const struct wf_coll *coll = staged->coll;

    if (staged->send) wf_block_release(staged->send);
    if (staged->recv) {
        wf_device_driver->upload(coll->recv, staged->recv->data, bytes_received(coll),
                                 WF_STREAM_COMM);
        order_streams(WF_STREAM_COMM, WF_STREAM_COMPUTE);
        wf_block_mark_used_by_stream(staged->recv, WF_BLOCK_IN_COMM);
        wf_block_release(staged->recv);
    }
    wf_free(staged);
}

static bool staged_step(struct wf_coll *coll)
{
    struct wf_staged *staged = coll->state;

    if (coll->comm->size == 1) return true;
    if (!staged->begun) {
        if (wf_comm_thread_state.waiting != staged || !wf_device_driver->event_done(staged->copied))
            return false;
        start_oldest_queued();
    }
    if (!staged->host.complete) staged->host.complete = staged->host.backend->step(&staged->host);
    if (!staged->host.complete) return false;
    finish(staged);
    coll->state = NULL;
    return true;
}

static void staged_describe_missing_ranks(const struct wf_coll *coll, char *text, size_t bytes)
{
    const struct wf_staged *staged = coll->state;

    if (staged->begun)
        staged->host.backend->missing(&staged->host, text, bytes);
    else
        snprintf(text, bytes, "this rank's GPU has not done what comes before");
}

const struct wf_backend wf_backend_staged = {
    .name = "staged",
    .start = staged_start,
    .step = staged_step,
    .missing = staged_describe_missing_ranks,
};
