/*
 * rules.c: sharding rules that text cannot say, because they depend on attributes or dim counts.
 *
 * Each labels dims; what a label means is said once, in ops.def. Numbers used: dims that correspond
 * get the same positive label, dims that may not be sharded stay 0.
 */
#include <string.h>

#include "ops/op_functions.h"

static int ndim_of(const struct wf_infer *call, int i)
{
    return call->in[i] ? call->in[i]->desc.ndim : 0;
}

static int64_t size_of(const struct wf_infer *call, int i, int d)
{
    return call->in[i]->desc.global[d];
}

/* [*,m,k] x [*,k,n]: batch dims align from the right; transposed inputs swap their last two. */
void wf_rule_matmul(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    enum { M = 1, N, K, BATCH };
    int n = call->out[0].ndim;

    for (int i = 0; i < 2; i++) {
        int rows = i == 0 ? M : K, cols = i == 0 ? K : N, dims = ndim_of(call, i);
        bool swapped = i == 0 ? call->attrs->matmul.transpose_a : call->attrs->matmul.transpose_b;

        labels->in[i][dims - 2] = (int8_t)(swapped ? cols : rows);
        labels->in[i][dims - 1] = (int8_t)(swapped ? rows : cols);
        for (int d = 0; d < dims - 2; d++) {
            int from_right = dims - 3 - d;

            if (size_of(call, i, d) == call->out[0].shape[n - 3 - from_right])
                labels->in[i][d] = (int8_t)(BATCH + from_right);
        }
    }
    for (int d = 0; d < n - 2; d++) labels->out[0][d] = (int8_t)(BATCH + n - 3 - d);
    labels->out[0][n - 2] = M;
    labels->out[0][n - 1] = N;
    labels->count = BATCH + n;
}

static void label_consecutive_dims(int8_t *dims, int from, int count, int first)
{
    for (int i = 0; i < count; i++) dims[from + i] = (int8_t)(first + i);
}

enum {
    LEAD = 1,
    OUT_DIMS = LEAD + WEFT_MAX_DIMS,
    IN_DIMS = OUT_DIMS + WEFT_MAX_DIMS,
    LINEAR_LABELS = IN_DIMS + WEFT_MAX_DIMS
};

/* w [N...,K...], or with `transposed` [K...,N...] */
static void label_weight(int8_t *dims, int n, int k, bool transposed)
{
    label_consecutive_dims(dims, transposed ? k : 0, n, OUT_DIMS);
    label_consecutive_dims(dims, transposed ? 0 : n, k, IN_DIMS);
}

/* x [*,K...], w, bias [N...] -> [*,N...] */
void wf_rule_linear(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    int k = call->attrs->linear.k_dims, lead = ndim_of(call, 0) - k, n = ndim_of(call, 1) - k;

    label_consecutive_dims(labels->in[0], 0, lead, LEAD);
    label_consecutive_dims(labels->in[0], lead, k, IN_DIMS);
    label_weight(labels->in[1], n, k, call->attrs->linear.transposed);
    label_consecutive_dims(labels->in[2], 0, n, OUT_DIMS);
    label_consecutive_dims(labels->out[0], 0, lead, LEAD);
    label_consecutive_dims(labels->out[0], lead, n, OUT_DIMS);
    labels->count = LINEAR_LABELS;
}

/* d [*,N...], w -> [*,K...] */
void wf_rule_linear_dx(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    int k = call->attrs->linear.k_dims, n = ndim_of(call, 1) - k, lead = ndim_of(call, 0) - n;

    label_consecutive_dims(labels->in[0], 0, lead, LEAD);
    label_consecutive_dims(labels->in[0], lead, n, OUT_DIMS);
    label_weight(labels->in[1], n, k, call->attrs->linear.transposed);
    label_consecutive_dims(labels->out[0], 0, lead, LEAD);
    label_consecutive_dims(labels->out[0], lead, k, IN_DIMS);
    labels->count = LINEAR_LABELS;
}

/* d [*,N...], x [*,K...] -> [N...,K...] */
void wf_rule_linear_dw(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    int k = call->attrs->linear_dw.k_dims, n = call->attrs->linear_dw.n_dims,
        lead = ndim_of(call, 1) - k;

    label_consecutive_dims(labels->in[0], 0, lead, LEAD);
    label_consecutive_dims(labels->in[0], lead, n, OUT_DIMS);
    label_consecutive_dims(labels->in[1], 0, lead, LEAD);
    label_consecutive_dims(labels->in[1], lead, k, IN_DIMS);
    label_consecutive_dims(labels->out[0], 0, n, OUT_DIMS);
    label_consecutive_dims(labels->out[0], n, k, IN_DIMS);
    labels->count = LINEAR_LABELS;
}

/* A reduced dim's label is missing in the result. */
void wf_rule_reduce(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    int n = ndim_of(call, 0), at = 0;

    for (int d = 0; d < n; d++) {
        bool reduced = call->attrs->reduce.dims >> d & 1;

        labels->in[0][d] = (int8_t)(d + 1);
        if (!reduced)
            labels->out[0][at++] = (int8_t)(d + 1);
        else if (call->attrs->reduce.keep)
            at++;
    }
    labels->count = n;
}

/* The dim that a softmax, a slice or a cat is along: attributes of a slice begin as those of the
 * others do. */
static int64_t dim_of_op(const struct wf_infer *call) { return call->attrs->dim.dim; }

/* Every dim but that one. All operands have the same dims. */
void wf_rule_all_but_dim(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    for (int d = 0; d < call->out[0].ndim; d++) {
        if (d == dim_of_op(call)) continue;
        for (int i = 0; i < call->n_in; i++) labels->in[i][d] = (int8_t)(d + 1);
        labels->out[0][d] = (int8_t)(d + 1);
    }
    labels->count = call->out[0].ndim;
}

/* Of a dim that is cut each rank gives the elements that it has: the ranks' results add up. */
void wf_rule_slice_masked(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    wf_rule_all_but_dim(call, labels);
    labels->in[0][dim_of_op(call)] = (int8_t)(dim_of_op(call) + 1);
}

/* Of a replicated gradient each rank may take its own shard. */
void wf_rule_slice_grad(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    wf_rule_all_but_dim(call, labels);
    labels->out[0][dim_of_op(call)] = (int8_t)(dim_of_op(call) + 1);
}

/*
 * Old and new sizes are cut into the smallest groups with equal products. A group of one dim each
 * is the same dim; in others the leftmost dims correspond, for even splits only: then a rank's
 * shard of the one is exactly its shard of the other.
 */
void wf_rule_reshape(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    const int64_t *old = call->in[0]->desc.global, *new = call->out[0].shape;
    int n_old = ndim_of(call, 0), n_new = call->out[0].ndim, i = 0, j = 0, label = 0;

    if (call->in[0]->numel == 0) return;
    while (i < n_old && j < n_new) {
        int first_i = i, first_j = j;
        int64_t a = old[i++], b = new[j++];

        while (a != b) {
            if (a < b)
                a *= old[i++];
            else
                b *= new[j++];
        }
        while (first_i < i - 1 && old[first_i] == 1) first_i++;
        while (first_j < j - 1 && new[first_j] == 1) first_j++;
        label++;
        labels->in[0][first_i] = (int8_t)label;
        labels->out[0][first_j] = (int8_t)label;
        if (old[first_i] != new[first_j])
            labels->even |= 1u << label;
        else if (first_i < i - 1 || first_j < j - 1)
            labels->even |= 1u << label;
    }
    labels->count = label;
}

void wf_rule_permute(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    int n = ndim_of(call, 0);

    for (int d = 0; d < n; d++) {
        labels->in[0][call->attrs->permute.order[d]] = (int8_t)(d + 1);
        labels->out[0][d] = (int8_t)(d + 1);
    }
    labels->count = n;
}

/* Dims that are repeated exist in the result only; each rank may make just its shard of them. */
void wf_rule_expand(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    int n = call->out[0].ndim, missing = n - ndim_of(call, 0);

    for (int d = 0; d < n; d++) {
        labels->out[0][d] = (int8_t)(d + 1);
        if (d >= missing && size_of(call, 0, d - missing) == call->out[0].shape[d])
            labels->in[0][d - missing] = (int8_t)(d + 1);
    }
    labels->count = n;
}
