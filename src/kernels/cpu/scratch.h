/*
 * scratch.h: working memory of the kernels of one thread, shared by all its plans.
 *
 * A kernel runs to its end before the next one starts, so one buffer, as large as the largest
 * request, serves them all and stays in the cache. A plan reserves when it is prepared and
 * releases when it is dropped, by the same thread; the last release frees the buffer.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** Bytes rounded up so that the next region begins on a cache line. */
static inline size_t wf_scratch_round_up(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

void wf_scratch_reserve(size_t bytes);
void wf_scratch_release(void);

/** The buffer, 64-byte aligned; valid during one run, since a later reservation may move it. */
void *wf_scratch_buffer(void);
