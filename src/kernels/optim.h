/*
 * optim.h: what optimizers do to flat arrays of parameters, each in one pass over memory.
 * f32 and f64; arrays have `count` elements of `dtype` without gaps.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/dtype.h>

struct wf_adamw_step {
    double lr, beta1, beta2, eps, weight_decay;
    double correction1, correction2; /* 1 - beta^step */
};

/** w -= lr (wd w + (m / correction1) / (sqrt(v / correction2) + eps)), after m and v took in g. */
void wf_cpu_adamw(weft_dtype dtype, int64_t count, void *w, const void *g, void *m, void *v,
                  const struct wf_adamw_step *step);

struct wf_sgd_step {
    double lr, momentum, weight_decay;
    bool nesterov;
};

/** h = g + wd w; buffer = momentum buffer + h; w -= lr buffer (nesterov: h + momentum buffer).
 *  buffer NULL: no momentum. */
void wf_cpu_sgd(weft_dtype dtype, int64_t count, void *w, const void *g, void *buffer,
                const struct wf_sgd_step *step);

/** Sum of squares, added up in f64. Also bf16. */
double wf_cpu_sum_squares(weft_dtype dtype, int64_t count, const void *x);

/** x *= s and y += a x. Also bf16. */
void wf_cpu_scale(weft_dtype dtype, int64_t count, void *x, double s);
void wf_cpu_axpy(weft_dtype dtype, int64_t count, void *y, double a, const void *x);
