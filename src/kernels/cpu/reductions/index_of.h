/* index_of.h: the table between cpu/reductions/index_of.c and its loops in cpu/isa/. */
#pragma once

#include "kernels/cpu/isa.h"

struct wf_index_of_loops {
    /** Place of the first of n elements without gaps that equals *value; -1: none does. Not a
     * number equals itself here. */
    int64_t (*line)(int64_t n, const void *x, const void *value);
    /** index[j] becomes `number` where x[j] equals values[j] and it was INT64_MAX. */
    void (*columns)(int64_t n, const void *x, const void *values, int64_t number, int64_t *index);
};

struct wf_index_ofs {
    struct wf_index_of_loops of[WEFT_DTYPE_COUNT];
};

WF_ISA_TABLE(struct wf_index_ofs, wf_index_ofs)
