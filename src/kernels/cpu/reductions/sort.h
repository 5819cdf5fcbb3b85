/* sort.h: the table between cpu/reductions/sort.c and its loops in cpu/isa/. */
#pragma once

#include <stdbool.h>

#include "kernels/cpu/isa.h"

struct wf_sort_loops {
    /** Bytes of scratch for rows of n. */
    size_t (*scratch_bytes)(int64_t n);
    /** The n elements of x in order, and where each was; equal ones keep theirs. */
    void (*row)(int64_t n, const void *x, bool descending, void *values, int64_t *indices,
                void *scratch);
};

struct wf_sorts {
    struct wf_sort_loops of[WEFT_DTYPE_COUNT];
};

WF_ISA_TABLE(struct wf_sorts, wf_sorts)
