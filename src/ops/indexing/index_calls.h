/* index_calls.h: calls of the rows of indexing.def that its files make of each other. */
#pragma once

#include "ops/dispatch_op.h"

struct wf_index_dims;
struct wf_dim_labels;
struct wf_infer;

/** Attributes of one index tensor that counts `dim`; its negative numbers are refused. */
struct wf_index_attrs wf_index_attrs_of_dim(int dim);

/** What a list of index tensors by dim, NULL for a dim that stays, says.
 *  fails: WEFT_ERR_ARG */
weft_status wf_read_indices(const char *who, const weft_tensor *x, weft_tensor *const *index, int n,
                            weft_tensor **given, int *n_given, struct wf_index_attrs *attrs);

weft_tensor *wf_call_index(weft_tensor *x, weft_tensor *const *index, int n,
                           const struct wf_index_attrs *attrs);

/** `rows` put into, or added to, x or, where that is NULL, zeros with the shape of `like`. */
weft_tensor *wf_call_index_put(enum wf_op op, weft_tensor *x, weft_tensor *const *index, int n,
                               weft_tensor *rows, const struct wf_index_attrs *attrs,
                               const struct wf_tensor_desc *like, struct wf_layout *want);

/** Labels of the index tensors' dims, where the rows' dims have their number + 1. */
void wf_label_index_tensors(const struct wf_infer *call, const struct wf_index_dims *dims,
                            const int64_t *rows_shape, struct wf_dim_labels *labels);

/** A number without dims / 0, 1, .. n - 1 as i64, on x's device, replicated over its mesh. */
weft_tensor *wf_replicated_number(const weft_tensor *x, weft_dtype dtype, double value);
weft_tensor *wf_replicated_count(const weft_tensor *x, int64_t n);
