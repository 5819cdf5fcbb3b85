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
#include <string.h>

#include <weft/error.h>
#include <weft/mesh.h>
#include <weft/types.h>

typedef enum weft_placement_kind {
    WEFT_KIND_REPLICATE,
    WEFT_KIND_SHARD,
    WEFT_KIND_PARTIAL, /* each rank holds a term; the value is their reduction */
    WEFT_KIND_STRIDED, /* the dim is cut in `factor` pieces, each piece over the axis */
    WEFT_KIND_REFUSED  /* of a text that could not be read: refused wherever it is used */
} weft_placement_kind;

/** How a shard's dim (or a segment of it) is cut over the ranks of an axis. */
typedef enum weft_cut {
    WEFT_CUT_CHUNKS,  /* the chunk rule above */
    WEFT_CUT_BALANCED /* sizes differ by at most one, the larger ones first */
} weft_cut;

enum { WEFT_MAX_SEGMENTS = 5 };

/**
 * A value type; every field that its kind does not use is 0, so equal placements have equal bytes
 * (there is no padding).
 *
 * A shard with segments cuts each segment of its dim over the axis, and a rank holds its shard of
 * the first, then of the second, ... : a fused QKV or gate-up weight. Segments are relative sizes:
 * {4, 1, 1} cuts a dim of 6 k elements into 4 k, k and k.
 */
typedef struct weft_placement {
    uint8_t kind;   /* weft_placement_kind */
    uint8_t reduce; /* weft_reduce; partial only */
    int8_t dim;     /* shard and strided shard; negative counts from the end */
    uint8_t cut;    /* weft_cut; shard only */
    uint8_t order;  /* shard: turn among the axes that shard this dim; all 0: left to right */
    uint8_t n_segments;
    uint16_t segments[WEFT_MAX_SEGMENTS]; /* shard only; the first n_segments */
    union {
        int32_t factor; /* strided shard: pieces, at least 1 */
        float p;        /* norm: finite and not 0 */
    };
} weft_placement;

static inline weft_placement weft_replicate(void)
{
    weft_placement p;

    memset(&p, 0, sizeof p);
    p.kind = WEFT_KIND_REPLICATE;
    return p;
}

static inline weft_placement weft_shard(int dim)
{
    weft_placement p;

    memset(&p, 0, sizeof p);
    p.kind = WEFT_KIND_SHARD;
    p.dim = (int8_t)dim;
    return p;
}

/** A shard whose sizes differ by at most one. */
static inline weft_placement weft_shard_balanced(int dim)
{
    weft_placement p;

    memset(&p, 0, sizeof p);
    p.kind = WEFT_KIND_SHARD;
    p.dim = (int8_t)dim;
    p.cut = WEFT_CUT_BALANCED;
    return p;
}

/**
 * A shard of each of `count` segments of a dim; sizes are taken relative to each other, so the
 * segments' real sizes will do.
 *
 * ranks: any; local. What cannot be (count above WEFT_MAX_SEGMENTS, a size of 0 or less or, in
 *        lowest terms, above 65535) is refused where the placement is used
 */
WEFT_API weft_placement weft_shard_segments(int dim, const int64_t *sizes, int count);

/** The same shard, but cutting its dim in this turn (0 first) instead of left to right: among the
 * axes that shard the dim each turn is taken once. */
static inline weft_placement weft_in_turn(weft_placement shard, int turn)
{
    shard.order = (uint8_t)turn;
    return shard;
}

static inline weft_placement weft_strided_shard(int dim, int factor)
{
    weft_placement p;

    memset(&p, 0, sizeof p);
    p.kind = WEFT_KIND_STRIDED;
    p.dim = (int8_t)dim;
    p.factor = factor;
    return p;
}

static inline weft_placement weft_partial(weft_reduce reduce)
{
    weft_placement p;

    memset(&p, 0, sizeof p);
    p.kind = WEFT_KIND_PARTIAL;
    p.reduce = (uint8_t)reduce;
    return p;
}

/** A partial p-norm. Where p is infinite, 0 or 1 the terms, none of them negative, combine by
 *  another reduction, and that is what it gives: P(max), P(min), P(sum).
 *  ranks: any; local */
WEFT_API weft_placement weft_norm_partial(double p);

/** What a placement is. A strided shard is no plain shard; weft_shards tells whether an axis cuts
 * `dim` (counted from the front, as the placement's is) in either way. */
static inline bool weft_is_replicate(weft_placement p) { return p.kind == WEFT_KIND_REPLICATE; }
static inline bool weft_is_shard(weft_placement p) { return p.kind == WEFT_KIND_SHARD; }
static inline bool weft_is_partial(weft_placement p) { return p.kind == WEFT_KIND_PARTIAL; }
static inline bool weft_shards(weft_placement p, int dim)
{
    return (p.kind == WEFT_KIND_SHARD || p.kind == WEFT_KIND_STRIDED) && p.dim == dim;
}

static inline bool weft_placement_equal(weft_placement a, weft_placement b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/**
 * Read a list of placements, with or without commas between them:
 *
 *     R                     replicated
 *     S(0)                  shard of dim 0; S(-1) of the last dim
 *     S(0,balanced)         sizes that differ by at most one
 *     S(0|4,1,1)            of each segment; S(0,balanced|4,1,1)
 *     S(0)[1]               cut in this turn (any shard)
 *     SS(0,2)               strided: 2 pieces, each cut
 *     P, P(max), P(norm 2)  partial: a sum, avg, product, max, min, masked, norm
 *
 * ranks: any; local
 * gives: the number of placements written to `out` (at most `room`)
 * fails: -1, with WEFT_ERR_ARG naming the place in the text
 */
WEFT_API int weft_placements_parse(weft_placement *out, int room, const char *text);

/** "S(0),R" into `text`, which weft_placements_parse reads back; returns the length as snprintf
 *  does.
 *  ranks: any; local */
WEFT_API int weft_placements_format(const weft_placement *placements, int count, char *text,
                                    size_t bytes);

/** The same without commas: "RRS(1)". ranks: any; local */
WEFT_API int weft_placements_brief_format(const weft_placement *placements, int count, char *text,
                                          size_t bytes);

/** The chunk rule: size and first element of chunk `index` of `n` elements over `ways`. An empty
 *  chunk has offset n, and where there are no ways all is 0.
 *  ranks: any; local */
WEFT_API int64_t weft_chunk_size(int64_t n, int ways, int index);
WEFT_API int64_t weft_chunk_offset(int64_t n, int ways, int index);

/** Elements that make chunk `index` as long as chunk 0. ranks: any; local */
WEFT_API int64_t weft_chunk_padding(int64_t n, int ways, int index);

/** The balanced rule: as above; sizes differ by at most one, the larger ones first.
 *  ranks: any; local */
WEFT_API int64_t weft_balanced_size(int64_t n, int ways, int index);
WEFT_API int64_t weft_balanced_offset(int64_t n, int ways, int index);
