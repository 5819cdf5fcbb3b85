/* one_place.c: see the header. */
#include "kernels/cpu/convolution/one_place.h"

#include "base/mem.h"
#include "kernels/cpu/products/gemm.h"

struct wf_one_place_conv {
    struct wf_gemm product; /* of one image and group */
    bool dx;
    int64_t n, groups, in, out, places;
};

static bool is_one_place(const struct wf_conv *c)
{
    if (c->pass == WF_CONV_DW || c->dtype != WEFT_F32) return false;
    for (int i = 0; i < WF_SPATIAL; i++)
        if (c->kernel[i] != 1 || c->stride[i] != 1 || c->before[i] != 0 || c->after[i] != 0)
            return false;
    return true;
}

struct wf_one_place_conv *wf_one_place_conv_new(const struct wf_conv *c, size_t *scratch)
{
    struct wf_one_place_conv *p;

    if (!is_one_place(c)) return NULL;
    p = WF_NEW(struct wf_one_place_conv);
    p->dx = c->pass == WF_CONV_DX;
    p->n = c->n;
    p->groups = c->groups;
    p->in = c->in;
    p->out = c->out;
    p->places = c->size[0] * c->size[1] * c->size[2];
    p->product = (struct wf_gemm){.dtype = WEFT_F32,
                                  .ta = p->dx,
                                  .m = p->dx ? c->in : c->out,
                                  .n = p->places,
                                  .k = p->dx ? c->out : c->in,
                                  .lda = c->in,
                                  .ldb = p->places,
                                  .ldc = p->places};
    wf_gemm_prepare(&p->product);
    *scratch = p->product.scratch;
    return p;
}

static void add_bias(const struct wf_one_place_conv *p, const float *bias, float *y)
{
    for (int64_t c = 0; c < p->out; c++, y += p->places)
        for (int64_t i = 0; i < p->places; i++) y[i] += bias[c];
}

void wf_one_place_conv_run(const struct wf_one_place_conv *p, const struct wf_conv_operands *o,
                           void *scratch)
{
    const float *w = o->w, *bias = o->bias;
    float *x = o->x, *y = o->y;

    for (int64_t i = 0; i < p->n; i++)
        for (int64_t g = 0; g < p->groups; g++, x += p->in * p->places, y += p->out * p->places) {
            const float *own = w + g * p->out * p->in;

            if (p->dx)
                wf_gemm_run(&p->product, own, y, NULL, x, scratch);
            else
                wf_gemm_run(&p->product, own, x, NULL, y, scratch);
            if (bias && !p->dx) add_bias(p, bias + g * p->out, y);
        }
}

void wf_one_place_conv_free(struct wf_one_place_conv *p)
{
    if (p) wf_gemm_free(&p->product);
    wf_free(p);
}
