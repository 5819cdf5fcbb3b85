/*
 * band.cu: of matrices the elements near a diagonal, zeros for the others. Rows and columns are
 * counted in the whole matrix, of which this rank has a box.
 */
#include "kernels/cuda/element.h"
#include "kernels/cuda/offset_map.h"
#include "kernels/cuda/prepare.h"

namespace
{

struct band {
    int64_t count;
    wide_divisor rows, columns;
    offset_map matrices;             /* number of a matrix -> its first element in x */
    int64_t row_step, column_step;   /* elements of x */
    int64_t first_row, first_column; /* of the box in the whole */
    int64_t least, most;             /* of column - row */
};

template <class Word>
__global__ void __launch_bounds__(WF_CUDA_BLOCK) keep_band(band p, Word *y, const Word *x)
{
    int64_t i = (int64_t)blockIdx.x * WF_CUDA_BLOCK + threadIdx.x, row, column, matrix, distance;
    Word word = {};

    if (i >= p.count) return;
    row = divide_wide(i, p.columns);
    column = i - row * (int64_t)p.columns.value;
    matrix = divide_wide(row, p.rows);
    row -= matrix * (int64_t)p.rows.value;
    distance = column + p.first_column - (row + p.first_row);
    if (distance >= p.least && distance <= p.most)
        word = x[map_offset(p.matrices, matrix) + row * p.row_step + column * p.column_step];
    y[i] = word;
}

template <class Word>
void run_band(const wf_kernel_call *k, void *const *out, const void *const *in,
              const wf_scalars *scalars)
{
    band p = *(const band *)k->prep;

    p.least = scalars->v[0];
    p.most = scalars->v[1];
    WF_CUDA_LAUNCH(k, keep_band<Word>, (unsigned)((p.count + WF_CUDA_BLOCK - 1) / WF_CUDA_BLOCK),
                   WF_CUDA_BLOCK, 0, p, (Word *)out[0], (const Word *)in[0]);
}

} // namespace

extern "C" weft_status wf_cuda_band(struct wf_kernel_call *k)
{
    const wf_tensor_desc *x = k->in[0], *y = k->out[0];
    wf_operand_strides from = wf_strides_broadcast(x, x->shape, x->ndim);
    int n = x->ndim - 2;
    int64_t bytes = wf_dtypes[y->dtype].size;
    wf_loop_nest matrices;
    band *p;

    WF_TRY(wf_check_input_dtypes(k, 0, y->dtype));
    k->run = wf_cuda_run_nothing;
    if (y->numel == 0) return WEFT_OK;
    k->prep = p = WF_NEW(band);
    wf_loop_nest_make(&matrices, x->shape, n, &from, 1);
    p->count = y->numel;
    p->rows = wide_divisor_of(x->shape[n]);
    p->columns = wide_divisor_of(x->shape[n + 1]);
    p->matrices = offset_map_of(&matrices, 0, bytes);
    p->row_step = from.stride[n];
    p->column_step = from.stride[n + 1];
    p->first_row = x->offset[n];
    p->first_column = x->offset[n + 1];
    k->run = bytes == 1   ? run_band<uint8_t>
             : bytes == 2 ? run_band<uint16_t>
             : bytes == 4 ? run_band<uint32_t>
                          : run_band<uint64_t>;
    return WEFT_OK;
}
