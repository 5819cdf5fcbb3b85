/* log.h: levelled log lines on stderr. Off costs one load and compare; nothing is formatted. */
#pragma once

#include <weft/export.h>

enum wf_log_level { WF_LOG_ERROR, WF_LOG_WARN, WF_LOG_INFO, WF_LOG_DEBUG };

extern int wf_log_threshold;

void wf_log(enum wf_log_level level, const char *topic, const char *format, ...) WEFT_PRINTF(3, 4);

/** The rank that log lines of this thread carry; comm sets it. */
void wf_log_set_rank(int rank);
int wf_log_rank(void);

#define WF_LOG(level, ...)                                                                         \
    do {                                                                                           \
        if ((int)(level) <= wf_log_threshold) wf_log((level), __VA_ARGS__);                        \
    } while (0)
