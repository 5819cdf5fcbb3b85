/* shard_copy.h: taking a rank's part out of an array that holds more, whatever shards cut it. */
#pragma once

#include <stddef.h>

#include "placement/shard.h"

/**
 * Copy the elements of part `to` out of `src`, which holds those of part `from`; a part per dim.
 * Both arrays are row-major without gaps. Every element of `to` is one of `from`.
 */
void wf_shard_copy(void *dst, const struct wf_shard *to, const void *src,
                   const struct wf_shard *from, int ndim, size_t element);
