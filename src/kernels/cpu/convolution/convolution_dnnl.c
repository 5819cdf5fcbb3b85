/*
 * convolution_dnnl.c: convolutions by oneDNN, version 2.6 and 3.x.
 *
 * oneDNN chooses how its operands lie (channels in blocks of a vector); those that lie otherwise
 * are reordered before and after (dnnl_operand.h). All of that is made once per plan.
 */
#include "kernels/cpu/convolution/convolution.h"

#include <string.h>

#include "base/elements/dtype.h"
#include "base/int_math.h"
#include "base/mem.h"
#include "kernels/cpu/convolution/dnnl_operand.h"

#define TRY WF_DNNL_TRY

enum { X, W, Y, BIAS, ARGS };

struct wf_dnnl_conv {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    struct wf_dnnl_operand operand[ARGS];
    int result; /* which operand */
    bool bias;
    void *no_bias; /* zeros, for a rank that leaves the bias to another */
};

/* ---- how operands lie ---- */

struct dims {
    int n;
    dnnl_dims_t dims, strides;
};

static void append(struct dims *d, int64_t size) { d->dims[d->n++] = size; }

static void append_places(struct dims *d, const struct wf_conv *c, const int64_t *size)
{
    for (int i = WF_SPATIAL - c->dims; i < WF_SPATIAL; i++) append(d, size[i]);
}

/* Row-major, as kernels get them. oneDNN knows groups of the weight alone. */
static struct dims dims_of(const struct wf_conv *c, int arg)
{
    struct dims d = {.n = 0};

    if (arg == X || arg == Y) append(&d, c->n);
    if (arg == X) append(&d, c->groups * c->in);
    if (arg == Y || arg == BIAS) append(&d, c->groups * c->out);
    if (arg == W) {
        if (c->groups > 1) append(&d, c->groups);
        append(&d, c->out);
        append(&d, c->in);
    }
    if (arg != BIAS) append_places(&d, c, arg == X ? c->size : arg == Y ? c->to : c->kernel);
    for (int i = d.n - 1; i >= 0; i--)
        d.strides[i] = i == d.n - 1 ? 1 : d.strides[i + 1] * d.dims[i + 1];
    return d;
}

/* ---- which convolutions are given to oneDNN ---- */

/* Positions that the taps of a window span. */
static int64_t window_extent(const struct wf_conv *c, int d)
{
    return (c->kernel[d] - 1) * c->dilation[d] + 1;
}

/* Drop the padding that no window reads. A single window has stride 1 if it leaves out nothing
 * else. */
static void normalize_windows(struct wf_conv *c)
{
    for (int d = 0; d < WF_SPATIAL; d++) {
        int64_t unread = c->size[d] + c->before[d] + c->after[d] - window_extent(c, d) -
                         (c->to[d] - 1) * c->stride[d];
        int64_t dropped = wf_min_i64(unread, c->after[d]);

        if (unread < 0) continue; /* oneDNN refuses these sizes */
        c->after[d] -= dropped;
        if (c->to[d] == 1 && unread == dropped) c->stride[d] = 1;
    }
}

/* False if every window reads padding. */
static bool has_window_within_image(const struct wf_conv *c, int d)
{
    int64_t first = (c->before[d] + c->stride[d] - 1) / c->stride[d];

    return first < c->to[d] &&
           first * c->stride[d] - c->before[d] + window_extent(c, d) <= c->size[d];
}

/*
 * NOTE [degenerate windows]. oneDNN (2.6, 3.7 and 3.12 with AVX-512) gives wrong results, or writes
 * outside its operands, if along one dim
 *
 *   - a single window has a stride, with one input channel or 16-bit floats,
 *   - no window lies within the image, in 3 dims or with a stride (16-bit floats).
 *
 * Random sizes, compared with plain loops, found these cases. Refused convolutions of 16-bit floats
 * are computed in f32, those of f32 by plain loops.
 */
static bool has_degenerate_windows(const struct wf_conv *c, uint8_t type)
{
    const bool is_16_bit = wf_dtype_is_16_bit_float(type);

    for (int d = 0; d < WF_SPATIAL; d++) {
        const bool strided = c->stride[d] > 1;

        if (strided && c->to[d] == 1 && (is_16_bit || c->in == 1)) return true;
        if (is_16_bit && (strided || c->dims == 3) && !has_window_within_image(c, d)) return true;
    }
    return false;
}

/* ---- the primitive ---- */

static void copy_places(dnnl_dims_t to, const struct wf_conv *c, const int64_t *from, int64_t less)
{
    for (int i = 0; i < c->dims; i++) to[i] = from[WF_SPATIAL - c->dims + i] - less;
}

/* oneDNN counts the places that are left out between taps, so 0 is the ordinary kernel. */
static dnnl_status_t make_plan(dnnl_primitive_desc_t *plan, dnnl_engine_t engine,
                               const struct wf_conv *c, enum wf_conv_pass pass,
                               const wf_dnnl_desc *d, dnnl_primitive_desc_t hint)
{
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    const dnnl_prop_kind_t forward =
        c->pass == WF_CONV_FORWARD ? dnnl_forward_inference : dnnl_forward_training;
    dnnl_dims_t stride, dilation, before, after;
    wf_dnnl_desc_ref bias = pass == WF_CONV_FORWARD && c->bias ? wf_dnnl_ref(&d[BIAS]) : NULL;

    copy_places(stride, c, c->stride, 0);
    copy_places(dilation, c, c->dilation, 1);
    copy_places(before, c, c->before, 0);
    copy_places(after, c, c->after, 0);
#if DNNL_VERSION_MAJOR >= 3
    if (pass == WF_CONV_FORWARD)
        return dnnl_convolution_forward_primitive_desc_create(
            plan, engine, forward, direct, wf_dnnl_ref(&d[X]), wf_dnnl_ref(&d[W]), bias,
            wf_dnnl_ref(&d[Y]), stride, dilation, before, after, NULL);
    if (pass == WF_CONV_DX)
        return dnnl_convolution_backward_data_primitive_desc_create(
            plan, engine, direct, wf_dnnl_ref(&d[X]), wf_dnnl_ref(&d[W]), wf_dnnl_ref(&d[Y]),
            stride, dilation, before, after, hint, NULL);
    return dnnl_convolution_backward_weights_primitive_desc_create(
        plan, engine, direct, wf_dnnl_ref(&d[X]), wf_dnnl_ref(&d[W]), NULL, wf_dnnl_ref(&d[Y]),
        stride, dilation, before, after, hint, NULL);
#else
    dnnl_convolution_desc_t op;

    if (pass == WF_CONV_FORWARD)
        TRY(dnnl_dilated_convolution_forward_desc_init(&op, forward, direct, wf_dnnl_ref(&d[X]),
                                                       wf_dnnl_ref(&d[W]), bias, wf_dnnl_ref(&d[Y]),
                                                       stride, dilation, before, after));
    else if (pass == WF_CONV_DX)
        TRY(dnnl_dilated_convolution_backward_data_desc_init(&op, direct, wf_dnnl_ref(&d[X]),
                                                             wf_dnnl_ref(&d[W]), wf_dnnl_ref(&d[Y]),
                                                             stride, dilation, before, after));
    else
        TRY(dnnl_dilated_convolution_backward_weights_desc_init(
            &op, direct, wf_dnnl_ref(&d[X]), wf_dnnl_ref(&d[W]), NULL, wf_dnnl_ref(&d[Y]), stride,
            dilation, before, after));
    return dnnl_primitive_desc_create(plan, &op, NULL, engine, hint);
#endif
}

static bool kernel_name_starts_with(dnnl_primitive_desc_t plan, const char *prefix)
{
    const char *kernel = NULL;

    TRY(dnnl_primitive_desc_query(plan, dnnl_query_impl_info_str, 0, (void *)&kernel));
    return strncmp(kernel, prefix, strlen(prefix)) == 0;
}

/* A gradient's plan follows that of the forward. NULL where there is none. */
static dnnl_primitive_desc_t plan_new(dnnl_engine_t engine, const struct wf_conv *c,
                                      const wf_dnnl_desc *d)
{
    dnnl_primitive_desc_t forward = NULL, plan = NULL;

    if (make_plan(&forward, engine, c, WF_CONV_FORWARD, d, NULL) != dnnl_success) return NULL;
    if (c->pass == WF_CONV_FORWARD) return forward;
    if (make_plan(&plan, engine, c, c->pass, d, forward) != dnnl_success) plan = NULL;
    TRY(dnnl_primitive_desc_destroy(forward));
    return plan;
}

/* ---- operands that the primitive wants otherwise ---- */

static wf_dnnl_desc_ref wanted_by(dnnl_primitive_desc_t plan, enum wf_conv_pass pass, int arg)
{
    static const dnnl_query_t queries[][ARGS] = {
        [WF_CONV_FORWARD] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
        [WF_CONV_DX] = {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md},
        [WF_CONV_DW] = {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md}};

    return dnnl_primitive_desc_query_md(plan, queries[pass][arg], 0);
}

static void prepare_operands(struct wf_dnnl_conv *p, const struct wf_conv *c, uint8_t type,
                             dnnl_primitive_desc_t plan, size_t *scratch)
{
    *scratch = 0;
    p->result = c->pass == WF_CONV_FORWARD ? Y : c->pass == WF_CONV_DX ? X : W;
    p->bias = c->pass == WF_CONV_FORWARD && c->bias;
    for (int i = 0; i < (p->bias ? ARGS : BIAS); i++) {
        struct dims d = dims_of(c, i);
        wf_dnnl_desc given;

        wf_dnnl_desc_of_strides(&given, d.n, d.dims, d.strides, wf_dnnl_type(type));
        wf_dnnl_operand_init(&p->operand[i], p->engine, wf_dnnl_ref(&given),
                             i == BIAS ? wf_dnnl_ref(&given) : wanted_by(plan, c->pass, i),
                             i == p->result);
        wf_dnnl_desc_free(&given);
        *scratch += p->operand[i].scratch;
    }
    if (!p->bias) return;
    p->no_bias = wf_malloc((size_t)(c->groups * c->out) * wf_dtypes[type].size);
    memset(p->no_bias, 0, (size_t)(c->groups * c->out) * wf_dtypes[type].size);
}

/* images: how x and y lie. */
static dnnl_primitive_desc_t plan_for_format(dnnl_engine_t engine, const struct wf_conv *c,
                                             uint8_t type, dnnl_format_tag_t images)
{
    dnnl_primitive_desc_t plan;
    wf_dnnl_desc d[ARGS];

    for (int i = 0; i < ARGS; i++) {
        struct dims of = dims_of(c, i);

        if (i == BIAS)
            wf_dnnl_desc_of_strides(&d[i], of.n, of.dims, of.strides, wf_dnnl_type(type));
        else
            wf_dnnl_desc_of_format(&d[i], of.n, of.dims, wf_dnnl_type(type),
                                   i == W ? dnnl_format_tag_any : images);
    }
    plan = plan_new(engine, c, d);
    for (int i = 0; i < ARGS; i++) wf_dnnl_desc_free(&d[i]);
    return plan;
}

/* What oneDNN prefers, but for channels last in f32, which it takes where blocks of 16 channels are
 * as fast or faster (docs/decisions/0057). */
static dnnl_primitive_desc_t plan_for_type(dnnl_engine_t engine, const struct wf_conv *c,
                                           uint8_t type)
{
    static const dnnl_format_tag_t blocks[] = {dnnl_format_tag_undef, dnnl_nCw16c, dnnl_nChw16c,
                                               dnnl_nCdhw16c};
    dnnl_primitive_desc_t plan = plan_for_format(engine, c, type, dnnl_format_tag_any),
                          blocked = NULL;

    if (plan && type != WEFT_F32 && kernel_name_starts_with(plan, "ref")) {
        TRY(dnnl_primitive_desc_destroy(plan));
        return NULL;
    }
    if (plan && type == WEFT_F32 && kernel_name_starts_with(plan, "brgconv"))
        blocked = plan_for_format(engine, c, type, blocks[c->dims]);
    if (!blocked) return plan;
    if (!kernel_name_starts_with(blocked, "jit")) {
        TRY(dnnl_primitive_desc_destroy(blocked));
        return plan;
    }
    TRY(dnnl_primitive_desc_destroy(plan));
    return blocked;
}

struct wf_dnnl_conv *wf_dnnl_conv_new(const struct wf_conv *c, uint8_t type, size_t *scratch)
{
    struct wf_conv normalized = *c;
    struct wf_dnnl_conv *p;
    dnnl_primitive_desc_t plan;
    int before;

    normalize_windows(&normalized);
    c = &normalized;
    if (has_degenerate_windows(c, type)) return NULL;
    p = WF_NEW(struct wf_dnnl_conv);
    before = wf_dnnl_limit_threads();
    TRY(dnnl_engine_create(&p->engine, dnnl_cpu, 0));
    TRY(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags));
    plan = plan_for_type(p->engine, c, type);
    if (plan) {
        prepare_operands(p, c, type, plan, scratch);
        TRY(dnnl_primitive_create(&p->primitive, plan));
        TRY(dnnl_primitive_desc_destroy(plan));
    }
    wf_dnnl_restore_threads(before);
    if (plan) return p;
    wf_dnnl_conv_free(p);
    return NULL;
}

/* ---- a run ---- */

static const int arg_names[][ARGS] = {
    [X] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_BIAS},
    [W] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_BIAS},
    [Y] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS}};

void wf_dnnl_conv_run(struct wf_dnnl_conv *p, const struct wf_conv_operands *o, void *scratch)
{
    const void *data[ARGS] = {o->x, o->w, o->y, o->bias ? o->bias : p->no_bias};
    int before = wf_dnnl_limit_threads(), n = p->bias ? ARGS : BIAS;
    dnnl_exec_arg_t args[ARGS];
    char *room = scratch;

    for (int i = 0; i < n; i++) {
        args[i] = (dnnl_exec_arg_t){arg_names[p->result][i],
                                    wf_dnnl_operand_bind(&p->operand[i], data[i], room)};
        room += p->operand[i].scratch;
        if (i != p->result) wf_dnnl_operand_reorder(&p->operand[i], p->stream);
    }
    TRY(dnnl_primitive_execute(p->primitive, p->stream, n, args));
    wf_dnnl_operand_reorder(&p->operand[p->result], p->stream);
    TRY(dnnl_stream_wait(p->stream));
    wf_dnnl_restore_threads(before);
}

void wf_dnnl_conv_free(struct wf_dnnl_conv *p)
{
    if (!p) return;
    if (p->primitive) TRY(dnnl_primitive_destroy(p->primitive));
    for (int i = 0; i < ARGS; i++) wf_dnnl_operand_free(&p->operand[i]);
    TRY(dnnl_stream_destroy(p->stream));
    TRY(dnnl_engine_destroy(p->engine));
    wf_free(p->no_bias);
    wf_free(p);
}
