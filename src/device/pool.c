/*
 * pool.c: the caching allocator behind all tensor bytes.
 *
 * It decides which free list serves a request and what the categories count. Headers lie apart from
 * their data, 64 bytes each in chunks: data of a power-of-two size stay page-aligned, and peers
 * that map shared memory never see a header. Read wf_block_new and wf_block_recycle first:
 * everything else is off the hot path.
 */
#include "device/pool.h"

#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/recorder.h"
#include "device/capture.h"
#include "device/device.h"
#include "device/pool_internal.h"

enum { MOST_HELD_BYTES = 64 << 20 }; /* of pinned memory, before the host waits for it */

_Thread_local struct pool *wf_pool_of_thread;

static const char *const category_names[WF_CATEGORIES] = {
    [WF_MEM_WEIGHTS] = "weights",     [WF_MEM_GRADIENTS] = "gradients",
    [WF_MEM_OPTIMIZER] = "optimizer", [WF_MEM_ACTIVATIONS] = "activations",
    [WF_MEM_COMM] = "communication",
};

static struct pool *create_pool(void)
{
    wf_pool_of_thread = WF_NEW(struct pool);
    wf_pool_of_thread->until_failure = INT64_MAX;
    return wf_pool_of_thread;
}

static struct pool *my_pool(void) { return wf_pool_of_thread ? wf_pool_of_thread : create_pool(); }

struct pool *wf_pool_or_new(void) { return my_pool(); }

static struct wf_block *take_cached_or_new_block(struct pool *pool, unsigned size_class,
                                                 enum wf_block_list list)
{
    struct wf_reserve *reserve = reserve_of_list(pool, list);
    struct wf_block **idle = reserve ? reserve->idle : pool->idle[list], *block = idle[size_class];

    if (!block) return wf_pool_carve_block(pool, size_class, list);
    idle[size_class] = block->next;
    pool->counts[wf_device_of_list(list)].cached -= block->capacity;
    return block;
}

/* The free list was empty. The shared source may be full: then private memory serves, and where
 * there is no more memory, what lies cached in other classes is given back first. */
static struct wf_block *new_block_trimming_if_full(struct pool *pool, size_t bytes,
                                                   unsigned size_class, enum wf_block_list list)
{
    struct wf_block *block;

    if (bytes > (size_t)PTRDIFF_MAX / 2) return NULL;
    block = take_cached_or_new_block(pool, size_class, list);
    if (!block && list == WF_BLOCKS_SHARED) {
        list = WF_BLOCKS_PRIVATE;
        block = take_cached_or_new_block(pool, size_class, list);
    }
    if (block) return block;
    wf_capture_leave_for_local_reason("there is no memory for %zu bytes on the %s", bytes,
                                      list == WF_BLOCKS_DEVICE ? "GPU" : "host");
    wf_pool_recycle_held(pool, 0);
    wf_pool_unmap_idle_regions(pool,
                               list == WF_BLOCKS_DEVICE ? WF_REGIONS_OF_DEVICE : WF_ALL_REGIONS);
    return wf_pool_carve_block(pool, size_class, list);
}

static struct wf_block *fail_out_of_memory(struct pool *pool, weft_device device, size_t bytes,
                                           enum wf_category category)
{
    pool->until_failure = INT64_MAX;
    WF_FAIL_LOCAL(WEFT_ERR_MEMORY, "no memory%s for %zu bytes of %s (%lld bytes are live)",
                  device == WEFT_CUDA ? " on the GPU" : "", bytes, category_names[category],
                  (long long)pool->counts[device].live_all);
    return NULL;
}

/* ---- the hot path ---- */

static void add_live_bytes(struct memory_counts *count, enum wf_category category, int64_t bytes)
{
    int64_t live = count->live[category] += bytes;

    if (live > count->peak[category]) count->peak[category] = live;
}

static void count_new_block(struct memory_counts *count, const struct wf_block *block)
{
    add_live_bytes(count, block->category, block->bytes);
    count->live_all += block->bytes;
    if (count->live_all > count->peak_all) count->peak_all = count->live_all;
}

static void init_live_block(struct memory_counts *count, struct wf_block *block, size_t bytes,
                            enum wf_category category)
{
    block->refs = 1;
    block->category = (uint8_t)category;
    block->bytes = (int64_t)bytes;
    count_new_block(count, block);
    if (wf_recorder) wf_recorder->block_made(wf_recorder, block);
}

/* Called in the last place: a caller that calls nothing else has no registers to save.
 * `until_failure` has been counted down. */
__attribute__((noinline)) static struct wf_block *
new_block_off_hot_path(struct pool *pool, size_t bytes, enum wf_category category)
{
    unsigned size_class = wf_size_class_of(bytes);
    struct wf_block *block = NULL;

    if (pool->until_failure)
        block = new_block_trimming_if_full(
            pool, bytes, size_class, category == WF_MEM_COMM ? pool->comm_list : WF_BLOCKS_PRIVATE);
    if (!block) return fail_out_of_memory(pool, WEFT_CPU, bytes, category);
    ALLOW(block->data, bytes);
    init_live_block(&pool->counts[WEFT_CPU], block, bytes, category);
    return block;
}

__attribute__((noinline)) static struct wf_block *new_block_of_new_pool(size_t bytes,
                                                                        enum wf_category category)
{
    create_pool();
    return wf_block_new(bytes, category);
}

struct wf_block *wf_block_new(size_t bytes, enum wf_category category)
{
    struct pool *pool = wf_pool_of_thread;
    struct wf_block *block, **list;

    if (!pool) return new_block_of_new_pool(bytes, category);
    list = &pool->idle[category == WF_MEM_COMM && pool->comm_list][wf_size_class_of(bytes)];
    block = *list;
    if (--pool->until_failure == 0 || !block) return new_block_off_hot_path(pool, bytes, category);
    *list = block->next;
    pool->counts[WEFT_CPU].cached -= block->capacity;
    ALLOW(block->data, bytes);
    init_live_block(&pool->counts[WEFT_CPU], block, bytes, category);
    return block;
}

weft_device wf_block_device(const struct wf_block *block)
{
    if (block->size_class == SIMULATED_CLASS) return WEFT_META;
    return wf_device_of_list(block->list);
}

static void remove_live_bytes(struct pool *pool, const struct wf_block *block)
{
    struct memory_counts *count = &pool->counts[wf_block_device(block)];

    count->live[block->category] -= block->bytes;
    count->live_all -= block->bytes;
}

static void recycle_simulated(struct pool *pool, struct wf_block *block)
{
    block->flags = 0;
    block->next = pool->spare;
    pool->spare = block;
}

void wf_pool_push_idle(struct pool *pool, struct wf_block *block)
{
    struct wf_block **list =
        &idle_blocks_of_region(pool, header_of_block(block)->region)[block->size_class];

    block->flags = 0;
    if (block->list != WF_BLOCKS_DEVICE) FORBID(block->data, (size_t)block->capacity);
    pool->counts[wf_block_device(block)].cached += block->capacity;
    block->next = *list;
    *list = block;
}

__attribute__((noinline)) static void recycle_flagged(struct pool *pool, struct wf_block *block)
{
    if (block->flags & WF_BLOCK_RECORDED && wf_recorder)
        wf_recorder->block_released(wf_recorder, block);
    if (block->flags & WF_BLOCK_ALIASED) wf_block_unshare_version(block);
    remove_live_bytes(pool, block);
    if (block->flags & WF_BLOCK_SIMULATED)
        recycle_simulated(pool, block);
    else if (!wf_pool_hold_block(pool, block))
        wf_pool_push_idle(pool, block);
}

void wf_block_recycle(struct wf_block *block)
{
    struct pool *pool = wf_pool_of_thread;
    struct wf_block **list;

    WF_ASSERT(block->refs == 0);
    if (block->flags) {
        recycle_flagged(pool, block);
        return;
    }
    list = &pool->idle[block->list][block->size_class];
    FORBID(block->data, (size_t)block->capacity);
    pool->counts[WEFT_CPU].live[block->category] -= block->bytes;
    pool->counts[WEFT_CPU].live_all -= block->bytes;
    pool->counts[WEFT_CPU].cached += block->capacity;
    block->next = *list;
    *list = block;
}

void wf_block_recategorize(struct wf_block *block, enum wf_category category)
{
    struct memory_counts *count = &wf_pool_of_thread->counts[wf_block_device(block)];

    count->live[block->category] -= block->bytes;
    block->category = (uint8_t)category;
    add_live_bytes(count, category, block->bytes);
}

struct wf_block *wf_block_new_simulated(size_t bytes, enum wf_category category)
{
    struct pool *pool = my_pool();
    struct wf_block *block;

    if (!pool->spare) wf_pool_add_spare_headers(pool);
    block = pool->spare;
    pool->spare = block->next;
    *block = (struct wf_block){.refs = 1,
                               .category = (uint8_t)category,
                               .size_class = SIMULATED_CLASS,
                               .flags = WF_BLOCK_SIMULATED,
                               .bytes = (int64_t)bytes};
    count_new_block(&pool->counts[WEFT_META], block);
    if (wf_recorder && wf_recorder->hears_meta) wf_recorder->block_made(wf_recorder, block);
    return block;
}

/* ---- devices ---- */

static struct wf_block *new_block_of_list(size_t bytes, enum wf_category category,
                                          enum wf_block_list list, unsigned flags)
{
    weft_device device = wf_device_of_list(list);
    struct pool *pool = my_pool();
    unsigned size_class = wf_size_class_of(bytes);
    struct wf_block *block;

    if (--pool->until_failure == 0) return fail_out_of_memory(pool, device, bytes, category);
    wf_pool_recycle_held(pool, INT64_MAX);
    block = new_block_trimming_if_full(pool, bytes, size_class, list);
    if (!block) return fail_out_of_memory(pool, device, bytes, category);
    if (list != WF_BLOCKS_DEVICE) ALLOW(block->data, bytes);
    block->flags = (uint8_t)flags;
    init_live_block(&pool->counts[device], block, bytes, category);
    return block;
}

struct wf_block *wf_block_new_on(weft_device device, size_t bytes, enum wf_category category)
{
    if (device == WEFT_CPU) return wf_block_new(bytes, category);
    if (device == WEFT_META) return wf_block_new_simulated(bytes, category);
    WF_TRY_PTR(wf_device_ensure_open(device));
    return new_block_of_list(bytes, category, WF_BLOCKS_DEVICE, WF_BLOCK_ON_DEVICE);
}

struct wf_block *wf_block_new_pinned(size_t bytes)
{
    wf_pool_recycle_held(my_pool(), MOST_HELD_BYTES);
    return new_block_of_list(bytes, WF_MEM_COMM, WF_BLOCKS_PINNED, 0);
}

struct wf_block *wf_block_new_pinned_or_die(size_t bytes, const char *what)
{
    struct wf_block *block = wf_block_new_pinned(bytes);

    if (!block) WF_DIE("%s: %s", what, weft_error_message());
    return block;
}

/* ---- figures, the end ---- */

struct wf_pool_stats wf_pool_stats_on(weft_device device, enum wf_category category)
{
    const struct memory_counts *count = &my_pool()->counts[device];

    if (category == WF_CATEGORIES)
        return (struct wf_pool_stats){count->live_all, count->peak_all, count->cached};
    return (struct wf_pool_stats){count->live[category], count->peak[category], 0};
}

struct wf_pool_stats wf_pool_stats(enum wf_category category)
{
    return wf_pool_stats_on(WEFT_CPU, category);
}

static void reset_peak_bytes(struct memory_counts *count)
{
    memcpy(count->peak, count->live, sizeof count->peak);
    count->peak_all = count->live_all;
}

void wf_pool_reset_peak(void)
{
    for (int d = 0; d < WEFT_DEVICES; d++) reset_peak_bytes(&my_pool()->counts[d]);
}

int64_t wf_pool_system_calls(void) { return my_pool()->system_calls; }

void wf_pool_fail_nth_request(int64_t n) { my_pool()->until_failure = n > 0 ? n : INT64_MAX; }

void wf_pool_trim(void)
{
    if (!wf_pool_of_thread) return;
    wf_pool_recycle_held(wf_pool_of_thread, 0);
    wf_pool_unmap_idle_regions(wf_pool_of_thread, WF_ALL_REGIONS);
}

void wf_pool_trim_device(void)
{
    if (!wf_pool_of_thread || !wf_device_driver || wf_capture_of_thread) return;
    wf_pool_recycle_held(wf_pool_of_thread, 0);
    wf_pool_unmap_idle_regions(wf_pool_of_thread, WF_REGIONS_OF_DEVICE);
}

/* A block that somebody still holds keeps its region and the pool: a late release must not crash.
 */
void wf_pool_finalize(void)
{
    struct pool *pool = wf_pool_of_thread;
    struct chunk *chunk, *next;

    if (!pool) return;
    wf_pool_trim();
    if (pool->regions || pool->counts[WEFT_META].live_all) {
        WF_LOG(WF_LOG_INFO, "memory", "%lld bytes are still held at the end",
               (long long)(pool->counts[WEFT_CPU].live_all + pool->counts[WEFT_CUDA].live_all));
        return;
    }
    for (chunk = pool->chunks; chunk; chunk = next) {
        next = chunk->next;
        wf_free(chunk->memory);
    }
    wf_free(pool->held);
    wf_free(pool);
    wf_pool_of_thread = NULL;
}
