/*
 * malloc_count.c: malloc and its kin with a counter, in front of glibc's own.
 *
 * Linked into a program, these serve every library in it. glibc exports its own functions under a
 * second name for exactly this use.
 */
#include "support/malloc_count.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

/* The program's own symbols are hidden by default; these must be seen by every library in it. */
#pragma GCC visibility push(default)

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static atomic_llong calls;

void *malloc(size_t bytes)
{
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    return __libc_calloc(count, bytes);
}

void *realloc(void *p, size_t bytes)
{
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    return __libc_realloc(p, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void **p, size_t alignment, size_t bytes)
{
    *p = memalign(alignment, bytes);
    return *p ? 0 : ENOMEM;
}

#pragma GCC visibility pop

int64_t malloc_count(void) { return atomic_load(&calls); }
