/*
 * one_place.c: see the header. Products of few columns are slow, so small images are gathered side
 * by side into one matrix [channels, images x places] that one product serves. The gradient of w
 * is a sum over all images: it is computed here where they fit into one such matrix.
 *
 *     y = w x        dx = w^T dy        dw = dy x^T
 */
#include "kernels/cpu/convolution/one_place.h"

#include <string.h>

#include "base/int_math.h"
#include "base/mem.h"
#include "kernels/cpu/products/gemm.h"
#include "kernels/cpu/scratch.h"

/* Measured with AVX-512, in docs/decisions/0057-convolutions-are-onednns.md. Beyond SMALL the
 * copies cost y and dx more than the product gains, beyond DW_PLACES oneDNN's dw is faster, and a
 * matrix of more than COLUMNS leaves the cache. */
enum { SMALL = 63, DW_PLACES = 256, COLUMNS = 1024 };

struct wf_one_place_conv {
    struct wf_gemm product; /* of a group and of `together` images */
    enum wf_conv_pass pass;
    int64_t n, groups, in, out, places;
    int64_t together; /* gathered side by side if more than one */
};

static bool is_one_place(const struct wf_conv *c)
{
    if (c->dtype != WEFT_F32) return false;
    for (int i = 0; i < WF_SPATIAL; i++)
        if (c->kernel[i] != 1 || c->stride[i] != 1 || c->before[i] != 0 || c->after[i] != 0)
            return false;
    return true;
}

/* How many images one product serves: a divisor of n; 0: this pass is oneDNN's. */
static int64_t images_together(const struct wf_conv *c, int64_t places)
{
    int64_t together = wf_min_i64(c->n, COLUMNS / places);

    if (c->pass == WF_CONV_DW)
        return places <= DW_PLACES && (c->n == 1 || together == c->n) ? c->n : 0;
    if (places > SMALL) return 1;
    while (c->n % together) together--;
    return together;
}

static struct wf_gemm product_of(const struct wf_one_place_conv *p)
{
    const int64_t columns = p->together * p->places;

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

static size_t gathered_bytes(const struct wf_one_place_conv *p, int64_t channels)
{
    return wf_scratch_round_up((size_t)(channels * p->together * p->places) * sizeof(float));
}

struct wf_one_place_conv *wf_one_place_conv_new(const struct wf_conv *c, size_t *scratch)
{
    int64_t places = c->size[0] * c->size[1] * c->size[2], together;
    struct wf_one_place_conv *p;

    if (!is_one_place(c)) return NULL;
    together = images_together(c, places);
    if (together == 0) return NULL;
    p = WF_NEW(struct wf_one_place_conv);
    p->pass = c->pass;
    p->n = c->n;
    p->groups = c->groups;
    p->in = c->in;
    p->out = c->out;
    p->places = places;
    p->together = together;
    p->product = product_of(p);
    wf_gemm_prepare(&p->product);
    *scratch = p->product.scratch;
    if (together > 1) *scratch += gathered_bytes(p, p->in) + gathered_bytes(p, p->out);
    return p;
}

/* One group's images, `image_stride` elements apart, into a matrix [channels, images x places]. */
static void gather_images(const struct wf_one_place_conv *p, const float *images,
                          int64_t image_stride, int64_t channels, float *matrix)
{
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < p->together; i++, matrix += p->places)
            memcpy(matrix, images + i * image_stride + c * p->places,
                   (size_t)p->places * sizeof *matrix);
}

/* The other way round. */
static void scatter_images(const struct wf_one_place_conv *p, const float *matrix,
                           int64_t image_stride, int64_t channels, float *images)
{
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < p->together; i++, matrix += p->places)
            memcpy(images + i * image_stride + c * p->places, matrix,
                   (size_t)p->places * sizeof *matrix);
}

/* x, y: matrices of `together` images. */
static void multiply_and_add_bias(const struct wf_one_place_conv *p, float *w, float *x, float *y,
                                  const float *bias, char *scratch)
{
    const int64_t columns = p->together * p->places;

    if (p->pass == WF_CONV_DW)
        wf_gemm_run(&p->product, y, x, NULL, w, scratch);
    else if (p->pass == WF_CONV_DX)
        wf_gemm_run(&p->product, w, y, NULL, x, scratch);
    else
        wf_gemm_run(&p->product, w, x, NULL, y, scratch);
    if (!bias || p->pass != WF_CONV_FORWARD) return;
    for (int64_t c = 0; c < p->out; c++, y += columns)
        for (int64_t i = 0; i < columns; i++) y[i] += bias[c];
}

static void multiply_gathered(const struct wf_one_place_conv *p, float *w, float *x, float *y,
                              const float *bias, char *scratch)
{
    int64_t x_stride = p->groups * p->in * p->places, y_stride = p->groups * p->out * p->places;
    float *xs = (float *)(void *)scratch;
    float *ys = (float *)(void *)(scratch + gathered_bytes(p, p->in));

    scratch += gathered_bytes(p, p->in) + gathered_bytes(p, p->out);
    if (p->pass != WF_CONV_DX) gather_images(p, x, x_stride, p->in, xs);
    if (p->pass != WF_CONV_FORWARD) gather_images(p, y, y_stride, p->out, ys);
    multiply_and_add_bias(p, w, xs, ys, bias, scratch);
    if (p->pass == WF_CONV_DX) scatter_images(p, xs, x_stride, p->in, x);
    if (p->pass == WF_CONV_FORWARD) scatter_images(p, ys, y_stride, p->out, y);
}

void wf_one_place_conv_run(const struct wf_one_place_conv *p, const struct wf_conv_operands *o,
                           void *scratch)
{
    for (int64_t i = 0; i < p->n; i += p->together)
        for (int64_t g = 0; g < p->groups; g++) {
            float *x = (float *)o->x + (i * p->groups + g) * p->in * p->places;
            float *y = (float *)o->y + (i * p->groups + g) * p->out * p->places;
            float *w = (float *)o->w + g * p->out * p->in;
            const float *bias = o->bias ? (const float *)o->bias + g * p->out : NULL;

            if (p->together > 1)
                multiply_gathered(p, w, x, y, bias, scratch);
            else
                multiply_and_add_bias(p, w, x, y, bias, scratch);
        }
}

void wf_one_place_conv_free(struct wf_one_place_conv *p)
{
    if (p) wf_gemm_free(&p->product);
    wf_free(p);
}
