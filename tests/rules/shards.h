/* shards.h: cutting an operand into ranks' shards, and gluing parts of a result. */
#pragma once

#include "cases/op_cases.h"
#include "placement/layout.h"

enum { WT_MAX_RANKS = 4 };

/** A buffer for the elements of a box, filled with a pattern; from malloc. */
void *wt_room(const struct wf_tensor_desc *box);

/** This rank's shard of operand `i`; of a partial tensor its term: the terms of all ranks reduce
 * to the operand. Row-major, from malloc. */
void *wt_cut(const struct wt_op_case *sample, int i, const struct wt_operand *operand,
             const struct wf_layout *layout, int rank, int ranks);

/** Elements of a box that lies with these strides, row-major, as f64; from malloc. */
double *wt_read_box(const struct wf_tensor_desc *box, const int64_t *stride, const void *data);

/** Do the ranks' shards, placed so, make up `want`? */
bool wt_glued_equals(const double *const *parts, const struct wf_tensor_desc *const *boxes,
                     int ranks, weft_placement placement, const double *want);
