/* index_operands.h: the operands of kernels whose index tensors count whole dims of a table. */
#pragma once

#include "kernels/operands/index_walk.h"

/**
 * Rows whose dims are those of the table that are not counted, in order, with the dims of the index
 * tensors before number `at` of them. `dim`: the counted dim for each index tensor, -1 behind the
 * last. The index tensors are set by the caller.
 */
struct wf_index_operands wf_index_operands_of_dims(const struct wf_tensor_desc *table,
                                                   const int64_t *table_stride,
                                                   const struct wf_tensor_desc *rows, int64_t at,
                                                   const int8_t *dim);

/** The index tensors broadcast: each is aligned at its last dim. */
void wf_index_operands_align(struct wf_index_operands *o, int at);
