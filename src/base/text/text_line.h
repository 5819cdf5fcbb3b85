/* text_line.h: text that is put together piece by piece in room that the caller gave. */
#pragma once

#include <stddef.h>

#include <weft/export.h>

struct wf_text_line {
    char *text;
    size_t bytes;
    int length; /* as snprintf counts: what would have been written */
};

/** Empty text. `text` NULL: pieces are counted only. */
struct wf_text_line wf_text_line_begin(char *text, size_t bytes);

/** Add a piece by printf rules, as far as it fits. */
void wf_text_line_append(struct wf_text_line *line, const char *format, ...) WEFT_PRINTF(2, 3);
