/*
 * attention.cu: O = softmax(scale Q K^T + mask + bias) V per batch entry and head, and its
 * gradient.
 *
 * Which operand holds which heads is in kernels/operands/attention_operands.h. Memory is linear in
 * the context: no kernel keeps scores. Heads of 16-bit floats run on tensor cores
 * (tensor_attention.cu) up to TENSOR_HEAD_SIZE, everything else with plain arithmetic
 * (plain_attention.cu). The gradient is three launches, and one more for a bias: each result is
 * summed by one block, in one order.
 */
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/prepare.h"

namespace
{

enum { SMALLEST_TILE = 32 }; /* rows, of f64 */

struct attention {
    wf_attention_operands of;
    attention_kernels kernels;
};

/* True where rows of `d` elements can be read 16 bytes at a time. */
bool is_packed(const wf_attention_operands &of, const wf_attention_heads &r, const void *x)
{
    int64_t each = 16 / (int64_t)wf_dtypes[of.dtype].size;

    return (uintptr_t)x % 16 == 0 && r.col == 1 && r.row % each == 0 &&
           (of.batches == 1 || r.batch % each == 0) && (of.groups == 1 || r.group % each == 0) &&
           (of.repeats == 1 || r.repeat % each == 0);
}

attention_numbers numbers_at(const wf_attention_scores &s, const void *x)
{
    return {(void *)x, s.batch, s.group, s.repeat, s.row, s.col};
}

/* An input or output that may be left out. */
attention_numbers numbers_of(const wf_attention_scores &s, const void *const *x)
{
    return numbers_at(s, s.index < 0 ? NULL : x[s.index]);
}

attention_arguments make_attention_arguments(const attention *p, void *const *out,
                                             const void *const *in, const wf_scalars *scalars)
{
    const wf_attention_operands &of = p->of;
    attention_arguments args = {};

    args.batches = of.batches;
    args.groups = of.groups;
    args.repeats = of.repeats;
    args.queries = of.queries;
    args.d = of.d;
    args.key_rows = of.keys;
    args.keys = of.keys - scalars->v[0];
    args.causal = of.causal;
    args.mask_is_bool = of.mask_is_bool;
    args.scale = scalars->s[0];
    args.mask = numbers_of(of.mask, in);
    args.bias = numbers_of(of.bias, in);
    args.bias_gradient = numbers_of(of.bias_gradient, out);
    for (int i = 0; i < WF_ATT_GRAD_HEADS; i++) {
        const wf_attention_heads &r = of.role[i];
        char *x = r.used ? (char *)(r.is_out ? out[r.index] : in[r.index]) : NULL;

        if (!x) continue;
        x += r.offset * (int64_t)wf_dtypes[of.dtype].size;
        args.role[i] = {x, r.batch, r.group, r.repeat, r.row, r.col, is_packed(of, r, x)};
    }
    return args;
}

void run_attention_forward(const wf_kernel_call *k, void *const *out, const void *const *in,
                           const wf_scalars *scalars)
{
    const attention *p = (const attention *)k->prep;
    attention_arguments args = make_attention_arguments(p, out, in, scalars);

    args.lse = numbers_at(p->of.lse, out[p->of.lse.index]);
    p->kernels.forward(k, args);
}

void run_attention_backward(const wf_kernel_call *k, void *const *out, const void *const *in,
                            const wf_scalars *scalars)
{
    const attention *p = (const attention *)k->prep;
    const wf_attention_operands &of = p->of;
    attention_arguments args = make_attention_arguments(p, out, in, scalars);
    size_t bytes = wf_dtypes[wf_attention_lse_dtype(of.dtype)].size;
    int64_t rows = of.batches * of.groups * of.repeats * of.queries;

    args.lse = numbers_at(of.lse, in[of.lse.index]);
    args.delta = {rows ? wf_cuda_scratch((size_t)rows * bytes) : NULL,
                  of.groups * of.repeats * of.queries,
                  of.repeats * of.queries,
                  of.queries,
                  1,
                  0};
    wf_cuda_attention_delta(k, args, of.dtype);
    if (args.role[WF_ATT_DQ].x) p->kernels.query_gradient(k, args);
    if (args.role[WF_ATT_DK].x || args.role[WF_ATT_DV].x) p->kernels.key_gradients(k, args);
    if (args.bias_gradient.x) wf_cuda_attention_bias_gradient(k, args, of.dtype);
}

/* The blocks of the largest launch. */
int64_t tiles_of_all_heads(const wf_attention_operands &of)
{
    int64_t rows = of.queries > of.keys ? of.queries : of.keys;

    return of.batches * of.groups * of.repeats * attention_tiles(rows, SMALLEST_TILE);
}

weft_status prepare(wf_kernel_call *k, wf_attention_form form)
{
    uint8_t dtype = k->in[0]->dtype;
    bool backward = form == WF_ATTENTION_GRAD || form == WF_ATTENTION_PACKED_GRAD;
    wf_attention_operands of;
    attention *p;

    if (dtype >= WF_CUDA_FLOAT_DTYPES) return wf_cuda_fail_no_kernel(k, dtype);
    WF_TRY(wf_attention_check_dtypes(k, form));
    wf_attention_operands_make(&of, k, form);
    WF_NEED_LOCAL(tiles_of_all_heads(of) <= INT32_MAX, WEFT_ERR_SHAPE,
                  "%s: more heads and rows than a GPU has blocks", k->op);
    k->prep = p = WF_NEW(attention);
    p->of = of;
    if (!backward) wf_attention_merge_query_heads(&p->of);
    p->kernels = wf_dtypes[dtype].size == 2 && p->of.d <= TENSOR_HEAD_SIZE
                     ? wf_cuda_tensor_attention(dtype, p->of.d, k->op)
                     : wf_cuda_plain_attention(dtype, p->of.d);
    k->run = backward ? run_attention_backward : run_attention_forward;
    return WEFT_OK;
}

} // namespace

extern "C" weft_status wf_cuda_attention(struct wf_kernel_call *k)
{
    return prepare(k, WF_ATTENTION);
}

extern "C" weft_status wf_cuda_attention_packed(struct wf_kernel_call *k)
{
    return prepare(k, WF_ATTENTION_PACKED);
}

extern "C" weft_status wf_cuda_attention_grad(struct wf_kernel_call *k)
{
    return prepare(k, WF_ATTENTION_GRAD);
}

extern "C" weft_status wf_cuda_attention_packed_grad(struct wf_kernel_call *k)
{
    return prepare(k, WF_ATTENTION_PACKED_GRAD);
}
