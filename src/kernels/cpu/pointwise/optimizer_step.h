/* optimizer_step.h: the tables between optimizer_step.c and its loops in
 * kernels/cpu/isa/pointwise/optimizer_step.c. */
#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/optimizer_kernels.h"

typedef void wf_optimizer_step_fn(int64_t n, void *w, const void *g, void *const *state,
                                  const struct wf_optimizer_step *step);

struct wf_gradient_loops {
    double (*sum_squares)(int64_t n, const void *x);
    double (*sum_powers)(int64_t n, const void *x, double p);
    double (*max_abs)(int64_t n, const void *x);
    void (*scale)(int64_t n, void *x, double s);
    void (*axpy)(int64_t n, void *y, double a, const void *x);
    void (*limit)(int64_t n, void *x, double limit);
};

/** Of a 16-bit float beside f32. */
struct wf_master_loops {
    void (*sync)(int64_t n, float *master, const void *w);
    void (*widen)(int64_t n, float *to, const void *from);
    void (*round)(int64_t n, void *to, const float *from);
};

struct wf_optimizer_loops {
    wf_optimizer_step_fn *update[WEFT_F64 + 1][WF_STEP_LOOPS];
    struct wf_gradient_loops of[WF_FLOAT_DTYPES];
    struct wf_master_loops masters[WF_FLOAT_DTYPES]; /* of 16-bit floats only */
};

WF_ISA_TABLE(struct wf_optimizer_loops, wf_optimizer_loops)
