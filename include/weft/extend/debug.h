/* debug.h: what was communicated, what is in memory, what can be set. */
#pragma once

#include <stdio.h>

#include <weft/extend/memory.h>
#include <weft/extend/plan_cache.h>
#include <weft/mesh.h>
#include <weft/tensor.h>

typedef struct weft_ledger weft_ledger;

typedef enum weft_direction {
    WEFT_DIRECTION_FORWARD,
    WEFT_DIRECTION_BACKWARD,
    WEFT_DIRECTION_OPTIM,
    WEFT_DIRECTION_ANY
} weft_direction;

/* ---- the ledger: a scope that counts this rank's collectives ---- */

/** Start recording. Several ledgers may be open; each hears everything.
 *  ranks: any; local
 *  gives: close it */
WEFT_API weft_ledger *weft_ledger_open(void);
/** Stop recording and forget everything; NULL is allowed.
 *  ranks: any; local
 *  fails: WEFT_ERR_STATE for one that was closed before or is another thread's */
WEFT_API weft_status weft_ledger_close(weft_ledger *ledger);

/** Stop recording; what was recorded stays readable. ranks: any; local */
WEFT_API void weft_ledger_stop(weft_ledger *ledger);
/** Forget what was recorded, and record (again). ranks: any; local */
WEFT_API void weft_ledger_start(weft_ledger *ledger);
/** Forget what was recorded. ranks: any; local */
WEFT_API void weft_ledger_reset(weft_ledger *ledger);

/**
 * Figures of some collectives on this rank. `bytes` is the payload: of an all-reduce, broadcast and
 * send the buffer, of an all-gather and gather the result, of a reduce-scatter and scatter the
 * input, of an all-to-all what this rank sends. `sent` is what this rank has to send: of n bytes
 * over t ranks 2 (t-1)/t n for an all-reduce, (t-1)/t n for an all-gather and a reduce-scatter,
 * with uneven shards what leaves this rank.
 */
typedef struct weft_ledger_sum {
    int64_t count;
    int64_t coalesced; /* of those, how many carried several tensors at once */
    int64_t bytes, sent;
    double seconds;
} weft_ledger_sum;

/** Collectives of one kind (WEFT_COLL_COUNT: of all kinds), in one direction or any. `module`: a
 *  module path, for what the module itself did, or NULL for all.
 *  ranks: any; local */
WEFT_API weft_ledger_sum weft_ledger_total(const weft_ledger *ledger, weft_coll kind,
                                           weft_direction direction, const char *module);
/** Two figures of weft_ledger_total. ranks: any; local */
WEFT_API int64_t weft_ledger_count(const weft_ledger *ledger, weft_coll kind,
                                   weft_direction direction, const char *module);
WEFT_API int64_t weft_ledger_bytes(const weft_ledger *ledger, weft_coll kind,
                                   weft_direction direction, const char *module);

/**
 * How often the host waited for elements of its GPU: weft_item, weft_read_f64, printing, saving,
 * copies to WEFT_CPU, and ops without a kernel there. `bytes` came to the host; nothing is sent.
 * ranks: any; local
 */
WEFT_API weft_ledger_sum weft_ledger_synchronizations(const weft_ledger *ledger,
                                                      weft_direction direction);

/** Seconds this rank spent in collectives. ranks: any; local */
WEFT_API double weft_ledger_seconds(const weft_ledger *ledger);

/* ---- what it knows of modules ---- */

/**
 * The modules that were called, in the order of their first call, after "Global", which stands for
 * the program. A module's name is its root's type and its path: "gpt.blocks.0.mlp". 0 for NULL.
 *
 * ranks: any; local
 * gives: borrowed names, until the ledger forgets; NULL for a wrong index
 */
WEFT_API int weft_ledger_module_count(const weft_ledger *ledger);
WEFT_API const char *weft_ledger_module(const weft_ledger *ledger, int index);

/** Collectives of a module and of everything inside it. ranks: any; local */
WEFT_API weft_ledger_sum weft_ledger_module_total(const weft_ledger *ledger, int index,
                                                  weft_coll kind, weft_direction direction);

/** A parameter of a module that was called, as it was at the last call. */
typedef struct weft_ledger_parameter {
    const char *module, *name; /* "mlp.up", "weight" */
    const char *layout;        /* "f32[16,10] [S(0)] on (tp:4)" */
    bool distributed;
} weft_ledger_parameter;

/** Parameters in the order of the modules; `distributed`: only those on a mesh. All NULL for a
 *  wrong index.
 *  ranks: any; local
 *  gives: borrowed texts, until the ledger forgets */
WEFT_API int weft_ledger_parameter_count(const weft_ledger *ledger, bool distributed);
WEFT_API weft_ledger_parameter weft_ledger_parameter_at(const weft_ledger *ledger, bool distributed,
                                                        int index);

/* ---- printing it ---- */

/** One line per kind, axis, direction and module. ranks: any; local */
WEFT_API void weft_ledger_print(const weft_ledger *ledger, FILE *out);

/** How much weft_ledger_table_print prints below each module, each level with those before. */
typedef enum weft_noise {
    WEFT_NOISE_COLLECTIVES, /* collectives of the module and what it contains */
    WEFT_NOISE_DISTRIBUTED, /* parameters with layouts, ops on distributed tensors but trivial ones
                             */
    WEFT_NOISE_OPS,         /* ops on plain tensors */
    WEFT_NOISE_ALL          /* trivial ones: views and casts */
} weft_noise;

/** A tree of modules. ranks: any; local */
WEFT_API void weft_ledger_table_print(const weft_ledger *ledger, weft_noise noise, FILE *out);

/** All of it as one JSON object: {"modules": [{"name", "type", "depth", "parameters",
 * "collectives", "ops"}]}; a module's figures are its own, without those of its children.
 * ranks: any; local */
WEFT_API void weft_ledger_json_print(const weft_ledger *ledger, FILE *out);

/* ---- settings ---- */

/** Every environment variable the library reads, its value and meaning. ranks: any; local */
WEFT_API void weft_print_knobs(FILE *out);
