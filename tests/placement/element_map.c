/* element_map.c: see the header. Written to be believed, not to be fast. */
#include "placement/element_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a rank holds ---- */

/* How many of n consecutive elements each rank gets: deal them out one at a time. */
static void shares(int *share, int n, int ways, weft_cut rule)
{
    int full = 0;

    memset(share, 0, (size_t)ways * sizeof *share);
    while (full * ways < n) full++;
    for (int i = 0; i < n; i++) share[rule == WEFT_CUT_BALANCED ? i % ways : i / full]++;
}

/* Keep rank `me`'s share of the elements begin .. begin + n. */
static void keep(struct wt_map *out, const struct wt_map *in, int begin, int n, int ways, int me,
                 weft_cut rule)
{
    int share[64], first = begin;

    shares(share, n, ways, rule);
    for (int r = 0; r < me; r++) first += share[r];
    for (int i = first; i < first + share[me]; i++) {
        out->index[out->count] = in->index[i];
        out->segment[out->count++] = in->segment[i];
    }
}

static void cut(struct wt_map *map, weft_placement p, int ways, int me)
{
    struct wt_map in = *map;
    int piece = 0;

    map->count = 0;
    if (p.kind == WEFT_KIND_STRIDED) {
        while (piece * (int64_t)p.factor < in.count) piece++;
        for (int begin = 0; begin < in.count; begin += piece)
            keep(map, &in, begin, in.count - begin < piece ? in.count - begin : piece, ways, me,
                 WEFT_CUT_CHUNKS);
        return;
    }
    if (!p.n_segments) {
        keep(map, &in, 0, in.count, ways, me, (weft_cut)p.cut);
        return;
    }
    for (int s = 0; s < p.n_segments; s++) {
        int begin = 0, n = 0;

        while (begin < in.count && in.segment[begin] != s) begin++;
        while (begin + n < in.count && in.segment[begin + n] == s) n++;
        keep(map, &in, begin, n, ways, me, (weft_cut)p.cut);
    }
}

static void name_segments(struct wt_map *map, const struct wt_layout_case *c, int dim)
{
    for (int a = 0; a < c->n_axes; a++) {
        const weft_placement *p = &c->p[a];
        int sum = 0, at = 0;

        if (!weft_is_shard(*p) || p->dim != dim || !p->n_segments) continue;
        for (int s = 0; s < p->n_segments; s++) sum += p->segments[s];
        for (int s = 0; s < p->n_segments; s++)
            for (int i = 0; i < map->count / sum * p->segments[s]; i++) map->segment[at++] = s;
    }
}

void wt_map_of(struct wt_map *map, const struct wt_layout_case *c, int dim)
{
    memset(map, 0, sizeof *map);
    map->count = (int)c->global[dim];
    for (int i = 0; i < map->count; i++) map->index[i] = i;
    name_segments(map, c, dim);
    for (int turn = 0; turn < WEFT_MAX_AXES; turn++)
        for (int a = 0; a < c->n_axes; a++)
            if (weft_shards(c->p[a], dim) && c->p[a].order == turn)
                cut(map, c->p[a], c->sizes[a], c->coordinates[a]);
}

/* ---- random layouts ---- */

int wt_below(uint64_t *state, int bound)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int)((*state >> 33) % (uint64_t)bound);
}

/* How the axes cut one dim: all strided or plain, all in segments or the first ones, any order. */
static void random_dim(struct wt_layout_case *c, int dim, uint64_t *state)
{
    int style = wt_below(state, 6), n = 0, axes[WEFT_MAX_AXES], segmented;
    int64_t sizes[3];

    for (int s = 0; s < 3; s++) sizes[s] = 1 + wt_below(state, 4);
    for (int a = 0; a < c->n_axes; a++)
        if (weft_shards(c->p[a], dim)) axes[n++] = a;
    for (int i = n - 1; i > 0; i--) {
        int j = wt_below(state, i + 1), swap = axes[i];

        if (style < 3) break;
        axes[i] = axes[j];
        axes[j] = swap;
    }
    segmented = style >= 4 ? wt_below(state, n + 1) : 0;
    for (int i = 0; i < n; i++) {
        weft_placement *p = &c->p[axes[i]];

        *p = i < segmented ? weft_shard_segments(dim, sizes, 2 + style % 2) : weft_shard(dim);
        p->cut = (uint8_t)wt_below(state, 2);
        if (style >= 3) *p = weft_in_turn(*p, i);
        if (style < 2 && wt_below(state, 2)) *p = weft_strided_shard(dim, 1 + wt_below(state, 5));
    }
    if (!segmented) return;
    sizes[0] += sizes[1] + (style % 2 ? sizes[2] : 0);
    c->global[dim] = sizes[0] * wt_below(state, 9);
}

void wt_random_layout(struct wt_layout_case *c, uint64_t *state)
{
    c->n_axes = 1 + wt_below(state, 4);
    c->ndim = 1 + wt_below(state, 3);
    for (int a = 0; a < c->n_axes; a++) {
        int kind = wt_below(state, 8);

        c->sizes[a] = 1 + wt_below(state, 5);
        c->coordinates[a] = wt_below(state, c->sizes[a]);
        c->p[a] = weft_shard(wt_below(state, c->ndim));
        if (kind == 0) c->p[a] = weft_replicate();
        if (kind == 1) c->p[a] = weft_partial(WEFT_SUM);
    }
    for (int d = 0; d < c->ndim; d++) {
        c->global[d] = wt_below(state, wt_below(state, 4) ? 30 : 100);
        random_dim(c, d, state);
    }
    if (wf_placements_normalize(c->p, c->p, c->n_axes, c->ndim, "random layout") != WEFT_OK ||
        wf_placements_check_segments(c->p, c->n_axes, c->global, "random layout") != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_error_message());
        abort();
    }
}

const char *wt_layout_text(const struct wt_layout_case *c)
{
    static char text[1024];
    int at = weft_placements_format(c->p, c->n_axes, text, sizeof text);

    for (int d = 0; d < c->ndim; d++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%lld", d ? "," : " of [",
                       (long long)c->global[d]);
    for (int a = 0; a < c->n_axes; a++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%d of %d", a ? ", " : "] at ",
                       c->coordinates[a], c->sizes[a]);
    return text;
}
