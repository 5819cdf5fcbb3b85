/* matrix_view.c: when an operand is a matrix as it lies. */
#include "kernels/operands/matrix_view.h"

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

/* True where one of the two strides is 1 and the other leaves room for a row. */
static bool is_matrix_in_place(struct wf_matrix_view *m, int64_t row_stride, int64_t col_stride)
{
    if (m->rows <= 1) row_stride = max_i64(m->cols, 1);
    if ((col_stride == 1 || m->cols <= 1) && row_stride >= max_i64(m->cols, 1)) {
        m->ld = row_stride;
        return true;
    }
    if (m->cols <= 1) col_stride = max_i64(m->rows, 1);
    if ((row_stride != 1 && m->rows > 1) || col_stride < max_i64(m->rows, 1)) return false;
    m->transposed = true;
    m->ld = col_stride;
    return true;
}

static int64_t count_elements(const struct wf_tensor_desc *d, int first, int last)
{
    int64_t n = 1;

    for (int i = first; i < last; i++) n *= d->shape[i];
    return n;
}

struct wf_matrix_view wf_matrix_view_of(const struct wf_tensor_desc *d, int split)
{
    struct wf_matrix_view m = {.rows = count_elements(d, 0, split),
                               .cols = count_elements(d, split, d->ndim)};
    int64_t rows, cols, row_stride, col_stride;
    bool folds = wf_dims_to_one_stride(d, 0, split, &rows, &row_stride) &&
                 wf_dims_to_one_stride(d, split, d->ndim, &cols, &col_stride);

    m.ld = max_i64(m.cols, 1);
    m.in_place =
        m.rows == 0 || m.cols == 0 || (folds && is_matrix_in_place(&m, row_stride, col_stride));
    return m;
}

struct wf_tensor_desc wf_last_two_dims(const struct wf_tensor_desc *d)
{
    struct wf_tensor_desc m = *d;

    m.ndim = 2;
    m.numel = d->shape[d->ndim - 2] * d->shape[d->ndim - 1];
    for (int i = 0; i < 2; i++) {
        m.shape[i] = d->shape[d->ndim - 2 + i];
        m.stride[i] = d->stride[d->ndim - 2 + i];
    }
    return m;
}

struct wf_tensor_desc wf_leading_dims(const struct wf_tensor_desc *d)
{
    struct wf_tensor_desc batch = *d;

    batch.ndim = (int8_t)(d->ndim - 2);
    return batch;
}

bool wf_matmul_shares_b(const struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *a = k->in[0], *b = k->in[1];

    for (int i = 0; i < b->ndim - 2; i++)
        if (b->shape[i] != 1) return false;
    return !k->attrs->matmul.transpose_a && a->ndim > 2 && a->ndim == k->out[0]->ndim;
}
