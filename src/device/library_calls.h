/*
 * library_calls.h: functions of the library for the shared object of a device, which finds none of
 * them by name: they are hidden in libweft.so, and a program may have the library linked in
 * statically. src/device/cuda/library_calls.c makes wf_fail, wf_malloc and their kin of them again.
 */
#pragma once

#include <stddef.h>

#include <weft/error.h>

#include "base/log.h"

struct wf_knobs;

struct wf_library_calls {
    weft_status (*fail)(weft_status status, const char *file, int line, const char *format, ...);
    weft_status (*fail_local)(weft_status status, const char *file, int line, const char *format,
                              ...);
    void (*die)(const char *file, int line, const char *format, ...);
    void (*log)(enum wf_log_level level, const char *topic, const char *format, ...);
    int (*log_rank)(void);
    weft_status (*error_status)(void);
    void *(*malloc)(size_t bytes);
    void *(*calloc)(size_t count, size_t bytes);
    void *(*realloc)(void *old, size_t bytes);
    void (*free)(void *p);
    /* Memory of the device that no tensor has; in a capture what was captured is launched first,
     * and the capture ends. */
    void (*release_idle_memory)(void);
    const struct wf_knobs *knobs;
    const int *log_threshold;
};
