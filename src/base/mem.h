/*
 * mem.h: memory for metadata (handles, tables, plans). Tensor bytes come from device/pool.h.
 * These never return NULL: no memory for metadata is fatal for the job.
 */
#pragma once

#include <stddef.h>

void *wf_malloc(size_t bytes);
void *wf_calloc(size_t count, size_t bytes);
/** Aligned to its size: a power of two. */
void *wf_malloc_aligned(size_t bytes);
void *wf_realloc(void *old, size_t bytes);
char *wf_strdup(const char *text);
/** wf_malloc'ed text made by printf rules. */
char *wf_format(const char *format, ...);
void wf_free(void *p);

#define WF_NEW(type) ((type *)wf_calloc(1, sizeof(type)))
