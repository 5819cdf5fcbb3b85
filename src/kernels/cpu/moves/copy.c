/* copy.c: kernels that only move elements: copy, fill, cat. How is strided_copy.h's business. */
#include <string.h>

#include "base/elements/dtype.h"
#include "base/elements/strided_copy.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/pointwise/pointwise.h"
#include "kernels/operands/cat_copies.h"
#include "kernels/operands/operand_checks.h"

static void run_copy(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                     const struct wf_scalars *scalars)
{
    (void)scalars;
    wf_strided_copy_run(k->prep, out[0], in[0]);
}

weft_status wf_cpu_copy(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *x = k->in[0], *y = k->out[0];
    struct wf_operand_strides to =
        wf_strides_row_major(wf_dtypes[y->dtype].size, y->shape, y->ndim);
    struct wf_operand_strides from = wf_strides_broadcast(x, y->shape, y->ndim);

    WF_TRY(wf_check_input_dtypes(k, 0, y->dtype));
    k->prep = WF_NEW(struct wf_strided_copy);
    wf_strided_copy_init(k->prep, y->shape, from.stride, to.stride, y->ndim, (size_t)to.bytes);
    k->run = run_copy;
    return WEFT_OK;
}

struct fill {
    wf_elementwise_loop *line;
    int64_t n, bytes;
    void (*store)(void *element, double value);
    struct wf_strided_copy spread; /* of one element over a strided output */
};

static void run_fill_strided(const struct wf_kernel_call *k, void *const *out,
                             const void *const *in, const struct wf_scalars *scalars)
{
    const struct fill *p = k->prep;
    char element[8];

    (void)in;
    p->store(element, scalars->s[0]);
    wf_strided_copy_run(&p->spread, out[0], element);
}

static void run_fill(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                     const struct wf_scalars *scalars)
{
    const struct fill *p = k->prep;
    uint64_t element = 0;
    const void *value = &element;

    (void)in;
    p->store(&element, scalars->s[0]);
    if (element)
        p->line(p->n, out[0], &value, scalars);
    else
        memset(out[0], 0, (size_t)(p->n * p->bytes));
}

weft_status wf_cpu_fill(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *y = k->out[0];
    const struct wf_dtype_info *info = &wf_dtypes[y->dtype];
    int64_t one[WEFT_MAX_DIMS] = {0};
    struct fill *p = k->prep = WF_NEW(struct fill);

    p->n = y->numel;
    p->bytes = info->size;
    p->store = info->store;
    p->line = WF_ISA_PICK(wf_cast_where_fill_loops)->fill[info->size];
    if (!y->contiguous)
        wf_strided_copy_init(&p->spread, y->shape, one, y->stride, y->ndim, info->size);
    k->run = p->n == 0 ? wf_kernel_run_noop : y->contiguous ? run_fill : run_fill_strided;
    return WEFT_OK;
}

static void run_cat(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                    const struct wf_scalars *scalars)
{
    const struct wf_cat_copies *copies = k->prep;

    (void)scalars;
    for (int i = 0; i < k->n_in; i++) wf_strided_copy_run(&copies->input[i], out[0], in[i]);
}

weft_status wf_cpu_cat(struct wf_kernel_call *k)
{
    WF_TRY(wf_cat_copies_prepare(k));
    k->run = run_cat;
    return WEFT_OK;
}
