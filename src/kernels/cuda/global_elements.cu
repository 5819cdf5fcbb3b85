/* global_elements.cu: a shard as boxes of the whole tensor, and a box as rows. */
#include "kernels/cuda/global_elements.h"

static int64_t runs_of_dim(const struct wf_tensor_desc *y, int d)
{
    return y->runs ? y->runs->count[d] : 1;
}

int64_t wf_box_count(const struct wf_tensor_desc *y, int ndim)
{
    int64_t boxes = y->numel ? 1 : 0;

    for (int d = 0; d < ndim && boxes; d++) boxes *= runs_of_dim(y, d);
    return boxes;
}

struct wf_box wf_box_of(const struct wf_tensor_desc *y, int ndim, int64_t number)
{
    struct wf_box box = {};

    for (int d = ndim - 1; d >= 0; d--) {
        int64_t run = number % runs_of_dim(y, d);

        number /= runs_of_dim(y, d);
        box.global[d] = y->runs ? y->runs->of[d][run].offset : y->offset[d];
        box.size[d] = y->runs ? y->runs->of[d][run].size : y->shape[d];
        for (int64_t r = 0; r < run; r++) box.local[d] += y->runs->of[d][r].size;
    }
    return box;
}

/* The innermost dim becomes the row; a row of one element where its indices are not consecutive. */
static void split_innermost_row(struct wf_global_rows *rows)
{
    struct wf_loop_dim inner = {};

    rows->size = 1;
    if (rows->nest.n_dims == 0) return;
    inner = rows->nest.dim[rows->nest.n_dims - 1];
    if (inner.step[WF_GLOBAL_INDEX] != 1) return;
    (void)wf_loop_nest_remove_dim(&rows->nest, rows->nest.n_dims - 1);
    rows->size = inner.size;
    for (int i = 0; i < WF_GLOBAL_OPERANDS; i++) rows->step[i] = inner.step[i];
}

static void make_rows(struct wf_global_rows *rows, const struct wf_tensor_desc *y,
                      const struct wf_box *box, const struct wf_operand_strides *operands)
{
    *rows = {};
    wf_loop_nest_make(&rows->nest, box->size, y->ndim, operands, WF_GLOBAL_OPERANDS);
    for (int d = 0; d < y->ndim; d++)
        for (int i = 0; i < WF_GLOBAL_OPERANDS; i++) {
            int64_t index = i == WF_GLOBAL_INDEX ? box->global[d] : box->local[d];

            rows->at[i] += index * operands[i].stride[d] * operands[i].bytes;
        }
    split_innermost_row(rows);
}

/* Cut a row into rows so long that the groups of one are a launch; what is left of it may become a
 * box of its own. gives: boxes */
static int cut_row(struct wf_global_rows *rows)
{
    struct wf_global_rows *rest = rows + 1;
    struct wf_loop_dim *outer = &rows->nest.dim[rows->nest.n_dims];
    const int64_t longest = wf_cuda_index_limit;
    int64_t whole = rows->size / longest, left = rows->size % longest;

    if (rows->size <= longest) return 1;
    *rest = *rows;
    rest->size = left;
    for (int i = 0; i < WF_GLOBAL_OPERANDS; i++) {
        outer->step[i] = longest * rows->step[i];
        rest->at[i] += whole * outer->step[i];
    }
    outer->size = whole;
    rows->nest.n_dims++;
    rows->nest.count *= whole;
    rows->size = longest;
    return left ? 2 : 1;
}

void wf_global_elements_make(struct wf_global_elements *places, const struct wf_tensor_desc *y,
                             const struct wf_tensor_desc *x)
{
    struct wf_operand_strides operands[WF_GLOBAL_OPERANDS] = {};
    int64_t boxes = wf_box_count(y, y->ndim);

    *places = {};
    operands[WF_GLOBAL_Y] = wf_strides_broadcast(y, y->shape, y->ndim);
    operands[WF_GLOBAL_INDEX] = wf_strides_row_major(1, y->global, y->ndim);
    if (x) operands[WF_GLOBAL_X] = wf_strides_broadcast(x, y->shape, y->ndim);
    places->boxes =
        (struct wf_global_rows *)wf_calloc((size_t)(2 * boxes + 1), sizeof *places->boxes);
    for (int64_t i = 0; i < boxes; i++) {
        struct wf_box box = wf_box_of(y, y->ndim, i);
        struct wf_global_rows *rows = &places->boxes[places->n_boxes];

        make_rows(rows, y, &box, operands);
        places->n_boxes += cut_row(rows);
    }
}

void wf_global_elements_free(struct wf_global_elements *places) { wf_free(places->boxes); }
