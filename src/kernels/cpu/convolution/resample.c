/*
 * resample.c: weighted sums of windows of the last dims: means of windows, and elements between
 * elements. Weights are products of a weight per dim (taps.c).
 *
 *   x [*,S...] -> y [*,T...]; transposed, the gradient, from [*,T...] to [*,S...]
 */
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/convolution/dense.h"
#include "kernels/cpu/convolution/taps.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/scratch.h"

struct resample {
    struct wf_taps taps[WF_SPATIAL];
    const struct wf_windows_table *loops;
    int64_t planes;
    struct wf_dense in, out;
};

static void resample_free(void *prep)
{
    struct resample *p = prep;

    for (int d = 0; d < WF_SPATIAL; d++) wf_taps_free(&p->taps[d]);
    wf_dense_free(&p->in);
    wf_dense_free(&p->out);
    wf_scratch_release();
    wf_free(p);
}

static void resample_run(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                         const struct wf_scalars *scalars)
{
    const struct resample *p = k->prep;
    char *scratch = wf_scratch_buffer(), *result = scratch + p->in.scratch;
    const void *x = wf_dense_read(&p->in, in[0], scratch);
    void *y = wf_dense_place(&p->out, out[0], result);

    (void)scalars;
    p->loops->resample(p->taps, p->planes, x, y, result + p->out.scratch);
    wf_dense_write(&p->out, out[0], result);
}

weft_status wf_cpu_resample(struct wf_kernel_call *k)
{
    uint8_t dtype = k->out[0]->dtype, compute = wf_compute_dtype(dtype);
    const struct wf_resample_attrs *a;
    struct resample *p;
    int first;

    if (!wf_dtypes[dtype].is_float) return wf_fail_no_kernel(k, dtype);
    if (k->in[0]->dtype != dtype) return wf_fail_no_kernel(k, k->in[0]->dtype);
    k->run = wf_kernel_run_noop;
    if (k->out[0]->numel == 0) return WEFT_OK;
    k->prep = p = WF_NEW(struct resample);
    k->drop = resample_free;
    a = &k->attrs->resample;
    k->run = resample_run;
    p->loops = compute == WEFT_F64 ? WF_ISA_PICK(wf_windows_f64) : WF_ISA_PICK(wf_windows_f32);
    first = WF_SPATIAL - a->dims;
    p->planes = 1;
    for (int d = 0; d < k->out[0]->ndim - a->dims; d++) p->planes *= k->out[0]->shape[d];
    for (int d = 0; d < first; d++) wf_taps_make_identity(&p->taps[d]);
    for (int d = 0; d < a->dims; d++) wf_taps_make(&p->taps[first + d], a, d, compute == WEFT_F32);
    wf_dense_prepare_input(&p->in, k->in[0], compute);
    wf_dense_prepare_output(&p->out, k->out[0], compute);
    wf_scratch_reserve(
        p->in.scratch + p->out.scratch +
        wf_scratch_round_up((size_t)p->taps[WF_SPATIAL - 1].size * wf_dtypes[compute].size));
    return WEFT_OK;
}
