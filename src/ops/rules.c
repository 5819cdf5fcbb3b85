/*
 * rules.c: a sharding rule that text cannot say and several families use; those of one family are
 * with it.
 *
 * A rule labels dims; what a label means is said once, in ops.def. Numbers used: dims that
 * correspond get the same positive label, dims that may not be sharded stay 0.
 */
#include "ops/call_dims.h"
#include "ops/op_functions.h"

/* Every dim but that one. All operands have the same dims. */
void wf_rule_all_but_dim(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    for (int d = 0; d < call->out[0].ndim; d++) {
        if (d == wf_dim_of_op(call)) continue;
        for (int i = 0; i < call->n_in; i++) labels->in[i][d] = (int8_t)(d + 1);
        labels->out[0][d] = (int8_t)(d + 1);
    }
    labels->count = call->out[0].ndim;
}
