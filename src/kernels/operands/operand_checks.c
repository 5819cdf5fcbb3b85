/* operand_checks.c: a failure names both dtypes. */
#include "kernels/operands/operand_checks.h"

#include "base/elements/dtype.h"
#include "base/error.h"

weft_status wf_check_input_dtypes(const struct wf_kernel_call *k, int first, uint8_t dtype)
{
    for (int i = first; i < k->n_in; i++)
        WF_NEED(!k->in[i] || k->in[i]->dtype == dtype, WEFT_ERR_DTYPE, "%s: %s beside %s", k->op,
                wf_dtypes[dtype].name, wf_dtypes[k->in[i]->dtype].name);
    return WEFT_OK;
}

weft_status wf_check_embedding_index(const struct wf_kernel_call *k)
{
    int dtype = k->in[1]->dtype;

    WF_NEED(dtype == WEFT_I32 || dtype == WEFT_I64, WEFT_ERR_DTYPE,
            "%s: indices are i32 or i64, not %s", k->op, wf_dtypes[dtype].name);
    return WEFT_OK;
}

weft_status wf_check_cross_entropy_inputs(const struct wf_kernel_call *k, int first, int target)
{
    uint8_t sums = k->in[0]->dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32, t = k->in[target]->dtype;

    WF_NEED(t == WEFT_I32 || t == WEFT_I64, WEFT_ERR_DTYPE, "%s: targets are i32 or i64, not %s",
            k->op, wf_dtypes[t].name);
    for (int i = first; i < k->n_in; i++)
        WF_NEED(i == target || !k->in[i] || k->in[i]->dtype == sums, WEFT_ERR_DTYPE,
                "%s: %s beside %s", k->op, wf_dtypes[k->in[i]->dtype].name,
                wf_dtypes[k->in[0]->dtype].name);
    return WEFT_OK;
}
