/* swiglu.c: y = silu(gate) up and its gradient, gate and up stacked in the dim before the last. */
#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/pointwise/rotary_swiglu.h"
#include "kernels/cpu/scratch.h"
#include "kernels/operands/operand_checks.h"

struct swiglu {
    const struct wf_transformer *loops;
    struct wf_operand x, d; /* d: of the gradient only */
    int64_t rows, n, bytes; /* a row of the result has n elements */
};

static void free_swiglu(void *prep)
{
    struct swiglu *p = prep;

    wf_operand_free(&p->x);
    wf_operand_free(&p->d);
    wf_scratch_release();
    wf_free(p);
}

static void run_forward(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                        const struct wf_scalars *scalars)
{
    const struct swiglu *p = k->prep;
    const char *x = wf_operand_copy_if_needed(&p->x, in[0], wf_scratch_buffer());
    const int64_t row = p->n * p->bytes;

    (void)scalars;
    for (int64_t i = 0; i < p->rows; i++, x += 2 * row)
        p->loops->swiglu(p->n, (char *)out[0] + i * row, x, x + row);
}

static void run_backward(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                         const struct wf_scalars *scalars)
{
    const struct swiglu *p = k->prep;
    char *scratch = wf_scratch_buffer(), *dx = out[0];
    const char *x = wf_operand_copy_if_needed(&p->x, in[1], scratch);
    const char *d = wf_operand_copy_if_needed(&p->d, in[0], scratch + p->x.scratch);
    const int64_t row = p->n * p->bytes;

    (void)scalars;
    for (int64_t i = 0; i < p->rows; i++, x += 2 * row, d += row, dx += 2 * row)
        p->loops->swiglu_grad(p->n, dx, dx + row, d, x, x + row);
}

/* x is input `index`. */
static struct swiglu *swiglu_new(struct wf_kernel_call *k, int index)
{
    const struct wf_tensor_desc *x = k->in[index];
    struct swiglu *p = WF_NEW(struct swiglu);

    p->loops = wf_transformer_loops_for(x->dtype);
    p->bytes = (int64_t)wf_dtypes[x->dtype].size;
    p->n = x->shape[x->ndim - 1];
    p->rows = x->numel ? x->numel / (2 * p->n) : 0;
    wf_operand_prepare_dense(&p->x, x);
    k->prep = p;
    k->drop = free_swiglu;
    return p;
}

/* in: x [*,2,n] */
weft_status wf_cpu_swiglu(struct wf_kernel_call *k)
{
    struct swiglu *p;

    if (!wf_transformer_loops_for(k->in[0]->dtype)) return wf_fail_no_kernel(k, k->in[0]->dtype);
    p = swiglu_new(k, 0);
    wf_scratch_reserve(p->x.scratch);
    k->run = run_forward;
    return WEFT_OK;
}

/* in: d [*,n], x [*,2,n] */
weft_status wf_cpu_swiglu_grad(struct wf_kernel_call *k)
{
    struct swiglu *p;

    if (!wf_transformer_loops_for(k->in[1]->dtype)) return wf_fail_no_kernel(k, k->in[1]->dtype);
    WF_TRY(wf_check_input_dtypes(k, 0, k->in[1]->dtype));
    p = swiglu_new(k, 1);
    wf_operand_prepare_dense(&p->d, k->in[0]);
    wf_scratch_reserve(p->x.scratch + p->d.scratch);
    k->run = run_backward;
    return WEFT_OK;
}
