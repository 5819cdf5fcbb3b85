/*
 * one_place.c: see the header. Images of few places lie side by side for one product, since
 * products that narrow are slow, and the gradient of w is a sum over images:
 *
 *   many places   of each image                y = w x        dx = w^T dy
 *   few           of all images side by side   y = w x        dx = w^T dy        dw = dy x^T
 */
#include "kernels/cpu/convolution/one_place.h"

#include <string.h>

#include "base/mem.h"
#include "kernels/cpu/products/gemm.h"
#include "kernels/cpu/scratch.h"

/* Above, oneDNN's gradient of w is faster, and a product is as fast as one of several images. */
enum { FEW_PLACES = 256 };

struct wf_one_place_conv {
    struct wf_gemm product; /* of a group and of one image, or of all where they lie side by side */
    enum wf_conv_pass pass;
    bool side_by_side;
    int64_t n, groups, in, out, places;
};

static bool is_one_place(const struct wf_conv *c)
{
    if (c->dtype != WEFT_F32) return false;
    for (int i = 0; i < WF_SPATIAL; i++)
        if (c->kernel[i] != 1 || c->stride[i] != 1 || c->before[i] != 0 || c->after[i] != 0)
            return false;
    return true;
}

static struct wf_gemm product_of(const struct wf_one_place_conv *p)
{
    const int64_t columns = p->side_by_side ? p->n * p->places : p->places;

    if (p->pass == WF_CONV_DW)
        return (struct wf_gemm){.dtype = WEFT_F32,
                                .tb = true,
                                .m = p->out,
                                .n = p->in,
                                .k = columns,
                                .lda = columns,
                                .ldb = columns,
                                .ldc = p->in};
    return (struct wf_gemm){.dtype = WEFT_F32,
                            .ta = p->pass == WF_CONV_DX,
                            .m = p->pass == WF_CONV_DX ? p->in : p->out,
                            .n = columns,
                            .k = p->pass == WF_CONV_DX ? p->out : p->in,
                            .lda = p->in,
                            .ldb = columns,
                            .ldc = columns};
}

static size_t bytes_side_by_side(const struct wf_one_place_conv *p, int64_t channels)
{
    return wf_scratch_round_up((size_t)(channels * p->n * p->places) * sizeof(float));
}

struct wf_one_place_conv *wf_one_place_conv_new(const struct wf_conv *c, size_t *scratch)
{
    int64_t places = c->size[0] * c->size[1] * c->size[2];
    bool few = places <= FEW_PLACES;
    struct wf_one_place_conv *p;

    if (!is_one_place(c) || (c->pass == WF_CONV_DW && !few)) return NULL;
    p = WF_NEW(struct wf_one_place_conv);
    p->pass = c->pass;
    p->side_by_side = few && c->n > 1;
    p->n = c->n;
    p->groups = c->groups;
    p->in = c->in;
    p->out = c->out;
    p->places = places;
    p->product = product_of(p);
    wf_gemm_prepare(&p->product);
    *scratch = p->product.scratch;
    if (p->side_by_side) *scratch += bytes_side_by_side(p, p->in) + bytes_side_by_side(p, p->out);
    return p;
}

static void add_bias(const struct wf_one_place_conv *p, const float *bias, int64_t places, float *y)
{
    for (int64_t c = 0; c < p->out; c++, y += places)
        for (int64_t i = 0; i < places; i++) y[i] += bias[c];
}

static void multiply(const struct wf_one_place_conv *p, float *w, float *x, float *y,
                     const float *bias, int64_t places, char *scratch)
{
    if (p->pass == WF_CONV_DW)
        wf_gemm_run(&p->product, y, x, NULL, w, scratch);
    else if (p->pass == WF_CONV_DX)
        wf_gemm_run(&p->product, w, y, NULL, x, scratch);
    else
        wf_gemm_run(&p->product, w, x, NULL, y, scratch);
    if (bias && p->pass == WF_CONV_FORWARD) add_bias(p, bias, places, y);
}

/* Between the images of a group, which lie `step` apart, and the same images side by side. */
static void move_images(const struct wf_one_place_conv *p, float *images, int64_t step,
                        float *side_by_side, int64_t channels, bool apart)
{
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < p->n; i++, side_by_side += p->places) {
            float *image = images + i * step + c * p->places;

            memcpy(apart ? image : side_by_side, apart ? side_by_side : image,
                   (size_t)p->places * sizeof *image);
        }
}

static void run_side_by_side(const struct wf_one_place_conv *p, const struct wf_conv_operands *o,
                             char *scratch)
{
    int64_t x_group = p->in * p->places, y_group = p->out * p->places;
    int64_t x_step = p->groups * x_group, y_step = p->groups * y_group;
    float *xs = (float *)(void *)scratch;
    float *ys = (float *)(void *)(scratch + bytes_side_by_side(p, p->in));
    char *rest = scratch + bytes_side_by_side(p, p->in) + bytes_side_by_side(p, p->out);

    for (int64_t g = 0; g < p->groups; g++) {
        float *x = (float *)o->x + g * x_group, *y = (float *)o->y + g * y_group;
        const float *bias = o->bias ? (const float *)o->bias + g * p->out : NULL;

        if (p->pass != WF_CONV_DX) move_images(p, x, x_step, xs, p->in, false);
        if (p->pass != WF_CONV_FORWARD) move_images(p, y, y_step, ys, p->out, false);
        multiply(p, (float *)o->w + g * p->out * p->in, xs, ys, bias, p->n * p->places, rest);
        if (p->pass == WF_CONV_DX) move_images(p, x, x_step, xs, p->in, true);
        if (p->pass == WF_CONV_FORWARD) move_images(p, y, y_step, ys, p->out, true);
    }
}

void wf_one_place_conv_run(const struct wf_one_place_conv *p, const struct wf_conv_operands *o,
                           void *scratch)
{
    const float *bias = o->bias;
    float *x = o->x, *y = o->y;

    if (p->side_by_side) {
        run_side_by_side(p, o, scratch);
        return;
    }
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t g = 0; g < p->groups; g++, x += p->in * p->places, y += p->out * p->places)
            multiply(p, (float *)o->w + g * p->out * p->in, x, y, bias ? bias + g * p->out : NULL,
                     p->places, scratch);
}

void wf_one_place_conv_free(struct wf_one_place_conv *p)
{
    if (p) wf_gemm_free(&p->product);
    wf_free(p);
}
