/*
 * rotary.c: rotary positions (Su et al. 2021): pairs of a head's elements turned by position times
 * frequency. Frequencies are computed once per plan; angles, in f64, whenever the positions differ
 * from those of the last call.
 */
#include <math.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/pointwise/rotary_swiglu.h"
#include "kernels/cpu/scratch.h"
#include "kernels/operands/rotary_frequency.h"

struct rotary {
    const struct wf_transformer *loops;
    struct wf_operand x, index;
    int64_t batches, tokens, heads, d; /* heads: rows of d elements per token */
    int64_t last, turned;              /* of each `last` rows the first `turned` turn */
    int64_t half, bytes, offset;       /* offset: of this shard's first token */
    bool interleaved, indexed;
    double sign, *frequency;
    char *table;   /* cosines and sines, [tokens or 1][2][half] */
    int64_t begin; /* the position of its first row */
    bool filled;
    weft_dtype table_dtype;
};

static void free_rotary(void *prep)
{
    struct rotary *p = prep;

    wf_operand_free(&p->x);
    wf_operand_free(&p->index);
    wf_scratch_release();
    wf_free(p->frequency);
    wf_free(p->table);
    wf_free(p);
}

/* ---- angles ---- */

static char *table_row(const struct rotary *p, int64_t row)
{
    return p->table + 2 * row * p->half * (int64_t)wf_dtypes[p->table_dtype].size;
}

static void fill_table_row(const struct rotary *p, int64_t row, int64_t position)
{
    const struct wf_dtype_info *type = &wf_dtypes[p->table_dtype];
    char *to = table_row(p, row);

    for (int64_t j = 0; j < p->half; j++) {
        double angle = (double)position * p->frequency[j];

        type->store(to + (size_t)j * type->size, cos(angle));
        type->store(to + (size_t)(p->half + j) * type->size, p->sign * sin(angle));
    }
}

static void fill_table(struct rotary *p, int64_t begin)
{
    if (p->filled && p->begin == begin) return;
    for (int64_t t = 0; t < p->tokens; t++) fill_table_row(p, t, begin + t);
    p->begin = begin;
    p->filled = true;
}

/* ---- running ---- */

/* All heads of one token, with the angles of a table row. */
static void rotate_token(const struct rotary *p, int64_t row, const char *x, char *y)
{
    const char *cosine = table_row(p, row);
    const int64_t step = p->d * p->bytes;
    struct wf_rotary_pairs t = {.d = p->d, .cosine = cosine};

    t.sine = cosine + p->half * (int64_t)wf_dtypes[p->table_dtype].size;
    for (int64_t h = 0; h < p->heads; h++) {
        t.half = h % p->last < p->turned ? p->half : 0;
        t.x = x + h * step;
        t.y = y + h * step;
        (p->interleaved ? p->loops->turn_interleaved : p->loops->turn)(&t);
    }
}

static int64_t position_at(const struct wf_kernel_call *k, const void *index, int64_t i)
{
    return k->in[1]->dtype == WEFT_I64 ? ((const int64_t *)index)[i] : ((const int32_t *)index)[i];
}

static void run_rotary(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                       const struct wf_scalars *scalars)
{
    struct rotary *p = k->prep;
    char *scratch = wf_scratch_buffer(), *y = out[0];
    const char *x = wf_operand_copy_if_needed(&p->x, in[0], scratch);
    const void *index =
        p->indexed ? wf_operand_copy_if_needed(&p->index, in[1], scratch + p->x.scratch) : NULL;
    const int64_t token = p->heads * p->d * p->bytes;

    if (!p->indexed) fill_table(p, p->offset + scalars->v[0]);
    for (int64_t i = 0; i < p->batches * p->tokens; i++, x += token, y += token) {
        if (p->indexed) fill_table_row(p, 0, position_at(k, index, i) + scalars->v[0]);
        rotate_token(p, p->indexed ? 0 : i % p->tokens, x, y);
    }
}

/* ---- preparing ---- */

static void make_tables(struct rotary *p, const struct wf_kernel_call *k)
{
    int64_t rows = p->indexed ? 1 : p->tokens;

    p->frequency = wf_calloc((size_t)p->half + 1, sizeof *p->frequency);
    wf_rotary_frequencies(p->frequency, &k->attrs->rotary);
    p->table = wf_calloc((size_t)(2 * rows * p->half) + 1, wf_dtypes[p->table_dtype].size);
}

static void set_sizes(struct rotary *p, const struct wf_kernel_call *k)
{
    const struct wf_rotary_attrs *attrs = &k->attrs->rotary;
    const struct wf_tensor_desc *x = k->in[0];

    p->batches = x->shape[0];
    p->tokens = x->shape[1];
    p->offset = x->offset[1];
    p->d = x->shape[x->ndim - 1];
    p->heads = 1;
    for (int d = 2; d < x->ndim - 1; d++) p->heads *= x->shape[d];
    p->last = x->ndim > 3 ? x->shape[x->ndim - 2] : 1;
    p->turned = attrs->heads < p->last ? attrs->heads : p->last;
    p->half = attrs->dims / 2;
    p->bytes = (int64_t)wf_dtypes[x->dtype].size;
    p->interleaved = attrs->interleaved;
    p->indexed = k->n_in > 1 && k->in[1];
    p->sign = attrs->backward ? -1 : 1;
    p->table_dtype = x->dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;
}

/* in: x [B,T,...,D], positions [B,T] or NULL */
weft_status wf_cpu_rotary(struct wf_kernel_call *k)
{
    struct rotary *p;

    if (!wf_transformer_loops_for(k->in[0]->dtype)) return wf_fail_no_kernel(k, k->in[0]->dtype);
    p = WF_NEW(struct rotary);
    p->loops = wf_transformer_loops_for(k->in[0]->dtype);
    set_sizes(p, k);
    make_tables(p, k);
    wf_operand_prepare_dense(&p->x, k->in[0]);
    if (p->indexed) wf_operand_prepare_dense(&p->index, k->in[1]);
    wf_scratch_reserve(p->x.scratch + p->index.scratch);
    k->prep = p;
    k->drop = free_rotary;
    k->run = run_rotary;
    return WEFT_OK;
}
