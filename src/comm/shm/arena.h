/*
 * arena.h: a rank's address space that peers can read: whole pages are handed out and taken back.
 * The pool asks for large pieces and keeps them, so this is called rarely.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { WF_ARENA_PAGE = 4096 };

struct wf_arena_gap {
    size_t offset, bytes;
};

struct wf_arena {
    char *base;
    size_t bytes;
    int fd;       /* behind the memory; -1: none, pages stay committed */
    bool reserve; /* commit pages when they are handed out: the file system may be full */
    struct wf_arena_gap *gaps; /* free pieces by rising offset, never touching each other */
    size_t n_gaps, room;
};

void wf_arena_init(struct wf_arena *arena, void *base, size_t bytes, int fd, bool reserve);
void wf_arena_destroy(struct wf_arena *arena);

/** Whole pages, zeroed when the arena has a file; NULL when there is no room. */
void *wf_arena_alloc_pages(struct wf_arena *arena, size_t bytes);
void wf_arena_free_pages(struct wf_arena *arena, void *p, size_t bytes);
