/* log.c: one line per message, with rank and topic. The only place in src/ that writes logs. */
#include "base/log.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text/utf8.h"

enum { MAX_TOPICS = 16, TOPIC_BYTES = 24 };

int wf_log_threshold = WF_LOG_WARN;

/* Written by wf_log_configure only, before any rank runs. */
static int common = WF_LOG_WARN, n_topics;
static struct {
    char name[TOPIC_BYTES];
    int level;
} topics[MAX_TOPICS];

static _Thread_local int log_rank;

static const char *const level_names[] = {"error", "warning", "info", "debug"};

static bool parse_level(const char *item, size_t length)
{
    if (length != 1 || *item < '0' || *item > '3') return false;
    common = *item - '0';
    return true;
}

static bool parse_topic(const char *item, size_t length)
{
    int level = *item == '+' ? WF_LOG_DEBUG : *item == '-' ? WF_LOG_WARN : WF_LOG_INFO;

    if (*item == '+' || *item == '-') {
        item++;
        length--;
    }
    if (length == 0 || length >= TOPIC_BYTES || n_topics == MAX_TOPICS) return false;
    for (size_t i = 0; i < length; i++)
        if (!isalpha((unsigned char)item[i])) return false;
    memcpy(topics[n_topics].name, item, length);
    topics[n_topics].name[length] = '\0';
    topics[n_topics++].level = level;
    return true;
}

int wf_log_configure(const char *text)
{
    common = WF_LOG_WARN;
    n_topics = 0;
    for (const char *item = text; item && *item; item += *item == ',') {
        size_t length = strcspn(item, ",");

        if (length && !parse_level(item, length) && !parse_topic(item, length))
            wf_log(WF_LOG_WARN, "log", "WEFT_LOG: '%.*s' is no level and no topic", (int)length,
                   item);
        item += length;
    }
    wf_log_threshold = common;
    for (int i = 0; i < n_topics; i++)
        if (topics[i].level > wf_log_threshold) wf_log_threshold = topics[i].level;
    return common;
}

bool wf_log_is_enabled(enum wf_log_level level, const char *topic)
{
    for (int i = n_topics - 1; i >= 0; i--) /* the last word on a topic counts */
        if (strcmp(topics[i].name, topic) == 0) return (int)level <= topics[i].level;
    return (int)level <= common;
}

void wf_log_set_rank(int rank) { log_rank = rank; }

int wf_log_rank(void) { return log_rank; }

void wf_log(enum wf_log_level level, const char *topic, const char *format, ...)
{
    char text[1024], shown[1024];
    va_list args;

    if (!wf_log_is_enabled(level, topic)) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "weft %s [%d] %s: %s\n", level_names[level], log_rank, topic,
            wf_utf8_escape_control(shown, sizeof shown, text));
}
