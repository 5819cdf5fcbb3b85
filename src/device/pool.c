/*
 * pool.c: the caching allocator behind all tensor bytes.
 *
 * It decides which free list serves a request, when memory is taken from and given back to the
 * system, and what the categories count. Headers lie apart from their data, 64 bytes each in
 * chunks: data of a power-of-two size stay page-aligned, and peers that map shared memory never
 * see a header. Read wf_block_new and wf_block_recycle first: everything else is off the hot path.
 */
#include "device/pool.h"

#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
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
    SLAB = 1 << 20,        /* small blocks are carved from slabs of this size */
    LARGE = SLAB / 8,      /* larger classes get a region each */
    SIMULATED_CLASS = 254, /* no request has it: blocks without storage */
    ORPHAN_CLASS = 255,    /* nor this: blocks of a removed source are never used again */
    CLASSES = 256,
    CHUNK_HEADERS = 255
};

/* One line per header, so that two hot blocks never share one. */
struct header {
    _Alignas(WF_CLASS_UNIT) struct wf_block block;
    struct wf_region *region; /* NULL: the header is spare */
};

struct chunk {
    _Alignas(WF_CLASS_UNIT) struct chunk *next;
    void *memory; /* what malloc returned */
    struct header headers[CHUNK_HEADERS];
};

struct count {
    int64_t live[WF_CATEGORIES], peak[WF_CATEGORIES];
    int64_t live_all, peak_all;
};

struct pool {
    int64_t until_failure; /* counts down on every request; fails on reaching 0 */
    struct count real, simulated;
    int64_t cached;
    int comm_list; /* which lists serve WF_MEM_COMM: 1 while a shared source is installed */
    struct wf_block *idle[2][CLASSES]; /* private, shared */
    struct wf_region *slab[2];
    struct wf_region *regions;
    struct wf_block *spare;
    struct chunk *chunks;
    struct wf_mem_source source;
    size_t refused; /* the shared source had no room for this many bytes */
    int64_t system_calls;
};

static _Thread_local struct pool *mine;

static const char *const category_names[WF_CATEGORIES] = {
    [WF_MEM_WEIGHTS] = "weights",     [WF_MEM_GRADIENTS] = "gradients",
    [WF_MEM_OPTIMIZER] = "optimizer", [WF_MEM_ACTIVATIONS] = "activations",
    [WF_MEM_COMM] = "communication",
};

static struct pool *create_pool(void)
{
    mine = WF_NEW(struct pool);
    mine->until_failure = INT64_MAX;
    return mine;
}

static struct pool *my_pool(void) { return mine ? mine : create_pool(); }

/* ---- headers ---- */

static void allocate_headers(struct pool *pool)
{
    void *memory = wf_calloc(1, sizeof(struct chunk) + WF_CLASS_UNIT);
    uintptr_t aligned = ((uintptr_t)memory + WF_CLASS_UNIT - 1) & ~(uintptr_t)(WF_CLASS_UNIT - 1);
    struct chunk *chunk = (struct chunk *)aligned;

    chunk->memory = memory;
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    for (int i = CHUNK_HEADERS - 1; i >= 0; i--) {
        chunk->headers[i].block.next = pool->spare;
        pool->spare = &chunk->headers[i].block;
    }
}

static struct header *header_of(struct wf_block *block) { return (struct header *)(void *)block; }

static struct wf_block *new_block_header(struct pool *pool, struct wf_region *region, void *data,
                                         unsigned size_class)
{
    struct wf_block *block;

    if (!pool->spare) allocate_headers(pool);
    block = pool->spare;
    pool->spare = block->next;
    *block = (struct wf_block){.data = data,
                               .shared = region->shared,
                               .size_class = (uint8_t)size_class,
                               .capacity = (int64_t)wf_size_class_capacity(size_class)};
    header_of(block)->region = region;
    FORBID(data, wf_size_class_capacity(size_class));
    return block;
}

static void free_block_header(struct pool *pool, struct wf_block *block)
{
    if (!header_of(block)->region->orphan) ALLOW(block->data, (size_t)block->capacity);
    header_of(block)->region = NULL;
    block->next = pool->spare;
    pool->spare = block;
}

/* ---- from and to the system ---- */

static struct wf_region *map_region(struct pool *pool, size_t bytes, bool shared)
{
    struct wf_region *region;

    if (shared && pool->refused && bytes >= pool->refused) return NULL;
    pool->system_calls++;
    region = wf_region_map(bytes, shared ? &pool->source : NULL);
    if (!region) {
        if (shared) pool->refused = bytes;
        return NULL;
    }
    region->next = pool->regions;
    pool->regions = region;
    return region;
}

static struct wf_block *carve_new_block(struct pool *pool, unsigned size_class, bool shared)
{
    size_t capacity = wf_size_class_capacity(size_class);
    struct wf_region *region;
    void *data;

    if (capacity > LARGE) {
        region = map_region(pool, capacity, shared);
        return region
                   ? new_block_header(pool, region, wf_region_carve(region, capacity), size_class)
                   : NULL;
    }
    region = pool->slab[shared];
    data = region ? wf_region_carve(region, capacity) : NULL;
    if (!data) {
        region = map_region(pool, SLAB, shared);
        if (!region) return NULL;
        pool->slab[shared] = region;
        data = wf_region_carve(region, capacity);
    }
    return new_block_header(pool, region, data, size_class);
}

/* Count per region the blocks that lie in free lists; a region is idle when that is all of them. */
static void count_idle_blocks(struct pool *pool)
{
    for (struct wf_region *r = pool->regions; r; r = r->next) r->idle = 0;
    for (int shared = 0; shared < 2; shared++)
        for (int c = 0; c < CLASSES; c++)
            for (struct wf_block *b = pool->idle[shared][c]; b; b = b->next)
                header_of(b)->region->idle++;
}

static void drop_blocks_of_idle_regions(struct pool *pool, struct wf_block **list)
{
    struct wf_block *block, *next, *kept = NULL;

    for (block = *list; block; block = next) {
        struct wf_region *region = header_of(block)->region;

        next = block->next;
        if (region->idle < region->blocks) {
            block->next = kept;
            kept = block;
            continue;
        }
        pool->cached -= block->capacity;
        free_block_header(pool, block);
    }
    *list = kept;
}

static void unmap_idle_regions(struct pool *pool, bool shared_only)
{
    struct wf_region **at = &pool->regions;

    count_idle_blocks(pool);
    for (int shared = shared_only; shared < 2; shared++)
        for (int c = 0; c < CLASSES; c++) drop_blocks_of_idle_regions(pool, &pool->idle[shared][c]);
    while (*at) {
        struct wf_region *region = *at;

        if (region->idle < region->blocks || (shared_only && !region->shared)) {
            at = &region->next;
            continue;
        }
        *at = region->next;
        if (pool->slab[region->shared] == region) pool->slab[region->shared] = NULL;
        wf_region_unmap(region, &pool->source);
    }
    pool->refused = 0;
}

static struct wf_block *take_cached_or_new_block(struct pool *pool, unsigned size_class,
                                                 bool shared)
{
    struct wf_block *block = pool->idle[shared][size_class];

    if (!block) return carve_new_block(pool, size_class, shared);
    pool->idle[shared][size_class] = block->next;
    pool->cached -= block->capacity;
    return block;
}

/* The free list was empty. The shared source may be full: then private memory serves, and where
 * the system is out of memory, what lies cached in other classes is given back first. */
static struct wf_block *new_block_trimming_if_full(struct pool *pool, size_t bytes,
                                                   unsigned size_class, bool shared)
{
    struct wf_block *block = NULL;

    if (bytes > (size_t)PTRDIFF_MAX / 2) return NULL;
    if (shared) block = take_cached_or_new_block(pool, size_class, true);
    if (!block) block = take_cached_or_new_block(pool, size_class, false);
    if (block) return block;
    unmap_idle_regions(pool, false);
    return carve_new_block(pool, size_class, false);
}

static struct wf_block *fail_out_of_memory(struct pool *pool, size_t bytes,
                                           enum wf_category category)
{
    pool->until_failure = INT64_MAX;
    WF_FAIL_LOCAL(WEFT_ERR_MEMORY, "no memory for %zu bytes of %s (%lld bytes are live)", bytes,
                  category_names[category], (long long)pool->real.live_all);
    return NULL;
}

/* ---- the hot path ---- */

static void add_live_bytes(struct count *count, enum wf_category category, int64_t bytes)
{
    int64_t live = count->live[category] += bytes;

    if (live > count->peak[category]) count->peak[category] = live;
}

static void count_new_block(struct count *count, const struct wf_block *block)
{
    add_live_bytes(count, block->category, block->bytes);
    count->live_all += block->bytes;
    if (count->live_all > count->peak_all) count->peak_all = count->live_all;
}

struct wf_block *wf_block_new(size_t bytes, enum wf_category category)
{
    struct pool *pool = my_pool();
    unsigned size_class = wf_size_class_of(bytes);
    bool shared = category == WF_MEM_COMM && pool->comm_list;
    struct wf_block *block = pool->idle[shared][size_class];

    if (--pool->until_failure == 0) return fail_out_of_memory(pool, bytes, category);
    if (block) {
        pool->idle[shared][size_class] = block->next;
        pool->cached -= block->capacity;
    } else {
        block = new_block_trimming_if_full(pool, bytes, size_class, shared);
        if (!block) return fail_out_of_memory(pool, bytes, category);
    }
    ALLOW(block->data, bytes);
    block->refs = 1;
    block->category = (uint8_t)category;
    block->bytes = (int64_t)bytes;
    count_new_block(&pool->real, block);
    return block;
}

/* True when nothing is left to do. */
static bool recycle_special_cases(struct pool *pool, struct wf_block *block)
{
    if (block->special_cases & WF_BLOCK_SHARES_VERSION) wf_block_unshare_version(block);
    if (!(block->special_cases & WF_BLOCK_SIMULATED)) return false;
    pool->simulated.live[block->category] -= block->bytes;
    pool->simulated.live_all -= block->bytes;
    block->special_cases = 0;
    block->next = pool->spare;
    pool->spare = block;
    return true;
}

void wf_block_recycle(struct wf_block *block)
{
    struct pool *pool = mine;
    struct wf_block **list = &pool->idle[block->shared][block->size_class];

    WF_ASSERT(block->refs == 0);
    if (block->special_cases && recycle_special_cases(pool, block)) return;
    FORBID(block->data, (size_t)block->capacity);
    pool->real.live[block->category] -= block->bytes;
    pool->real.live_all -= block->bytes;
    pool->cached += block->capacity;
    block->next = *list;
    *list = block;
}

void wf_block_recategorize(struct wf_block *block, enum wf_category category)
{
    struct count *count = block->size_class == SIMULATED_CLASS ? &mine->simulated : &mine->real;

    count->live[block->category] -= block->bytes;
    block->category = (uint8_t)category;
    add_live_bytes(count, category, block->bytes);
}

struct wf_block *wf_block_new_simulated(size_t bytes, enum wf_category category)
{
    struct pool *pool = my_pool();
    struct wf_block *block;

    if (!pool->spare) allocate_headers(pool);
    block = pool->spare;
    pool->spare = block->next;
    *block = (struct wf_block){.refs = 1,
                               .category = (uint8_t)category,
                               .size_class = SIMULATED_CLASS,
                               .special_cases = WF_BLOCK_SIMULATED,
                               .bytes = (int64_t)bytes};
    count_new_block(&pool->simulated, block);
    return block;
}

/* ---- settings, figures, the end ---- */

/* Blocks that outlive their source may still be read by their owner, but are never used again. */
static void orphan_shared_blocks(struct pool *pool)
{
    for (struct wf_region *r = pool->regions; r; r = r->next) r->orphan = r->orphan || r->shared;
    for (struct chunk *chunk = pool->chunks; chunk; chunk = chunk->next)
        for (int i = 0; i < CHUNK_HEADERS; i++)
            if (chunk->headers[i].region && chunk->headers[i].block.shared)
                chunk->headers[i].block.size_class = ORPHAN_CLASS;
    for (int c = 0; c < ORPHAN_CLASS; c++) {
        while (pool->idle[1][c]) {
            struct wf_block *block = pool->idle[1][c];

            pool->idle[1][c] = block->next;
            block->next = pool->idle[1][ORPHAN_CLASS];
            pool->idle[1][ORPHAN_CLASS] = block;
        }
    }
    pool->slab[1] = NULL;
}

void wf_pool_set_shared_source(const struct wf_mem_source *source)
{
    struct pool *pool = my_pool();

    if (pool->comm_list) {
        unmap_idle_regions(pool, true);
        orphan_shared_blocks(pool);
    }
    pool->comm_list = source != NULL;
    pool->source = source ? *source : (struct wf_mem_source){0};
    pool->refused = 0;
}

static struct wf_pool_stats stats_from_count(const struct count *count, enum wf_category category,
                                             int64_t cached)
{
    if (category == WF_CATEGORIES)
        return (struct wf_pool_stats){count->live_all, count->peak_all, cached};
    return (struct wf_pool_stats){count->live[category], count->peak[category], 0};
}

struct wf_pool_stats wf_pool_stats(enum wf_category category)
{
    return stats_from_count(&my_pool()->real, category, my_pool()->cached);
}

struct wf_pool_stats wf_pool_simulated_stats(enum wf_category category)
{
    return stats_from_count(&my_pool()->simulated, category, 0);
}

static void reset_peak_bytes(struct count *count)
{
    memcpy(count->peak, count->live, sizeof count->peak);
    count->peak_all = count->live_all;
}

void wf_pool_reset_peak(void)
{
    reset_peak_bytes(&my_pool()->real);
    reset_peak_bytes(&my_pool()->simulated);
}

int64_t wf_pool_system_calls(void) { return my_pool()->system_calls; }

void wf_pool_fail_nth_request(int64_t n) { my_pool()->until_failure = n > 0 ? n : INT64_MAX; }

void wf_pool_trim(void)
{
    if (mine) unmap_idle_regions(mine, false);
}

/* A block that somebody still holds keeps its region and the pool: a late release must not crash.
 */
void wf_pool_finalize(void)
{
    struct chunk *chunk, *next;

    if (!mine) return;
    unmap_idle_regions(mine, false);
    if (mine->regions || mine->simulated.live_all) {
        WF_LOG(WF_LOG_INFO, "memory", "%lld bytes are still held at the end",
               (long long)mine->real.live_all);
        return;
    }
    for (chunk = mine->chunks; chunk; chunk = next) {
        next = chunk->next;
        wf_free(chunk->memory);
    }
    wf_free(mine);
    mine = NULL;
}
