/*
 * nn.h: layers and models, each made from a small struct by name.
 *
 * A field left out is 0 and means the usual thing. Where an operation of weft/ops.h has the plain
 * name, the layer is made by NAME_new. Parameters are made in a fixed order, and their first
 * values belong to global elements (weft/random.h): equal seeds give equal weights at every
 * number of ranks. All of these:
 * ranks: local, but all ranks alike (parameters draw from the thread's generator)
 * gives: a module owned by the caller
 * fails: WEFT_ERR_ARG naming the field, WEFT_ERR_DTYPE for a dtype without gradients
 */
#pragma once

#include <weft/module.h>
#include <weft/ops.h>
#include <weft/random.h>

typedef enum weft_activation_kind {
    WEFT_GELU,      /* with the error function */
    WEFT_GELU_TANH, /* GPT-2's form */
    WEFT_RELU,
    WEFT_SILU,
    WEFT_TANH,
    WEFT_ACTIVATIONS
} weft_activation_kind;

/**
 * x [*, in...] -> x wT + bias [*, out...]; parameters weight [out..., in...] and bias [out...].
 *
 * `in` and `out` list sizes, ended by 0: {.in = {384}, .out = {3, 6, 64}, .out_split = 1} makes
 * queries, keys and values for 6 heads of 64. Column-wise styles split the output dim `out_split`,
 * row-wise ones the input dim `in_split`.
 * `transposed` stores the weight as [in..., out...], as GPT-2's Conv1D does; products read it as it
 * lies.
 * Without `std` both parameters are uniform in +-1/sqrt(product of `in`), as in PyTorch; with it
 * the weight is normal and the bias zero.
 */
typedef struct weft_linear_config {
    int64_t in[WEFT_MAX_DIMS], out[WEFT_MAX_DIMS];
    int in_split, out_split;
    bool transposed;
    bool no_bias;
    double std;
    weft_dtype dtype;
} weft_linear_config;
WEFT_API weft_module *weft_linear_new(weft_linear_config config);

/**
 * x [N, in, ..] -> [N, out, ..], weft_conv1d and weft_conv2d; parameters weight [out, in/groups,
 * ..] and bias [out], uniform in +-1/sqrt(in/groups times the kernel's sizes), as in PyTorch.
 *
 * Without groups the styles split them: column-wise the output channels, row-wise the input
 * channels; with groups none does, and weft_distribute_module places their parameters.
 */
typedef struct weft_conv_config {
    int64_t in, out; /* channels */
    int64_t kernel[3];
    weft_conv_options options;
    bool no_bias;
    weft_dtype dtype;
} weft_conv_config;
WEFT_API weft_module *weft_conv1d_new(weft_conv_config config);
WEFT_API weft_module *weft_conv2d_new(weft_conv_config config);

/** index [*] of i32 or i64 -> [*, width]; parameter weight [rows, width], normal; std 0 means 1.
 * The row padding_idx begins as zeros, and lookups give it no gradient. */
typedef struct weft_embedding_config {
    int64_t rows, width;
    int64_t padding_idx; /* as in weft_embedding_options: 0: none, WEFT_PADDING_ZERO: row 0 */
    double std;
    weft_dtype dtype;
} weft_embedding_config;
WEFT_API weft_module *weft_embedding_new(weft_embedding_config config);

/**
 * (x [*, T, width] [, positions]) -> x + weight[0 .. T), learned positions, or with positions
 * [*, T] of i32 or i64 x + weight[positions]; parameter weight [length, width].
 *
 * A call fails with WEFT_ERR_SHAPE when T > length.
 */
typedef struct weft_position_config {
    int64_t length, width;
    double std; /* 0 means 1 */
    weft_dtype dtype;
} weft_position_config;
WEFT_API weft_module *weft_position_new(weft_position_config config);

/** x [*, width] -> [*, width], the last dim normalised; parameters weight (ones) and, for layer
 * norm, bias (zeros), both [width]. Without a weight there is no bias. */
typedef struct weft_norm_config {
    int64_t width;
    double eps; /* 0 means 1e-5 */
    bool no_weight, no_bias;
    weft_dtype dtype;
} weft_norm_config;
WEFT_API weft_module *weft_layer_norm_new(weft_norm_config config);
WEFT_API weft_module *weft_rms_norm_new(weft_norm_config config);

/** x [N, channels, *] -> the same, weft_batch_norm: parameters weight (ones) and bias (zeros),
 * buffers running_mean (zeros) and running_var (ones), all [channels]. While training the
 * statistics are those of the batch, in evaluation the running ones; without them always the
 * batch's. Of a distributed x the batch is all of it (SyncBatchNorm); of a plain one what this
 * process has, so that replicas have statistics of their own. No style splits it. */
typedef struct weft_batch_norm_config {
    int64_t channels;
    double eps;      /* 0 means 1e-5 */
    double momentum; /* of what is new in the running statistics; 0 means 0.1 */
    bool no_weight;  /* and no bias */
    bool no_running; /* statistics are kept nowhere */
    weft_dtype dtype;
} weft_batch_norm_config;
WEFT_API weft_module *weft_batch_norm_new(weft_batch_norm_config config);

/** x [N, channels, *] -> the same, weft_group_norm; parameters weight (ones) and bias (zeros), both
 * [channels]. No style splits it. */
typedef struct weft_group_norm_config {
    int64_t groups, channels;
    double eps;     /* 0 means 1e-5 */
    bool no_weight; /* and no bias */
    weft_dtype dtype;
} weft_group_norm_config;
WEFT_API weft_module *weft_group_norm_new(weft_group_norm_config config);

/** Dropout with probability p in [0, 1] while training, the input itself in evaluation. */
WEFT_API weft_module *weft_dropout_new(double p);

/** A pointwise function as a module: x [*] -> [*]. */
WEFT_API weft_module *weft_activation_new(weft_activation_kind kind);

/** x [*, 2, h] -> act(x[..., 0, :]) x[..., 1, :] [*, h]; with WEFT_SILU in one op (SwiGLU). */
WEFT_API weft_module *weft_gate_new(weft_activation_kind kind);

/**
 * (logits [*, V], target [*]) -> weft_cross_entropy_with; without options the mean.
 *
 * `classes` is V; it lets weft_cross_entropy_parallel take plain pieces of the logits when V is not
 * a multiple of the ranks. Class weights become the parameter "weight", which is not trained; they
 * are plain here, and replicated by a style.
 *
 * fails: WEFT_ERR_ARG
 */
typedef struct weft_cross_entropy_config {
    int64_t classes;
    weft_cross_entropy_options options;
} weft_cross_entropy_config;
WEFT_API weft_module *weft_cross_entropy_new(weft_cross_entropy_config config);

/** Children called one after the other, in the order they are added; without any, the input itself.
 * Further inputs, such as a mask, are given to every child. */
WEFT_API weft_module *weft_sequential_new(void);

/**
 * x [*, in] -> down(act(up(x))) [*, out]; children up, act, down.
 *
 * `gated` makes act a weft_gate_new and up.weight [2, hidden, in]: gate first, then up. Column-wise
 * splits its dim 1, so every rank has the gate that goes with its shard.
 */
typedef struct weft_mlp_config {
    int64_t in, hidden, out;
    weft_activation_kind act;
    bool gated;
    bool transposed; /* as in weft_linear_config, of up and down */
    bool no_bias;
    double std, out_std; /* as weft_linear_config's std, for up and for down (0: std) */
    weft_dtype dtype;
} weft_mlp_config;
WEFT_API weft_module *weft_mlp(weft_mlp_config config);

/**
 * Self-attention, (x [B, T, width] [, mask] [, bias] [, positions]) -> [B, T, width]; children qkv,
 * proj.
 *
 * qkv.weight is [3, heads, D, width] with D = head_dim, and proj.weight [width, heads, D], so
 * that qkv column-wise and proj row-wise split by heads, also when heads do not divide evenly.
 * With kv_heads = G or rotary positions they are [G, heads / G + 2, D, width], where each group has
 * its query heads, then its key, then its value, and [width, G, heads / G, D]. These split by
 * groups: when there are more ranks than groups, the last ranks hold none.
 * `by_heads` is for more ranks than groups: qkv has q_weight [heads, D, width], kv_weight
 * [G, 2, D, width] and their biases, and proj.weight is [width, heads, D]. Query heads split
 * wherever ranks divide them. Where that is within groups, every rank holds kv_weight and computes
 * the keys and values of its own heads, and kv_weight's gradient is a partial sum until
 * weft_reduce_gradients or an optimizer's step.
 * Mask and bias are those of weft_attention_options, positions [B, T] of i32 or i64 say where each
 * token is (with rotary positions only). They come in any order: a mask has 2 or 3 dims, a bias 4
 * or 5, positions are integers. weft_module_cache is for generation.
 * `dropout` of the attention weights, while training, is the same at every number of ranks; it
 * keeps the weights, [B, heads, T, T].
 */
typedef struct weft_attention_config {
    int64_t width, heads;
    int64_t head_dim;   /* 0 means width / heads */
    int64_t kv_heads;   /* keys and values, each for heads / kv_heads heads; 0: heads */
    bool bidirectional; /* every token sees every token, not only those before it */
    bool by_heads;
    weft_rotary_options rotary; /* with base > 0: queries and keys are turned */
    bool transposed;            /* as in weft_linear_config, of qkv and proj; not with by_heads */
    bool no_bias, no_proj_bias;
    double scale; /* of the scores; 0 means 1/sqrt(head_dim) (T5: 1) */
    double dropout;
    double std, out_std; /* as in weft_mlp_config, for qkv and for proj */
    weft_dtype dtype;
} weft_attention_config;
WEFT_API weft_module *weft_attention_new(weft_attention_config config);

/**
 * Attention of one sequence to another, (x [B, T, width], memory [B, S, memory_width] [, mask]
 * [, bias]) -> [B, T, width]; children q, kv, proj. Every token of x looks at all of the memory.
 *
 * q.weight is [heads, D, width], kv.weight [2, heads, D, memory_width] (Hugging Face's k and v, one
 * after the other) and proj.weight [width, heads, D]: q and kv column-wise and proj row-wise split
 * by heads, also when heads do not divide evenly. Mask, [B, S] or [B or 1, T or 1, S], and bias,
 * [B or 1, heads or 1, T or 1, S], are those of weft_attention_options. PyTorch: MultiheadAttention
 * with key and value from elsewhere.
 */
typedef struct weft_cross_attention_config {
    int64_t width, heads;
    int64_t memory_width; /* 0 means width */
    int64_t head_dim;     /* 0 means width / heads */
    bool no_bias, no_proj_bias;
    double scale;   /* as in weft_attention_config, also the next */
    double dropout; /* of the attention weights */
    double std, out_std;
    weft_dtype dtype;
} weft_cross_attention_config;
WEFT_API weft_module *weft_cross_attention_new(weft_cross_attention_config config);

/** What a block computes again in backward instead of keeping it: only its inputs are kept. The
 * block must live until then. */
typedef enum weft_recompute {
    WEFT_RECOMPUTE_NONE,
    WEFT_RECOMPUTE_MLP,  /* selective: norm2 and mlp, whose inner results are the largest */
    WEFT_RECOMPUTE_BLOCK /* all of it */
} weft_recompute;

/**
 * Transformer block, (x [, what attention takes beside it]): h = x + attn(norm1(x)), h +
 * mlp(norm2(h)), or with `post_norm` h = norm1(x + attn(x)), norm2(h + mlp(h)); dropout on both
 * branches. Children norm1, attn, norm2, mlp, and drop when dropout > 0.
 *
 * What is recomputed draws the same random numbers and communicates again.
 */
typedef struct weft_block_config {
    int64_t width, heads;
    int64_t hidden; /* 0 means 4 width */
    weft_activation_kind act;
    double dropout;
    double eps; /* of the norms; 0 means 1e-5 */
    bool no_bias;
    double std, out_std;
    weft_dtype dtype;
    int64_t kv_heads; /* as in weft_attention_config, also the next four */
    int64_t head_dim;
    bool by_heads;
    bool bidirectional;
    weft_rotary_options rotary;
    bool rms;        /* RMS norms */
    bool gated;      /* as in weft_mlp_config */
    bool transposed; /* as in weft_linear_config, of all four */
    bool post_norm;
    bool attention_bias, mlp_bias; /* with no_bias: but these have one */
    double attention_dropout;      /* of attention weights; `dropout` is of both branches */
    weft_recompute recompute;
} weft_block_config;
WEFT_API weft_module *weft_block_new(weft_block_config config);

/**
 * GPT-2: (tokens [B, T] [, mask]) -> logits [B, T, vocab]; (tokens, targets [B, T] [, mask]) ->
 * mean loss.
 *
 * mask: [B, T] of bool, false where a batch entry is padded, before its text or behind it; with a
 * cache for n tokens [B, n], of all of them. No token sees those, and positions count from the
 * first that is there, as in Hugging Face's generate (a target there is ignored only where it says
 * -100). Children wte, wpe, drop (when dropout > 0), blocks.0 ..., norm_f, head (no bias), loss.
 * First values as GPT-2: normal with std 0.02, projections into the residual stream
 * 0.02 / sqrt(2 layers), biases zero.
 */
typedef struct weft_gpt_config {
    int64_t vocab, context, width, heads;
    int layers;
    int64_t hidden; /* 0 means 4 width */
    weft_activation_kind act;
    double dropout;
    weft_dtype dtype;
    bool tied;                /* head.weight is wte.weight: one parameter, one gradient */
    double eps;               /* of the norms; 0 means 1e-5 */
    bool transposed;          /* weights of blocks are [in, out], as in GPT-2's own files: family
                                 "gpt2-conv1d" */
    double attention_dropout; /* of attention weights */
    weft_recompute recompute;
} weft_gpt_config;
WEFT_API weft_module *weft_gpt(weft_gpt_config config);

/** weft_call_n(gpt, {tokens, targets}, 2), for weft_llama too. ranks, gives, fails: as weft_call */
WEFT_API weft_tensor *weft_gpt_loss(weft_module *gpt, weft_tensor *tokens, weft_tensor *targets);

/**
 * The mean loss where label i is about token i itself, as Hugging Face's `labels` are: what token
 * i - 1 says is compared with label i, and the last token says nothing. Labels that are ignored
 * (-100) stay so. For weft_llama too.
 *
 * Everywhere else labels are not shifted: target i is what follows token i (weft_gpt_loss,
 * weft_cross_entropy).
 *
 * ranks, gives: as weft_call
 * fails: as weft_call; WEFT_ERR_SHAPE for other than [B, T], and T = 1
 */
WEFT_API weft_tensor *weft_gpt_loss_shifted(weft_module *gpt, weft_tensor *tokens,
                                            weft_tensor *labels);

/**
 * Logits of the token that follows, [B, vocab]: weft_call(gpt, tokens)'s last position, without the
 * others' (for weft_llama too). What hooks on `gpt` itself do to its inputs and output is left out.
 * Texts of several lengths are padded on the left, and the mask (NULL: none) says where; the
 * counterpart of Hugging Face's attention_mask.
 *
 * ranks, gives: as weft_call
 * fails: as weft_call; WEFT_ERR_ARG for a module of another kind
 */
WEFT_API weft_tensor *weft_gpt_next(weft_module *gpt, weft_tensor *tokens);
WEFT_API weft_tensor *weft_gpt_next_masked(weft_module *gpt, weft_tensor *tokens,
                                           weft_tensor *mask);

/**
 * Llama: (tokens [B, T] [, mask]) -> logits [B, T, vocab]; (tokens, targets [B, T] [, mask]) ->
 * mean loss, with a mask as weft_gpt's.
 *
 * Children wte, blocks.0 ..., norm_f, head, loss as weft_gpt's, without positions of their own:
 * rotary ones in attention, grouped keys and values, RMS norms, a gated MLP with SiLU, no biases.
 * The same plans fit. First values normal with std 0.02.
 */
typedef struct weft_llama_config {
    int64_t vocab, width, heads;
    int64_t kv_heads; /* 0 means heads */
    bool by_heads;    /* as in weft_attention_config: for more ranks than kv_heads */
    int layers;
    int64_t hidden;             /* 0 means 4 width */
    double eps;                 /* 0 means 1e-5 */
    weft_rotary_options rotary; /* base 0 means 10000 */
    bool tied;
    weft_dtype dtype;
    int64_t head_dim;              /* 0 means width / heads */
    bool attention_bias, mlp_bias; /* of all products of the one, of the other */
    double attention_dropout;      /* of attention weights */
    weft_recompute recompute;
    int64_t padding_idx; /* of wte, as in weft_embedding_config */
} weft_llama_config;
WEFT_API weft_module *weft_llama(weft_llama_config config);

/**
 * BERT: (tokens [B, T] [, mask [, types [B, T]]]) -> last hidden states [B, T, width].
 *
 * mask: as weft_attention_options', [B, T] of bool: false where a batch entry is padded. Types are
 * sentence numbers, 0 when left out. Children wte, wtt, wpe, norm_e, drop (when dropout > 0),
 * blocks.0 ... (post-norm), pooler (with `pooler`), and with `masked_lm` transform, act, norm_t,
 * head, whose weight is wte.weight unless `untied`, and loss. First values normal with std 0.02.
 */
typedef struct weft_bert_config {
    int64_t vocab, context, width, heads;
    int layers;
    int64_t types;  /* 0 means 2 */
    int64_t hidden; /* 0 means 4 width */
    weft_activation_kind act;
    double dropout;
    double eps; /* of the norms; 0 means 1e-12 */
    bool pooler;
    weft_dtype dtype;
    double attention_dropout; /* of attention weights */
    weft_recompute recompute;
    int64_t padding_idx; /* of wte, as in weft_embedding_config */
    bool masked_lm;      /* the head that says which word a masked token was */
    bool untied;         /* head.weight is a parameter of its own */
} weft_bert_config;
WEFT_API weft_module *weft_bert(weft_bert_config config);

/** tanh(pooler(the first token's hidden state)): [B, T, width] -> [B, width].
 *  ranks, gives: as weft_call
 *  fails: WEFT_ERR_NOT_FOUND for a model without pooler */
WEFT_API weft_tensor *weft_bert_pooled(weft_module *bert, weft_tensor *hidden);

/**
 * What each token was, from its hidden state: logits head(norm_t(act(transform(hidden)))),
 * [B, T, width] -> [B, T, vocab], and their mean cross-entropy with targets [B, T], of which -100
 * are left out (Hugging Face's BertForMaskedLM).
 *
 * ranks, gives: as weft_call
 * fails: WEFT_ERR_NOT_FOUND for a model without masked_lm
 */
WEFT_API weft_tensor *weft_bert_masked_lm(weft_module *bert, weft_tensor *hidden);
WEFT_API weft_tensor *weft_bert_masked_lm_loss(weft_module *bert, weft_tensor *hidden,
                                               weft_tensor *targets);

/**
 * Remember keys and values of up to `tokens` tokens in every attention of the tree, in their heads'
 * own layout, and where positions go on: every call from now on is given the tokens that follow
 * those of the calls before. What was remembered is forgotten; 0 ends it. Without recording only
 * (weft_no_grad_open). A call fails with WEFT_ERR_SHAPE when there is no room for its tokens; one
 * that fails for another reason may have left its own: rewind to how many there were.
 * Masks are [B or 1, T or 1, tokens] then.
 *
 * ranks: local, but all ranks alike
 * fails: WEFT_ERR_ARG for a negative number
 */
WEFT_API weft_status weft_module_cache(weft_module *m, int64_t tokens);

/** How many tokens are remembered / forget those behind the first `tokens`.
 *  ranks: local, all alike
 *  fails: WEFT_ERR_ARG for more than there are */
WEFT_API int64_t weft_module_cached(weft_module *m);
WEFT_API weft_status weft_module_cache_rewind(weft_module *m, int64_t tokens);

/**
 * Draw the first values of a tree's parameters anew, as layers drew them when they were made, in
 * the order of weft_module_each_tensor (PyTorch: reset_parameters of every module). In any layout
 * they are the same, by global element: those of the same tree made after weft_manual_seed, where
 * `g` has that seed. Parameters of one's own and buffers stay as they are; parameters on the meta
 * device get these values when they get elements.
 *
 * `g` NULL: the thread's generator.
 *
 * ranks: local, but all ranks alike, with equal generators
 * gives: the first failure
 * fails: WEFT_ERR_STATE for a parameter that is the result of an op
 */
WEFT_API weft_status weft_module_reset_parameters(weft_module *m, weft_generator *g);
