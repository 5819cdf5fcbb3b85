/* xent.h: the table between cpu/xent.c and its loops in cpu/isa/. */
#pragma once

#include "kernels/cpu/isa.h"

struct wf_xent_loops {
    /** sum over j of e^(z[j] - m) */
    double (*sum)(int64_t n, const void *z, double m);
    /** loss[i] = log s[i] - p[i] */
    void (*loss)(int64_t n, const void *s, const void *p, void *loss);
    /** dz[j] = scale e^(z[j] - m) */
    void (*grad)(int64_t n, const void *z, double m, double scale, void *dz);
};

struct wf_xents {
    struct wf_xent_loops of[WEFT_BF16 + 1];
};

WF_ISA_TABLE(struct wf_xents, wf_xents)
