/* tile_moves.h: how a tile of a long array gets into the cache and out of it. */
#pragma once

#include <stddef.h>

/** Ask for these bytes: they will be read soon. */
void wf_tile_ask_for(const char *from, size_t bytes);

/** Copy to where nobody reads soon, without first reading what is overwritten; wf_tile_flush before
 * anybody else reads it. */
void wf_tile_store(char *to, const char *from, size_t bytes);
void wf_tile_flush(void);
