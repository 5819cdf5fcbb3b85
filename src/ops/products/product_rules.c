/* product_rules.c: sharding rules of matrix products, whose dims depend on attributes. */
#include "ops/call_dims.h"
#include "ops/op_functions.h"

/* [*,m,k] x [*,k,n]: batch dims align from the right; transposed inputs swap their last two. */
void wf_rule_matmul(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    enum { M = 1, N, K, BATCH };
    int n = call->out[0].ndim;

    for (int i = 0; i < 2; i++) {
        const struct wf_tensor_desc *in = &call->in[i]->desc; /* both operands are required */
        int rows = i == 0 ? M : K, cols = i == 0 ? K : N, dims = in->ndim;
        bool swapped = i == 0 ? call->attrs->matmul.transpose_a : call->attrs->matmul.transpose_b;

        labels->in[i][dims - 2] = (int8_t)(swapped ? cols : rows);
        labels->in[i][dims - 1] = (int8_t)(swapped ? rows : cols);
        for (int d = 0; d < dims - 2; d++) {
            int from_right = dims - 3 - d;

            if (in->global[d] == call->out[0].shape[n - 3 - from_right])
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
    int k = call->attrs->linear.k_dims, lead = wf_ndim_of_input(call, 0) - k,
        n = wf_ndim_of_input(call, 1) - k;

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
    int k = call->attrs->linear.k_dims, n = wf_ndim_of_input(call, 1) - k,
        lead = wf_ndim_of_input(call, 0) - n;

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
        lead = wf_ndim_of_input(call, 1) - k;

    label_consecutive_dims(labels->in[0], 0, lead, LEAD);
    label_consecutive_dims(labels->in[0], lead, n, OUT_DIMS);
    label_consecutive_dims(labels->in[1], 0, lead, LEAD);
    label_consecutive_dims(labels->in[1], lead, k, IN_DIMS);
    label_consecutive_dims(labels->out[0], 0, n, OUT_DIMS);
    label_consecutive_dims(labels->out[0], n, k, IN_DIMS);
    labels->count = LINEAR_LABELS;
}
