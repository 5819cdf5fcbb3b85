/* attention_calls.c: the public functions: options become attributes and operands of the rows. */
#include <weft/ops.h>

#include <math.h>

#include "base/error.h"
#include "ops/op_functions.h"

static double scale_or_default(double scale, const weft_tensor *t)
{
    int64_t d = weft_ndim(t) ? t->layout->desc.global[weft_ndim(t) - 1] : 1;

    return scale != 0 ? scale : 1 / sqrt((double)(d ? d : 1));
}

/* [B,Tk] says which keys exist, for every query. */
static weft_tensor *mask_as_3d(const weft_attention_options *options)
{
    weft_tensor *mask = options->mask;
    int64_t shape[3] = {0, 1, 0};

    if (!mask || weft_ndim(mask) != 2) return mask;
    shape[0] = weft_size(mask, 0);
    shape[2] = weft_size(mask, 1);
    return weft_reshape(mask, shape, 3);
}

/* The heads' dim of a bias [B or 1, H or 1, ...] as groups of `repeats`; any other as it is. */
static weft_tensor *bias_in_groups(const weft_attention_options *options, int64_t groups,
                                   int64_t repeats)
{
    weft_tensor *bias = options->bias;
    int64_t shape[5];

    if (!bias || weft_ndim(bias) != 4) return bias;
    WF_NEED_PTR(weft_size(bias, 1) == 1 || weft_size(bias, 1) == groups * repeats, WEFT_ERR_SHAPE,
                "attention: a bias of %lld heads, there are %lld", (long long)weft_size(bias, 1),
                (long long)(groups * repeats));
    shape[0] = weft_size(bias, 0);
    shape[1] = weft_size(bias, 1) == 1 ? 1 : groups;
    shape[2] = weft_size(bias, 1) == 1 ? 1 : repeats;
    for (int d = 2; d < 4; d++) shape[d + 1] = weft_size(bias, d);
    return weft_reshape(bias, shape, 5);
}

/* What attention and attention_packed ask of their options before anything is called. */
static weft_status check_options(const char *name, const weft_attention_options *options)
{
    WF_NEED(!options->mask || !weft_requires_grad(options->mask), WEFT_ERR_ARG,
            "%s: a mask has no gradient; detach it, or give it as the bias", name);
    return WEFT_OK;
}

/* lse: NULL, or where the log-sum-exp goes, which then has a gradient too. */
static weft_tensor *call_attention(weft_tensor *q, weft_tensor *k, weft_tensor *v,
                                   const weft_attention_options *options, weft_tensor **lse)
{
    weft_tensor *operands[] = {q, k, v, mask_as_3d(options), options->bias}, *more[1] = {0}, *out;
    struct wf_op_args args = {WF_ATTRS(attention, .causal = options->causal),
                              .scalars.s = {scale_or_default(options->scale, q)},
                              .scalars.v = {options->unused_keys}};

    if (options->mask && !operands[3]) return NULL;
    out = wf_dispatch_op(WF_OP_attention, operands, 5, &args, more);
    if (lse && out) *lse = wf_tape_record_further_output(out, 0, more[0]);
    return out;
}

/* q [B,T,H,D] with fewer heads in k: [B,T,G,R,D] and back. */
static weft_tensor *call_grouped_attention(weft_tensor *q, weft_tensor *k, weft_tensor *v,
                                           weft_attention_options options, weft_tensor **lse)
{
    int64_t groups = weft_size(k, 2), heads = weft_size(q, 2), d = weft_size(q, 3);
    int64_t split[] = {weft_size(q, 0), weft_size(q, 1), groups, heads / groups, d};
    int64_t whole[] = {split[0], split[1], heads, d}, rows[] = {split[0], heads, split[1]};
    weft_tensor *out;

    if (options.bias && !(options.bias = bias_in_groups(&options, groups, heads / groups)))
        return NULL;
    out = call_attention(weft_reshape(q, split, 5), k, v, &options, lse);
    if (lse) *lse = weft_reshape(*lse, rows, 3);
    return weft_reshape(out, whole, 4);
}

static weft_tensor *attention_with_lse(weft_tensor *q, weft_tensor *k, weft_tensor *v,
                                       weft_attention_options options, weft_tensor **lse)
{
    int64_t keys, unused = options.unused_keys;

    if (!q || !k || !v) return NULL;
    WF_TRY_PTR(check_options("attention", &options));
    keys = weft_ndim(k) == 4 ? weft_size(k, 1) : 0;
    WF_NEED_PTR(unused >= 0 && unused <= keys, WEFT_ERR_ARG, "attention: %lld of %lld keys unused",
                (long long)unused, (long long)keys);
    if (weft_ndim(q) == 4 && weft_ndim(k) == 4 && weft_size(k, 2) > 0 &&
        weft_size(q, 2) > weft_size(k, 2) && weft_size(q, 2) % weft_size(k, 2) == 0)
        return call_grouped_attention(q, k, v, options, lse);
    if (options.bias && weft_ndim(q) == 5 &&
        !(options.bias = bias_in_groups(&options, weft_size(q, 2), weft_size(q, 3))))
        return NULL;
    return call_attention(q, k, v, &options, lse);
}

weft_tensor *weft_attention_with(weft_tensor *q, weft_tensor *k, weft_tensor *v,
                                 weft_attention_options options)
{
    return attention_with_lse(q, k, v, options, NULL);
}

weft_tensor *weft_attention_lse(weft_tensor *q, weft_tensor *k, weft_tensor *v,
                                weft_attention_options options, weft_tensor **lse)
{
    weft_tensor *unwanted;

    if (!lse) lse = &unwanted;
    *lse = NULL;
    return attention_with_lse(q, k, v, options, lse);
}

weft_tensor *weft_attention_packed_with(weft_tensor *qkv, weft_attention_options options)
{
    struct wf_op_args args = {
        WF_ATTRS(attention, .causal = options.causal, .grouped = options.grouped)};
    weft_tensor *operands[3] = {qkv}, *more[1];

    if (!qkv) return NULL;
    WF_TRY_PTR(check_options("attention_packed", &options));
    WF_NEED_PTR(options.unused_keys == 0, WEFT_ERR_ARG, "attention_packed: all keys are used");
    operands[1] = mask_as_3d(&options);
    operands[2] = options.bias;
    if (options.grouped && weft_ndim(qkv) == 5)
        operands[2] = bias_in_groups(&options, weft_size(qkv, 2), weft_size(qkv, 3) - 2);
    if ((options.mask && !operands[1]) || (options.bias && !operands[2])) return NULL;
    args.scalars.s[0] = scale_or_default(options.scale, qkv);
    return wf_dispatch_op(WF_OP_attention_packed, operands, 3, &args, more);
}

weft_tensor *weft_attention(weft_tensor *q, weft_tensor *k, weft_tensor *v, bool causal,
                            double scale)
{
    return weft_attention_with(q, k, v, (weft_attention_options){.causal = causal, .scale = scale});
}

weft_tensor *weft_attention_packed(weft_tensor *qkv, bool causal, double scale)
{
    return weft_attention_packed_with(qkv,
                                      (weft_attention_options){.causal = causal, .scale = scale});
}
