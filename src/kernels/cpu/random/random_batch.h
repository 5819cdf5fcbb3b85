/*
 * random_batch.h: the elements of a shard, a batch of their Philox words at a time.
 *
 * A random kernel is a function that fills a batch: from the words of all blocks in which the
 * batch's elements lie it makes values, and wf_random_batch_select leaves those of the elements.
 */
#pragma once

#include "base/elements/strided_copy.h"
#include "kernels/cpu/pointwise/pointwise.h"
#include "kernels/cpu/random/random.h"
#include "kernels/cpu/random/rng_index.h"

enum { WF_BATCH_BLOCKS = 256, WF_BATCH_WORDS = 4 * WF_BATCH_BLOCKS };

struct wf_random_batch {
    const struct wf_random_kernel *draws;
    const struct wf_scalars *scalars; /* v[0] seed, v[1] draw */
    int64_t n;                        /* elements */
    int64_t words;                    /* that their blocks have */
    int n_blocks;                     /* a multiple of WF_PHILOX_LANES: the last is repeated */
    int n_runs;                       /* elements whose words follow each other */
    struct {
        int word, size;
    } run[WF_BATCH_BLOCKS];
    uint64_t block[WF_BATCH_BLOCKS];
    uint32_t high[WF_BATCH_WORDS]; /* the words of the first plane */
    const char *x;                 /* the input's elements, for kernels that have one */
    char *y;
};

typedef void wf_random_batch_fill(struct wf_random_batch *b);

/** What is prepared for a call. */
struct wf_random_kernel {
    const struct wf_random *loops;
    const struct wf_cast_where_fill_loops *moves;
    wf_random_batch_fill *fill;
    uint8_t dtype;
    int64_t bytes;
    struct wf_rng_index places;
    bool gathers, scatters; /* the input, the output is strided: through scratch memory */
    struct wf_strided_copy gather, scatter;
};

/** Choose k->run for `fill`. fails: WEFT_ERR_DTYPE for an output that is no float, if that is
 * asked. */
weft_status wf_random_kernel_prepare(struct wf_kernel_call *k, wf_random_batch_fill *fill,
                                     bool floats_only);

/** k->run of what wf_random_kernel_prepare prepared. */
wf_kernel_run wf_random_kernel_run;

/** The words of a plane (0 or WF_SECOND_PLANE) of the batch's blocks. */
void wf_random_batch_words(const struct wf_random_batch *b, uint64_t plane, uint32_t *words);

/** Of values with one for each word, those of the elements, one after the other; in place. `bytes`:
 * 4 or 8. gives: the first */
void *wf_random_batch_select(const struct wf_random_batch *b, void *values, size_t bytes);
