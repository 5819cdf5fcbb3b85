/* part_copy.h: taking a rank's part out of an array that holds more, whatever shards cut it. */
#pragma once

#include <stddef.h>

#include "placement/part.h"

/**
 * Copy the elements of part `to` out of `src`, which holds those of part `from`; a part per dim.
 * Both arrays are row-major without gaps. Every element of `to` is one of `from`.
 */
void wf_part_copy(void *dst, const struct wf_part *to, const void *src, const struct wf_part *from,
                  int ndim, size_t element);
