/* sort.c: x [*,n] -> each row in order [*,n], and where its elements were [*,n] of i64. */
#include "kernels/cpu/reductions/sort.h"

#include "base/elements/dtype.h"
#include "base/mem.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/scratch.h"

struct sort {
    struct wf_sort_loops loops;
    struct wf_operand x;
    int64_t bytes;
};

static void free_sort(void *prep)
{
    wf_operand_free(&((struct sort *)prep)->x);
    wf_scratch_release();
    wf_free(prep);
}

static void run_sort(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                     const struct wf_scalars *scalars)
{
    const struct sort *p = k->prep;
    char *scratch = wf_scratch_buffer();
    const char *x = wf_operand_copy_if_needed(&p->x, in[0], scratch);
    int64_t n = p->x.cols;

    (void)scalars;
    for (int64_t i = 0; i < p->x.rows; i++)
        p->loops.row(n, x + i * p->x.ld * p->bytes, k->attrs->sort.descending,
                     (char *)out[0] + i * n * p->bytes, (int64_t *)out[1] + i * n,
                     scratch + p->x.scratch);
}

weft_status wf_cpu_sort(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *x = k->in[0];
    struct sort *p;

    if (!WF_ISA_PICK(wf_sorts)->of[x->dtype].row) return wf_fail_no_kernel(k, x->dtype);
    k->prep = p = WF_NEW(struct sort);
    k->drop = free_sort;
    p->loops = WF_ISA_PICK(wf_sorts)->of[x->dtype];
    p->bytes = wf_dtypes[x->dtype].size;
    wf_operand_prepare_rows(&p->x, x, x->ndim - 1);
    wf_scratch_reserve(p->x.scratch + p->loops.scratch_bytes(x->shape[x->ndim - 1]));
    k->run = run_sort;
    return WEFT_OK;
}
