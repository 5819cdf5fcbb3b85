/* mem.c: the only callers of malloc in the library. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static void *die_if_out_of_memory(void *p, size_t bytes)
{
    if (!p && bytes) WF_DIE("out of memory: %zu bytes of metadata", bytes);
    return p;
}

void *wf_malloc(size_t bytes) { return die_if_out_of_memory(malloc(bytes), bytes); }

void *wf_calloc(size_t count, size_t bytes)
{
    return die_if_out_of_memory(calloc(count, bytes), count * bytes);
}

void *wf_malloc_aligned(size_t bytes)
{
    return die_if_out_of_memory(aligned_alloc(bytes, bytes), bytes);
}

void *wf_realloc(void *old, size_t bytes)
{
    return die_if_out_of_memory(realloc(old, bytes), bytes);
}

char *wf_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;

    return memcpy(wf_malloc(bytes), text, bytes);
}

char *wf_format(const char *format, ...)
{
    va_list args, again;
    int length;
    char *text;

    va_start(args, format);
    va_copy(again, args);
    length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    text = wf_malloc((size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

void wf_free(void *p) { free(p); }
