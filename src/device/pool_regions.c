/*
 * pool_regions.c: headers and regions of the pool: when memory is taken from the system, the shared
 * source or the device, and when it is given back.
 */
#include "device/pool_internal.h"

#include "base/mem.h"
#include "device/device.h"

/* Small blocks are carved from slabs of this size; classes above an eighth of it get a region
 * each. A device maps slowly, and in pages of 2 MiB. */
static const size_t slab_bytes[WF_BLOCK_LISTS] = {
    [WF_BLOCKS_PRIVATE] = 1 << 20,
    [WF_BLOCKS_SHARED] = 1 << 20,
    [WF_BLOCKS_PINNED] = 1 << 20,
    [WF_BLOCKS_DEVICE] = 16 << 20,
};

/* ---- headers ---- */

void wf_pool_add_spare_headers(struct pool *pool)
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

static struct wf_block *new_block_header(struct pool *pool, struct wf_region *region, void *data,
                                         unsigned size_class)
{
    struct wf_block *block;

    if (!pool->spare) wf_pool_add_spare_headers(pool);
    block = pool->spare;
    pool->spare = block->next;
    *block = (struct wf_block){.data = data,
                               .list = (uint8_t)region->list,
                               .size_class = (uint8_t)size_class,
                               .capacity = (int64_t)wf_size_class_capacity(size_class)};
    header_of_block(block)->region = region;
    if (region->list != WF_BLOCKS_DEVICE) FORBID(data, wf_size_class_capacity(size_class));
    return block;
}

static void free_block_header(struct pool *pool, struct wf_block *block)
{
    const struct wf_region *region = header_of_block(block)->region;

    if (!region->orphan && region->list != WF_BLOCKS_DEVICE)
        ALLOW(block->data, (size_t)block->capacity);
    header_of_block(block)->region = NULL;
    block->next = pool->spare;
    pool->spare = block;
}

/* ---- from and to the system ---- */

static bool list_may_use_shared_source(const struct pool *pool, enum wf_block_list list)
{
    return list == WF_BLOCKS_SHARED ||
           (list == WF_BLOCKS_PINNED && pool->comm_list == WF_BLOCKS_SHARED);
}

/* Of shared memory there may be no more: then what is pinned is private. */
static struct wf_region *map_region_from_shared_source(struct pool *pool, size_t bytes,
                                                       enum wf_block_list list)
{
    struct wf_region *region;

    if (pool->refused && bytes >= pool->refused) return NULL;
    pool->system_calls++;
    region = wf_region_map(bytes, list, &pool->source);
    if (!region) pool->refused = bytes;
    return region;
}

static struct wf_region *map_region(struct pool *pool, size_t bytes, enum wf_block_list list)
{
    struct wf_region *region = NULL;

    if (list_may_use_shared_source(pool, list))
        region = map_region_from_shared_source(pool, bytes, list);
    if (!region && list != WF_BLOCKS_SHARED) {
        pool->system_calls++;
        region = wf_region_map(bytes, list, NULL);
    }
    if (!region) return NULL;
    region->reserve = reserve_of_list(pool, list);
    region->next = pool->regions;
    pool->regions = region;
    return region;
}

struct wf_block *wf_pool_carve_block(struct pool *pool, unsigned size_class,
                                     enum wf_block_list list)
{
    size_t capacity = wf_size_class_capacity(size_class);
    struct wf_reserve *reserve = reserve_of_list(pool, list);
    struct wf_region **slab = reserve ? &reserve->slab : &pool->slab[list], *region;
    void *data;

    if (capacity > slab_bytes[list] / 8) {
        region = map_region(pool, capacity, list);
        return region
                   ? new_block_header(pool, region, wf_region_carve(region, capacity), size_class)
                   : NULL;
    }
    region = *slab;
    data = region ? wf_region_carve(region, capacity) : NULL;
    if (!data) {
        region = map_region(pool, slab_bytes[list], list);
        if (!region) return NULL;
        *slab = region;
        data = wf_region_carve(region, capacity);
    }
    return new_block_header(pool, region, data, size_class);
}

/* Count per region the blocks that lie in free lists; a region is idle when that is all of them. */
static void count_idle_blocks(struct pool *pool)
{
    for (struct wf_region *r = pool->regions; r; r = r->next) r->idle = 0;
    for (int list = 0; list < WF_BLOCK_LISTS; list++)
        for (int c = 0; c < CLASSES; c++)
            for (struct wf_block *b = pool->idle[list][c]; b; b = b->next)
                header_of_block(b)->region->idle++;
}

static bool may_unmap(const struct wf_region *region, enum wf_regions which)
{
    if (region->idle < region->blocks) return false;
    if (which == WF_REGIONS_OF_SOURCE) return region->from_source;
    return which == WF_ALL_REGIONS || region->list == WF_BLOCKS_DEVICE;
}

static void drop_blocks_of_idle_regions(struct pool *pool, struct wf_block **list,
                                        enum wf_regions which)
{
    struct wf_block *block, *next, *kept = NULL;

    for (block = *list; block; block = next) {
        next = block->next;
        if (!may_unmap(header_of_block(block)->region, which)) {
            block->next = kept;
            kept = block;
            continue;
        }
        pool->counts[wf_device_of_list(block->list)].cached -= block->capacity;
        free_block_header(pool, block);
    }
    *list = kept;
}

void wf_pool_unmap_idle_regions(struct pool *pool, enum wf_regions which)
{
    struct wf_region **at = &pool->regions;

    if (wf_device_driver) wf_device_synchronize(); /* it may still use blocks that are idle */
    count_idle_blocks(pool);
    for (int list = 0; list < WF_BLOCK_LISTS; list++)
        for (int c = 0; c < CLASSES; c++)
            drop_blocks_of_idle_regions(pool, &pool->idle[list][c], which);
    while (*at) {
        struct wf_region *region = *at;

        if (!may_unmap(region, which)) {
            at = &region->next;
            continue;
        }
        *at = region->next;
        if (pool->slab[region->list] == region) pool->slab[region->list] = NULL;
        wf_region_unmap(region, &pool->source);
    }
    pool->refused = 0;
}

/* ---- the shared source ---- */

/* To the list of those that are never used again. */
static void orphan_idle_blocks(struct pool *pool, enum wf_block_list list, int size_class)
{
    struct wf_block *block, *next, *kept = NULL;

    for (block = pool->idle[list][size_class]; block; block = next) {
        bool orphan = header_of_block(block)->region->orphan;
        struct wf_block **to = orphan ? &pool->idle[list][ORPHAN_CLASS] : &kept;

        next = block->next;
        block->next = *to;
        *to = block;
    }
    pool->idle[list][size_class] = kept;
}

/* Blocks that outlive their source may still be read by their owner, but are never used again. */
static void orphan_blocks_of_shared_source(struct pool *pool)
{
    for (struct wf_region *r = pool->regions; r; r = r->next) {
        if (!r->from_source) continue;
        wf_region_unpin(r);
        r->orphan = true;
        if (pool->slab[r->list] == r) pool->slab[r->list] = NULL;
    }
    for (struct chunk *chunk = pool->chunks; chunk; chunk = chunk->next)
        for (int i = 0; i < CHUNK_HEADERS; i++)
            if (chunk->headers[i].region && chunk->headers[i].region->orphan)
                chunk->headers[i].block.size_class = ORPHAN_CLASS;
    for (int c = 0; c < ORPHAN_CLASS; c++) {
        orphan_idle_blocks(pool, WF_BLOCKS_SHARED, c);
        orphan_idle_blocks(pool, WF_BLOCKS_PINNED, c);
    }
}

void wf_pool_set_shared_source(const struct wf_mem_source *source)
{
    struct pool *pool = wf_pool_or_new();

    if (pool->comm_list) {
        wf_pool_recycle_held(pool, 0);
        wf_pool_unmap_idle_regions(pool, WF_REGIONS_OF_SOURCE);
        orphan_blocks_of_shared_source(pool);
    }
    pool->comm_list = source ? WF_BLOCKS_SHARED : WF_BLOCKS_PRIVATE;
    pool->source = source ? *source : (struct wf_mem_source){0};
    pool->refused = 0;
}
