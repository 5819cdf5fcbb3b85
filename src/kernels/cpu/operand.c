/* operand.c: operands that are matrices as they lie, or copied by the copy kernel. */
#include "kernels/cpu/operand.h"

#include "base/elements/dtype.h"
#include "base/elements/strided_copy.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/scratch.h"
#include "kernels/operands/matrix_view.h"

static void prepare_copy(struct wf_operand *o, const struct wf_tensor_desc *d)
{
    weft_status copied;

    o->dense = *d;
    wf_row_major_strides(o->dense.stride, d->shape, d->ndim);
    o->dense.contiguous = true;
    o->copy =
        (struct wf_kernel_call){.op = "copy", .n_in = 1, .n_out = 1, .in = {d}, .out = {&o->dense}};
    o->ld = o->cols;
    o->transposed = false;
    o->scratch = wf_scratch_round_up((size_t)d->numel * wf_dtypes[d->dtype].size);
    copied = wf_cpu_copy(&o->copy);
    WF_ASSERT(copied == WEFT_OK); /* it serves every dtype */
    (void)copied;
}

void wf_operand_prepare_matrix(struct wf_operand *o, const struct wf_tensor_desc *d, int split)
{
    struct wf_matrix_view m = wf_matrix_view_of(d, split);

    *o =
        (struct wf_operand){.rows = m.rows, .cols = m.cols, .ld = m.ld, .transposed = m.transposed};
    if (!m.in_place) prepare_copy(o, d);
}

void wf_operand_prepare_rows(struct wf_operand *o, const struct wf_tensor_desc *d, int split)
{
    wf_operand_prepare_matrix(o, d, split);
    if (o->transposed) prepare_copy(o, d);
}

void wf_operand_prepare_dense(struct wf_operand *o, const struct wf_tensor_desc *d)
{
    *o = (struct wf_operand){.rows = d->numel, .cols = 1, .ld = 1};
    if (!d->contiguous) prepare_copy(o, d);
}

const void *wf_operand_copy_if_needed(const struct wf_operand *o, const void *x, void *scratch)
{
    if (!o->scratch) return x;
    o->copy.run(&o->copy, &scratch, &x, &(struct wf_scalars){0});
    return scratch;
}

void wf_operand_free(struct wf_operand *o) { wf_kernel_call_drop(&o->copy); }
