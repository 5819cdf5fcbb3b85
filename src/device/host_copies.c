/*
 * host_copies.c: copies between a device and host memory that is the program's: through pinned
 * blocks, piece by piece. An upload is done for the host when its bytes are in those; a download
 * waits, and is counted.
 */
#include "base/error.h"
#include "base/observers.h"
#include "base/sys.h"
#include "device/capture.h"
#include "device/device.h"
#include "device/pool.h"

enum { PIECE_BYTES = 4 << 20 };

static _Thread_local int64_t synchronizations;

int64_t wf_device_synchronization_count(void) { return synchronizations; }

static size_t piece_bytes(size_t left) { return left < PIECE_BYTES ? left : PIECE_BYTES; }

static struct wf_block *new_piece(size_t bytes)
{
    return wf_block_new_pinned_or_die(bytes, "copy between host and GPU");
}

void wf_device_upload_staged(void *to, const void *host, size_t bytes)
{
    if (wf_capture_of_thread)
        wf_capture_leave("%zu bytes of the host are copied to the GPU", bytes);
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        size_t n = piece_bytes(bytes - at);
        struct wf_block *piece = new_piece(n);

        memcpy(piece->data, (const char *)host + at, n);
        wf_device_driver->upload((char *)to + at, piece->data, n, WF_STREAM_COMPUTE);
        wf_block_mark_used_by_stream(piece, WF_BLOCK_IN_COMPUTE);
        wf_block_release(piece);
    }
}

/* A piece on its way to the host. */
struct download {
    struct wf_block *piece;
    struct wf_device_event *event;
    char *host;
    size_t bytes;
};

static struct download start_piece_download(char *host, const char *from, size_t bytes)
{
    struct download d = {new_piece(bytes), wf_device_event_new(), host, bytes};

    wf_device_driver->download(d.piece->data, from, bytes, WF_STREAM_COMPUTE);
    wf_device_driver->event_record(d.event, WF_STREAM_COMPUTE);
    return d;
}

static void finish_piece_download(struct download *d)
{
    wf_device_event_wait(d->event);
    memcpy(d->host, d->piece->data, d->bytes);
    wf_device_event_free(d->event);
    wf_block_release(d->piece);
}

/* While the host copies one piece, the device copies the next. */
static void download_pieces(char *host, const char *from, size_t bytes)
{
    struct download before, next;

    before = start_piece_download(host, from, piece_bytes(bytes));
    for (size_t at = PIECE_BYTES; at < bytes; at += PIECE_BYTES) {
        next = start_piece_download(host + at, from + at, piece_bytes(bytes - at));
        finish_piece_download(&before);
        before = next;
    }
    finish_piece_download(&before);
}

void wf_device_download_staged(void *host, const void *from, size_t bytes, const char *who)
{
    bool watched = wf_observed_events & WF_EVENT_SYNCHRONIZATION;
    double began = watched ? wf_monotonic_seconds() : 0;

    if (wf_capture_of_thread) wf_capture_leave("the host reads from the GPU (%s)", who);
    synchronizations++;
    download_pieces(host, from, bytes);
    if (!watched) return;
    wf_notify_observers(&(struct wf_event){.kind = WF_EVENT_SYNCHRONIZATION,
                                           .name = who,
                                           .axis = "",
                                           .bytes = bytes,
                                           .began = began,
                                           .seconds = wf_monotonic_seconds() - began,
                                           .where = wf_current_context});
}

static void run_strided_copy_on_device(const struct wf_strided_copy *copy, void *to,
                                       const void *from)
{
    wf_device_strided_copy(WEFT_CUDA, copy, to, from);
}

wf_strided_copy_runner *wf_device_strided_copy_runner(weft_device device)
{
    return device == WEFT_CPU ? wf_strided_copy_run : run_strided_copy_on_device;
}

static void fill_host(char *to, const void *element, size_t element_bytes, size_t count)
{
    size_t bytes = element_bytes * count, filled = element_bytes;

    if (bytes == 0) return;
    memcpy(to, element, element_bytes);
    while (filled < bytes) { /* what is filled already is copied behind itself */
        size_t more = filled < bytes - filled ? filled : bytes - filled;

        memcpy(to + filled, to, more);
        filled += more;
    }
}

void wf_device_fill(weft_device device, void *to, const void *element, size_t element_bytes,
                    size_t count)
{
    if (device == WEFT_CPU)
        fill_host(to, element, element_bytes, count);
    else if (count)
        wf_device_driver->fill(to, element, element_bytes, count);
}
