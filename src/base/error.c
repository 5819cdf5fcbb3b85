/* error.c: the per-thread error record and the way a job ends. */
#include "base/error.h"

#include <stdarg.h>
#include <string.h>

#include "base/log.h"
#include "base/utf8.h"
#include "base/where.h"

enum { MESSAGE_BYTES = 1024, CAUSE_BYTES = 940 }; /* the rest: where in the source */

static _Thread_local struct {
    weft_status status;
    char message[MESSAGE_BYTES];
} record;

static _Atomic(wf_die_handler *) die_handler; /* ranks are threads, and each may set it */

static const char *const status_names[WEFT_STATUS_COUNT] = {
    [WEFT_OK] = "ok",
    [WEFT_ERR_ARG] = "argument",
    [WEFT_ERR_SHAPE] = "shape",
    [WEFT_ERR_DTYPE] = "dtype",
    [WEFT_ERR_LAYOUT] = "layout",
    [WEFT_ERR_NOT_FOUND] = "not found",
    [WEFT_ERR_STATE] = "state",
    [WEFT_ERR_IO] = "io",
    [WEFT_ERR_MEMORY] = "memory",
    [WEFT_ERR_COMM] = "communication",
};

const char *weft_status_name(weft_status status)
{
    return (unsigned)status < WEFT_STATUS_COUNT ? status_names[status] : "unknown";
}

const char *weft_error_message(void) { return record.message; }

weft_status weft_error_status(void) { return record.status; }

void weft_error_clear(void)
{
    record.status = WEFT_OK;
    record.message[0] = '\0';
}

void wf_error_set(weft_status status, const char *message)
{
    record.status = status;
    snprintf(record.message, sizeof record.message, "%s", message);
}

/* The path after "src/", so that messages do not depend on where the tree lies. */
static const char *short_file(const char *file)
{
    const char *at = strstr(file, "src/");

    return at ? at + 4 : file;
}

weft_status wf_fail(weft_status status, const char *file, int line, const char *format, ...)
{
    char text[MESSAGE_BYTES], shown[CAUSE_BYTES];
    const char *module = wf_where_module();
    va_list args;
    int used;

    used = snprintf(text, sizeof text / 4, "%s%s%s", module[0] ? "in module " : "", module,
                    module[0] ? ": " : "");
    if (used >= (int)sizeof text / 4) used = (int)sizeof text / 4 - 1;
    va_start(args, format);
    vsnprintf(text + used, sizeof text - (size_t)used, format, args);
    va_end(args);
    if (record.status != WEFT_OK) {
        WF_LOG(WF_LOG_DEBUG, "error", "after the first failure: %s", text + used);
        return status;
    }
    record.status = status;
    snprintf(record.message, sizeof record.message, "%s (%s:%d)",
             wf_utf8_shown(shown, sizeof shown, text), short_file(file), line);
    return status;
}

void wf_die_set_handler(wf_die_handler *handler) { die_handler = handler; }

void wf_die(const char *file, int line, const char *format, ...)
{
    char text[MESSAGE_BYTES], cause[MESSAGE_BYTES];
    wf_die_handler *handler;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "weft: rank %d: %s (%s:%d)\n", wf_log_rank(),
            wf_utf8_shown(cause, sizeof cause, text), short_file(file), line);
    fflush(stderr);
    handler = die_handler;
    if (handler) handler();
    abort();
}
