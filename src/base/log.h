/*
 * log.h: levelled log lines on stderr, by topic. Off costs one load and compare; nothing is
 * formatted.
 */
#pragma once

#include <stdbool.h>

#include <weft/export.h>

enum wf_log_level { WF_LOG_ERROR, WF_LOG_WARN, WF_LOG_INFO, WF_LOG_DEBUG };

/** The highest level of any topic. */
extern int wf_log_threshold;

/**
 * Set levels from text: a number for all topics, "+topic" for debug, "topic" for information,
 * "-topic" for warnings, separated by commas: "0,+dtensor". NULL: warnings. Once per process,
 * before ranks run. Unreadable entries are reported and ignored. gives: the level of topics that
 * are not named
 */
int wf_log_configure(const char *text);

/** True when lines of this level and topic are written. */
bool wf_log_is_enabled(enum wf_log_level level, const char *topic);

/** Written when it is wanted. */
void wf_log(enum wf_log_level level, const char *topic, const char *format, ...) WEFT_PRINTF(3, 4);

/** The rank that log lines of this thread carry; comm sets it. */
void wf_log_set_rank(int rank);
int wf_log_rank(void);

#define WF_LOG(level, ...)                                                                         \
    do {                                                                                           \
        if ((int)(level) <= wf_log_threshold) wf_log((level), __VA_ARGS__);                        \
    } while (0)
