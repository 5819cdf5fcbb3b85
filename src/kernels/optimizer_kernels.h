/*
 * optimizer_kernels.h: what optimizers do to flat arrays of parameters, each in one pass over
 * memory. Arrays have `count` elements of their dtype without gaps.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/elements/dtype.h"

/** The loops; s0, s1, s2 are states, and d = sign g + decay w in all of them. */
enum wf_optimizer_kind {
    WF_STEP_SGD,      /* s0: momentum, or NULL */
    WF_STEP_ADAM,     /* s0, s1: moments; s2: largest second moment, or NULL */
    WF_STEP_ADAMAX,   /* s0: moment; s1: norm */
    WF_STEP_ADAGRAD,  /* s0: sum of squares */
    WF_STEP_RMSPROP,  /* s0: mean square; s1: mean, or NULL; s2: momentum, or NULL */
    WF_STEP_ADADELTA, /* s0: mean square; s1: the same of the steps */
    WF_STEP_ASGD,     /* s0: average of w */
    WF_STEP_LION,     /* s0: momentum */
    WF_STEP_MUON,     /* s0: momentum; s1: the direction, written; w stays */
    WF_STEP_LOOPS
};
enum { WF_STEP_STATES = 3 };

/** The numbers of one step, for each loop those that its formula names
 * (cpu/isa/pointwise/optimizer_formulas.inc). */
struct wf_optimizer_step {
    double sign, decay;  /* of d */
    double keep;         /* what is left of w before it moves */
    double rate;         /* of the move along a state, */
    double rate_d;       /* and along d */
    double beta1, take1; /* first moment: beta1 s + take1 d */
    double beta2, take2; /* second moment */
    double root, eps;    /* denominator: root sqrt(s) + eps */
};

struct wf_optimizer_step_arrays {
    weft_dtype dtype;      /* of w and the states: f32 or f64 */
    weft_dtype grad_dtype; /* the same, or a 16-bit float beside f32 */
    int64_t count;
    void *w;
    const void *g;
    void *state[WF_STEP_STATES];
    void *rounded; /* the parameter whose master w is: w is synced with it first (below), and it is
                      written at last; NULL: none */
    weft_dtype rounded_dtype; /* of 16 bits */
};

/** The step of one parameter. */
struct wf_optimizer_item {
    enum wf_optimizer_kind loop;
    struct wf_optimizer_step_arrays arrays;
    struct wf_optimizer_step step;
};

/**
 * What a device offers to optimizers and to those who add and scale gradients. Arrays, and the one
 * number `total`, are on the device; `items` is host memory that may change on return. Gradients
 * are floats; sums are added up in f64, in an order that depends on nothing but `count`.
 */
struct wf_optimizer_kernels {
    /** The steps of n parameters; on a GPU together, in as few launches as their loops and dtypes
     *  allow. */
    void (*step)(const struct wf_optimizer_item *items, int n);
    /** Where `master` does not round to w, of a 16-bit dtype, w was written by others: `master` is
     *  set to w there. */
    void (*sync_master_weights)(weft_dtype dtype, int64_t count, float *master, const void *w);
    /** *total += sum of |x|^2; of |x|^p; the larger of *total and all |x|, NaN where one is. */
    void (*add_sum_of_squares)(weft_dtype dtype, int64_t count, const void *x, double *total);
    void (*add_powers)(weft_dtype dtype, int64_t count, const void *x, double p, double *total);
    void (*raise_to_max)(weft_dtype dtype, int64_t count, const void *x, double *total);
    /** x *= s; y += a x; x brought into [-limit, limit]. */
    void (*scale)(weft_dtype dtype, int64_t count, void *x, double s);
    void (*axpy)(weft_dtype dtype, int64_t count, void *y, double a, const void *x);
    void (*clamp)(weft_dtype dtype, int64_t count, void *x, double limit);
    /** A norm's total, as the functions above have added it up for p (infinite: the largest),
     * becomes what gradients of that norm are scaled by so that it is no more than max_norm: at
     * most 1. */
    void (*make_clip_factor)(double *total, double p, double max_norm);
    /** x *= *s, which is on the device too. */
    void (*scale_by)(weft_dtype dtype, int64_t count, void *x, const double *s);
};

extern const struct wf_optimizer_kernels wf_cpu_optimizer_kernels;

/* ---- the CPU's, one by one ---- */

void wf_cpu_optimizer_step(enum wf_optimizer_kind loop,
                           const struct wf_optimizer_step_arrays *arrays,
                           const struct wf_optimizer_step *step);
void wf_cpu_sync_master_weights(weft_dtype dtype, int64_t count, float *master, const void *w);

/** Sum of |x|^p; the largest |x| (0 of nothing), NaN when there is one. */
double wf_cpu_sum_squares(weft_dtype dtype, int64_t count, const void *x);
double wf_cpu_sum_powers(weft_dtype dtype, int64_t count, const void *x, double p);
double wf_cpu_max_abs(weft_dtype dtype, int64_t count, const void *x);

void wf_cpu_scale(weft_dtype dtype, int64_t count, void *x, double s);
void wf_cpu_axpy(weft_dtype dtype, int64_t count, void *y, double a, const void *x);
void wf_cpu_clamp_size(weft_dtype dtype, int64_t count, void *x, double limit);
void wf_cpu_make_clip_factor(double *total, double p, double max_norm);
