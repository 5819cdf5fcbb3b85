/* operand.c: when an operand is a matrix as it lies; copying is left to the copy kernel. */
#include "kernels/cpu/operand.h"

#include "base/elements/dtype.h"
#include "base/elements/strided_copy.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/scratch.h"

bool wf_dims_to_one_stride(const struct wf_tensor_desc *d, int first, int last, int64_t *size,
                           int64_t *stride)
{
    *size = 1;
    *stride = 1;
    for (int i = last - 1; i >= first; i--) {
        if (d->shape[i] == 1) continue;
        if (*size == 1)
            *stride = d->stride[i];
        else if (d->stride[i] != *stride * *size)
            return false;
        *size *= d->shape[i];
    }
    return true;
}

static int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

/** True where one of the two strides is 1 and the other leaves room for a row. */
static bool is_matrix_in_place(struct wf_operand *o, int64_t row_stride, int64_t col_stride)
{
    if (o->rows <= 1) row_stride = max_i64(o->cols, 1);
    if ((col_stride == 1 || o->cols <= 1) && row_stride >= max_i64(o->cols, 1)) {
        o->ld = row_stride;
        return true;
    }
    if (o->cols <= 1) col_stride = max_i64(o->rows, 1);
    o->transposed = (row_stride == 1 || o->rows <= 1) && col_stride >= max_i64(o->rows, 1);
    o->ld = col_stride;
    return o->transposed;
}

static int64_t count_elements(const struct wf_tensor_desc *d, int first, int last)
{
    int64_t n = 1;

    for (int i = first; i < last; i++) n *= d->shape[i];
    return n;
}

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
    int64_t rows, cols, row_stride, col_stride;
    bool folds = wf_dims_to_one_stride(d, 0, split, &rows, &row_stride) &&
                 wf_dims_to_one_stride(d, split, d->ndim, &cols, &col_stride);

    *o = (struct wf_operand){.rows = count_elements(d, 0, split),
                             .cols = count_elements(d, split, d->ndim)};
    o->ld = max_i64(o->cols, 1);
    if (o->rows == 0 || o->cols == 0) return;
    if (folds && is_matrix_in_place(o, row_stride, col_stride)) return;
    prepare_copy(o, d);
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

void wf_operand_free(struct wf_operand *o)
{
    if (o->copy.drop)
        o->copy.drop(o->copy.prep);
    else
        wf_free(o->copy.prep);
}
