/*
 * convolution.c: convolutions in one to three dims and their two gradients.
 *
 *   x [N,C,S...]   w [O,C,K...]   bias [O] or NULL   y, d [N,O,T...]
 *   x [N,G,C,S...] w [G,O,C,K...] bias [G,O] or NULL y, d [N,G,O,T...]     with groups
 *
 * f32 and 16-bit floats are oneDNN's, but for kernels of one place (one_place.h); a 16-bit float
 * for which it has no kernel on this machine is computed in f32. f64 has loops of its own.
 */
#include "kernels/cpu/convolution/convolution.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/convolution/dense.h"
#include "kernels/cpu/convolution/one_place.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/scratch.h"
#include "kernels/operands/operand_checks.h"

enum { X, W, Y, BIAS, OPERANDS };

struct convolution {
    struct wf_conv conv;
    struct wf_one_place_conv *one_place;     /* NULL: oneDNN's or plain loops */
    struct wf_dnnl_conv *dnnl;               /* NULL: plain loops, or nothing to add up */
    const struct wf_plain_conv_table *plain; /* NULL: the result is the bias, or 0 */
    struct wf_dense operand[OPERANDS];
    size_t own_scratch, element;
};

static void convolution_free(void *prep)
{
    struct convolution *p = prep;

    for (int i = 0; i < OPERANDS; i++) wf_dense_free(&p->operand[i]);
    wf_one_place_conv_free(p->one_place);
    wf_dnnl_conv_free(p->dnnl);
    wf_scratch_release();
    wf_free(p);
}

static int64_t positions(const int64_t *size) { return size[0] * size[1] * size[2]; }

/* The bias in every place, or 0: an empty sum. */
static void fill_result(const struct convolution *p, const struct wf_conv_operands *o)
{
    const struct wf_conv *c = &p->conv;
    int64_t channels = c->groups * c->out, plane = positions(c->to);
    char *y = o->y;

    if (c->pass == WF_CONV_DX)
        memset(o->x, 0, (size_t)(c->n * c->groups * c->in * positions(c->size)) * p->element);
    if (c->pass == WF_CONV_DW)
        memset(o->w, 0, (size_t)(channels * c->in * positions(c->kernel)) * p->element);
    if (c->pass != WF_CONV_FORWARD) return;
    for (int64_t i = 0; i < c->n * channels * plane; i++, y += p->element) {
        const char *bias = o->bias;

        if (bias)
            memcpy(y, bias + (size_t)(i / plane % channels) * p->element, p->element);
        else
            memset(y, 0, p->element);
    }
}

/* Which input, or output, of the kernel's call an operand is. */
static const int input_of[][OPERANDS] = {[WF_CONV_FORWARD] = {0, 1, -1, 2},
                                         [WF_CONV_DX] = {-1, 1, 0, -1},
                                         [WF_CONV_DW] = {1, -1, 0, -1}};

static void convolution_run(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                            const struct wf_scalars *scalars)
{
    const struct convolution *p = k->prep;
    const int *from = input_of[p->conv.pass];
    void *at[OPERANDS] = {NULL}, *result = NULL;
    char *scratch = wf_scratch_buffer();
    struct wf_conv_operands o;

    (void)scalars;
    for (int i = 0; i < OPERANDS; i++, scratch += p->operand[i - 1].scratch) {
        const void *x = from[i] >= 0 && from[i] < k->n_in ? in[from[i]] : NULL;

        if (x)
            at[i] = (void *)(uintptr_t)wf_dense_read(&p->operand[i], x, scratch);
        else if (i != BIAS)
            at[i] = result = wf_dense_place(&p->operand[i], out[0], scratch);
    }
    o = (struct wf_conv_operands){at[X], at[W], at[Y], at[BIAS]};
    if (p->one_place)
        wf_one_place_conv_run(p->one_place, &o, scratch);
    else if (p->dnnl)
        wf_dnnl_conv_run(p->dnnl, &o, scratch);
    else if (p->plain)
        p->plain->run(&p->conv, &o);
    else
        fill_result(p, &o);
    for (int i = 0; i < BIAS; i++)
        if (from[i] < 0) wf_dense_write(&p->operand[i], out[0], result);
}

/* Sizes as this rank has them, from operands with or without a dim of groups. */
static void read_sizes(struct wf_conv *c, const struct wf_conv_attrs *attrs,
                       const struct wf_tensor_desc *const *d)
{
    int grouped = attrs->grouped, first = WF_SPATIAL - attrs->dims;

    c->dims = attrs->dims;
    c->n = d[X]->shape[0];
    c->groups = grouped ? d[X]->shape[1] : 1;
    c->in = d[X]->shape[1 + grouped];
    c->out = d[Y]->shape[1 + grouped];
    for (int i = 0; i < WF_SPATIAL; i++) {
        int s = i - first;

        c->size[i] = c->to[i] = c->kernel[i] = c->stride[i] = c->dilation[i] = 1;
        c->before[i] = c->after[i] = 0;
        if (s < 0) continue;
        c->size[i] = d[X]->shape[2 + grouped + s];
        c->to[i] = d[Y]->shape[2 + grouped + s];
        c->kernel[i] = d[W]->shape[2 + grouped + s];
        c->stride[i] = attrs->stride[s];
        c->before[i] = attrs->before[s];
        c->after[i] = attrs->after[s];
        c->dilation[i] = attrs->dilation[s];
    }
}

/* False if all taps of all windows lie in the padding of dim d. */
static bool reads_image(const struct wf_conv *c, int d)
{
    for (int64_t window = 0; window < c->to[d]; window++)
        for (int64_t tap = 0; tap < c->kernel[d]; tap++) {
            int64_t at = window * c->stride[d] + tap * c->dilation[d] - c->before[d];

            if (at >= 0 && at < c->size[d]) return true;
        }
    return false;
}

/* True if there is nothing to multiply: this rank has no elements, or the windows read padding
 * only. oneDNN writes outside its operands in the second case. */
static bool is_empty_sum(const struct wf_conv *c)
{
    if (c->n == 0 || c->groups == 0 || c->in == 0 || c->out == 0) return true;
    for (int d = 0; d < WF_SPATIAL; d++)
        if (!reads_image(c, d)) return true;
    return false;
}

static void prepare_operands(struct convolution *p, const struct wf_tensor_desc *const *d,
                             uint8_t dtype)
{
    for (int i = 0; i < OPERANDS; i++) {
        if (!d[i]) continue;
        if (i != BIAS && input_of[p->conv.pass][i] < 0)
            wf_dense_prepare_output(&p->operand[i], d[i], dtype);
        else
            wf_dense_prepare_input(&p->operand[i], d[i], dtype);
    }
}

/* The operands' own type where oneDNN has a kernel for it, else the one that is computed in. */
static uint8_t choose_implementation(struct convolution *p, uint8_t dtype)
{
    uint8_t compute = wf_compute_dtype(dtype);

    p->conv.dtype = compute;
    if (is_empty_sum(&p->conv)) return dtype;
    if (compute == dtype) p->one_place = wf_one_place_conv_new(&p->conv, &p->own_scratch);
    if (p->one_place) return dtype;
    if (compute != dtype && wf_kernels_isa_level() >= 5) {
        p->dnnl = wf_dnnl_conv_new(&p->conv, dtype, &p->own_scratch);
        if (p->dnnl) return dtype;
    }
    if (compute == WEFT_F32) p->dnnl = wf_dnnl_conv_new(&p->conv, compute, &p->own_scratch);
    if (p->dnnl) return compute;
    p->plain =
        compute == WEFT_F64 ? WF_ISA_PICK(wf_plain_conv_f64) : WF_ISA_PICK(wf_plain_conv_f32);
    return compute;
}

static weft_status prepare(struct wf_kernel_call *k, enum wf_conv_pass pass)
{
    const struct wf_tensor_desc *d[OPERANDS] = {NULL};
    uint8_t dtype = k->out[0]->dtype, used;
    size_t scratch = 0;
    struct convolution *p;

    if (!wf_dtypes[dtype].is_float) return wf_fail_no_kernel(k, dtype);
    WF_TRY(wf_check_input_dtypes(k, 0, dtype));
    k->run = wf_kernel_run_noop;
    if (k->out[0]->numel == 0) return WEFT_OK;
    for (int i = 0; i < OPERANDS; i++) {
        int from = input_of[pass][i];

        d[i] = from >= 0 && from < k->n_in ? k->in[from] : i == BIAS ? NULL : k->out[0];
    }
    k->prep = p = WF_NEW(struct convolution);
    k->drop = convolution_free;
    k->run = convolution_run;
    p->conv.pass = pass;
    p->conv.bias = d[BIAS] != NULL;
    read_sizes(&p->conv, &k->attrs->conv, d);
    used = choose_implementation(p, dtype);
    p->element = wf_dtypes[used].size;
    prepare_operands(p, d, used);
    for (int i = 0; i < OPERANDS; i++) scratch += p->operand[i].scratch;
    wf_scratch_reserve(scratch + p->own_scratch);
    return WEFT_OK;
}

weft_status wf_cpu_conv(struct wf_kernel_call *k) { return prepare(k, WF_CONV_FORWARD); }

weft_status wf_cpu_conv_dx(struct wf_kernel_call *k) { return prepare(k, WF_CONV_DX); }

weft_status wf_cpu_conv_dw(struct wf_kernel_call *k) { return prepare(k, WF_CONV_DW); }
