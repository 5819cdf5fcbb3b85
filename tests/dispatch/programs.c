/* programs.c: see the header. */
#include "dispatch/programs.h"

#include <string.h>

int64_t shard_numel(const weft_op_shard *p)
{
    int64_t n = 1;

    for (int d = 0; d < p->ndim; d++) n *= p->shape[d];
    return n;
}

/* The element with this row-major index in the part. */
float *shard_element(const weft_op_shard *p, int64_t index)
{
    int64_t place = 0;

    for (int d = p->ndim - 1; d >= 0; d--) {
        place += index % p->shape[d] * p->stride[d];
        index /= p->shape[d];
    }
    return (float *)p->data + place;
}

weft_status shape_like_first(weft_op_info *info, void *payload)
{
    (void)payload;
    for (int i = 1; i < info->n_in; i++)
        if (info->in[i].present &&
            memcmp(info->in[i].shape, info->in[0].shape, sizeof info->in[0].shape) != 0)
            return weft_op_refuse("%s: input %d has another shape", info->op, i);
    info->out[0] = info->in[0];
    return WEFT_OK;
}

/* Sum of all inputs, times the first number if there is one. */
void kernel_sum(const weft_op_info *info, const weft_op_shard *in, weft_op_shard *out,
                const double *numbers, void *payload)
{
    (void)payload;
    for (int64_t e = 0; e < shard_numel(&out[0]); e++) {
        double sum = 0;

        for (int i = 0; i < info->n_in; i++)
            if (in[i].data) sum += *shard_element(&in[i], e);
        *shard_element(&out[0], e) = (float)(numbers[0] != 0 ? sum * numbers[0] : sum);
    }
}

weft_status rule_replicated_only(const weft_op_info *info, weft_rule *rule, void *payload)
{
    (void)info;
    (void)rule;
    (void)payload;
    return WEFT_OK;
}

/* Any dim, the same for all operands. */
weft_status rule_any_dim(const weft_op_info *info, weft_rule *rule, void *payload)
{
    (void)payload;
    for (int d = 0; d < info->in[0].ndim; d++) {
        weft_placement in[WEFT_OP_INPUTS], out[WEFT_OP_OUTPUTS];

        for (int i = 0; i < WEFT_OP_INPUTS; i++) in[i] = weft_shard(d);
        for (int j = 0; j < WEFT_OP_OUTPUTS; j++) out[j] = weft_shard(d);
        if (weft_rule_accept(rule, in, out) != WEFT_OK) return weft_error_status();
    }
    return WEFT_OK;
}

weft_op_spec sum_op_spec(const char *name, weft_rule_function *rule)
{
    return (weft_op_spec){
        .name = name, .n_out = 1, .shape = shape_like_first, .rule = rule, .kernel = kernel_sum};
}

weft_tensor *call_op(int op, int n, const weft_argument *arguments)
{
    weft_tensor *out[WEFT_OP_OUTPUTS];

    return weft_op_run(op, out, arguments, n) == WEFT_OK ? out[0] : NULL;
}
