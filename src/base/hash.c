#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t wf_hash_bytes(const void *bytes, size_t count) { return XXH3_64bits(bytes, count); }
