/* log.c: one line per message, with rank and topic. The only place in src/ that writes logs. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

int wf_log_threshold = WF_LOG_WARN;

static _Thread_local int log_rank;

static const char *const level_names[] = {"error", "warning", "info", "debug"};

void wf_log_set_rank(int rank) { log_rank = rank; }

int wf_log_rank(void) { return log_rank; }

void wf_log(enum wf_log_level level, const char *topic, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "weft %s [%d] %s: %s\n", level_names[level], log_rank, topic, text);
}
