/* placements.h: what this layer does to lists of placements. */
#pragma once

#include <string.h>

#include <weft/placement.h>

/* As attributes of an op, and so part of a plan's key. Two words each: what every kind has, and the
 * segments or the number that a kind may carry. */
enum { WF_PLACEMENT_WORDS = 2 };

static inline void wf_placements_pack(int64_t *words, const weft_placement *placements, int n)
{
    for (int a = 0; a < n; a++) {
        const weft_placement *p = &placements[a];
        uint64_t head = p->kind | (uint64_t)p->reduce << 8 | (uint64_t)(uint8_t)p->dim << 16 |
                        (uint64_t)p->split << 24 | (uint64_t)p->order << 32 |
                        (uint64_t)p->n_segments << 40;
        uint64_t tail = 0;

        if (p->n_segments)
            memcpy(&tail, p->segments, sizeof p->segments);
        else
            memcpy(&tail, &p->factor, sizeof p->factor);
        memcpy(&words[2 * a], &head, sizeof head);
        memcpy(&words[2 * a + 1], &tail, sizeof tail);
    }
}

static inline void wf_placements_unpack(weft_placement *placements, const int64_t *words, int n)
{
    memset(placements, 0, (size_t)n * sizeof *placements);
    for (int a = 0; a < n; a++) {
        weft_placement *p = &placements[a];
        uint64_t head = (uint64_t)words[2 * a];

        p->kind = (uint8_t)head;
        p->reduce = (uint8_t)(head >> 8);
        p->dim = (int8_t)(uint8_t)(head >> 16);
        p->split = (uint8_t)(head >> 24);
        p->order = (uint8_t)(head >> 32);
        p->n_segments = (uint8_t)(head >> 40);
        if (p->n_segments)
            memcpy(p->segments, &words[2 * a + 1], sizeof p->segments);
        else
            memcpy(&p->factor, &words[2 * a + 1], sizeof p->factor);
    }
}

/** Pending reductions become replicated: the layout of the gradient of what is pending. */
static inline void wf_without_partial(weft_placement *placements, int n)
{
    for (int a = 0; a < n; a++)
        if (placements[a].kind == WEFT_KIND_PARTIAL) placements[a] = weft_replicate();
}
