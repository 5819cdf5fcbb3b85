/*
 * attention.c: O = softmax(scale Q K^T + mask + bias) V per batch entry and head, and its gradient.
 *
 *   attention          q [B,Tq,H,D]    k, v [B,Tk,H,D]  -> o [B,Tq,H,D], lse [B,H,Tq]
 *                      q [B,Tq,G,R,D]  k, v [B,Tk,G,D]  -> o [B,Tq,G,R,D], lse [B,G,R,Tq]
 *   attention_packed   qkv [B,T,3,H,D] or, grouped, [B,T,G,R+2,D]  -> the same
 *
 * R query heads of a group share its keys and values. mask [B or 1, Tq or 1, Tk] is left out, bool
 * (true: seen) or added. bias [B or 1, heads or 1, Tq or 1, Tk], with a dim per dim of heads (G,
 * R), is added and has a gradient of its own size: what one of its elements gets from several batch
 * entries, heads or queries is summed in the type that is computed in. The last v[0] keys are not
 * there yet (a cache with room). This file finds each head's rows in the operands; the arithmetic
 * is in isa/. With the causal attribute query i sees keys up to i + Tk - v[0] - Tq; a query that
 * sees none gives 0.
 */
#include "kernels/cpu/attention/attention.h"

#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/scratch.h"

/* Where one of Q, K, V, O, ... lies: operand `index` of the inputs or outputs, and its strides. */
struct role {
    bool used, is_out;
    int index;
    int64_t offset, batch, row, group, repeat, col; /* elements */
};

/* Which head, and of which batch entry. */
struct place {
    int64_t batch, group, repeat;
};

struct bias {
    int index;           /* of the inputs; -1: none */
    struct place stride; /* elements of the bias; 0 where one serves all */
    int gradient;        /* of the outputs; -1: not wanted */
    struct place step;   /* the same for the gradient, */
    int64_t rows, row;   /* whose heads each have so many rows, so long */
    int64_t bytes;       /* of all of it */
};

struct attention {
    const struct wf_attention_loops *loops;
    struct wf_attention shape;
    int64_t batches, groups, repeats, bytes, lse_bytes;
    struct role role[WF_ATT_GRAD_HEADS];
    struct wf_operand lse; /* as an input */
    int lse_index;
    int mask_index; /* -1: none */
    int64_t mask_batch;
    struct bias bias;
    bool batch_inside;     /* the order of heads: a group's of all batch entries, then the next's */
    int64_t key_gradients; /* bytes of dK, and of dV, where these are outputs of their own */
    bool backward;
};

static void attention_free(void *prep)
{
    struct attention *p = prep;

    wf_operand_free(&p->lse);
    wf_scratch_release();
    wf_free(p);
}

static int64_t head_count(const struct attention *p) { return p->batches * p->groups * p->repeats; }

/* Head n of all. Those of a group come one after the other: they share packed keys and values. */
static struct place head_place(const struct attention *p, int64_t n)
{
    int64_t group = n / p->repeats;

    if (p->batch_inside)
        return (struct place){group % p->batches, group / p->batches, n % p->repeats};
    return (struct place){group / p->groups, group % p->groups, n % p->repeats};
}

static int64_t element_offset(struct place at, struct place stride)
{
    return at.batch * stride.batch + at.group * stride.group + at.repeat * stride.repeat;
}

/* Roles of the head at a place. `first` holds each role's operand. */
static void head_operands(const struct attention *p, char *const *first, struct place place,
                          struct wf_attention_head *heads)
{
    for (int i = 0; i < WF_ATT_GRAD_HEADS; i++) {
        const struct role *role = &p->role[i];
        int64_t at = role->offset +
                     element_offset(place, (struct place){role->batch, role->group, role->repeat});

        heads[i] = (struct wf_attention_head){first[i] ? first[i] + at * p->bytes : NULL, role->row,
                                              role->col};
    }
}

/* The roles of head n + 1 that head n does not share with it. */
static const struct wf_attention_head *next_head_operands(const struct attention *p,
                                                          char *const *first, int64_t n,
                                                          struct wf_attention_head *heads)
{
    if (n + 1 == head_count(p)) return NULL;
    head_operands(p, first, head_place(p, n + 1), heads);
    if ((n + 1) % p->repeats)
        heads[WF_ATT_K].data = heads[WF_ATT_V].data = heads[WF_ATT_DK].data =
            heads[WF_ATT_DV].data = NULL;
    return heads;
}

static void set_head_mask(const struct attention *p, const void *const *in, int64_t b,
                          struct wf_attention *shape)
{
    if (p->mask_index < 0) return;
    shape->mask = (const char *)in[p->mask_index] +
                  b * p->mask_batch * (shape->mask_bool ? (int64_t)sizeof(bool) : p->bytes);
}

/* ---- bias: gradients are summed in scratch, for all heads of a group at once ---- */

static int64_t bias_sum_count(const struct attention *p)
{
    return p->bias.step.repeat ? p->repeats : 1;
}

static size_t bias_sum_bytes(const struct attention *p)
{
    if (p->bias.gradient < 0) return 0;
    return wf_scratch_round_up(
        (size_t)(bias_sum_count(p) * p->bias.rows * p->shape.tk * p->lse_bytes));
}

/* True where the groups of heads n and m have one bias, which both are there to have. */
static bool shares_bias_gradient(const struct attention *p, int64_t n, int64_t m)
{
    struct place group = {p->bias.step.batch, p->bias.step.group, 0};

    return n >= 0 && m < head_count(p) &&
           element_offset(head_place(p, n), group) == element_offset(head_place(p, m), group);
}

/* The bias of head n, and where its gradient is summed. */
static void set_head_bias(const struct attention *p, const void *const *in, int64_t n, char *sums,
                          struct wf_attention *shape)
{
    struct place at = head_place(p, n);
    int64_t bytes = p->bias.rows * shape->tk * p->lse_bytes;

    if (p->bias.index < 0) return;
    shape->bias = (const char *)in[p->bias.index] + element_offset(at, p->bias.stride) * p->bytes;
    if (p->bias.gradient < 0) return;
    if (at.repeat == 0 && !shares_bias_gradient(p, n - 1, n))
        memset(sums, 0, (size_t)(bias_sum_count(p) * bytes));
    shape->bias_sum = sums + (p->bias.step.repeat ? at.repeat * bytes : 0);
    shape->bias_sum_row = p->bias.rows > 1 ? shape->tk : 0;
}

/* After head n: what is summed for its group is written unless more is to come. */
static void write_finished_bias_gradient(const struct attention *p, int64_t n, const char *sums,
                                         const struct wf_attention *shape, void *const *out)
{
    struct place at = head_place(p, n);

    if (p->bias.gradient < 0 || at.repeat + 1 < p->repeats || shares_bias_gradient(p, n, n + 1))
        return;
    at.repeat = 0;
    for (int64_t i = 0; i < bias_sum_count(p); i++, at.repeat++)
        for (int64_t row = 0; row < p->bias.rows; row++, sums += shape->tk * p->lse_bytes)
            p->loops->write_bias(sums, shape->tk,
                                 (char *)out[p->bias.gradient] +
                                     (element_offset(at, p->bias.step) + row * p->bias.row) *
                                         p->bytes);
}

static void run_head(const struct attention *p, struct wf_attention *shape, char *const *first,
                     int64_t n, char *lse, char *scratch)
{
    struct wf_attention_head heads[WF_ATT_GRAD_HEADS], next[WF_ATT_GRAD_HEADS];
    struct place at = head_place(p, n);

    lse += ((at.batch * p->groups + at.group) * p->repeats + at.repeat) * shape->tq * p->lse_bytes;
    shape->first = n % p->repeats == 0;
    shape->last = (n + 1) % p->repeats == 0;
    shape->next = next_head_operands(p, first, n, next);
    head_operands(p, first, at, heads);
    if (p->backward)
        p->loops->backward(shape, heads, lse, scratch);
    else
        p->loops->forward(shape, heads, lse, scratch);
}

/* Keys that are not there, or that no query here looks at, get no gradient. */
static void zero_key_gradients(const struct attention *p, void *const *out)
{
    for (int i = WF_ATT_DK; i <= WF_ATT_DV; i++)
        if (p->role[i].used) memset(out[p->role[i].index], 0, (size_t)p->key_gradients);
    if (p->bias.gradient >= 0) memset(out[p->bias.gradient], 0, (size_t)p->bias.bytes);
}

static void attention_run(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                          const struct wf_scalars *scalars)
{
    const struct attention *p = k->prep;
    struct wf_attention shape = p->shape;
    char *scratch = wf_scratch_buffer(), *sums = scratch + p->lse.scratch, *lse;
    char *first[WF_ATT_GRAD_HEADS] = {0};

    shape.scale = scalars->s[0];
    shape.tk -= scalars->v[0];
    for (int i = 0; i < WF_ATT_GRAD_HEADS; i++) {
        const struct role *r = &p->role[i];

        if (r->used) first[i] = r->is_out ? out[r->index] : (void *)(uintptr_t)in[r->index];
    }
    lse = p->backward
              ? (void *)(uintptr_t)wf_operand_copy_if_needed(&p->lse, in[p->lse_index], scratch)
              : out[p->lse_index];
    if (p->backward && (scalars->v[0] || !head_count(p))) zero_key_gradients(p, out);
    for (int64_t n = 0; n < head_count(p); n++) {
        set_head_mask(p, in, head_place(p, n).batch, &shape);
        set_head_bias(p, in, n, sums, &shape);
        run_head(p, &shape, first, n, lse, sums + bias_sum_bytes(p));
        write_finished_bias_gradient(p, n, sums, &shape, out);
    }
}

static const struct wf_attention_loops *loops_for_dtype(uint8_t dtype)
{
    if (dtype == WEFT_F32) return WF_ISA_PICK(wf_attention_f32);
    if (dtype == WEFT_F64) return WF_ISA_PICK(wf_attention_f64);
    if (dtype == WEFT_BF16) return WF_ISA_PICK(wf_attention_bf16);
    return dtype == WEFT_F16 ? WF_ISA_PICK(wf_attention_f16) : NULL;
}

/* The ways operands hold heads: what comes after [B, T]. */
enum head_layout {
    HEADS,         /* [H,D] */
    GROUPS,        /* [G,R,D] */
    PACKED_HEADS,  /* [3,H,D] */
    PACKED_GROUPS, /* [G,R+2,D] */
};

/* Part 0 is Q (or O), 1 K, 2 V; only packed forms have several. */
static void set_role(struct attention *p, int role, const struct wf_kernel_call *k, bool is_out,
                     int index, enum head_layout layout, int part)
{
    const struct wf_tensor_desc *d = is_out ? k->out[index] : k->in[index];
    struct role *r = &p->role[role];

    if (!d) return;
    *r = (struct role){.used = true,
                       .is_out = is_out,
                       .index = index,
                       .batch = d->stride[0],
                       .row = d->stride[1],
                       .group = d->stride[layout == PACKED_HEADS ? 3 : 2],
                       .col = d->stride[layout == HEADS ? 3 : 4]};
    if (layout == PACKED_HEADS) r->offset = part * d->stride[2];
    if (layout == PACKED_GROUPS && part) r->offset = (p->repeats + part - 1) * d->stride[3];
    if (layout == GROUPS || (layout == PACKED_GROUPS && part == 0)) r->repeat = d->stride[3];
}

static struct attention *attention_new(struct wf_kernel_call *k, const struct wf_tensor_desc *q,
                                       const struct wf_tensor_desc *keys, enum head_layout layout)
{
    struct attention *p = WF_NEW(struct attention);

    p->loops = loops_for_dtype(q->dtype);
    p->bytes = (int64_t)wf_dtypes[q->dtype].size;
    p->lse_bytes = q->dtype == WEFT_F64 ? (int64_t)sizeof(double) : (int64_t)sizeof(float);
    p->batches = q->shape[0];
    p->groups = q->shape[layout == PACKED_HEADS ? 3 : 2];
    p->repeats = layout == GROUPS ? q->shape[3] : layout == PACKED_GROUPS ? q->shape[3] - 2 : 1;
    p->mask_index = p->bias.index = p->bias.gradient = -1;
    p->shape = (struct wf_attention){.tq = q->shape[1],
                                     .tk = keys->shape[1],
                                     .d = q->shape[layout == HEADS ? 3 : 4],
                                     .causal = k->attrs->attention.causal};
    k->prep = p;
    k->drop = attention_free;
    k->run = attention_run;
    return p;
}

static weft_status check_dtypes(const struct wf_kernel_call *k, int lse_input, int mask_input)
{
    uint8_t dtype = k->in[0]->dtype, lse = dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;

    if (!loops_for_dtype(dtype)) return wf_fail_no_kernel(k, dtype);
    for (int i = 0; i < k->n_in; i++) {
        uint8_t want = i == lse_input ? lse : dtype;

        if (!k->in[i] || (i == mask_input && k->in[i]->dtype == WEFT_BOOL)) continue;
        WF_NEED(k->in[i]->dtype == want, WEFT_ERR_DTYPE, "%s: %s where %s belongs", k->op,
                wf_dtypes[k->in[i]->dtype].name, wf_dtypes[want].name);
    }
    return WEFT_OK;
}

static void set_mask(struct attention *p, const struct wf_kernel_call *k, int index)
{
    const struct wf_tensor_desc *mask = index < k->n_in ? k->in[index] : NULL;

    if (!mask) return;
    p->mask_index = index;
    p->mask_batch = mask->global[0] == 1 ? 0 : mask->stride[0];
    p->shape.mask_bool = mask->dtype == WEFT_BOOL;
    p->shape.mask_row = mask->global[1] == 1 ? 0 : mask->stride[1];
    p->shape.mask_col = mask->stride[2];
}

/* Strides of a bias, or of its gradient: [B,H,Tq,Tk] or [B,G,R,Tq,Tk]. */
static struct place bias_strides(const struct wf_tensor_desc *d)
{
    bool grouped = d->ndim == 5;

    return (struct place){.batch = d->global[0] == 1 ? 0 : d->stride[0],
                          .group = d->global[1] == 1 ? 0 : d->stride[1],
                          .repeat = grouped && d->global[2] != 1 ? d->stride[2] : 0};
}

static void set_bias(struct attention *p, const struct wf_kernel_call *k, int index, int gradient)
{
    const struct wf_tensor_desc *bias = index < k->n_in ? k->in[index] : NULL;
    const struct wf_tensor_desc *to = bias && gradient < k->n_out ? k->out[gradient] : NULL;

    if (!bias) return;
    p->bias.index = index;
    p->bias.stride = bias_strides(bias);
    p->shape.bias_row = bias->global[bias->ndim - 2] == 1 ? 0 : bias->stride[bias->ndim - 2];
    p->shape.bias_col = bias->stride[bias->ndim - 1];
    if (!to) return;
    p->bias.gradient = gradient;
    p->bias.step = bias_strides(to);
    p->bias.rows = to->shape[to->ndim - 2];
    p->bias.row = to->stride[to->ndim - 2];
    p->bias.bytes = to->numel * p->bytes;
    p->batch_inside = !p->bias.step.batch && p->bias.step.group;
}

/* A single query per head: the heads of a group are rows that all see the same keys. */
static void merge_query_heads(struct attention *p)
{
    if (p->shape.tq != 1 || p->repeats == 1) return;
    p->shape.tq = p->repeats;
    p->shape.causal = false;
    p->shape.mask_row = 0;
    p->shape.bias_row = p->bias.stride.repeat;
    p->bias.stride.repeat = 0;
    p->role[WF_ATT_Q].row = p->role[WF_ATT_Q].repeat;
    p->role[WF_ATT_O].row = p->role[WF_ATT_O].repeat;
    p->repeats = 1;
}

static void prepare_forward(struct attention *p)
{
    p->lse_index = 1;
    merge_query_heads(p);
    wf_scratch_reserve(p->loops->scratch(&p->shape));
}

static void prepare_backward(struct attention *p, const struct wf_kernel_call *k, int lse_index)
{
    p->backward = true;
    p->lse_index = lse_index;
    wf_operand_prepare_dense(&p->lse, k->in[lse_index]);
    wf_scratch_reserve(p->lse.scratch + bias_sum_bytes(p) + p->loops->grad_scratch(&p->shape));
}

/* in: q, k, v, mask, bias */
weft_status wf_cpu_attention(struct wf_kernel_call *k)
{
    enum head_layout layout = k->in[0]->ndim == 5 ? GROUPS : HEADS;
    struct attention *p;

    WF_TRY(check_dtypes(k, -1, 3));
    p = attention_new(k, k->in[0], k->in[1], layout);
    set_role(p, WF_ATT_Q, k, false, 0, layout, 0);
    set_role(p, WF_ATT_K, k, false, 1, HEADS, 0);
    set_role(p, WF_ATT_V, k, false, 2, HEADS, 0);
    set_role(p, WF_ATT_O, k, true, 0, layout, 0);
    set_mask(p, k, 3);
    set_bias(p, k, 4, WF_MAX_OUT);
    prepare_forward(p);
    return WEFT_OK;
}

/* in: qkv, mask, bias */
weft_status wf_cpu_attention_packed(struct wf_kernel_call *k)
{
    enum head_layout layout = k->attrs->attention.grouped ? PACKED_GROUPS : PACKED_HEADS;
    struct attention *p;

    WF_TRY(check_dtypes(k, -1, 1));
    p = attention_new(k, k->in[0], k->in[0], layout);
    for (int i = 0; i < 3; i++) set_role(p, WF_ATT_Q + i, k, false, 0, layout, i);
    set_role(p, WF_ATT_O, k, true, 0, layout == PACKED_GROUPS ? GROUPS : HEADS, 0);
    set_mask(p, k, 1);
    set_bias(p, k, 2, WF_MAX_OUT);
    prepare_forward(p);
    return WEFT_OK;
}

/* in: do, q, k, v, o, lse, mask, bias */
weft_status wf_cpu_attention_grad(struct wf_kernel_call *k)
{
    enum head_layout layout = k->in[0]->ndim == 5 ? GROUPS : HEADS;
    struct attention *p;

    WF_TRY(check_dtypes(k, 5, 6));
    p = attention_new(k, k->in[1], k->in[2], layout);
    set_role(p, WF_ATT_DO, k, false, 0, layout, 0);
    set_role(p, WF_ATT_Q, k, false, 1, layout, 0);
    set_role(p, WF_ATT_K, k, false, 2, HEADS, 0);
    set_role(p, WF_ATT_V, k, false, 3, HEADS, 0);
    set_role(p, WF_ATT_O, k, false, 4, layout, 0);
    set_role(p, WF_ATT_DQ, k, true, 0, layout, 0);
    set_role(p, WF_ATT_DK, k, true, 1, HEADS, 0);
    set_role(p, WF_ATT_DV, k, true, 2, HEADS, 0);
    p->key_gradients = k->in[2]->numel * p->bytes;
    set_mask(p, k, 6);
    set_bias(p, k, 7, 3);
    prepare_backward(p, k, 5);
    return WEFT_OK;
}

/* in: do, qkv, o, lse, mask, bias */
weft_status wf_cpu_attention_packed_grad(struct wf_kernel_call *k)
{
    enum head_layout layout = k->attrs->attention.grouped ? PACKED_GROUPS : PACKED_HEADS,
                     heads = k->attrs->attention.grouped ? GROUPS : HEADS;
    struct attention *p;

    WF_TRY(check_dtypes(k, 3, 4));
    p = attention_new(k, k->in[1], k->in[1], layout);
    set_role(p, WF_ATT_DO, k, false, 0, heads, 0);
    set_role(p, WF_ATT_O, k, false, 2, heads, 0);
    for (int i = 0; i < 3; i++) {
        set_role(p, WF_ATT_Q + i, k, false, 1, layout, i);
        set_role(p, WF_ATT_DQ + i, k, true, 0, layout, i);
    }
    set_mask(p, k, 4);
    set_bias(p, k, 5, 1);
    prepare_backward(p, k, 3);
    return WEFT_OK;
}
