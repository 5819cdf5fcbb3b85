/*
 * attention.c: O = softmax(scale Q K^T + mask + bias) V per batch entry and head, and its gradient.
 *
 * Which operand holds which heads is in kernels/operands/attention_operands.h, the arithmetic in
 * isa/. What one element of the bias' gradient gets from several batch entries, heads or queries is
 * summed in the type that is computed in. The last v[0] keys are not there yet (a cache with room).
 * With the causal attribute query i sees keys up to i + Tk - v[0] - Tq; a query that sees none
 * gives 0.
 */
#include "kernels/cpu/attention/attention.h"

#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/scratch.h"

/* Which head, and of which batch entry. */
struct place {
    int64_t batch, group, repeat;
};

struct attention {
    const struct wf_attention_loops *loops;
    struct wf_attention shape;
    struct wf_attention_operands of;
    int64_t bytes, lse_bytes;
    struct wf_operand lse;         /* as an input */
    struct place bias_step;        /* of the bias' gradient, */
    int64_t bias_rows, bias_bytes; /* whose heads each have so many rows; of all of it */
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

static int64_t head_count(const struct attention *p)
{
    return p->of.batches * p->of.groups * p->of.repeats;
}

/* Head n of all. Those of a group come one after the other: they share packed keys and values. */
static struct place head_place(const struct attention *p, int64_t n)
{
    int64_t group = n / p->of.repeats;

    if (p->batch_inside)
        return (struct place){group % p->of.batches, group / p->of.batches, n % p->of.repeats};
    return (struct place){group / p->of.groups, group % p->of.groups, n % p->of.repeats};
}

static struct place place_of(const struct wf_attention_scores *s)
{
    return (struct place){s->batch, s->group, s->repeat};
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
        const struct wf_attention_heads *role = &p->of.role[i];
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
    if ((n + 1) % p->of.repeats)
        heads[WF_ATT_K].data = heads[WF_ATT_V].data = heads[WF_ATT_DK].data =
            heads[WF_ATT_DV].data = NULL;
    return heads;
}

static void set_head_mask(const struct attention *p, const void *const *in, int64_t b,
                          struct wf_attention *shape)
{
    if (p->of.mask.index < 0) return;
    shape->mask = (const char *)in[p->of.mask.index] +
                  b * p->of.mask.batch * (shape->mask_bool ? (int64_t)sizeof(bool) : p->bytes);
}

/* ---- bias: gradients are summed in scratch, for all heads of a group at once ---- */

static int64_t bias_sum_count(const struct attention *p)
{
    return p->bias_step.repeat ? p->of.repeats : 1;
}

static size_t bias_sum_bytes(const struct attention *p)
{
    if (p->of.bias_gradient.index < 0) return 0;
    return wf_scratch_round_up(
        (size_t)(bias_sum_count(p) * p->bias_rows * p->shape.tk * p->lse_bytes));
}

/* True where the groups of heads n and m have one bias, which both are there to have. */
static bool shares_bias_gradient(const struct attention *p, int64_t n, int64_t m)
{
    struct place group = {p->bias_step.batch, p->bias_step.group, 0};

    return n >= 0 && m < head_count(p) &&
           element_offset(head_place(p, n), group) == element_offset(head_place(p, m), group);
}

/* The bias of head n, and where its gradient is summed. */
static void set_head_bias(const struct attention *p, const void *const *in, int64_t n, char *sums,
                          struct wf_attention *shape)
{
    struct place at = head_place(p, n);
    int64_t bytes = p->bias_rows * shape->tk * p->lse_bytes;

    if (p->of.bias.index < 0) return;
    shape->bias =
        (const char *)in[p->of.bias.index] + element_offset(at, place_of(&p->of.bias)) * p->bytes;
    if (p->of.bias_gradient.index < 0) return;
    if (at.repeat == 0 && !shares_bias_gradient(p, n - 1, n))
        memset(sums, 0, (size_t)(bias_sum_count(p) * bytes));
    shape->bias_sum = sums + (p->bias_step.repeat ? at.repeat * bytes : 0);
    shape->bias_sum_row = p->bias_rows > 1 ? shape->tk : 0;
}

/* After head n: what is summed for its group is written unless more is to come. */
static void write_finished_bias_gradient(const struct attention *p, int64_t n, const char *sums,
                                         const struct wf_attention *shape, void *const *out)
{
    struct place at = head_place(p, n);

    if (p->of.bias_gradient.index < 0 || at.repeat + 1 < p->of.repeats ||
        shares_bias_gradient(p, n, n + 1))
        return;
    at.repeat = 0;
    for (int64_t i = 0; i < bias_sum_count(p); i++, at.repeat++)
        for (int64_t row = 0; row < p->bias_rows; row++, sums += shape->tk * p->lse_bytes)
            p->loops->write_bias(
                sums, shape->tk,
                (char *)out[p->of.bias_gradient.index] +
                    (element_offset(at, p->bias_step) + row * p->of.bias_gradient.row) * p->bytes);
}

static void run_head(const struct attention *p, struct wf_attention *shape, char *const *first,
                     int64_t n, char *lse, char *scratch)
{
    struct wf_attention_head heads[WF_ATT_GRAD_HEADS], next[WF_ATT_GRAD_HEADS];
    struct place at = head_place(p, n);

    lse += ((at.batch * p->of.groups + at.group) * p->of.repeats + at.repeat) * shape->tq *
           p->lse_bytes;
    shape->first = n % p->of.repeats == 0;
    shape->last = (n + 1) % p->of.repeats == 0;
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
        if (p->of.role[i].used) memset(out[p->of.role[i].index], 0, (size_t)p->key_gradients);
    if (p->of.bias_gradient.index >= 0)
        memset(out[p->of.bias_gradient.index], 0, (size_t)p->bias_bytes);
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
        const struct wf_attention_heads *r = &p->of.role[i];

        if (r->used) first[i] = r->is_out ? out[r->index] : (void *)(uintptr_t)in[r->index];
    }
    lse = p->backward
              ? (void *)(uintptr_t)wf_operand_copy_if_needed(&p->lse, in[p->of.lse.index], scratch)
              : out[p->of.lse.index];
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

static void prepare_bias_gradient(struct attention *p)
{
    const struct wf_tensor_desc *to = p->of.bias_gradient_desc;

    if (!to) return;
    p->bias_step = place_of(&p->of.bias_gradient);
    p->bias_rows = to->shape[to->ndim - 2];
    p->bias_bytes = to->numel * p->bytes;
    p->batch_inside = !p->bias_step.batch && p->bias_step.group;
}

static struct attention *attention_new(struct wf_kernel_call *k, enum wf_attention_form form)
{
    struct attention *p = WF_NEW(struct attention);
    const struct wf_attention_operands *of = &p->of;

    wf_attention_operands_make(&p->of, k, form);
    p->backward = form == WF_ATTENTION_GRAD || form == WF_ATTENTION_PACKED_GRAD;
    if (!p->backward) wf_attention_merge_query_heads(&p->of);
    p->loops = loops_for_dtype(of->dtype);
    p->bytes = (int64_t)wf_dtypes[of->dtype].size;
    p->lse_bytes = (int64_t)wf_dtypes[wf_attention_lse_dtype(of->dtype)].size;
    p->shape = (struct wf_attention){.tq = of->queries,
                                     .tk = of->keys,
                                     .d = of->d,
                                     .causal = of->causal,
                                     .mask_bool = of->mask_is_bool,
                                     .mask_row = of->mask.row,
                                     .mask_col = of->mask.col,
                                     .bias_row = of->bias.row,
                                     .bias_col = of->bias.col};
    prepare_bias_gradient(p);
    k->prep = p;
    k->drop = attention_free;
    k->run = attention_run;
    return p;
}

static weft_status prepare_attention(struct wf_kernel_call *k, enum wf_attention_form form)
{
    struct attention *p;

    if (!loops_for_dtype(k->in[0]->dtype)) return wf_fail_no_kernel(k, k->in[0]->dtype);
    WF_TRY(wf_attention_check_dtypes(k, form));
    p = attention_new(k, form);
    if (!p->backward) {
        wf_scratch_reserve(p->loops->scratch(&p->shape));
        return WEFT_OK;
    }
    if (form == WF_ATTENTION_GRAD) p->key_gradients = k->in[2]->numel * p->bytes;
    wf_operand_prepare_dense(&p->lse, k->in[p->of.lse.index]);
    wf_scratch_reserve(p->lse.scratch + bias_sum_bytes(p) + p->loops->grad_scratch(&p->shape));
    return WEFT_OK;
}

weft_status wf_cpu_attention(struct wf_kernel_call *k)
{
    return prepare_attention(k, WF_ATTENTION);
}

weft_status wf_cpu_attention_packed(struct wf_kernel_call *k)
{
    return prepare_attention(k, WF_ATTENTION_PACKED);
}

weft_status wf_cpu_attention_grad(struct wf_kernel_call *k)
{
    return prepare_attention(k, WF_ATTENTION_GRAD);
}

weft_status wf_cpu_attention_packed_grad(struct wf_kernel_call *k)
{
    return prepare_attention(k, WF_ATTENTION_PACKED_GRAD);
}
