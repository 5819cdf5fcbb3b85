/*
 * embedding.c: rows of a table by index, and the gradient that adds them back.
 *
 *   y[i][j] = table[index[i]][j]          dtable[r][j] = sum over i with index[i] = r of d[i][j]
 *
 * With a table per item, [B,V,D], the indices are [B,*]: each looks in the table of its item.
 *
 * An index counts rows of the global table; this rank holds some of its rows and columns. Rows held
 * elsewhere give zeros and take nothing, so the ranks' results add up to the whole. One row of the
 * global table may be said to take nothing anywhere (padding_row).
 */
#include "kernels/cpu/moves/embedding.h"

#include <string.h>

#include "base/elements/dtype.h"
#include "base/elements/stream_copy.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/scratch.h"
#include "kernels/operands/operand_checks.h"

struct lookup {
    struct wf_operand index, d;
    const struct wf_tensor_desc *table; /* the box of the table or of its gradient */
    const struct wf_embedding *loops;
    int rows;      /* the dim of the table's rows: 0, or 1 with a table per item */
    int64_t items; /* tables */
    int64_t bytes; /* of an element */
    bool wide;     /* sums are f32 beside rows of 16-bit floats */
    size_t sums;   /* bytes of scratch for them */
};

static void lookup_free(void *prep)
{
    struct lookup *p = prep;

    wf_operand_free(&p->index);
    wf_operand_free(&p->d);
    wf_scratch_release();
    wf_free(p);
}

static int64_t global_row_of_index(const struct wf_kernel_call *k, const void *index, int64_t i)
{
    bool wide = k->in[1]->dtype == WEFT_I64;

    return wide ? ((const int64_t *)index)[i] : ((const int32_t *)index)[i];
}

/** Where this rank's box holds the global row, -1 where another rank has it, or nobody. */
static int64_t local_row(const struct lookup *p, int64_t global_row)
{
    int64_t row = global_row - p->table->offset[p->rows];

    return row >= 0 && row < p->table->shape[p->rows] ? row : -1;
}

/** The local row that index i stands for; ends the job where the table has none. */
static int64_t local_row_of_index(const struct wf_kernel_call *k, const struct lookup *p,
                                  const void *index, int64_t i)
{
    int64_t row = global_row_of_index(k, index, i);

    if (row < 0 || row >= p->table->global[p->rows])
        WF_DIE("%s: index %lld at position %lld is outside the table of %lld rows", k->op,
               (long long)row, (long long)i, (long long)p->table->global[p->rows]);
    return local_row(p, row);
}

/** Which of the tables index i looks in. */
static int64_t table_of_index(const struct lookup *p, int64_t i)
{
    return p->items > 1 ? i / (p->index.rows / p->items) : 0;
}

/* How many rows before its turn a row of a large table is asked for. */
enum { AHEAD = 4 };

/** Asks for the row that index i stands for. It is not checked yet whether there is one. */
static void ask_for_row(const struct wf_kernel_call *k, const struct lookup *p, const void *index,
                        int64_t i, const char *table, int64_t row_step)
{
    int64_t row = local_row(p, global_row_of_index(k, index, i));

    if (row >= 0) wf_prefetch(table + row * row_step, p->table->shape[p->rows + 1] * p->bytes);
}

static void embedding_run(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                          const struct wf_scalars *scalars)
{
    const struct lookup *p = k->prep;
    const void *index = wf_operand_copy_if_needed(&p->index, in[1], wf_scratch_buffer());
    const char *table = in[0];
    int64_t cols = p->table->shape[p->rows + 1], column_step = p->table->stride[p->rows + 1],
            row_step = p->table->stride[p->rows] * p->bytes,
            item_step = p->table->stride[0] * p->bytes; /* not used where there is one item */
    char *to = out[0];
    bool streamed =
        column_step == 1 && wf_is_streamed(p->index.rows * cols * p->bytes, cols * p->bytes);
    bool far = column_step == 1 && p->items == 1 && p->table->numel * p->bytes > WF_FAR_TABLE;

    (void)scalars;
    for (int64_t i = 0; i < p->index.rows; i++, to += cols * p->bytes) {
        int64_t row = local_row_of_index(k, p, index, i);
        const char *from = table + table_of_index(p, i) * item_step + row * row_step;

        if (far && i + AHEAD < p->index.rows) ask_for_row(k, p, index, i + AHEAD, table, row_step);
        if (row < 0)
            memset(to, 0, (size_t)(cols * p->bytes));
        else if (streamed)
            wf_stream_copy(to, from, (size_t)(cols * p->bytes));
        else if (column_step == 1)
            wf_copy_row(to, from, (size_t)(cols * p->bytes));
        else
            wf_gather_strided(to, from, cols, column_step, p->bytes);
    }
    if (streamed) wf_stream_end();
}

static void embedding_grad_run(const struct wf_kernel_call *k, void *const *out,
                               const void *const *in, const struct wf_scalars *scalars)
{
    const struct lookup *p = k->prep;
    char *scratch = wf_scratch_buffer(),
         *sums = p->wide ? scratch + p->d.scratch + p->index.scratch : out[0];
    const char *d = wf_operand_copy_if_needed(&p->d, in[0], scratch);
    const void *index = wf_operand_copy_if_needed(&p->index, in[1], scratch + p->d.scratch);
    int64_t padding_row = k->attrs->embedding_grad.padding_row,
            padding = padding_row >= 0 ? padding_row - p->table->offset[p->rows] : -1;
    int64_t cols = p->table->shape[p->rows + 1], rows = p->table->shape[p->rows],
            sum_bytes = p->wide ? (int64_t)sizeof(float) : p->bytes;

    (void)scalars;
    if (p->table->numel == 0) return; /* this rank holds nothing of the table */
    memset(sums, 0, (size_t)(p->table->numel * sum_bytes));
    for (int64_t i = 0; i < p->index.rows; i++) {
        int64_t row = local_row_of_index(k, p, index, i);

        if (row >= 0 && row != padding)
            p->loops->add(cols, sums + (table_of_index(p, i) * rows + row) * cols * sum_bytes,
                          d + i * cols * p->bytes);
    }
    if (p->wide) p->loops->round(p->table->numel, out[0], sums);
}

static struct lookup *lookup_new(struct wf_kernel_call *k, const struct wf_tensor_desc *table)
{
    struct lookup *p = WF_NEW(struct lookup);

    p->table = table;
    p->rows = table->ndim - 2;
    p->items = p->rows ? table->shape[0] : 1;
    p->bytes = wf_dtypes[table->dtype].size;
    wf_operand_prepare_dense(&p->index, k->in[1]);
    k->prep = p;
    k->drop = lookup_free;
    return p;
}

weft_status wf_cpu_embedding(struct wf_kernel_call *k)
{
    struct lookup *p;

    WF_TRY(wf_check_embedding_index(k));
    p = lookup_new(k, k->in[0]);
    wf_scratch_reserve(p->index.scratch);
    k->run = k->out[0]->numel ? embedding_run : wf_kernel_run_noop;
    return WEFT_OK;
}

static const struct wf_embedding *loops_for_dtype(uint8_t dtype)
{
    if (dtype == WEFT_F32) return WF_ISA_PICK(wf_embedding_f32);
    if (dtype == WEFT_F64) return WF_ISA_PICK(wf_embedding_f64);
    if (dtype == WEFT_BF16) return WF_ISA_PICK(wf_embedding_bf16);
    return dtype == WEFT_F16 ? WF_ISA_PICK(wf_embedding_f16) : NULL;
}

weft_status wf_cpu_embedding_grad(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *table = k->out[0];
    const struct wf_embedding *loops = loops_for_dtype(table->dtype);
    struct lookup *p;

    if (!loops || k->in[0]->dtype != table->dtype) return wf_fail_no_kernel(k, k->in[0]->dtype);
    WF_TRY(wf_check_embedding_index(k));
    p = lookup_new(k, table);
    p->loops = loops;
    p->wide = wf_dtype_is_16_bit_float(table->dtype);
    p->sums = p->wide ? wf_scratch_round_up((size_t)table->numel * sizeof(float)) : 0;
    wf_operand_prepare_dense(&p->d, k->in[0]);
    wf_scratch_reserve(p->index.scratch + p->d.scratch + p->sums);
    k->run = table->numel ? embedding_grad_run : wf_kernel_run_noop;
    return WEFT_OK;
}
