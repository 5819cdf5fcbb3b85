/*
 * pool_internal.h: what the files of the pool share: its lists, headers and counts. pool.c has what
 * every block passes, pool_regions.c where memory comes from and goes to, pool_streams.c blocks
 * that a stream still uses.
 */
#pragma once

#include "device/region.h"
#include "device/size_class.h"

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#define FORBID(p, bytes) ASAN_POISON_MEMORY_REGION(p, bytes)
#define ALLOW(p, bytes) ASAN_UNPOISON_MEMORY_REGION(p, bytes)
#else
#define FORBID(p, bytes) ((void)(p), (void)(bytes))
#define ALLOW(p, bytes) ((void)(p), (void)(bytes))
#endif

enum {
    SIMULATED_CLASS = 254, /* no request has it: blocks without storage */
    ORPHAN_CLASS = 255,    /* nor this: blocks of a removed source are never used again */
    CLASSES = 256,
    CHUNK_HEADERS = 255
};

/* One line per header, so that two hot blocks never share one. */
struct block_header {
    _Alignas(WF_CLASS_UNIT) struct wf_block block;
    struct wf_region *region; /* NULL: the header is spare */
};

struct chunk {
    _Alignas(WF_CLASS_UNIT) struct chunk *next;
    void *memory; /* what malloc returned */
    struct block_header headers[CHUNK_HEADERS];
};

struct memory_counts {
    int64_t live[WF_CATEGORIES], peak[WF_CATEGORIES];
    int64_t live_all, peak_all, cached;
};

/* A released block that a stream still uses until the event. */
struct held_block {
    struct wf_block *block;
    struct wf_device_event *event;
};

struct pool {
    int64_t until_failure; /* counts down on every request; fails on reaching 0 */
    struct memory_counts counts[WEFT_DEVICES];
    enum wf_block_list comm_list; /* which list serves WF_MEM_COMM: WF_BLOCKS_SHARED while a shared
                      source is installed */
    struct wf_block *idle[WF_BLOCK_LISTS][CLASSES];
    struct wf_region *slab[WF_BLOCK_LISTS];
    struct wf_region *regions;
    struct wf_block *spare;
    struct chunk *chunks;
    struct wf_mem_source source;
    size_t refused; /* the shared source had no room for this many bytes */
    int64_t system_calls;
    struct held_block *held; /* a queue, in the order of release: `n_held` from `first_held` on */
    int n_held, first_held, held_room;
    int64_t held_bytes;
    struct wf_reserve
        *reserve; /* from which blocks of the device are taken; NULL: the lists above */
};

/* The device's memory that a captured step uses (pool_reserve.c). Its blocks come from regions of
 * its own, and go back to them. */
struct wf_reserve {
    struct wf_block *idle[CLASSES];
    struct wf_region *slab;
    struct reserved_block *outside; /* that were there before */
    int n_outside;
};

extern _Thread_local struct pool *wf_pool_of_thread;

/** This thread's pool; made when it has none. */
struct pool *wf_pool_or_new(void);

static inline weft_device wf_device_of_list(enum wf_block_list list)
{
    return list == WF_BLOCKS_DEVICE ? WEFT_CUDA : WEFT_CPU;
}

static inline struct block_header *header_of_block(struct wf_block *block)
{
    return (struct block_header *)(void *)block;
}

/** Where idle blocks of a region lie. */
static inline struct wf_block **idle_blocks_of_region(struct pool *pool,
                                                      const struct wf_region *region)
{
    return region->reserve ? region->reserve->idle : pool->idle[region->list];
}

/** The reserve that blocks of this list come from now; NULL: none. */
static inline struct wf_reserve *reserve_of_list(const struct pool *pool, enum wf_block_list list)
{
    return list == WF_BLOCKS_DEVICE ? pool->reserve : NULL;
}

/* ---- pool_regions.c ---- */

void wf_pool_add_spare_headers(struct pool *pool);

/** A block of the list; NULL when there is no more memory for it. */
struct wf_block *wf_pool_carve_block(struct pool *pool, unsigned size_class,
                                     enum wf_block_list list);

/** Give regions back all of whose blocks are idle: all, those of the shared source, or those of the
 * device. */
enum wf_regions { WF_ALL_REGIONS, WF_REGIONS_OF_SOURCE, WF_REGIONS_OF_DEVICE };
void wf_pool_unmap_idle_regions(struct pool *pool, enum wf_regions which);

/* ---- pool_streams.c ---- */

/** Hold the released block back until the streams that it names have run; false: they use it no
 *  longer. */
bool wf_pool_hold_block(struct pool *pool, struct wf_block *block);

/** Put blocks back to their lists that no stream uses any longer, waiting until at most `most`
 * bytes are held. */
void wf_pool_recycle_held(struct pool *pool, int64_t most);

/** Its bytes are nobody's any longer: to the free list of its class. */
void wf_pool_push_idle(struct pool *pool, struct wf_block *block);
