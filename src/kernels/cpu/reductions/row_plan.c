/* row_plan.c: the plan of row_plan.h. */
#include "kernels/cpu/reductions/row_plan.h"

#include <string.h>

#include "base/elements/dtype.h"
#include "base/mem.h"

void wf_row_plan_make(struct wf_row_plan *p, const struct wf_kernel_call *k, int n_in, int dim)
{
    const struct wf_tensor_desc *y = k->out[0];
    struct wf_operand_strides operands[WF_MAX_OPERANDS];
    int64_t shape[WEFT_MAX_DIMS];

    memset(p, 0, sizeof *p);
    p->n = p->row.size = y->shape[dim];
    p->bytes = wf_dtypes[y->dtype].size;
    p->dense = true;
    operands[0] = wf_strides_row_major(p->bytes, y->shape, y->ndim);
    for (int i = 0; i < n_in; i++) {
        operands[i + 1] = wf_strides_broadcast(k->in[i], y->shape, y->ndim);
        p->dense = p->dense && k->in[i]->contiguous;
    }
    p->stride = operands[0].stride[dim];
    for (int i = 0; i <= n_in; i++) p->row.step[i] = operands[i].stride[dim] * p->bytes;
    memcpy(shape, y->shape, sizeof shape);
    shape[dim] = 1;
    wf_loop_nest_make(&p->outer, shape, y->ndim, operands, n_in + 1);
    p->count = p->outer.count;
    if (!p->dense || p->stride != 1)
        p->scratch = wf_malloc((size_t)((n_in + 1) * (p->n + 1) * p->bytes));
}

void wf_row_store(const struct wf_row_plan *p, char *at)
{
    if (p->n == 1 || p->stride == 1) return;
    for (int64_t i = 0; i < p->n; i++)
        memcpy(at + i * p->row.step[0], p->scratch + i * p->bytes, (size_t)p->bytes);
}
