/*
 * max_pool.c: the largest element of each window of the last dims, and its gradient.
 *
 *   x [*,S...] -> y [*,T...], indices [*,T...] of i64, counted within the last dims
 *   d [*,T...], indices -> dx [*,S...]
 */
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/convolution/dense.h"
#include "kernels/cpu/convolution/windows.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/scratch.h"

struct max_pool {
    struct wf_max_windows windows;
    const struct wf_windows_table *loops;
    int64_t planes;
    struct wf_dense in, out, indices; /* the indices of a gradient */
};

static void max_pool_free(void *prep)
{
    struct max_pool *p = prep;

    wf_dense_free(&p->in);
    wf_dense_free(&p->out);
    wf_dense_free(&p->indices);
    wf_scratch_release();
    wf_free(p);
}

static void max_pool_run(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                         const struct wf_scalars *scalars)
{
    const struct max_pool *p = k->prep;
    char *scratch = wf_scratch_buffer(), *result = scratch + p->in.scratch;
    const void *x = wf_dense_read(&p->in, in[0], scratch);
    void *y = wf_dense_place(&p->out, out[0], result);

    (void)scalars;
    p->loops->max_pool(&p->windows, p->planes, x, y, out[1]);
    wf_dense_write(&p->out, out[0], result);
}

static void max_pool_grad_run(const struct wf_kernel_call *k, void *const *out,
                              const void *const *in, const struct wf_scalars *scalars)
{
    const struct max_pool *p = k->prep;
    char *scratch = wf_scratch_buffer(), *result = scratch + p->in.scratch,
         *indices = result + p->out.scratch;
    const void *d = wf_dense_read(&p->in, in[0], scratch);
    const void *at = wf_dense_read(&p->indices, in[1], indices);
    void *dx = wf_dense_place(&p->out, out[0], result);

    (void)scalars;
    p->loops->max_pool_grad(&p->windows, p->planes, d, at, dx);
    wf_dense_write(&p->out, out[0], result);
}

static struct wf_max_windows windows_from_attrs(const struct wf_windows_attrs *a)
{
    struct wf_max_windows w;

    for (int i = 0; i < WF_SPATIAL; i++) {
        int d = i - (WF_SPATIAL - a->dims);
        bool there = d >= 0;

        w.size[i] = there ? a->size[d] : 1;
        w.to[i] = there ? a->to[d] : 1;
        w.kernel[i] = there ? a->kernel[d] : 1;
        w.stride[i] = there ? a->stride[d] : 1;
        w.before[i] = there ? a->before[d] : 0;
        w.dilation[i] = there ? a->dilation[d] : 1;
    }
    return w;
}

static weft_status prepare(struct wf_kernel_call *k, wf_kernel_run *run)
{
    uint8_t dtype = k->out[0]->dtype, compute = wf_compute_dtype(dtype);
    const struct wf_windows_attrs *a;
    struct max_pool *p;

    if (!wf_dtypes[dtype].is_float) return wf_fail_no_kernel(k, dtype);
    if (k->in[0]->dtype != dtype) return wf_fail_no_kernel(k, k->in[0]->dtype);
    if (k->n_in > 1 && k->in[1]->dtype != WEFT_I64) return wf_fail_no_kernel(k, k->in[1]->dtype);
    k->run = wf_kernel_run_noop;
    if (k->out[0]->numel == 0) return WEFT_OK;
    k->prep = p = WF_NEW(struct max_pool);
    k->drop = max_pool_free;
    k->run = run;
    a = &k->attrs->windows;
    p->windows = windows_from_attrs(a);
    p->loops = compute == WEFT_F64 ? WF_ISA_PICK(wf_windows_f64) : WF_ISA_PICK(wf_windows_f32);
    p->planes = 1;
    for (int d = 0; d < k->out[0]->ndim - a->dims; d++) p->planes *= k->out[0]->shape[d];
    wf_dense_prepare_input(&p->in, k->in[0], compute);
    wf_dense_prepare_output(&p->out, k->out[0], compute);
    if (k->n_in > 1) wf_dense_prepare_input(&p->indices, k->in[1], WEFT_I64);
    wf_scratch_reserve(p->in.scratch + p->out.scratch + p->indices.scratch);
    return WEFT_OK;
}

weft_status wf_cpu_max_pool(struct wf_kernel_call *k) { return prepare(k, max_pool_run); }

weft_status wf_cpu_max_pool_grad(struct wf_kernel_call *k) { return prepare(k, max_pool_grad_run); }
