/*
 * element_taps.h: which elements of a dim make an element of a resized or averaged one, with which
 * weights: the formulas, for the kernels of every device.
 */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/op_attrs.h"

/** The taps of one result: tap t is element wf_element_tap_index of x, and has the weight
 *  wf_element_tap_weight. */
struct wf_element_taps {
    int64_t first, n;
    enum wf_resampling mode;
    double part;   /* of linear and cubic ones: how far behind an element the result lies */
    double weight; /* of the others, alike */
};

static inline int64_t wf_index_within(int64_t i, int64_t size)
{
    return i < 0 ? 0 : i < size ? i : size - 1;
}

/** Taps before the first element and behind the last are these. */
static inline int64_t wf_element_tap_index(const struct wf_element_taps *e, int64_t t, int64_t size)
{
    return wf_index_within(e->first + t, size);
}

/* Keys' kernel with a = -0.75, at distances below 1, and from 1 to 2. */
static inline double wf_cubic_near(double x) { return (1.25 * x - 2.25) * x * x + 1; }

static inline double wf_cubic_far(double x) { return ((-0.75 * x + 3.75) * x - 6) * x + 3; }

static inline double wf_element_tap_weight(const struct wf_element_taps *e, int64_t t)
{
    if (e->mode == WF_RESAMPLE_LINEAR) return t == 0 ? 1 - e->part : e->part;
    if (e->mode != WF_RESAMPLE_CUBIC) return e->weight;
    if (t == 0) return wf_cubic_far(e->part + 1);
    if (t == 1) return wf_cubic_near(e->part);
    return t == 2 ? wf_cubic_near(1 - e->part) : wf_cubic_far(2 - e->part);
}

static inline double wf_rounded_place(double x, bool narrow)
{
    return narrow ? (double)(float)x : x;
}

/* The distance of results in terms of elements of x. */
static inline double wf_resample_step(const struct wf_resample_attrs *a, int d, bool corners,
                                      bool narrow)
{
    if (corners)
        return a->to[d] > 1 ? wf_rounded_place((double)(a->size[d] - 1) / (a->to[d] - 1), narrow)
                            : 0;
    if (a->scale[d] > 0) return wf_rounded_place(1 / a->scale[d], narrow);
    return wf_rounded_place((double)a->size[d] / a->to[d], narrow);
}

/* The place of result i among the elements of x, whose centres are at whole numbers. */
static inline double wf_resample_place(const struct wf_resample_attrs *a, int d, int64_t i,
                                       bool narrow)
{
    double step = wf_resample_step(a, d, a->option, narrow);

    if (a->option) return wf_rounded_place(step * (double)i, narrow);
    return wf_rounded_place(wf_rounded_place(step * ((double)i + 0.5), narrow) - 0.5, narrow);
}

static inline void wf_nearest_tap(struct wf_element_taps *e, const struct wf_resample_attrs *a,
                                  int d, int64_t i, bool narrow)
{
    double shift = a->mode == WF_RESAMPLE_NEAREST_EXACT ? 0.5 : 0;
    double step = wf_resample_step(a, d, false, narrow);

    e->first = (int64_t)floor(wf_rounded_place(step * ((double)i + shift), narrow));
    e->first = wf_index_within(e->first, a->size[d]);
    e->n = 1;
    e->weight = 1;
}

static inline void wf_linear_taps(struct wf_element_taps *e, const struct wf_resample_attrs *a,
                                  int d, int64_t i, bool narrow)
{
    double at = wf_resample_place(a, d, i, narrow), part;

    if (at < 0) at = 0;
    e->first = wf_index_within((int64_t)at, a->size[d]);
    e->n = 2;
    part = at - (double)e->first;
    part = part < 0 ? 0 : part > 1 ? 1 : part;
    e->part = part;
}

static inline void wf_cubic_taps(struct wf_element_taps *e, const struct wf_resample_attrs *a,
                                 int d, int64_t i, bool narrow)
{
    double at = wf_resample_place(a, d, i, narrow);

    e->first = (int64_t)floor(at) - 1;
    e->n = 4;
    e->part = at - floor(at);
}

static inline void wf_average_taps(struct wf_element_taps *e, const struct wf_resample_attrs *a,
                                   int d, int64_t i)
{
    int64_t size = a->size[d], first = i * a->stride[d] - a->before[d], last = first + a->kernel[d];
    int64_t counted;

    if (last > size + a->before[d]) last = size + a->before[d];
    counted = last - first;
    if (first < 0) first = 0;
    if (last > size) last = size;
    if (!a->option) counted = last - first;
    e->first = first;
    e->n = last > first ? last - first : 0;
    e->weight = counted > 0 ? 1 / (double)counted : 0;
}

static inline void wf_adaptive_taps(struct wf_element_taps *e, const struct wf_resample_attrs *a,
                                    int d, int64_t i)
{
    int64_t size = a->size[d], to = a->to[d];

    e->first = i * size / to;
    e->n = ((i + 1) * size + to - 1) / to - e->first;
    e->weight = 1 / (double)e->n;
}

/** Of result i of dim d. `narrow`: places are computed in f32, as of tensors of f32 and narrower.
 */
static inline struct wf_element_taps wf_element_taps_of(const struct wf_resample_attrs *a, int d,
                                                        int64_t i, bool narrow)
{
    struct wf_element_taps e = {0, 0, (enum wf_resampling)a->mode, 0, 0};

    switch (e.mode) {
    case WF_RESAMPLE_LINEAR:
        wf_linear_taps(&e, a, d, i, narrow);
        break;
    case WF_RESAMPLE_CUBIC:
        wf_cubic_taps(&e, a, d, i, narrow);
        break;
    case WF_RESAMPLE_AVERAGE:
        wf_average_taps(&e, a, d, i);
        break;
    case WF_RESAMPLE_ADAPTIVE:
        wf_adaptive_taps(&e, a, d, i);
        break;
    default:
        wf_nearest_tap(&e, a, d, i, narrow);
    }
    return e;
}
