/*
 * region.h: address space for the pool, from the system, from the shared source or from the device.
 *
 * A region serves one large block, or is a slab from which small ones are carved in order. It
 * knows how many blocks lie in it, so that the pool can tell when all of them are idle.
 */
#pragma once

#include "device/pool.h"

struct wf_region {
    char *base;
    size_t bytes, used;
    int blocks, idle; /* carved; found in free lists (counted while trimming) */
    enum wf_block_list list;
    bool from_source; /* the shared one */
    bool pinned;
    bool orphan;                /* its source was removed: the memory is not ours to give back */
    struct wf_reserve *reserve; /* the graph whose memory it is; NULL: none */
    struct wf_region *next;
};

/** Memory for a list. `source` NULL: private memory, zero-filled by the system, with huge pages
 * when large, or the device's. gives: NULL when there is no more */
struct wf_region *wf_region_map(size_t bytes, enum wf_block_list list,
                                const struct wf_mem_source *source);
void wf_region_unmap(struct wf_region *region, const struct wf_mem_source *source);

/** From now on the device does not know it. */
void wf_region_unpin(struct wf_region *region);

/** The next `bytes` of the region, NULL when they do not fit. */
void *wf_region_carve(struct wf_region *region, size_t bytes);
