/* op_functions.h: the functions that ops.def names. One .c file per family defines them. */
#pragma once

#include "ops/op_table.h"

/* rules.c */
wf_rule_fn wf_rule_matmul, wf_rule_linear, wf_rule_linear_dx, wf_rule_linear_dw, wf_rule_reduce,
    wf_rule_all_but_dim, wf_rule_reshape, wf_rule_permute, wf_rule_expand, wf_rule_slice_masked,
    wf_rule_slice_grad;

/* pointwise.c */
wf_shape_fn wf_shape_same, wf_shape_broadcast, wf_shape_compare, wf_shape_test, wf_shape_where,
    wf_shape_cast;
wf_vjp wf_vjp_where, wf_vjp_cast, wf_vjp_copy;
#define WF_UNARY(name, ...) wf_vjp wf_vjp_##name;
#define WF_UNARY_BY_OPS(name, ...) wf_vjp wf_vjp_##name;
#define WF_BINARY(name, ...) wf_vjp wf_vjp_##name;
#include "kernels/pointwise.def"

/* matmul.c */
wf_shape_fn wf_shape_matmul, wf_shape_linear, wf_shape_linear_dx, wf_shape_linear_dw;
wf_vjp wf_vjp_matmul, wf_vjp_linear;

/* reduce.c */
wf_shape_fn wf_shape_reduce;
wf_vjp wf_vjp_sum, wf_vjp_max, wf_vjp_softmax, wf_vjp_log_softmax;

/* topk.c */
wf_shape_fn wf_shape_topk, wf_shape_topk_grad;

/* norm.c */
wf_shape_fn wf_shape_layer_norm, wf_shape_layer_norm_grad, wf_shape_rms_norm,
    wf_shape_rms_norm_grad;
wf_vjp wf_vjp_layer_norm, wf_vjp_rms_norm;

/* embedding.c: embeddings */
wf_shape_fn wf_shape_embedding, wf_shape_embedding_grad, wf_shape_embedding_batch,
    wf_shape_embedding_batch_grad;
wf_vjp wf_vjp_embedding, wf_vjp_embedding_batch;

/* attention.c */
wf_shape_fn wf_shape_attention, wf_shape_attention_grad, wf_shape_attention_packed,
    wf_shape_attention_packed_grad;
wf_rule_fn wf_rule_attention, wf_rule_attention_grad, wf_rule_attention_packed,
    wf_rule_attention_packed_grad;
wf_vjp wf_vjp_attention, wf_vjp_attention_packed;

/* rotary_swiglu.c: rotary positions, SwiGLU */
wf_shape_fn wf_shape_rotary, wf_shape_swiglu, wf_shape_swiglu_grad;
wf_rule_fn wf_rule_rotary;
wf_vjp wf_vjp_rotary, wf_vjp_swiglu;

/* cross_entropy.c */
wf_shape_fn wf_shape_xent_sum, wf_shape_xent_loss;

/* view.c */
wf_shape_fn wf_shape_reshape, wf_shape_permute, wf_shape_slice, wf_shape_expand, wf_shape_cat,
    wf_shape_slice_grad;
wf_view_fn wf_view_reshape, wf_view_permute, wf_view_slice, wf_view_expand, wf_view_unchanged;
wf_vjp wf_vjp_reshape, wf_vjp_permute, wf_vjp_slice, wf_vjp_expand, wf_vjp_cat;

/* random.c */
wf_shape_fn wf_shape_as_requested, wf_shape_multinomial;
wf_vjp wf_vjp_dropout;

/* ---- shared by families ---- */

/** Output j takes dtype and global shape of a layout. */
void wf_infer_output_like(struct wf_infer *call, int j, const struct wf_layout *layout);

/** "f32[8,16] R, f32[4]": the operands, for messages. The text lives until the thread's next call.
 */
const char *wf_infer_inputs_text(const struct wf_infer *call);

/** Sum a broadcast result's gradient back to the shape an input had. */
weft_tensor *wf_sum_to_shape_of(weft_tensor *grad, struct wf_layout *layout);

/** Expand to a layout's global shape, in that layout where it costs nothing. */
weft_tensor *wf_expand_to_shape_of(weft_tensor *t, struct wf_layout *layout);

/** Sum over the dims in a bit mask, times `scale`. */
weft_tensor *wf_sum_masked_dims(weft_tensor *t, int64_t mask, bool keep, double scale,
                                struct wf_layout *want);

/** Bit mask of a list of dims; n = 0 means all. -1 with an error when one is out of range. */
int64_t wf_dims_to_mask(const weft_tensor *t, const int *dims, int n, const char *who);

/** t with this global shape, preferably in `want`. */
weft_tensor *wf_reshape_to(weft_tensor *t, const int64_t *shape, int ndim, struct wf_layout *want);
