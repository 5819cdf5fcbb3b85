/*
 * pad.c: a tensor's elements among others that all have one value.
 *
 *   y[before + step i] = x[i], the value elsewhere
 */
#include <string.h>

#include "base/elements/dtype.h"
#include "base/elements/strided_copy.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/pointwise/pointwise.h"
#include "kernels/operands/operand_checks.h"

struct pad {
    struct wf_strided_copy copy;
    wf_elementwise_loop *fill;
    void (*store)(void *element, double value);
    int64_t n, bytes; /* of the output */
    int64_t first;    /* bytes to the place of x's first element */
};

static void run_pad(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                    const struct wf_scalars *scalars)
{
    const struct pad *p = k->prep;
    uint64_t element = 0;
    const void *value = &element;

    if (scalars->s[0] != 0) p->store(&element, scalars->s[0]);
    if (element)
        p->fill(p->n, out[0], &value, scalars);
    else
        memset(out[0], 0, (size_t)(p->n * p->bytes));
    wf_strided_copy_run(&p->copy, (char *)out[0] + p->first, in[0]);
}

weft_status wf_cpu_pad(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *x = k->in[0], *y = k->out[0];
    const struct wf_pad_attrs *attrs = &k->attrs->pad;
    const struct wf_dtype_info *info = &wf_dtypes[y->dtype];
    struct wf_operand_strides to = wf_strides_row_major(info->size, y->shape, y->ndim);
    struct wf_operand_strides from = wf_strides_broadcast(x, x->shape, x->ndim);
    struct pad *p;

    WF_TRY(wf_check_input_dtypes(k, 0, y->dtype));
    k->prep = p = WF_NEW(struct pad);
    p->n = y->numel;
    p->bytes = info->size;
    p->store = info->store;
    p->fill = WF_ISA_PICK(wf_cast_where_fill_loops)->fill[info->size];
    for (int d = 0; d < y->ndim; d++) {
        p->first += attrs->before[d] * to.stride[d] * info->size;
        to.stride[d] *= attrs->step[d];
    }
    wf_strided_copy_init(&p->copy, x->shape, from.stride, to.stride, y->ndim, (size_t)info->size);
    k->run = y->numel ? run_pad : wf_kernel_run_noop;
    return WEFT_OK;
}
