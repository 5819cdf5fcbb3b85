/* debug.h: what was communicated, what is in memory, what can be set. */
#pragma once

#include <stdio.h>

#include <weft/mesh.h>
#include <weft/tensor.h>

typedef struct weft_ledger weft_ledger;

typedef enum weft_coll {
    WEFT_COLL_ALL_REDUCE,
    WEFT_COLL_ALL_GATHER,
    WEFT_COLL_REDUCE_SCATTER,
    WEFT_COLL_ALL_TO_ALL,
    WEFT_COLL_BROADCAST,
    WEFT_COLL_SCATTER,
    WEFT_COLL_GATHER,
    WEFT_COLL_SEND,
    WEFT_COLL_RECV,
    WEFT_COLL_BARRIER,
    WEFT_COLL_REDUCE, /* a reduce-scatter whose whole result goes to one rank */
    WEFT_COLL_COUNT
} weft_coll;

typedef enum weft_direction {
    WEFT_DIRECTION_FORWARD,
    WEFT_DIRECTION_BACKWARD,
    WEFT_DIRECTION_OPTIM,
    WEFT_DIRECTION_ANY
} weft_direction;

/** Start recording this rank's collectives; several ledgers may be open. ranks: any; local. gives:
 * close it */
WEFT_API weft_ledger *weft_ledger_open(void);
WEFT_API void weft_ledger_close(weft_ledger *ledger);

/** Collectives of one kind (WEFT_COLL_COUNT: of all kinds) and their payload bytes on this rank,
 *  in one direction or any. `module`: a module path, or NULL for all. ranks: any; local */
WEFT_API int64_t weft_ledger_count(const weft_ledger *ledger, weft_coll kind,
                                   weft_direction direction, const char *module);
WEFT_API int64_t weft_ledger_bytes(const weft_ledger *ledger, weft_coll kind,
                                   weft_direction direction, const char *module);

/** Seconds this rank spent in collectives. ranks: any; local */
WEFT_API double weft_ledger_seconds(const weft_ledger *ledger);

/** One line per kind, axis, direction and module. ranks: any; local */
WEFT_API void weft_ledger_print(const weft_ledger *ledger, FILE *out);

/** Forget what was recorded. ranks: any; local */
WEFT_API void weft_ledger_reset(weft_ledger *ledger);

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
WEFT_API weft_memory weft_memory_planned(weft_memory_category category);
/** Peaks, planned ones too, start again at what is live. ranks: any; local */
WEFT_API void weft_memory_reset_peak(void);
WEFT_API void weft_memory_print(FILE *out);

/** Count a tensor's bytes under this category from now on; modules do so with their parameters.
 *  ranks: any; local. gives: t */
WEFT_API weft_tensor *weft_memory_count_as(weft_tensor *t, weft_memory_category category);

/** Every environment variable the library reads, its value and meaning. ranks: any; local */
WEFT_API void weft_print_knobs(FILE *out);

typedef struct weft_cache_stats {
    int64_t plan_hits, plan_misses, plan_evictions, plan_entries, layout_entries;
} weft_cache_stats;

/** The thread's plan cache. ranks: any; local */
WEFT_API weft_cache_stats weft_cache_statistics(void);
