/* view_rules.c: sharding rules of views: which dim of the result is which dim of the input. */
#include "ops/call_dims.h"
#include "ops/op_functions.h"

/* Of a dim that is cut each rank gives the elements that it has: the ranks' results add up. */
void wf_rule_slice_masked(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    wf_rule_all_but_dim(call, labels);
    labels->in[0][wf_dim_of_op(call)] = (int8_t)(wf_dim_of_op(call) + 1);
}

/* Of a replicated gradient each rank may take its own shard. */
void wf_rule_slice_grad(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    wf_rule_all_but_dim(call, labels);
    labels->out[0][wf_dim_of_op(call)] = (int8_t)(wf_dim_of_op(call) + 1);
}

void wf_rule_permute(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    int n = wf_ndim_of_input(call, 0);

    for (int d = 0; d < n; d++) {
        labels->in[0][call->attrs->permute.order[d]] = (int8_t)(d + 1);
        labels->out[0][d] = (int8_t)(d + 1);
    }
    labels->count = n;
}

/* Dims that are repeated exist in the result only; each rank may make just its shard of them. */
void wf_rule_expand(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    int n = call->out[0].ndim, missing = n - wf_ndim_of_input(call, 0);

    for (int d = 0; d < n; d++) {
        labels->out[0][d] = (int8_t)(d + 1);
        if (d >= missing && wf_size_of_input(call, 0, d - missing) == call->out[0].shape[d])
            labels->in[0][d - missing] = (int8_t)(d + 1);
    }
    labels->count = n;
}
