/*
 * batch.h: the elements of a part, a batch of their Philox words at a time.
 *
 * A random kernel is a function that fills a batch: from the words of all blocks in which the
 * batch's elements lie it makes values, and wf_batch_pick leaves those of the elements.
 */
#pragma once

#include "kernels/cpu/copy.h"
#include "kernels/cpu/places.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/random.h"

enum { WF_BATCH_BLOCKS = 256, WF_BATCH_WORDS = 4 * WF_BATCH_BLOCKS };

struct wf_batch {
    const struct wf_draws *draws;
    const struct wf_scalars *scalars; /* v[0] seed, v[1] draw */
    int64_t n;                        /* elements */
    int64_t words;                    /* that their blocks have */
    int n_blocks;                     /* a multiple of WF_PHILOX_LANES: the last is repeated */
    int n_parts;                      /* elements whose words follow each other */
    struct {
        int word, size;
    } part[WF_BATCH_BLOCKS];
    uint64_t block[WF_BATCH_BLOCKS];
    uint32_t high[WF_BATCH_WORDS]; /* the words of the first plane */
    const char *x;                 /* the input's elements, for kernels that have one */
    char *y;
};

typedef void wf_batch_fill(struct wf_batch *b);

/** What is prepared for a call. */
struct wf_draws {
    const struct wf_random *loops;
    const struct wf_moves *moves;
    wf_batch_fill *fill;
    uint8_t dtype;
    int64_t bytes;
    struct wf_places places;
    bool gathers, scatters; /* the input, the output is strided: through scratch memory */
    struct wf_copy gather, scatter;
};

/** Choose k->run for `fill`. fails: WEFT_ERR_DTYPE for an output that is no float, if that is
 * asked. */
weft_status wf_draws_prepare(struct wf_kcall *k, wf_batch_fill *fill, bool floats_only);

/** k->run of what wf_draws_prepare prepared. */
wf_kernel_run wf_draws_run;

/** The words of a plane (0 or WF_SECOND_PLANE) of the batch's blocks. */
void wf_batch_plane(const struct wf_batch *b, uint64_t plane, uint32_t *words);

/** Of values with one for each word, those of the elements, one after the other; in place. `bytes`:
 * 4 or 8. gives: the first */
void *wf_batch_pick(const struct wf_batch *b, void *values, size_t bytes);
