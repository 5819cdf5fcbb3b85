/* index_operands.c: see the header. */
#include "kernels/operands/index_operands.h"

struct wf_index_operands wf_index_operands_of_dims(const struct wf_tensor_desc *table,
                                                   const int64_t *table_stride,
                                                   const struct wf_tensor_desc *rows, int64_t at,
                                                   const int8_t *dim)
{
    struct wf_index_operands o = {.rows = rows, .table = table};
    int counted = 0, rest = 0, index_dims;
    unsigned is_counted = 0;

    while (counted < WEFT_MAX_DIMS && dim[counted] >= 0) {
        if (counted < WF_MAX_INDICES) o.counted_dim[counted] = dim[counted];
        is_counted |= 1u << dim[counted++];
    }
    index_dims = rows->ndim - (table->ndim - counted);
    for (int d = 0; d < table->ndim; d++) {
        if (is_counted >> d & 1) continue;
        o.table_stride[rest < at ? rest : rest + index_dims] = table_stride[d];
        rest++;
    }
    return o;
}

void wf_index_operands_align(struct wf_index_operands *o, int at)
{
    int most = 0;

    for (int i = 0; i < o->n_indices; i++)
        if (o->index[i]->ndim > most) most = o->index[i]->ndim;
    for (int i = 0; i < o->n_indices; i++) o->first_dim[i] = at + most - o->index[i]->ndim;
}
