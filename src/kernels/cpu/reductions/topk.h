/* topk.h: the table between cpu/reductions/topk.c and its loops in cpu/isa/. */
#pragma once

#include "kernels/cpu/isa.h"

/** Some of a row's elements: n of them without gaps, named `labels` or first, first + 1, ... */
struct wf_topk_row {
    int64_t n, first;
    const void *x;
    const int64_t *labels; /* NULL: none; a negative one: there is no such element */
};

struct wf_topk_loops {
    /** Bytes of scratch for k. */
    size_t (*scratch_bytes)(int64_t k);
    /** The k largest, largest first, of equal ones the smaller label; what a row lacks is the
     * lowest value, labelled -1. */
    void (*row)(const struct wf_topk_row *row, int64_t k, void *values, int64_t *indices,
                void *scratch);
};

struct wf_topks {
    struct wf_topk_loops of[WEFT_DTYPE_COUNT]; /* NULL: no kernel */
};

WF_ISA_TABLE(struct wf_topks, wf_topks)
