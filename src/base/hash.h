/* hash.h: mixing for table keys (hot path) and content hashes (xxhash). */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** One multiply per word: good enough to index a table whose entries are compared anyway. */
static inline uint64_t wf_hash_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
}

/** XXH3, 64 bits. */
uint64_t wf_hash_bytes(const void *bytes, size_t count);
