/* error.c: the per-thread error record and the way a job ends. */
#include "base/error.h"

#include <stdarg.h>
#include <string.h>

#include "base/call_context.h"
#include "base/log.h"
#include "base/text/utf8.h"

enum { MESSAGE_BYTES = 1024, CAUSE_BYTES = 940 }; /* the rest: where in the source */

static _Thread_local struct {
    weft_status status;
    char message[MESSAGE_BYTES];
} record;

static _Thread_local char latest[MESSAGE_BYTES]; /* of all failures; the record has the first */

static _Thread_local int world_ranks = 1;

void wf_error_set_world_size(int ranks) { world_ranks = ranks; }

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
    memcpy(latest, record.message, sizeof latest);
}

/* The path after "src/", so that messages do not depend on where the tree lies. */
static const char *path_below_src(const char *file)
{
    const char *at = strstr(file, "src/");

    return at ? at + 4 : file;
}

/* `text` is "in module M: " and the cause, which begins at `used`. */
static weft_status record_failure(weft_status status, const char *file, int line,
                                  const char *format, va_list args)
{
    char text[MESSAGE_BYTES], shown[CAUSE_BYTES];
    const char *module = wf_current_module_path();
    int used;

    used = snprintf(text, sizeof text / 4, "%s%s%s", module[0] ? "in module " : "", module,
                    module[0] ? ": " : "");
    if (used >= (int)sizeof text / 4) used = (int)sizeof text / 4 - 1;
    vsnprintf(text + used, sizeof text - (size_t)used, format, args);
    snprintf(latest, sizeof latest, "%s (%s:%d)", wf_utf8_escape_control(shown, sizeof shown, text),
             path_below_src(file), line);
    if (record.status != WEFT_OK) {
        WF_LOG(WF_LOG_DEBUG, "error", "after the first failure: %s", text + used);
        return status;
    }
    record.status = status;
    memcpy(record.message, latest, sizeof latest);
    return status;
}

weft_status wf_fail(weft_status status, const char *file, int line, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    status = record_failure(status, file, line, format, args);
    va_end(args);
    return status;
}

void wf_die_set_handler(wf_die_handler *handler) { die_handler = handler; }

/* What text holds may come from files: it is shown on one line. */
static void print_to_stderr(const char *text)
{
    char shown[2 * MESSAGE_BYTES];

    fprintf(stderr, "weft: rank %d: %s\n", wf_log_rank(),
            wf_utf8_escape_control(shown, sizeof shown, text));
    fflush(stderr);
}

void wf_error_print(const char *format, ...)
{
    char text[MESSAGE_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    print_to_stderr(text);
}

static _Noreturn void end_job(void)
{
    wf_die_handler *handler = die_handler;

    if (handler) handler();
    abort();
}

/* Module and op are printed before the cause, unless its text names them already (a collective
 * names those of the call that started it). */
static _Noreturn void die_with_cause(const char *file, int line, const char *format, va_list args)
{
    char cause[MESSAGE_BYTES], text[2 * MESSAGE_BYTES];
    const char *module, *op;

    vsnprintf(cause, sizeof cause, format, args);
    module = strstr(cause, "in module ") ? "" : wf_current_module_path();
    op =
        wf_current_context.op && !strstr(cause, wf_current_context.op) ? wf_current_context.op : "";
    snprintf(text, sizeof text, "%s%.256s%s%s%s%s (%s:%d)", module[0] ? "in module " : "", module,
             module[0] ? ": " : "", op, op[0] ? ": " : "", cause, path_below_src(file), line);
    print_to_stderr(text);
    end_job();
}

void wf_die(const char *file, int line, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    die_with_cause(file, line, format, args);
}

weft_status wf_die_on_local_failure(weft_status status)
{
    if (status == WEFT_OK || world_ranks == 1) return status;
    print_to_stderr(latest);
    end_job();
}

weft_status wf_fail_local(weft_status status, const char *file, int line, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (world_ranks > 1) die_with_cause(file, line, format, args);
    status = record_failure(status, file, line, format, args);
    va_end(args);
    return status;
}
