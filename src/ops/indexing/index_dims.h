/* index_dims.h: which dims correspond where index tensors count whole dims of a table. */
#pragma once

#include "ops/op_table.h"

/**
 * The rows are what the index tensors point at, together: the table's dims that are not counted, in
 * order, with the dims of the index tensors (which broadcast) before number `at` of them.
 */
struct wf_index_dims {
    int at;
    int n_counted, n_indices, n_rest, index_ndim, rows_ndim;
    unsigned counted;           /* bits of the table's dims */
    int8_t rest[WEFT_MAX_DIMS]; /* the table's other dims */
    int64_t index_shape[WEFT_MAX_DIMS];
    int input[WF_MAX_IN]; /* number of the call's input that is index tensor i */
};

/** Of a call of op `index` (put: of index_put or index_add) with a table of so many dims.
 *  fails: WEFT_ERR_SHAPE, WEFT_ERR_DTYPE */
weft_status wf_index_dims_init(struct wf_index_dims *dims, const struct wf_infer *call,
                               int table_ndim, bool put);

/** The dim of the rows that the table's other dim number r is. */
static inline int wf_row_dim_of_table(const struct wf_index_dims *dims, int r)
{
    return r < dims->at ? r : r + dims->index_ndim;
}

/** The dim of the rows that dim d of index tensor i is. */
static inline int wf_row_dim_of_index_tensor(const struct wf_index_dims *dims,
                                             const struct wf_infer *call, int i, int d)
{
    return dims->at + dims->index_ndim - call->in[dims->input[i]]->desc.ndim + d;
}
