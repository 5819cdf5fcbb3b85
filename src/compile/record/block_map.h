/* block_map.h: which storage of a list each block is, while the list is recorded. */
#pragma once

#include "device/pool.h"

struct wf_block_map {
    struct wf_known_block {
        struct wf_block *block; /* NULL: a free slot; a removed one has storage -1 */
        int storage;
    } * slots;
    int count, room; /* slots in use, removed ones among them */
};

/** gives: NULL where it is not known */
struct wf_known_block *wf_block_map_find(const struct wf_block_map *map,
                                         const struct wf_block *block);

/** From now on it is this storage, and the pool tells when it goes. */
void wf_block_map_add(struct wf_block_map *map, struct wf_block *block, int storage);
