/*
 * band.c: of matrices the elements near a diagonal, zeros for the others.
 *
 *   y[i][j] = x[i][j] where v[0] <= j - i <= v[1], else 0
 *
 * Rows and columns are counted in the whole matrix, of which this rank has a box.
 */
#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/operands/loop_nest.h"
#include "kernels/operands/operand_checks.h"

struct band {
    struct wf_loop_nest matrices;    /* of x: the dims before the last two */
    int64_t rows, columns, bytes;    /* of the box */
    int64_t row_step;                /* bytes */
    int64_t column_step;             /* elements */
    int64_t first_row, first_column; /* of the box in the whole */
};

static int64_t clamped(int64_t at, int64_t most) { return at < 0 ? 0 : at < most ? at : most; }

/* v[0] and v[1] may be the smallest and the largest number, for no bound. */
static int64_t column_of_diagonal(int64_t row, int64_t diagonal, int64_t first_column, int64_t most)
{
    if (diagonal < -(INT64_MAX / 4)) return 0;
    if (diagonal > INT64_MAX / 4) return most;
    return clamped(row + diagonal - first_column, most);
}

static void keep_row(const struct band *p, char *to, const char *from, int64_t begin, int64_t end)
{
    if (end < begin) end = begin;
    memset(to, 0, (size_t)(begin * p->bytes));
    if (p->column_step == 1)
        memcpy(to + begin * p->bytes, from + begin * p->bytes, (size_t)((end - begin) * p->bytes));
    else
        wf_gather_strided(to + begin * p->bytes, from + begin * p->column_step * p->bytes,
                          end - begin, p->column_step, p->bytes);
    memset(to + end * p->bytes, 0, (size_t)((p->columns - end) * p->bytes));
}

static void run_band(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                     const struct wf_scalars *scalars)
{
    const struct band *p = k->prep;
    struct wf_loop_walk walk = {.at = {in[0]}};
    char *to = out[0];

    do {
        for (int64_t i = 0; i < p->rows; i++, to += p->columns * p->bytes) {
            int64_t row = p->first_row + i;
            int64_t begin = column_of_diagonal(row, scalars->v[0], p->first_column, p->columns);
            int64_t end =
                scalars->v[1] > INT64_MAX / 4
                    ? p->columns
                    : column_of_diagonal(row + 1, scalars->v[1], p->first_column, p->columns);

            keep_row(p, to, walk.at[0] + i * p->row_step, begin, end);
        }
    } while (wf_loop_walk_next(&p->matrices, &walk));
}

weft_status wf_cpu_band(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *x = k->in[0], *y = k->out[0];
    struct wf_operand_strides from = wf_strides_broadcast(x, x->shape, x->ndim);
    int n = x->ndim - 2;
    struct band *p;

    WF_TRY(wf_check_input_dtypes(k, 0, y->dtype));
    k->prep = p = WF_NEW(struct band);
    p->bytes = wf_dtypes[y->dtype].size;
    wf_loop_nest_make(&p->matrices, x->shape, n, &from, 1);
    p->rows = x->shape[n];
    p->columns = x->shape[n + 1];
    p->row_step = from.stride[n] * p->bytes;
    p->column_step = from.stride[n + 1];
    p->first_row = x->offset[n];
    p->first_column = x->offset[n + 1];
    k->run = y->numel ? run_band : wf_kernel_run_noop;
    return WEFT_OK;
}
