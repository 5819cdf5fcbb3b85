/*
 * placement.h: how one mesh axis holds a tensor: Shard, Replicate or Partial.
 *
 * Chunk rule: a dim of n elements over w ranks gives rank r the elements [r c, (r+1) c) cut at n,
 * with c = ceil(n / w); so 5 over 4 is 2, 2, 1, 0. Several axes on one dim split left to right,
 * each the piece that the axis before it left (PyTorch's torch.chunk and DTensor do the same).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/error.h>
#include <weft/mesh.h>

typedef enum weft_placement_kind {
    WEFT_KIND_REPLICATE,
    WEFT_KIND_SHARD,
    WEFT_KIND_PARTIAL /* each rank holds a term; the value is their reduction */
} weft_placement_kind;

typedef enum weft_reduce {
    WEFT_SUM,
    WEFT_AVG,
    WEFT_PRODUCT,
    WEFT_MAX,
    WEFT_MIN,
    WEFT_REDUCE_COUNT
} weft_reduce;

typedef struct weft_placement {
    uint8_t kind;   /* weft_placement_kind */
    uint8_t reduce; /* weft_reduce; WEFT_KIND_PARTIAL only, else 0 */
    int8_t dim;     /* WEFT_KIND_SHARD only, else 0; negative counts from the end */
} weft_placement;

static inline weft_placement weft_replicate(void)
{
    weft_placement p = {WEFT_KIND_REPLICATE, 0, 0};
    return p;
}

static inline weft_placement weft_shard(int dim)
{
    weft_placement p = {WEFT_KIND_SHARD, 0, 0};
    p.dim = (int8_t)dim;
    return p;
}

static inline weft_placement weft_partial(weft_reduce reduce)
{
    weft_placement p = {WEFT_KIND_PARTIAL, 0, 0};
    p.reduce = (uint8_t)reduce;
    return p;
}

static inline bool weft_placement_equal(weft_placement a, weft_placement b)
{
    return a.kind == b.kind && a.reduce == b.reduce && a.dim == b.dim;
}

/**
 * Read "S(0)", "R", "P" (a sum), "P(max)", ... separated by commas.
 *
 * ranks: any; local
 * gives: the number of placements written to `out` (at most `room`)
 * fails: -1, with WEFT_ERR_ARG naming the place in the text
 */
WEFT_API int weft_placements_parse(weft_placement *out, int room, const char *text);

/** "S(0),R" into `text`; returns the length as snprintf does. ranks: any; local */
WEFT_API int weft_placements_print(const weft_placement *placements, int count, char *text,
                                   size_t bytes);

/** The chunk rule: size and first element of chunk `index` of `n` elements over `ways`. An empty
 *  chunk has offset n. ranks: any; local */
WEFT_API int64_t weft_chunk_size(int64_t n, int ways, int index);
WEFT_API int64_t weft_chunk_offset(int64_t n, int ways, int index);
