/*
 * device.c: this rank's device: which one it takes, and when; events that are used again; which
 * device new tensors are made on. How bytes get there is in host_copies.c.
 */
#include "device/device.h"

#include <weft/device.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/settings/knob.h"
#include "device/load_library.h"

enum { REASON_BYTES = 5120, EVENTS_AT_REST = 64, DEVICE_TEXT = 128 };

_Thread_local const struct wf_device_driver *wf_device_driver;

static _Thread_local struct {
    const struct wf_device_library *library;
    int local_rank;
    bool has_local_rank;
    weft_device default_device; /* of new tensors */
    bool chosen;                /* by the program */
    struct wf_device_event *events[EVENTS_AT_REST];
    int n_events;
} rank;

void wf_device_set_local_rank(int local_rank)
{
    rank.local_rank = local_rank;
    rank.has_local_rank = true;
}

/* ---- opening ---- */

static void log_device(int number, int count)
{
    char text[DEVICE_TEXT];

    if (!wf_log_is_enabled(WF_LOG_INFO, "device")) return;
    wf_device_driver->describe(text, sizeof text);
    wf_log(WF_LOG_INFO, "device", "%s %d of %d: %s", wf_device_driver->name, number, count, text);
}

static weft_status open_device_of_rank(const struct wf_device_library *library)
{
    char why[REASON_BYTES] = "";
    int count = library->driver->count(why, sizeof why);
    int number = (int)wf_knobs.device;

    WF_NEED_LOCAL(count > 0, WEFT_ERR_NOT_FOUND, "%s: this machine has no GPU that can be used: %s",
                  library->driver->name, why);
    if (number < 0) number = rank.local_rank % count;
    WF_NEED_LOCAL(number < count, WEFT_ERR_NOT_FOUND,
                  "%s: WEFT_DEVICE=%d, but this machine has %d GPUs, from 0 on",
                  library->driver->name, number, count);
    WF_NEED_LOCAL(library->driver->open(number, why, sizeof why), WEFT_ERR_NOT_FOUND,
                  "%s: GPU %d cannot be used: %s", library->driver->name, number, why);
    rank.library = library;
    wf_device_driver = library->driver;
    log_device(number, count);
    return WEFT_OK;
}

weft_status wf_device_ensure_open(weft_device device)
{
    const struct wf_device_library *library;
    char why[REASON_BYTES];

    if (device != WEFT_CUDA || wf_device_driver) return WEFT_OK;
    library = wf_device_library_load(why, sizeof why);
    WF_NEED_LOCAL(library, WEFT_ERR_NOT_FOUND, "CUDA: the CUDA part cannot be loaded: %s", why);
    return open_device_of_rank(library);
}

const struct wf_device_library *wf_device_library(void) { return rank.library; }

int weft_device_count(weft_device device)
{
    const struct wf_device_library *library;
    char why[REASON_BYTES];

    if (device != WEFT_CUDA) return 1;
    wf_knobs_ensure_read();
    library = wf_device_library_load(why, sizeof why);
    return library ? library->driver->count(why, sizeof why) : 0;
}

weft_status weft_device_memory(weft_device device, int64_t *unused, int64_t *total)
{
    struct wf_device_memory memory = {0};

    WF_NEED(unused && total, WEFT_ERR_ARG, "device_memory: no room for the result");
    WF_NEED(device != WEFT_CUDA || rank.has_local_rank, WEFT_ERR_STATE,
            "device_memory: weft_init comes first: it says which GPU is this rank's");
    WF_TRY(wf_device_ensure_open(device));
    if (device == WEFT_CUDA) memory = wf_device_driver->memory();
    *unused = memory.free;
    *total = memory.total;
    return WEFT_OK;
}

void weft_device_synchronize(weft_device device)
{
    if (device == WEFT_CUDA && wf_device_driver) wf_device_synchronize();
}

void wf_device_finalize(void)
{
    rank.chosen = false;
    rank.default_device = WEFT_CPU;
    if (!wf_device_driver) return;
    while (rank.n_events) wf_device_driver->event_free(rank.events[--rank.n_events]);
    wf_device_driver->close();
    wf_device_driver = NULL;
    wf_device_while_waiting = NULL;
    rank.library = NULL;
}

/* ---- where new tensors are ---- */

weft_device wf_default_device(void) { return rank.default_device; }

void wf_set_default_device(weft_device device)
{
    rank.default_device = device;
    rank.chosen = true;
}

void wf_set_default_device_of_mesh(weft_device device)
{
    if (!rank.chosen && device == WEFT_CUDA) rank.default_device = device;
}

/* ---- events ---- */

struct wf_device_event *wf_device_event_new(void)
{
    return rank.n_events ? rank.events[--rank.n_events] : wf_device_driver->event_new();
}

void wf_device_event_free(struct wf_device_event *event)
{
    if (rank.n_events < EVENTS_AT_REST)
        rank.events[rank.n_events++] = event;
    else
        wf_device_driver->event_free(event);
}
