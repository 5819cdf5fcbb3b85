/* reference.h: inputs that every rank can compute for every other, and the serial tree over them.
 */
#pragma once

#include <stdint.h>

#include "comm/comm.h"

/** Element `index` of what `rank` sends; `salt` tells cases apart. */
void reference_element(void *out, weft_dtype dtype, int rank, size_t index, unsigned salt);

/** The reduction over `ranks` senders of element `index`, by the balanced tree. */
void reference_reduce(void *out, weft_dtype dtype, weft_reduce reduce, int ranks, size_t index,
                      unsigned salt);
