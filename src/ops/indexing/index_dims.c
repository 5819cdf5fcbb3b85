/* index_dims.c: see the header. */
#include "ops/indexing/index_dims.h"

#include "base/error.h"
#include "ops/op_functions.h"

static weft_status broadcast_index_shape(struct wf_index_dims *dims, const struct wf_infer *call)
{
    for (int i = 0; i < dims->n_indices; i++) {
        const struct wf_tensor_desc *index = &call->in[dims->input[i]]->desc;

        WF_NEED(index->dtype == WEFT_I32 || index->dtype == WEFT_I64, WEFT_ERR_DTYPE,
                "%s: index tensors are i32 or i64: %s", call->name, wf_infer_inputs_text(call));
        if (index->ndim > dims->index_ndim) dims->index_ndim = index->ndim;
    }
    for (int d = 0; d < dims->index_ndim; d++) dims->index_shape[d] = 1;
    for (int i = 0; i < dims->n_indices; i++) {
        const struct wf_tensor_desc *index = &call->in[dims->input[i]]->desc;

        for (int d = 0; d < index->ndim; d++) {
            int64_t *size = &dims->index_shape[dims->index_ndim - index->ndim + d];

            WF_NEED(*size == 1 || index->global[d] == 1 || index->global[d] == *size,
                    WEFT_ERR_SHAPE, "%s: index tensors do not broadcast: %s", call->name,
                    wf_infer_inputs_text(call));
            if (*size == 1) *size = index->global[d];
        }
    }
    return WEFT_OK;
}

weft_status wf_index_dims_init(struct wf_index_dims *dims, const struct wf_infer *call,
                               int table_ndim, bool put)
{
    const int8_t *dim = put ? call->attrs->index_put.dim : call->attrs->index.dim;

    *dims = (struct wf_index_dims){
        .at = (int)(put ? call->attrs->index_put.at : call->attrs->index.at)};
    for (int i = 1; i < call->n_in; i++)
        if (!put || i != 2) dims->input[dims->n_indices++] = i;
    while (dims->n_counted < WEFT_MAX_DIMS && dim[dims->n_counted] >= 0)
        dims->counted |= 1u << dim[dims->n_counted++];
    for (int d = 0; d < table_ndim; d++)
        if (!(dims->counted >> d & 1)) dims->rest[dims->n_rest++] = (int8_t)d;
    WF_TRY(broadcast_index_shape(dims, call));
    dims->rows_ndim = dims->n_rest + dims->index_ndim;
    WF_NEED(dims->rows_ndim <= WEFT_MAX_DIMS, WEFT_ERR_SHAPE,
            "%s: the result would have more than %d dims: %s", call->name, WEFT_MAX_DIMS,
            wf_infer_inputs_text(call));
    return WEFT_OK;
}
