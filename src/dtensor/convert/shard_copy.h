/* shard_copy.h: copies a rank's shard out of an array that holds more elements. */
#pragma once

#include <stddef.h>

#include "placement/shard.h"

/**
 * Copy the elements of shard `to` out of `src`, which holds those of shard `from`; one wf_shard per
 * dim. Both arrays are row-major without gaps. Every element of `to` is one of `from`.
 */
void wf_shard_copy(void *dst, const struct wf_shard *to, const void *src,
                   const struct wf_shard *from, int ndim, size_t element);
