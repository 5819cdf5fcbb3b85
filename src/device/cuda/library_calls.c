/*
 * library_calls.c: the functions of base that a device's shared object calls, by the table that it
 * was opened with: failures land in the library's record, memory is the library's, and so are log
 * and settings.
 */
#include "device/cuda/library_calls.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/settings/knob.h"

enum { TEXT_BYTES = 1024 };

static const struct wf_library_calls *library;

/* What a function with `format, ...` is given, as text: the table's functions take no va_list. */
#define FORMAT_ARGUMENTS(text)                                                                     \
    do {                                                                                           \
        va_list args;                                                                              \
                                                                                                   \
        va_start(args, format);                                                                    \
        vsnprintf(text, sizeof text, format, args);                                                \
        va_end(args);                                                                              \
    } while (0)

/* Copies: settings are read before any device is. */
struct wf_knobs wf_knobs;
int wf_log_threshold;

void wf_library_calls_set(const struct wf_library_calls *calls)
{
    library = calls;
    wf_knobs = *calls->knobs;
    wf_log_threshold = *calls->log_threshold;
}

weft_status wf_fail(weft_status status, const char *file, int line, const char *format, ...)
{
    char text[TEXT_BYTES];

    FORMAT_ARGUMENTS(text);
    return library->fail(status, file, line, "%s", text);
}

weft_status wf_fail_local(weft_status status, const char *file, int line, const char *format, ...)
{
    char text[TEXT_BYTES];

    FORMAT_ARGUMENTS(text);
    return library->fail_local(status, file, line, "%s", text);
}

_Noreturn void wf_die(const char *file, int line, const char *format, ...)
{
    char text[TEXT_BYTES];

    FORMAT_ARGUMENTS(text);
    library->die(file, line, "%s", text);
    abort();
}

void wf_log(enum wf_log_level level, const char *topic, const char *format, ...)
{
    char text[TEXT_BYTES];

    FORMAT_ARGUMENTS(text);
    library->log(level, topic, "%s", text);
}

int wf_log_rank(void) { return library->log_rank(); }

weft_status weft_error_status(void) { return library->error_status(); }

void *wf_malloc(size_t bytes) { return library->malloc(bytes); }

void *wf_calloc(size_t count, size_t bytes) { return library->calloc(count, bytes); }

void *wf_realloc(void *old, size_t bytes) { return library->realloc(old, bytes); }

void wf_free(void *p) { library->free(p); }

void wf_library_give_back_memory(void) { library->release_idle_memory(); }
