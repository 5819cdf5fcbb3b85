/* memory.h: bytes of this rank's tensors, by what they serve. */
#pragma once

#include <stdio.h>

#include <weft/tensor.h>

typedef struct weft_memory {
    int64_t live, peak, cached; /* bytes */
} weft_memory;

typedef enum weft_memory_category {
    WEFT_MEMORY_WEIGHTS,
    WEFT_MEMORY_GRADIENTS,
    WEFT_MEMORY_OPTIMIZER,
    WEFT_MEMORY_ACTIVATIONS,
    WEFT_MEMORY_COMMUNICATION,
    WEFT_MEMORY_CATEGORIES /* all of them together */
} weft_memory_category;

/** Bytes of this rank's tensors. ranks: any; local */
WEFT_API weft_memory weft_memory_of(weft_memory_category category);
/** Bytes that this rank's tensors on the meta device would take. ranks: any; local */
WEFT_API weft_memory weft_memory_simulated(weft_memory_category category);
/** Peaks, simulated ones too, start again at what is live. ranks: any; local */
WEFT_API void weft_memory_reset_peak(void);
WEFT_API void weft_print_memory(FILE *out);

/** Count a tensor's bytes under this category from now on; modules do so with their parameters.
 *  ranks: any; local. gives: t */
WEFT_API weft_tensor *weft_memory_count_as(weft_tensor *t, weft_memory_category category);
