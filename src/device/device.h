/*
 * device.h: the device of this rank, and copies of bytes that may lie on one.
 *
 * Where a function is given a weft_device, the pointers that it does not call host are to memory of
 * that device; WEFT_CPU is plain memory, and costs no more than without it. What uses a device
 * comes after what its compute stream was given before.
 */
#pragma once

#include <string.h>

#include <weft/error.h>
#include <weft/types.h>

#include "base/element_loops.h"
#include "base/elements/strided_copy.h"
#include "device/device_driver.h"

/* ---- which device ---- */

/** The number of this rank among those of its machine: which device it takes follows from it. comm
 * says it. */
void wf_device_set_local_rank(int local_rank);

/**
 * See to it that this rank has the device; the first call for one loads its shared object. WEFT_CPU
 * and WEFT_META are always there. fails: with one sentence; ends the job in a world of several
 * ranks, since others may have one
 */
weft_status wf_device_ensure_open(weft_device device);

/** This thread's driver; NULL before wf_device_ensure_open. */
extern _Thread_local const struct wf_device_driver *wf_device_driver;

/** What the shared object offers, for a rank that has its device. */
const struct wf_device_library *wf_device_library(void);

/** End of a rank, after its pool: gives the device back. */
void wf_device_finalize(void);

/** Where this thread makes tensors that are not made from others. A program sets it; where it never
 * did, its first mesh on a device does. */
weft_device wf_default_device(void);
void wf_set_default_device(weft_device device);
void wf_set_default_device_of_mesh(weft_device device);

/* ---- events, reused ---- */

struct wf_device_event *wf_device_event_new(void);
void wf_device_event_free(struct wf_device_event *event);

/** Wait on the host / for both streams; meanwhile wf_device_while_waiting, if it is set, is called
 * again and again on this thread, and may end the job: the device may wait for peers in vain. */
void wf_device_event_wait(struct wf_device_event *event);
void wf_device_synchronize(void);
extern _Thread_local void (*wf_device_while_waiting)(void);

/* ---- bytes ---- */

/** From host memory, which may change as soon as this returns / to host memory: waits for the
 *  device, which is counted. `who` asks for them, for observers. */
void wf_device_upload_staged(void *to, const void *host, size_t bytes);
void wf_device_download_staged(void *host, const void *from, size_t bytes, const char *who);

static inline void wf_device_upload(weft_device device, void *to, const void *host, size_t bytes)
{
    if (bytes == 0) return;
    if (device == WEFT_CPU)
        memcpy(to, host, bytes);
    else
        wf_device_upload_staged(to, host, bytes);
}

static inline void wf_device_download(weft_device device, void *host, const void *from,
                                      size_t bytes, const char *who)
{
    if (bytes == 0) return;
    if (device == WEFT_CPU)
        memcpy(host, from, bytes);
    else
        wf_device_download_staged(host, from, bytes, who);
}

static inline void wf_device_copy(weft_device device, void *to, const void *from, size_t bytes)
{
    if (bytes == 0) return;
    if (device == WEFT_CPU)
        memcpy(to, from, bytes);
    else
        wf_device_driver->copy(to, from, bytes, WF_STREAM_COMPUTE);
}

static inline void wf_device_strided_copy(weft_device device, const struct wf_strided_copy *copy,
                                          void *to, const void *from)
{
    if (device == WEFT_CPU)
        wf_strided_copy_run(copy, to, from);
    else if (copy->run)
        wf_device_driver->strided_copy(copy, to, from);
}

/** The function that copies on the device. */
wf_strided_copy_runner *wf_device_strided_copy_runner(weft_device device);

/** `count` times one element of 1, 2, 4 or 8 bytes. */
void wf_device_fill(weft_device device, void *to, const void *element, size_t element_bytes,
                    size_t count);

static inline void wf_device_zero(weft_device device, void *to, size_t bytes)
{
    if (bytes == 0) return;
    if (device == WEFT_CPU)
        memset(to, 0, bytes);
    else
        wf_device_driver->fill(to, "", 1, bytes);
}

static inline void wf_device_divide(weft_device device, weft_dtype dtype, size_t count, void *x,
                                    int divisor)
{
    if (dtype == WEFT_C64) { /* a real divisor: of both parts */
        dtype = WEFT_F32;
        count *= 2;
    }
    if (device == WEFT_CPU)
        wf_elements_divide(dtype, count, x, divisor);
    else if (count)
        wf_device_driver->divide(dtype, count, x, divisor);
}

static inline void wf_device_power(weft_device device, weft_dtype dtype, size_t count, void *x,
                                   double p)
{
    if (device == WEFT_CPU)
        wf_elements_power(dtype, count, x, p);
    else if (count)
        wf_device_driver->power(dtype, count, x, p);
}

/** How often this thread has waited for elements of its device. */
int64_t wf_device_synchronization_count(void);
