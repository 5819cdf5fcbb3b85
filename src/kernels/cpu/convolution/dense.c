/* dense.c: see the header. */
#include "kernels/cpu/convolution/dense.h"

#include "base/elements/dtype.h"
#include "base/elements/strided_copy.h"
#include "base/error.h"
#include "kernels/cpu/scratch.h"

uint8_t wf_compute_dtype(uint8_t dtype)
{
    return wf_dtype_is_16_bit_float(dtype) ? (uint8_t)WEFT_F32 : dtype;
}

static void prepare_move(struct wf_dense *o, const struct wf_tensor_desc *d, uint8_t dtype,
                         bool output)
{
    bool same_type = d->dtype == dtype;
    weft_status moved;

    *o = (struct wf_dense){.scratch = 0};
    if (same_type && d->contiguous) return;
    o->desc = *d;
    o->desc.dtype = dtype;
    o->desc.contiguous = true;
    wf_row_major_strides(o->desc.stride, d->shape, d->ndim);
    o->scratch = wf_scratch_round_up((size_t)d->numel * wf_dtypes[dtype].size);
    o->move = (struct wf_kernel_call){.op = same_type ? "copy" : "cast",
                                      .n_in = 1,
                                      .n_out = 1,
                                      .in = {output ? &o->desc : d},
                                      .out = {output ? d : &o->desc}};
    moved = same_type ? wf_cpu_copy(&o->move) : wf_cpu_cast(&o->move);
    WF_ASSERT(moved == WEFT_OK); /* they serve every float */
    (void)moved;
}

void wf_dense_prepare_input(struct wf_dense *o, const struct wf_tensor_desc *d, uint8_t dtype)
{
    prepare_move(o, d, dtype, false);
}

void wf_dense_prepare_output(struct wf_dense *o, const struct wf_tensor_desc *d, uint8_t dtype)
{
    prepare_move(o, d, dtype, true);
}

void wf_dense_free(struct wf_dense *o) { wf_kernel_call_drop(&o->move); }

const void *wf_dense_read(const struct wf_dense *o, const void *x, void *scratch)
{
    if (!o->scratch) return x;
    o->move.run(&o->move, &scratch, &x, &(struct wf_scalars){0});
    return scratch;
}

void wf_dense_write(const struct wf_dense *o, void *out, const void *scratch)
{
    if (o->scratch) o->move.run(&o->move, &out, &scratch, &(struct wf_scalars){0});
}
