/* embedding.c: embeddings. */
#include <weft/ops.h>

#include "base/error.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

static bool is_index(const struct wf_layout *layout)
{
    return layout->desc.dtype == WEFT_I32 || layout->desc.dtype == WEFT_I64;
}

/* table [V,D], index [*] -> [*,D] */
weft_status wf_shape_embedding(struct wf_infer *call)
{
    const struct wf_tensor_desc *table = &call->in[0]->desc, *index = &call->in[1]->desc;

    WF_NEED(table->ndim == 2 && weft_dtype_is_float((weft_dtype)table->dtype) &&
                is_index(call->in[1]) && index->ndim < WEFT_MAX_DIMS,
            WEFT_ERR_SHAPE,
            "embedding: needs a floating-point table [V,D] and an i32 or i64 index: %s",
            wf_infer_inputs_text(call));
    wf_infer_output_like(call, 0, call->in[1]);
    call->out[0].dtype = (weft_dtype)table->dtype;
    call->out[0].shape[call->out[0].ndim++] = table->global[1];
    return WEFT_OK;
}

/* d [*,D], index [*] -> [rows, D] */
weft_status wf_shape_embedding_grad(struct wf_infer *call)
{
    const struct wf_tensor_desc *d = &call->in[0]->desc;

    call->out[0].dtype = (weft_dtype)d->dtype;
    call->out[0].ndim = 2;
    call->out[0].shape[0] = call->attrs->embedding_grad.rows;
    call->out[0].shape[1] = d->global[d->ndim - 1];
    return WEFT_OK;
}

void wf_vjp_embedding(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    struct wf_layout *table = wf_tape_node_input_layout(n, 0);
    int64_t padding_row = wf_tape_node_op_plan(n)->attrs.embedding.padding_row;
    struct wf_op_args args = {
        WF_ATTRS(embedding_grad, .rows = table->desc.global[0], .padding_row = padding_row),
        .want = table};
    weft_tensor *index = wf_saved_input(n, 1);

    in[0] = wf_dispatch_op_one_output(WF_OP_embedding_grad, (weft_tensor *[]){g, index}, 2, &args);
}

weft_tensor *weft_embedding(weft_tensor *table, weft_tensor *index)
{
    return weft_embedding_with(table, index, (weft_embedding_options){0});
}

weft_tensor *weft_embedding_with(weft_tensor *table, weft_tensor *index,
                                 weft_embedding_options options)
{
    int64_t rows, padding_row = -1;

    if (!table || !index) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(table, "embedding"));
    WF_NEED_PTR(
        options.max_norm == 0, WEFT_ERR_ARG,
        "embedding: max_norm does not have a sharding strategy: it would write to the table "
        "in a lookup; bound the rows after the optimizer's step");
    rows = weft_ndim(table) ? weft_size(table, 0) : 0;
    if (options.padding_idx != 0) {
        int64_t row = options.padding_idx == WEFT_PADDING_ZERO ? 0 : options.padding_idx;

        WF_NEED_PTR(row >= -rows && row < rows, WEFT_ERR_ARG,
                    "embedding: padding_idx is %lld, the table has %lld rows", (long long)row,
                    (long long)rows);
        padding_row = row < 0 ? row + rows : row;
    }
    return wf_dispatch_op_one_output(
        WF_OP_embedding, (weft_tensor *[]){table, index}, 2,
        &(struct wf_op_args){WF_ATTRS(embedding, .padding_row = padding_row)});
}

/* table [B,V,D], index [B,*] -> [B,*,D] */
weft_status wf_shape_embedding_batch(struct wf_infer *call)
{
    const struct wf_tensor_desc *table = &call->in[0]->desc, *index = &call->in[1]->desc;

    WF_NEED(table->ndim == 3 && weft_dtype_is_float((weft_dtype)table->dtype) &&
                is_index(call->in[1]) && index->ndim >= 1 && index->ndim < WEFT_MAX_DIMS &&
                table->global[0] == index->global[0],
            WEFT_ERR_SHAPE,
            "embedding_batch: needs floating-point tables [B,V,D] and an i32 or i64 index [B,*]: "
            "%s",
            wf_infer_inputs_text(call));
    wf_infer_output_like(call, 0, call->in[1]);
    call->out[0].dtype = (weft_dtype)table->dtype;
    call->out[0].shape[call->out[0].ndim++] = table->global[2];
    return WEFT_OK;
}

/* d [B,*,D], index [B,*] -> [B, rows, D] */
weft_status wf_shape_embedding_batch_grad(struct wf_infer *call)
{
    const struct wf_tensor_desc *d = &call->in[0]->desc;

    call->out[0].dtype = (weft_dtype)d->dtype;
    call->out[0].ndim = 3;
    call->out[0].shape[0] = d->global[0];
    call->out[0].shape[1] = call->attrs->embedding_grad.rows;
    call->out[0].shape[2] = d->global[d->ndim - 1];
    return WEFT_OK;
}

void wf_vjp_embedding_batch(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    struct wf_layout *table = wf_tape_node_input_layout(n, 0);
    struct wf_op_args args = {
        WF_ATTRS(embedding_grad, .rows = table->desc.global[1], .padding_row = -1), .want = table};
    weft_tensor *index = wf_saved_input(n, 1);

    in[0] = wf_dispatch_op_one_output(WF_OP_embedding_batch_grad, (weft_tensor *[]){g, index}, 2,
                                      &args);
}

weft_tensor *weft_embedding_batch(weft_tensor *tables, weft_tensor *index)
{
    return wf_dispatch_binary_op(WF_OP_embedding_batch, tables, index);
}
