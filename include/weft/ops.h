/*
 * ops.h: operations on tensors, plain or distributed.
 *
 * Every function here: all inputs on one mesh (or all plain; plain one-element tensors mix with
 * anything); NULL in gives NULL out; the result belongs to the open scope; sharding follows the
 * op's row in src/ops/ops.def. Unless said otherwise:
 * ranks: every rank of the inputs' mesh (an input may have to be redistributed)
 * fails: WEFT_ERR_SHAPE, WEFT_ERR_DTYPE, or WEFT_ERR_LAYOUT for a mixture of plain and distributed
 * grad:  to every floating-point input
 */
#pragma once

#include <weft/pointwise.h>
#include <weft/tensor.h>

/**
 * Whether two tensors have the same shape and elements, whatever their layouts (torch.equal). NaN
 * equals nothing, -0 equals 0.
 *
 * Shards are compared where they are; one of the two moves first where their layouts differ, and a
 * plain tensor beside a distributed one is taken to be the same on all ranks. Then a reduction of 8
 * bytes per mesh axis.
 * ranks: every rank of the mesh; of two plain tensors local, and about this rank's elements
 * gives: in `out` the same answer on all ranks (on a rank outside the mesh: true). Different shapes
 *        are not equal
 * fails: WEFT_ERR_DTYPE for different dtypes, WEFT_ERR_LAYOUT for different meshes, WEFT_ERR_STATE
 *        for tensors without elements. grad: none
 */
WEFT_API weft_status weft_equal(bool *out, weft_tensor *a, weft_tensor *b);

/** Options of weft_allclose. */
typedef struct weft_allclose_options {
    double relative; /* of the second's element; 0: 1e-5, negative: none */
    double absolute; /* 0: 1e-8, negative: none */
    bool equal_nan;  /* NaN is close to NaN */
} weft_allclose_options;

/**
 * Whether |a - b| <= absolute + relative |b| for all elements; shapes broadcast (torch.allclose).
 * An infinity is close to itself alone.
 *
 * ranks, gives: as weft_equal. fails: as weft_equal; WEFT_ERR_SHAPE for shapes that do not
 * broadcast
 */
WEFT_API weft_status weft_allclose(bool *out, weft_tensor *a, weft_tensor *b,
                                   weft_allclose_options options);

/** a where the bool tensor `condition` is true, else b; all three broadcast. */
WEFT_API weft_tensor *weft_where(weft_tensor *condition, weft_tensor *a, weft_tensor *b);

/**
 * a += b in place, for values outside the tape. a may be a view with any strides, and b another
 * view of the same storage: the sum is that of the elements before.
 *
 * ranks: every rank of the tensors' mesh
 * fails: WEFT_ERR_STATE when a requires a gradient, or several of its elements lie at one place
 *        (weft_expand); WEFT_ERR_SHAPE when the result would not have a's shape, dtype and layout
 * grad:  none; a backward that saved the old elements is refused
 * gives: a
 */
WEFT_API weft_tensor *weft_add_(weft_tensor *a, weft_tensor *b);

/** Another dtype; float to integer truncates, beyond the range to the nearest integer (u8: modulo
 * 256), NaN to 0. grad: cast back, between floats only */
WEFT_API weft_tensor *weft_cast(weft_tensor *x, weft_dtype dtype);

/* ---- products ---- */

/** a [*,m,k], b [*,k,n] -> [*,m,n]; leading dims broadcast. With ta / tb the last two dims of that
 * input are swapped first. */
WEFT_API weft_tensor *weft_matmul(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_matmul_t(weft_tensor *a, weft_tensor *b, bool ta, bool tb);

/**
 * x [*,K...], w [N...,K...], bias [N...] or NULL -> x wT + bias [*,N...].
 *
 * `k_dims` says how many trailing dims of x and w are contracted (1 for a plain linear layer); the
 * remaining dims of w are the output dims, so that heads can be a dim of their own.
 */
WEFT_API weft_tensor *weft_linear(weft_tensor *x, weft_tensor *w, weft_tensor *bias, int k_dims);

/** Options of weft_linear_with. */
typedef struct weft_linear_options {
    int k_dims;      /* as weft_linear's; 0 means 1 */
    bool transposed; /* the weight is stored as w [K...,N...] (GPT-2's Conv1D): read as it lies */
    bool wide;       /* a product of bf16 or f16 is given in f32, before it is rounded: the result
                        is f32, twice the bytes. With other dtypes nothing changes */
    bool wide_gradient; /* so is the gradient of x: for sums of several. What gave x then gets a
                           gradient in f32; weft_redistribute_with casts it */
} weft_linear_options;

/** weft_linear with options. The result and the gradients have the types of x, w and bias but
 *  where `wide` says f32. */
WEFT_API weft_tensor *weft_linear_with(weft_tensor *x, weft_tensor *w, weft_tensor *bias,
                                       weft_linear_options options);

/* ---- reductions; `dims` lists dims, negative ones from the end; n = 0: all of them ---- */
WEFT_API weft_tensor *weft_sum(weft_tensor *x, const int *dims, int n, bool keep);
WEFT_API weft_tensor *weft_mean(weft_tensor *x, const int *dims, int n, bool keep);
/** grad: shared equally by all elements that equal the maximum */
WEFT_API weft_tensor *weft_amax(weft_tensor *x, const int *dims, int n, bool keep);
WEFT_API weft_tensor *weft_sum_all(weft_tensor *x);
WEFT_API weft_tensor *weft_mean_all(weft_tensor *x);

/**
 * The k largest elements along a dim, largest first, and in `indices` (NULL: not wanted) where they
 * are; of equal ones the first comes first. Not-a-number is larger than any number.
 *
 * shape: x [*, n, *] -> [*, k, *]; indices i64 of that shape
 * ranks: every rank of x's mesh. Where the dim is split each rank picks its own k, and only those
 *        are gathered
 * fails: WEFT_ERR_ARG for more than n, WEFT_ERR_DTYPE for u8 and bool
 * grad:  of the values, to the elements that were chosen; in x's layout, and nothing is sent. The
 *        indices have none
 */
WEFT_API weft_tensor *weft_topk(weft_tensor *x, int64_t k, int dim, weft_tensor **indices);

/** Where the largest element along a dim is: weft_topk's index, i64 without the dim. grad: none */
WEFT_API weft_tensor *weft_argmax(weft_tensor *x, int dim);

/** exp(x) over its sum along a dim, and the logarithm of that; a dim that is split is gathered. */
WEFT_API weft_tensor *weft_softmax(weft_tensor *x, int dim);
WEFT_API weft_tensor *weft_log_softmax(weft_tensor *x, int dim);

/* ---- normalisation over the last dim; weight and bias may be NULL ---- */
WEFT_API weft_tensor *weft_layer_norm(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                                      double eps);
WEFT_API weft_tensor *weft_rms_norm(weft_tensor *x, weft_tensor *weight, double eps);

/* ---- models ---- */

/** table [V,D], index [*] of i32 or i64 -> [*,D]. An index outside [0,V) ends the job. grad: to the
 * table */
WEFT_API weft_tensor *weft_embedding(weft_tensor *table, weft_tensor *index);

/** A padding_idx of 0, since 0 in a structure stands for none. */
#define WEFT_PADDING_ZERO INT64_MIN

/** Options of weft_embedding_with. */
typedef struct weft_embedding_options {
    int64_t padding_idx; /* lookups of this row give it no gradient; negative: counted from the end;
                            0: there is none; WEFT_PADDING_ZERO: row 0 */
} weft_embedding_options;

/** weft_embedding with options (PyTorch's F.embedding). What else uses the table, a head that
 *  shares it, gives the row its gradient as ever. fails: also WEFT_ERR_ARG for a row that the table
 *  does not have */
WEFT_API weft_tensor *weft_embedding_with(weft_tensor *table, weft_tensor *index,
                                          weft_embedding_options options);

/** A table per item: tables [B,V,D], index [B,*] -> [B,*,D]. Otherwise as weft_embedding. */
WEFT_API weft_tensor *weft_embedding_batch(weft_tensor *tables, weft_tensor *index);

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
 * The same for packed heads: [B,T,3,H,D] -> [B,T,H,D], or with `grouped` [B,T,G,R+2,D], where each
 * group holds its R query heads, its key and its value -> [B,T,G,R,D].
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

/** How the losses of tokens become one. */
typedef enum weft_loss_reduction {
    WEFT_LOSS_MEAN, /* their sum over the sum of their targets' weights; NaN when all are ignored */
    WEFT_LOSS_SUM,
    WEFT_LOSS_NONE /* a loss per token */
} weft_loss_reduction;

/** An ignore_index of 0, since 0 in a structure stands for -100. */
#define WEFT_IGNORE_ZERO INT64_MIN

/** Options of weft_cross_entropy_with. */
typedef struct weft_cross_entropy_options {
    int64_t ignore_index; /* a target without loss, gradient and part in the mean; 0: -100 */
    weft_tensor *weight;  /* [V], of every class; NULL: all 1. It has no gradient */
    double smoothing;     /* eps: the target is 1 - eps of itself and eps / V of every class */
    double z_loss;        /* zeta: adds zeta (log sum exp z)^2 to a token's loss */
    weft_loss_reduction reduction;
    int class_dim; /* of the logits; 0: the last, -1 too (PyTorch: 1 when there are two or more) */
} weft_cross_entropy_options;

/**
 * -sum_j w_j q_j log softmax(z)_j + zeta (log sum exp z)^2 per token, reduced as said.
 *
 * The loss is f32 (f64 for f64 logits), and so is all that is computed. Logits sharded over the
 * classes stay where they are: forward one all-reduce of 4 bytes per token and one of 8, backward
 * nothing; weights, smoothing and z-loss cost nothing more. Where tokens are sharded too, a sum is
 * a partial sum along those axes, and a mean (over the tokens of all ranks) sends 12 bytes.
 *
 * shape: logits [*,V] (or with V at class_dim), target [*] of i32 or i64 -> [], or [*]. A target of
 *        floating-point numbers is a distribution over the classes for each token, [*,V] as the
 *        logits: nothing is ignored, a mean is over all tokens, and the gradient goes to it too
 *        (12 bytes per token in the second all-reduce when it is sharded over the classes)
 * fails: WEFT_ERR_SHAPE; WEFT_ERR_ARG for options out of range and for a target that is neither a
 *        class nor ignored. A rank that alone knows of such a target (a sum or no reduction, with
 *        tokens sharded) ends the job
 * grad:  to the logits, in their layout; 0 for tokens that are ignored, even where the mean is NaN
 */
WEFT_API weft_tensor *weft_cross_entropy_with(weft_tensor *logits, weft_tensor *target,
                                              weft_cross_entropy_options options);

/** The mean, with nothing but an ignore_index (0 is 0 here). */
WEFT_API weft_tensor *weft_cross_entropy(weft_tensor *logits, weft_tensor *target,
                                         int64_t ignore_index);

/**
 * Open a scope in which a cross-entropy must be computed in parallel (PyTorch's loss_parallel()).
 *
 * Logits sharded over their classes are never gathered, inside or outside. Inside, a cross-entropy
 * with logits that are sharded otherwise, partial or whole is refused, because it would cost
 * unintended communication, and so is a target that is neither replicated nor sharded as the logits
 * are; a plain target or plain class weights are taken for replicated ones, a target as long as no
 * other dim of the logits is sharded. Backward may run inside or outside.
 *
 * ranks: any; local, but all ranks alike
 * gives: a scope: weft_scope_close or weft_scope_return ends it, and so does closing any scope
 *        around it, so that leaving early because of an error ends the block too
 */
WEFT_API weft_scope *weft_loss_parallel_open(void);

/** mean((a - b)^2) */
WEFT_API weft_tensor *weft_mse(weft_tensor *a, weft_tensor *b);

/* ---- shape; views share storage where strides allow ---- */
/** The same elements in another shape, one of whose sizes may be -1: a view, or a copy where this
 * rank's strides allow none. */
WEFT_API weft_tensor *weft_reshape(weft_tensor *x, const int64_t *shape, int ndim);
WEFT_API weft_tensor *weft_permute(weft_tensor *x, const int *order);
WEFT_API weft_tensor *weft_transpose(weft_tensor *x, int dim0, int dim1);
/**
 * Elements [start, end) of a dim; negative bounds count from the end.
 *
 * ranks: every rank of x's mesh. Of a dim that is sharded a small slice is sent alone, by one
 *        all-reduce, and is replicated along its axes then; for a longer one the dim is brought
 *        together
 * fails: WEFT_ERR_ARG for bounds outside the dim
 * grad:  zeros elsewhere; nothing is sent for the gradient of a small slice
 */
WEFT_API weft_tensor *weft_slice(weft_tensor *x, int dim, int64_t start, int64_t end);
/** One element of a dim, which disappears; otherwise as weft_slice. */
WEFT_API weft_tensor *weft_select(weft_tensor *x, int dim, int64_t index);
/** `n` pieces by sizes[] (NULL: equal ones); pieces are written to out[]. fails: WEFT_ERR_SHAPE
 *  unless sizes add up, or `n` divides the dim */
WEFT_API weft_status weft_split(weft_tensor **out, weft_tensor *x, int dim, const int64_t *sizes,
                                int n);
WEFT_API weft_tensor *weft_cat(weft_tensor *const *x, int n, int dim);
/** Repeat dims of size 1 (and new leading dims) without copying. */
WEFT_API weft_tensor *weft_expand(weft_tensor *x, const int64_t *shape, int ndim);
/**
 * A row-major copy, or x itself where it is row-major already. As with weft_reshape that may differ
 * between ranks, whose shards differ: backward takes a write in place to one for a write to both.
 */
WEFT_API weft_tensor *weft_contiguous(weft_tensor *x);
/**
 * Write x over the elements of `into`, which may be a view of a larger tensor with any strides; x
 * may be another view of it, and counts as it was before.
 *
 * ranks: every rank of the tensors' mesh. grad: none; a backward that saved the old elements is
 * refused
 * fails: WEFT_ERR_SHAPE when shape, dtype or layout differ, WEFT_ERR_STATE when `into` is the
 * result of a recorded op, or several of its elements lie at one place (weft_expand)
 */
WEFT_API weft_status weft_copy_(weft_tensor *into, weft_tensor *x);
/** The same values outside the tape. grad: none */
WEFT_API weft_tensor *weft_detach(weft_tensor *x);
