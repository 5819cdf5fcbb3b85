/*
 * attention.h: attention and what transformers put around it.
 *
 * What weft/ops.h says of every op holds here.
 * ranks: every rank of the inputs' mesh, unless said otherwise
 */
#pragma once

#include <weft/tensor.h>

/** q, k, v [B,T,H,D] -> [B,T,H,D], softmax(q kT scale) v per head; with `causal` position t sees
 *  positions <= t. scale 0 means 1/sqrt(D). Blocked (Dao et al. 2022): no T x T matrix is kept. */
WEFT_API weft_tensor *weft_attention(weft_tensor *q, weft_tensor *k, weft_tensor *v, bool causal,
                                     double scale);

/** The same for q, k, v packed as [B,T,3,H,D]: no copies to take them apart. */
WEFT_API weft_tensor *weft_attention_packed(weft_tensor *qkv, bool causal, double scale);

/** Options of weft_attention_with. */
typedef struct weft_attention_options {
    bool causal;         /* query i sees keys up to i + (Tk - unused_keys) - Tq */
    bool grouped;        /* weft_attention_packed_with only: qkv is [B,T,G,R+2,D] */
    double scale;        /* 0 means 1/sqrt(D) */
    weft_tensor *mask;   /* [B,Tk], or [B or 1, Tq or 1, Tk]: bool, true where a key is seen, or of
                            the queries' dtype, added to the scaled scores. It has no gradient */
    int64_t unused_keys; /* at the end of k and v: a cache with room. May change from call to call
                            at no cost */
    weft_tensor *bias; /* [B or 1, H or 1, Tq or 1, Tk] of the queries' dtype, or with G or 1, R or
                          1 in the place of H: added to the scaled scores (T5's relative positions,
                          ALiBi). Heads that are split split it alike. Its gradient takes its own
                          size, also where one bias serves a whole batch */
} weft_attention_options;

/**
 * Attention with fewer key than query heads, masks, and keys from a cache.
 *
 * shape: q [B,Tq,H,D], k and v [B,Tk,G,D] with H a multiple of G -> [B,Tq,H,D]; or q [B,Tq,G,R,D]
 *        -> the same. Query heads g R .. (g + 1) R - 1 look at key head g
 * ranks: any; batch entries, groups and R may be sharded. With [B,Tq,H,D] only if groups divide
 *        evenly; [B,Tq,G,R,D] shards over G or R however many ranks there are
 * fails: WEFT_ERR_SHAPE; WEFT_ERR_ARG for a mask that wants a gradient or more unused keys than
 *        keys. A query that sees no key gives 0 (PyTorch: NaN), and has no gradient
 * grad:  to q, k, v and the bias; 0 for what is hidden. Where ranks hold other batch entries, or
 *        heads that share it, the gradient of the bias is a partial sum over them
 */
WEFT_API weft_tensor *weft_attention_with(weft_tensor *q, weft_tensor *k, weft_tensor *v,
                                          weft_attention_options options);

/**
 * The same, and the natural logarithm of each query's sum of e^score in `lse`: [B,H,Tq], or
 * [B,G,R,Tq] for q [B,Tq,G,R,D]; f32 (f64 of f64), -infinity for a query that sees no key. Both
 * have gradients. It is what merges attention over some of the keys with attention over others.
 */
WEFT_API weft_tensor *weft_attention_lse(weft_tensor *q, weft_tensor *k, weft_tensor *v,
                                         weft_attention_options options, weft_tensor **lse);

/**
 * Attention over two sets of keys from attention over each: results [B,Tq,H,D] with lse [B,H,Tq],
 * or [B,Tq,G,R,D] with [B,G,R,Tq], as weft_attention_lse gives them.
 *
 * lse:   NULL, or where that of both goes, for the next merge. A query that saw no key in one of
 *        them has just the other's result; in neither, 0 and -infinity
 * dtype: where results have one, that; else f32, for sums of 16-bit results without rounding
 * ranks: every rank of the inputs' mesh; nothing is sent where they lie alike
 * fails: WEFT_ERR_SHAPE, WEFT_ERR_DTYPE
 * grad:  to all four
 */
WEFT_API weft_tensor *weft_attention_merge(weft_tensor *out_a, weft_tensor *lse_a,
                                           weft_tensor *out_b, weft_tensor *lse_b,
                                           weft_tensor **lse);

/**
 * weft_attention_with for packed heads: [B,T,3,H,D] -> [B,T,H,D], or with `grouped` [B,T,G,R+2,D],
 * where each group holds its R query heads, its key and its value -> [B,T,G,R,D].
 */
WEFT_API weft_tensor *weft_attention_packed_with(weft_tensor *qkv, weft_attention_options options);

/** How rotary positions turn; what is not named is 0. */
typedef struct weft_rotary_options {
    double base;      /* 0 means 10000 */
    int64_t dims;     /* leading elements of a head that turn, even; 0: all */
    int64_t heads;    /* leading entries of the dim before the last that turn; 0: all */
    bool interleaved; /* pairs are neighbours (GPT-J), not halves apart (Llama in Hugging Face's
                         weights) */
    int64_t offset;   /* added to every position; may change from call to call at no cost */
    double factor;    /* positions are this much denser; with the three below Llama 3.1's rule: only
                         waves that turn fewer than `low` times in `length` positions, blended up to
                         `high` */
    double low, high, length;
} weft_rotary_options;

/**
 * Rotary positions (Su et al. 2021): pairs of a head's elements turned by position times frequency.
 *
 * shape: x [B,T,...,D], positions i32 or i64 [B,T] or NULL (0 .. T - 1) -> as x
 * ranks: any; every dim but D may be sharded, T too: a shard knows where it begins. Without a mesh
 *        say so with `offset`
 * fails: WEFT_ERR_SHAPE, WEFT_ERR_ARG for options that do not go together
 * grad:  turned back
 */
WEFT_API weft_tensor *weft_rotary(weft_tensor *x, weft_tensor *positions,
                                  weft_rotary_options options);

/** silu(x[..., 0, :]) x[..., 1, :]: x [*,2,H] -> [*,H], gate and up from one product. */
WEFT_API weft_tensor *weft_swiglu(weft_tensor *x);
