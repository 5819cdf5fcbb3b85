/* placement_args.h: what this layer does to lists of placements. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "kernels/op_attrs.h"
#include <weft/placement.h>

/* As attributes of an op, and so in a plan's key. Two words each: a placement up to its
 * segments, or with the number in their place that other kinds carry. */
enum { WF_PLACEMENT_HEAD = offsetof(weft_placement, factor) };

static_assert(WF_PLACEMENT_HEAD == WF_PLACEMENT_WORDS * sizeof(int64_t), "two words hold the head");

static inline void wf_placements_to_words(int64_t *words, const weft_placement *placements, int n)
{
    for (int a = 0; a < n; a++, words += WF_PLACEMENT_WORDS) {
        memcpy(words, &placements[a], WF_PLACEMENT_HEAD);
        if (placements[a].n_segments) continue;
        words[1] = 0;
        memcpy(&words[1], &placements[a].factor, sizeof placements[a].factor);
    }
}

static inline void wf_placements_from_words(weft_placement *placements, const int64_t *words, int n)
{
    memset(placements, 0, (size_t)n * sizeof *placements);
    for (int a = 0; a < n; a++, words += WF_PLACEMENT_WORDS) {
        weft_placement *p = &placements[a];

        memcpy(p, words, WF_PLACEMENT_HEAD);
        if (p->n_segments) continue;
        memset(p->segments, 0, sizeof p->segments);
        memcpy(&p->factor, &words[1], sizeof p->factor);
    }
}

/** Partial placements become replicated: the layout of a partial tensor's gradient. */
static inline void wf_placements_drop_partial(weft_placement *placements, int n)
{
    for (int a = 0; a < n; a++)
        if (placements[a].kind == WEFT_KIND_PARTIAL) placements[a] = weft_replicate();
}
