/* plan_cache.h: the plans of ops that this thread keeps: how often one was found, and forgetting
 * them. */
#pragma once

#include <stdint.h>

#include <weft/export.h>

typedef struct weft_plan_cache_stats {
    int64_t plan_hits, plan_misses, plan_evictions, plan_entries, layout_entries;
} weft_plan_cache_stats;

/** The thread's plan cache. ranks: any; local */
WEFT_API weft_plan_cache_stats weft_plan_cache_statistics(void);
/** Forget this thread's plans and its figures; the next calls are planned anew.
 *  ranks: any; local */
WEFT_API void weft_plan_cache_clear(void);
