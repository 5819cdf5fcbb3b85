/* arena.c: first fit over a sorted list of gaps. Freed pages go back to the system at once. */
#include "comm/shm/arena.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/mem.h"

static size_t round_up_to_pages(size_t bytes)
{
    return bytes ? (bytes + WF_ARENA_PAGE - 1) / WF_ARENA_PAGE * WF_ARENA_PAGE : WF_ARENA_PAGE;
}

static void insert_gap(struct wf_arena *arena, size_t at, struct wf_arena_gap gap)
{
    if (arena->n_gaps == arena->room) {
        arena->room = arena->room ? 2 * arena->room : 16;
        arena->gaps = wf_realloc(arena->gaps, arena->room * sizeof *arena->gaps);
    }
    memmove(arena->gaps + at + 1, arena->gaps + at, (arena->n_gaps - at) * sizeof *arena->gaps);
    arena->gaps[at] = gap;
    arena->n_gaps++;
}

static void remove_gap(struct wf_arena *arena, size_t at)
{
    arena->n_gaps--;
    memmove(arena->gaps + at, arena->gaps + at + 1, (arena->n_gaps - at) * sizeof *arena->gaps);
}

void wf_arena_init(struct wf_arena *arena, void *base, size_t bytes, int fd, bool reserve)
{
    *arena = (struct wf_arena){.base = base, .bytes = bytes, .fd = fd, .reserve = reserve};
    insert_gap(arena, 0, (struct wf_arena_gap){0, bytes});
}

void wf_arena_destroy(struct wf_arena *arena)
{
    wf_free(arena->gaps);
    *arena = (struct wf_arena){.fd = -1};
}

void *wf_arena_alloc_pages(struct wf_arena *arena, size_t bytes)
{
    size_t wanted = round_up_to_pages(bytes), at = 0, offset;

    while (at < arena->n_gaps && arena->gaps[at].bytes < wanted) at++;
    if (at == arena->n_gaps) return NULL;
    offset = arena->gaps[at].offset;
    if (arena->reserve && posix_fallocate(arena->fd, (off_t)offset, (off_t)wanted) != 0)
        return NULL;
    arena->gaps[at].offset += wanted;
    arena->gaps[at].bytes -= wanted;
    if (!arena->gaps[at].bytes) remove_gap(arena, at);
    return arena->base + offset;
}

void wf_arena_free_pages(struct wf_arena *arena, void *p, size_t bytes)
{
    struct wf_arena_gap gap = {(size_t)((char *)p - arena->base), round_up_to_pages(bytes)};
    size_t at = 0;

    WF_ASSERT((char *)p >= arena->base && gap.offset + gap.bytes <= arena->bytes);
    if (arena->fd >= 0) (void)madvise(p, gap.bytes, MADV_REMOVE);
    while (at < arena->n_gaps && arena->gaps[at].offset < gap.offset) at++;
    insert_gap(arena, at, gap);
    if (at + 1 < arena->n_gaps && gap.offset + gap.bytes == arena->gaps[at + 1].offset) {
        arena->gaps[at].bytes += arena->gaps[at + 1].bytes;
        remove_gap(arena, at + 1);
    }
    if (at > 0 && arena->gaps[at - 1].offset + arena->gaps[at - 1].bytes == gap.offset) {
        arena->gaps[at - 1].bytes += arena->gaps[at].bytes;
        remove_gap(arena, at);
    }
}
