/* text_line.c: text that is put together piece by piece in room that the caller gave. */
#include "base/text/text_line.h"

#include <stdarg.h>
#include <stdio.h>

struct wf_text_line wf_text_line_begin(char *text, size_t bytes)
{
    struct wf_text_line line = {.text = text, .bytes = text ? bytes : 0};

    if (line.bytes) text[0] = '\0';
    return line;
}

void wf_text_line_append(struct wf_text_line *line, const char *format, ...)
{
    size_t used = (size_t)line->length < line->bytes ? (size_t)line->length : line->bytes;
    va_list args;

    va_start(args, format);
    /* NULL has no place behind its beginning. */
    line->length +=
        vsnprintf(used < line->bytes ? line->text + used : NULL, line->bytes - used, format, args);
    va_end(args);
}
