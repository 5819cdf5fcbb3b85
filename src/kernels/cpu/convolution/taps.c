/* taps.c: see the header. */
#include "kernels/cpu/convolution/taps.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

/* The taps of one result. */
struct element_taps {
    int64_t first, n; /* consecutive elements, each with the same weight; or */
    double weight;
    bool listed; /* n of those below */
    int64_t index[4];
    double weights[4];
};

static double rounded(double x, bool narrow) { return narrow ? (double)(float)x : x; }

/* The distance of results in terms of elements of x. */
static double step_of(const struct wf_resample_attrs *a, int d, bool corners, bool narrow)
{
    if (corners)
        return a->to[d] > 1 ? rounded((double)(a->size[d] - 1) / (a->to[d] - 1), narrow) : 0;
    if (a->scale[d] > 0) return rounded(1 / a->scale[d], narrow);
    return rounded((double)a->size[d] / a->to[d], narrow);
}

/* The place of result i among the elements of x, whose centres are at whole numbers. */
static double place_of(const struct wf_resample_attrs *a, int d, int64_t i, bool narrow)
{
    double step = step_of(a, d, a->option, narrow);

    if (a->option) return rounded(step * (double)i, narrow);
    return rounded(rounded(step * ((double)i + 0.5), narrow) - 0.5, narrow);
}

static int64_t within(int64_t i, int64_t size) { return i < 0 ? 0 : i < size ? i : size - 1; }

static struct element_taps nearest(const struct wf_resample_attrs *a, int d, int64_t i, bool narrow)
{
    double shift = a->mode == WF_RESAMPLE_NEAREST_EXACT ? 0.5 : 0;
    double at = rounded(step_of(a, d, false, narrow) * ((double)i + shift), narrow);

    return (struct element_taps){within((int64_t)floor(at), a->size[d]), 1, .weight = 1};
}

static struct element_taps linear(const struct wf_resample_attrs *a, int d, int64_t i, bool narrow)
{
    double at = place_of(a, d, i, narrow), part;
    struct element_taps t = {.n = 2, .listed = true};

    if (at < 0) at = 0;
    t.index[0] = within((int64_t)at, a->size[d]);
    t.index[1] = within(t.index[0] + 1, a->size[d]);
    part = at - (double)t.index[0];
    part = part < 0 ? 0 : part > 1 ? 1 : part;
    t.weights[0] = 1 - part;
    t.weights[1] = part;
    return t;
}

/* Keys' kernel with a = -0.75, at distances below 1, and from 1 to 2. */
static double cubic_near(double x) { return (1.25 * x - 2.25) * x * x + 1; }

static double cubic_far(double x) { return ((-0.75 * x + 3.75) * x - 6) * x + 3; }

static struct element_taps cubic(const struct wf_resample_attrs *a, int d, int64_t i, bool narrow)
{
    double at = place_of(a, d, i, narrow), part = at - floor(at);
    struct element_taps t = {.n = 4, .listed = true};

    for (int k = 0; k < 4; k++) t.index[k] = within((int64_t)floor(at) - 1 + k, a->size[d]);
    t.weights[0] = cubic_far(part + 1);
    t.weights[1] = cubic_near(part);
    t.weights[2] = cubic_near(1 - part);
    t.weights[3] = cubic_far(2 - part);
    return t;
}

static struct element_taps average(const struct wf_resample_attrs *a, int d, int64_t i)
{
    int64_t size = a->size[d], first = i * a->stride[d] - a->before[d], last = first + a->kernel[d];
    int64_t counted;

    if (last > size + a->before[d]) last = size + a->before[d];
    counted = last - first;
    if (first < 0) first = 0;
    if (last > size) last = size;
    if (!a->option) counted = last - first;
    return (struct element_taps){first, last > first ? last - first : 0,
                                 .weight = counted > 0 ? 1 / (double)counted : 0};
}

static struct element_taps adaptive(const struct wf_resample_attrs *a, int d, int64_t i)
{
    int64_t size = a->size[d], to = a->to[d], first = i * size / to;
    int64_t n = ((i + 1) * size + to - 1) / to - first;

    return (struct element_taps){first, n, .weight = 1 / (double)n};
}

static struct element_taps taps_of(const struct wf_resample_attrs *a, int d, int64_t i, bool narrow)
{
    switch ((enum wf_resampling)a->mode) {
    case WF_RESAMPLE_LINEAR:
        return linear(a, d, i, narrow);
    case WF_RESAMPLE_CUBIC:
        return cubic(a, d, i, narrow);
    case WF_RESAMPLE_AVERAGE:
        return average(a, d, i);
    case WF_RESAMPLE_ADAPTIVE:
        return adaptive(a, d, i);
    default:
        return nearest(a, d, i, narrow);
    }
}

static int64_t index_of_tap(const struct element_taps *e, int64_t t)
{
    return e->listed ? e->index[t] : e->first + t;
}

static double weight_of_tap(const struct element_taps *e, int64_t t)
{
    return e->listed ? e->weights[t] : e->weight;
}

static void allocate(struct wf_taps *taps, int64_t size, int64_t to, int64_t count)
{
    taps->size = size;
    taps->to = to;
    taps->begin = wf_malloc((size_t)(to + 1) * sizeof *taps->begin);
    taps->index = wf_malloc((size_t)(count + 1) * sizeof *taps->index);
    taps->weight = wf_malloc((size_t)(count + 1) * sizeof *taps->weight);
    memset(taps->begin, 0, (size_t)(to + 1) * sizeof *taps->begin);
}

/* From results to elements: the lists of each element, in the results' order. */
static void make_transposed(struct wf_taps *back, const struct wf_taps *there)
{
    int64_t count = there->begin[there->to];

    allocate(back, there->to, there->size, count);
    for (int64_t t = 0; t < count; t++) back->begin[there->index[t] + 1]++;
    for (int64_t i = 0; i < back->to; i++) back->begin[i + 1] += back->begin[i];
    for (int64_t i = 0; i < there->to; i++)
        for (int64_t t = there->begin[i]; t < there->begin[i + 1]; t++) {
            int64_t at = back->begin[there->index[t]]++;

            back->index[at] = (int32_t)i;
            back->weight[at] = there->weight[t];
        }
    for (int64_t i = back->to; i > 0; i--) back->begin[i] = back->begin[i - 1];
    back->begin[0] = 0;
}

void wf_taps_make(struct wf_taps *taps, const struct wf_resample_attrs *a, int d, bool narrow)
{
    struct wf_taps there;
    int64_t count = 0;

    for (int64_t i = 0; i < a->to[d]; i++) count += taps_of(a, d, i, narrow).n;
    allocate(&there, a->size[d], a->to[d], count);
    count = 0;
    for (int64_t i = 0; i < a->to[d]; i++) {
        struct element_taps e = taps_of(a, d, i, narrow);

        for (int64_t t = 0; t < e.n; t++, count++) {
            there.index[count] = (int32_t)index_of_tap(&e, t);
            there.weight[count] = weight_of_tap(&e, t);
        }
        there.begin[i + 1] = count;
    }
    *taps = there;
    if (!a->transposed) return;
    make_transposed(taps, &there);
    wf_taps_free(&there);
}

void wf_taps_make_identity(struct wf_taps *taps)
{
    allocate(taps, 1, 1, 1);
    taps->begin[1] = 1;
    taps->index[0] = 0;
    taps->weight[0] = 1;
}

void wf_taps_free(struct wf_taps *taps)
{
    wf_free(taps->begin);
    wf_free(taps->index);
    wf_free(taps->weight);
}
