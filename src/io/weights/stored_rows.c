/* stored_rows.c: merged dims and transposed matrices, as strides. */
#include "io/weights/stored_rows.h"

#include "base/elements/numel.h"

static int64_t product_of_sizes(const int64_t *sizes, int from, int to)
{
    int64_t n = 1;

    for (int d = from; d < to; d++) n *= sizes[d];
    return n;
}

/* Each dim of the file is the product of consecutive ones of the parameter. */
static bool do_dims_merge_into(const int64_t *shape, int ndim, const int64_t *file, int file_ndim)
{
    int at = 0;

    for (int f = 0; f < file_ndim; f++) {
        int64_t size = 1;

        while (at < ndim && size < file[f]) size *= shape[at++];
        while (at < ndim && shape[at] == 1) at++;
        if (size != file[f]) return false;
    }
    return at == ndim;
}

static void fill_row_major_strides(int64_t *stride, const int64_t *shape, int from, int to,
                                   int64_t unit)
{
    for (int d = to - 1; d >= from; d--) {
        stride[d] = unit;
        unit *= shape[d];
    }
}

/* The first of the parameter's dims that is in the matrix's second dim; -1: there is none. */
static int find_split_dim(const int64_t *shape, int ndim, int64_t out, int64_t in)
{
    for (int d = 1; d < ndim; d++)
        if (product_of_sizes(shape, 0, d) == out && product_of_sizes(shape, d, ndim) == in)
            return d;
    return -1;
}

bool wf_stored_rows_match(struct wf_stored_rows *rows, int join, int64_t first,
                          const int64_t *shape, int ndim, bool transposed,
                          const int64_t *file_shape, int file_ndim)
{
    int64_t numel = wf_shape_numel(file_shape, file_ndim), sizes[WEFT_MAX_DIMS] = {0}, others = 1;
    int split;

    *rows = (struct wf_stored_rows){.first = first, .count = 1};
    if (ndim == 0) return numel == 1 && first == 0;
    if (join >= ndim) return false;
    for (int d = 0; d < ndim; d++)
        if (d != join) others *= sizes[d] = shape[d];
    if (numel == 0) { /* without elements any strides will do */
        rows->count = others ? 0 : shape[join] - first;
        return true;
    }
    if (others == 0 || numel < 0 || numel % others != 0) return false;
    rows->count = sizes[join] = numel / others;
    if (rows->count > shape[join] - first) return false;
    if (!transposed) {
        fill_row_major_strides(rows->stride, sizes, 0, ndim, 1);
        return do_dims_merge_into(sizes, ndim, file_shape, file_ndim);
    }
    split = file_ndim == 2 ? find_split_dim(sizes, ndim, file_shape[1], file_shape[0]) : -1;
    if (split < 0) return false;
    fill_row_major_strides(rows->stride, sizes, 0, split, 1);
    fill_row_major_strides(rows->stride, sizes, split, ndim, file_shape[1]);
    return true;
}

void wf_stored_rows_make(struct wf_stored_rows *rows, int64_t *file_shape, int *file_ndim, int join,
                         int64_t first, int64_t count, const int64_t *shape, int ndim, int split,
                         bool transposed)
{
    int64_t sizes[WEFT_MAX_DIMS] = {0}, out, in;

    for (int d = 0; d < ndim; d++) sizes[d] = d == join ? count : shape[d];
    out = product_of_sizes(sizes, 0, split);
    in = product_of_sizes(sizes, split, ndim);
    *rows = (struct wf_stored_rows){.first = first, .count = count};
    *file_ndim = split < ndim ? 2 : 1;
    file_shape[0] = transposed ? in : out;
    file_shape[1] = transposed ? out : in;
    fill_row_major_strides(rows->stride, sizes, 0, split, transposed ? 1 : in);
    fill_row_major_strides(rows->stride, sizes, split, ndim, transposed ? out : 1);
}
