/* block_map.c: a table of blocks by their addresses, at most half full. */
#include "compile/record/block_map.h"

#include "base/mem.h"

static unsigned slot_of_block(const struct wf_block_map *map, const struct wf_block *block)
{
    uint64_t hash = (uint64_t)(uintptr_t)block * UINT64_C(0x9E3779B97F4A7C15);

    return (unsigned)(hash >> 32) & (unsigned)(map->room - 1);
}

struct wf_known_block *wf_block_map_find(const struct wf_block_map *map,
                                         const struct wf_block *block)
{
    if (!map->room) return NULL;
    for (unsigned i = slot_of_block(map, block);; i = (i + 1) & (unsigned)(map->room - 1)) {
        struct wf_known_block *slot = &map->slots[i];

        if (!slot->block) return NULL;
        if (slot->block == block) return slot;
    }
}

static void grow_map(struct wf_block_map *map)
{
    struct wf_block_map larger = {.room = map->room ? 2 * map->room : 256};

    larger.slots = wf_calloc((size_t)larger.room, sizeof *larger.slots);
    for (int i = 0; i < map->room; i++) {
        unsigned at;

        if (!map->slots[i].block || map->slots[i].storage < 0) continue;
        at = slot_of_block(&larger, map->slots[i].block);
        while (larger.slots[at].block) at = (at + 1) & (unsigned)(larger.room - 1);
        larger.slots[at] = map->slots[i];
        larger.count++;
    }
    wf_free(map->slots);
    *map = larger;
}

void wf_block_map_add(struct wf_block_map *map, struct wf_block *block, int storage)
{
    struct wf_known_block *known = wf_block_map_find(map, block);
    unsigned at;

    block->flags |= WF_BLOCK_RECORDED;
    if (known) {
        known->storage = storage;
        return;
    }
    if (2 * (map->count + 1) > map->room) grow_map(map);
    at = slot_of_block(map, block);
    while (map->slots[at].block) at = (at + 1) & (unsigned)(map->room - 1);
    map->slots[at] = (struct wf_known_block){block, storage};
    map->count++;
}
