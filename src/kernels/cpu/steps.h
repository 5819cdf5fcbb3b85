/* steps.h: the tables between cpu/steps.c and its loops in cpu/isa/steps.c. */
#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/optim.h"

struct wf_steps_of {
    void (*adamw)(int64_t n, void *w, const void *g, void *m, void *v,
                  const struct wf_adamw_step *step);
    void (*sgd)(int64_t n, void *w, const void *g, void *buffer, const struct wf_sgd_step *step);
    double (*sum_squares)(int64_t n, const void *x);
    void (*scale)(int64_t n, void *x, double s);
    void (*axpy)(int64_t n, void *y, double a, const void *x);
};

struct wf_steps {
    struct wf_steps_of of[WEFT_BF16 + 1];
};

WF_ISA_TABLE(struct wf_steps, wf_steps)
