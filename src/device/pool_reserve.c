/*
 * pool_reserve.c: a graph writes to the same addresses in every launch. So the blocks that its step
 * makes are never given to others, whoever has released them: they come from regions of the graph's
 * own, and lie in its own free lists. What was there before and what the step reads or writes of it
 * nobody knows, so all of it is kept.
 */
#include "device/pool_reserve.h"

#include "base/array_grow.h"
#include "base/mem.h"
#include "device/device.h"
#include "device/pool_internal.h"

struct reserved_block {
    struct wf_block *block;
    uint32_t version, writes; /* at open; in place, until close */
};

static bool is_live_on_device(const struct block_header *header)
{
    return header->region && header->block.list == WF_BLOCKS_DEVICE && header->block.refs > 0;
}

static void retain_outside_blocks(const struct pool *pool, struct wf_reserve *reserve)
{
    for (struct chunk *chunk = pool->chunks; chunk; chunk = chunk->next)
        for (int i = 0; i < CHUNK_HEADERS; i++) {
            struct wf_block *block = &chunk->headers[i].block;

            if (!is_live_on_device(&chunk->headers[i])) continue;
            reserve->outside =
                wf_array_grow(reserve->outside, reserve->n_outside, sizeof *reserve->outside);
            reserve->outside[reserve->n_outside++] =
                (struct reserved_block){wf_block_retain(block), block->version, 0};
        }
}

struct wf_reserve *wf_reserve_open(bool keeps)
{
    struct wf_reserve *reserve = WF_NEW(struct wf_reserve);
    struct pool *pool = wf_pool_or_new();

    if (keeps) retain_outside_blocks(pool, reserve);
    pool->reserve = reserve;
    return reserve;
}

bool wf_reserve_close(struct wf_reserve *reserve)
{
    bool lost = false;

    wf_pool_of_thread->reserve = NULL;
    for (int i = 0; i < reserve->n_outside; i++) {
        struct reserved_block *outside = &reserve->outside[i];

        outside->writes = outside->block->version - outside->version;
        lost |= outside->block->refs == 1;
    }
    return lost;
}

void wf_reserve_record_writes(struct wf_reserve *reserve)
{
    for (int i = 0; i < reserve->n_outside; i++)
        for (uint32_t n = reserve->outside[i].writes; n > 0; n--)
            wf_block_record_write(reserve->outside[i].block, "a step graph");
}

static void give_idle_blocks_to_pool(struct pool *pool, struct wf_reserve *reserve)
{
    for (int c = 0; c < CLASSES; c++) {
        struct wf_block **end = &reserve->idle[c];

        while (*end) end = &(*end)->next;
        *end = pool->idle[WF_BLOCKS_DEVICE][c];
        pool->idle[WF_BLOCKS_DEVICE][c] = reserve->idle[c];
    }
}

void wf_reserve_free(struct wf_reserve *reserve)
{
    struct pool *pool = wf_pool_of_thread;

    for (struct wf_region *r = pool->regions; r; r = r->next)
        if (r->reserve == reserve) r->reserve = NULL;
    give_idle_blocks_to_pool(pool, reserve);
    for (int i = 0; i < reserve->n_outside; i++) wf_block_release(reserve->outside[i].block);
    wf_free(reserve->outside);
    wf_free(reserve);
}
