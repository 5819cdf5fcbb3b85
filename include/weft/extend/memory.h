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

/** Bytes of this rank's tensors on one device; on WEFT_CPU also those through which tensors of a
 *  GPU are copied and sent; on WEFT_META those that would be taken.
 *  ranks: any; local */
WEFT_API weft_memory weft_memory_on(weft_device device, weft_memory_category category);
/** The same on WEFT_CPU, and on WEFT_META. ranks: any; local */
WEFT_API weft_memory weft_memory_of(weft_memory_category category);
WEFT_API weft_memory weft_memory_simulated(weft_memory_category category);
/** Peaks of all devices, simulated ones too, start again at what is live. ranks: any; local */
WEFT_API void weft_memory_reset_peak(void);
/** Give memory that no tensor has back to the system and to the device, whose work is waited for;
 *  what comes later maps anew.
 *  ranks: any; local */
WEFT_API void weft_memory_trim(void);
WEFT_API void weft_print_memory(FILE *out);

/** Count a tensor's bytes under this category from now on; modules do so with their parameters.
 *  ranks: any; local
 *  gives: t */
WEFT_API weft_tensor *weft_memory_count_as(weft_tensor *t, weft_memory_category category);
