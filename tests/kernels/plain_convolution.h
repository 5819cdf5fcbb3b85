/* plain_convolution.h: a convolution and its gradients beside loops over all indices. */
#pragma once

#include "cases.h"

enum { MOST = 6, MOST_PLACES = 3 };

/* [N,(G,)C,..]; in one dim, two or three. */
struct conv_case {
    int dims;
    bool grouped, bias;
    int64_t n, groups, in, out, size[MOST_PLACES], kernel[MOST_PLACES];
    struct wf_conv_attrs attrs;
};

static inline int64_t results(const struct conv_case *c, int d)
{
    const struct wf_conv_attrs *a = &c->attrs;

    if (d >= c->dims) return 1;
    return (c->size[d] + a->before[d] + a->after[d] - a->dilation[d] * (c->kernel[d] - 1) - 1) /
               a->stride[d] +
           1;
}

static inline int shape_of(const struct conv_case *c, int64_t *shape, const int64_t *channels,
                           bool batch, const int64_t *places)
{
    int n = 0;

    if (batch) shape[n++] = c->n;
    if (c->grouped) shape[n++] = c->groups;
    for (int i = 0; channels[i] >= 0; i++) shape[n++] = channels[i];
    for (int d = 0; places && d < c->dims; d++) shape[n++] = places[d];
    return n;
}

struct conv_operands {
    struct operand x, w, b, y; /* y: the result, or its gradient */
};

static inline struct operand made(const struct conv_case *c, weft_dtype dtype, enum lie lie,
                                  const int64_t *channels, bool batch, const int64_t *places,
                                  uint64_t seed)
{
    int64_t shape[MOST];
    int n = shape_of(c, shape, channels, batch, places);

    return operand_noise(dtype, lie, n, shape, seed);
}

/* Sizes of all three dims, of which those that are not there have one. */
struct places {
    int64_t size[MOST_PLACES], kernel[MOST_PLACES], to[MOST_PLACES];
};

static inline struct places places_of(const struct conv_case *c)
{
    struct places p;

    for (int d = 0; d < MOST_PLACES; d++) {
        p.size[d] = d < c->dims ? c->size[d] : 1;
        p.kernel[d] = d < c->dims ? c->kernel[d] : 1;
        p.to[d] = results(c, d);
    }
    return p;
}

/* Every product of an element of x and one of w, where it belongs. */
static inline void loops(const struct conv_case *c, struct conv_operands *o, double *y, double *x,
                         double *w)
{
    const struct wf_conv_attrs *a = &c->attrs;
    const struct places p = places_of(c);
    int64_t sizes[] = {p.kernel[2], p.kernel[1], p.kernel[0], c->in,     p.to[2],
                       p.to[1],     p.to[0],     c->out,      c->groups, c->n};
    enum { DIMS = sizeof sizes / sizeof *sizes };
    int64_t all = 1;

    for (int d = 0; d < DIMS; d++) all *= sizes[d];
    for (int64_t i = 0; i < all; i++) {
        int64_t left = i, at[DIMS], px, pw, py;
        bool there = true;

        for (int d = 0; d < DIMS; d++) {
            at[d] = left % sizes[d];
            left /= sizes[d];
        }
        px = (at[9] * c->groups + at[8]) * c->in + at[3];
        pw = (at[8] * c->out + at[7]) * c->in + at[3];
        py = (at[9] * c->groups + at[8]) * c->out + at[7];
        for (int d = 0; d < MOST_PLACES; d++) {
            int64_t tap = at[2 - d], place = at[6 - d], from = place + tap;

            if (d < c->dims) from = place * a->stride[d] + tap * a->dilation[d] - a->before[d];
            there = there && from >= 0 && from < p.size[d];
            px = px * p.size[d] + from;
            pw = pw * p.kernel[d] + tap;
            py = py * p.to[d] + place;
        }
        if (!there) continue;
        if (y) y[py] += o->x.values[px] * o->w.values[pw];
        if (x) x[px] += o->y.values[py] * o->w.values[pw];
        if (w) w[pw] += o->y.values[py] * o->x.values[px];
    }
}

static inline void add_bias(const struct conv_case *c, const struct operand *b, double *y)
{
    const struct places p = places_of(c);
    int64_t plane = p.to[0] * p.to[1] * p.to[2], channels = c->groups * c->out;

    for (int64_t i = 0; i < c->n * channels * plane; i++) y[i] += b->values[i / plane % channels];
}

static inline void check_conv(const struct conv_case *c, weft_dtype dtype, enum lie lie)
{
    const struct places p = places_of(c);
    union wf_op_attrs attrs = {.conv = c->attrs};
    struct conv_operands o = {
        made(c, dtype, lie, (int64_t[]){c->in, -1}, true, c->size, 1),
        made(c, dtype, lie, (int64_t[]){c->out, c->in, -1}, false, c->kernel, 2),
        made(c, dtype, lie, (int64_t[]){c->out, -1}, false, NULL, 3),
        made(c, dtype, lie, (int64_t[]){c->out, -1}, true, p.to, 4)};
    struct operand y = made(c, dtype, PLAIN, (int64_t[]){c->out, -1}, true, p.to, 5);
    struct operand x = made(c, dtype, PLAIN, (int64_t[]){c->in, -1}, true, c->size, 6);
    struct operand w = made(c, dtype, PLAIN, (int64_t[]){c->out, c->in, -1}, false, c->kernel, 7);
    double bound = dtype_bound(dtype) * 2;

    attrs.conv.dims = (uint8_t)c->dims;
    attrs.conv.grouped = c->grouped;
    loops(c, &o, y.want, x.want, w.want);
    if (c->bias) add_bias(c, &o.b, y.want);
    call_with(wf_cpu_conv, &attrs, &y, c->bias ? 3 : 2,
              (struct operand *[]){&o.x, &o.w, c->bias ? &o.b : NULL}, NULL);
    expect_near("conv", &y, y.want, bound);
    call_with(wf_cpu_conv_dx, &attrs, &x, 2, (struct operand *[]){&o.y, &o.w}, NULL);
    expect_near("conv_dx", &x, x.want, bound);
    call_with(wf_cpu_conv_dw, &attrs, &w, 2, (struct operand *[]){&o.y, &o.x}, NULL);
    expect_near("conv_dw", &w, w.want, bound);
    expect_guards(&y);
    expect_guards(&x);
    expect_guards(&w);
    OPERANDS_FREE(&o.x, &o.w, &o.b, &o.y, &y, &x, &w);
}
