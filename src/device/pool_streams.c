/*
 * pool_streams.c: released blocks that a stream still uses. The host is ahead of the device: a copy
 * that was asked for may not have begun when the block is released. An event behind it says when it
 * has run; until then the block waits here, in the order of release.
 *
 * Blocks of a device need that for the communication stream only: what comes later in the compute
 * stream runs later.
 */
#include "base/mem.h"
#include "device/device.h"
#include "device/pool_internal.h"

enum { IN_STREAMS = WF_BLOCK_IN_COMPUTE | WF_BLOCK_IN_COMM };

/* The compute stream waits for the other where a block is in both. */
static struct wf_device_event *record_event_after_last_use(unsigned flags)
{
    struct wf_device_event *event = wf_device_event_new();

    if (flags & WF_BLOCK_IN_COMM) {
        wf_device_driver->event_record(event, WF_STREAM_COMM);
        if (!(flags & WF_BLOCK_IN_COMPUTE)) return event;
        wf_device_driver->stream_wait(WF_STREAM_COMPUTE, event);
    }
    wf_device_driver->event_record(event, WF_STREAM_COMPUTE);
    return event;
}

static void grow_held_queue(struct pool *pool)
{
    struct held_block *items = wf_malloc((size_t)(2 * pool->held_room + 16) * sizeof *items);

    for (int i = 0; i < pool->n_held; i++)
        items[i] = pool->held[(pool->first_held + i) % pool->held_room];
    wf_free(pool->held);
    pool->held = items;
    pool->first_held = 0;
    pool->held_room = 2 * pool->held_room + 16;
}

/* No event of a capture can be asked for: what is captured later in the compute stream waits. */
static void order_compute_after_last_use(unsigned in_streams)
{
    struct wf_device_event *event = record_event_after_last_use(in_streams);

    wf_device_driver->stream_wait(WF_STREAM_COMPUTE, event);
    wf_device_event_free(event);
}

bool wf_pool_hold_block(struct pool *pool, struct wf_block *block)
{
    unsigned in_streams = block->flags & IN_STREAMS;

    if (block->list == WF_BLOCKS_DEVICE) in_streams &= ~(unsigned)WF_BLOCK_IN_COMPUTE;
    if (!in_streams || !wf_device_driver) return false;
    if (pool->reserve && block->list == WF_BLOCKS_DEVICE) {
        order_compute_after_last_use(in_streams);
        return false;
    }
    if (pool->n_held == pool->held_room) grow_held_queue(pool);
    pool->held[(pool->first_held + pool->n_held++) % pool->held_room] =
        (struct held_block){block, record_event_after_last_use(in_streams)};
    pool->held_bytes += block->capacity;
    return true;
}

static void recycle_first_held(struct pool *pool)
{
    struct held_block first = pool->held[pool->first_held];

    pool->first_held = (pool->first_held + 1) % pool->held_room;
    pool->n_held--;
    pool->held_bytes -= first.block->capacity;
    wf_device_event_free(first.event);
    wf_pool_push_idle(pool, first.block);
}

void wf_pool_recycle_held(struct pool *pool, int64_t most)
{
    while (pool->n_held) {
        struct wf_device_event *event = pool->held[pool->first_held].event;

        if (pool->held_bytes > most)
            wf_device_event_wait(event);
        else if (!wf_device_driver->event_done(event))
            return;
        recycle_first_held(pool);
    }
}
