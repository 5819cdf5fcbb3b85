/*
 * index_put.c: elements put into a table by index tensors, or joined with those that are there, in
 * the order of the elements.
 *
 *   index_put, index_add           the opposite of index
 *   scatter, scatter_add, scatter_reduce   of gather
 *
 * The result begins as a copy of the table, or zeros without one. 16-bit floats are joined in f32.
 */
#include <string.h>

#include "base/elements/dtype.h"
#include "base/elements/strided_copy.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/moves/embedding.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/pointwise/pointwise.h"
#include "kernels/cpu/scratch.h"
#include "kernels/operands/index_operands.h"
#include "kernels/operands/operand_checks.h"
#include <weft/types.h>

typedef void join_row(int64_t n, void *to, const void *row);

/* to[i] = to[i] joined with row[i]; `a` is what is there, `b` what comes. */
#define JOIN(name, type, result)                                                                   \
    static void name(int64_t n, void *tov, const void *rowv)                                       \
    {                                                                                              \
        const type *row = rowv;                                                                    \
        type *to = tov;                                                                            \
                                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type a = to[i], b = row[i];                                                            \
                                                                                                   \
            to[i] = (type)(result);                                                                \
        }                                                                                          \
    }
#define JOINS_OF_FLOATS(suffix, type)                                                              \
    JOIN(add_##suffix, type, a + b)                                                                \
    JOIN(multiply_##suffix, type, a *b)                                                            \
    JOIN(larger_##suffix, type, a > b || a != a ? a : b)                                           \
    JOIN(smaller_##suffix, type, a < b || a != a ? a : b)
/* Integers wrap: they are joined as unsigned ones. */
#define JOINS_OF_INTEGERS(suffix, type, wrapping)                                                  \
    JOIN(add_##suffix, type, (wrapping)a + (wrapping)b)                                            \
    JOIN(multiply_##suffix, type, (wrapping)a *(wrapping)b)                                        \
    JOIN(larger_##suffix, type, a > b ? a : b)                                                     \
    JOIN(smaller_##suffix, type, a < b ? a : b)

JOINS_OF_FLOATS(f32, float)
JOINS_OF_FLOATS(f64, double)
JOINS_OF_INTEGERS(i64, int64_t, uint64_t)
JOINS_OF_INTEGERS(i32, int32_t, uint32_t)
JOINS_OF_INTEGERS(i16, int16_t, uint32_t)
JOINS_OF_INTEGERS(i8, int8_t, uint32_t)
JOINS_OF_INTEGERS(u8, uint8_t, uint32_t)

enum join { JOIN_ADD, JOIN_MULTIPLY, JOIN_LARGER, JOIN_SMALLER, JOIN_COUNT };

static join_row *const joins[WEFT_DTYPE_COUNT][JOIN_COUNT] = {
    [WEFT_F32] = {add_f32, multiply_f32, larger_f32, smaller_f32},
    [WEFT_F64] = {add_f64, multiply_f64, larger_f64, smaller_f64},
    [WEFT_I64] = {add_i64, multiply_i64, larger_i64, smaller_i64},
    [WEFT_I32] = {add_i32, multiply_i32, larger_i32, smaller_i32},
    [WEFT_I16] = {add_i16, multiply_i16, larger_i16, smaller_i16},
    [WEFT_I8] = {add_i8, multiply_i8, larger_i8, smaller_i8},
    [WEFT_U8] = {add_u8, multiply_u8, larger_u8, smaller_u8},
    [WEFT_BOOL] = {larger_u8, smaller_u8, larger_u8, smaller_u8},
};

struct put {
    struct wf_index_walk walk;
    struct wf_strided_copy begin; /* the table into the result; nothing without a table */
    bool from_zero, reserved;     /* scratch */
    struct wf_operand rows;
    int row_operand, table_operand, index_operand[WF_MAX_INDICES];
    join_row *join;                     /* NULL: put */
    join_row *add_row;                  /* for rows of floats that are added; NULL: join */
    wf_elementwise_loop *widen, *round; /* of 16-bit floats that are joined, NULL: none */
    struct wf_tensor_desc wide_result;  /* the same in f32 */
    bool narrow_rows;                   /* they are added without having been made wide */
    int64_t n, n_rows, bytes;           /* elements of the result and of the rows */
};

static void put_free(void *prep)
{
    struct put *p = prep;

    wf_index_walk_free(&p->walk);
    wf_operand_free(&p->rows);
    if (p->reserved) wf_scratch_release();
    wf_free(p);
}

static void put_rows(const struct wf_index_walk *walk, const void *with, char *table, int64_t n,
                     const int64_t *place, char *rows)
{
    (void)with;
    for (int64_t i = 0; i < n; i++, rows += walk->row_bytes)
        if (place[i] >= 0) memcpy(table + place[i], rows, (size_t)walk->row_bytes);
}

/* Sums of long rows in the machine's vectors. */
static void add_rows(const struct wf_index_walk *walk, const void *with, char *table, int64_t n,
                     const int64_t *place, char *rows)
{
    const struct put *p = with;

    for (int64_t i = 0; i < n; i++, rows += walk->row_bytes)
        if (place[i] >= 0) p->add_row(walk->row_elements, table + place[i], rows);
}

static void join_rows(const struct wf_index_walk *walk, const void *with, char *table, int64_t n,
                      const int64_t *place, char *rows)
{
    const struct put *p = with;

    for (int64_t i = 0; i < n; i++, rows += walk->row_bytes)
        if (place[i] >= 0) p->join(walk->row_elements, table + place[i], rows);
}

/* Rows of one element, which are most of what gather's gradient and scatter do. */
#define EACH_ELEMENT(name, row_type, type, statement)                                              \
    static void name(const struct wf_index_walk *walk, const void *with, char *table, int64_t n,   \
                     const int64_t *place, char *rows)                                             \
    {                                                                                              \
        const row_type *row = (const row_type *)(const void *)rows;                                \
                                                                                                   \
        (void)walk, (void)with;                                                                    \
        for (int64_t i = 0; i < n; i++, row++) {                                                   \
            type *to = (type *)(void *)(table + place[i]);                                         \
                                                                                                   \
            if (place[i] >= 0) statement;                                                          \
        }                                                                                          \
    }                                                                                              \
    static void name##_plain(const struct wf_kernel_call *k, const struct wf_index_walk *walk,     \
                             const void *with, char *table, int64_t n, const int64_t *at,          \
                             char *rows)                                                           \
    {                                                                                              \
        (void)with;                                                                                \
        WF_EACH_INDEXED_ELEMENT(row_type, type, statement)                                         \
    }
EACH_ELEMENT(put_2_bytes, uint16_t, uint16_t, *to = *row)
EACH_ELEMENT(put_4_bytes, uint32_t, uint32_t, *to = *row)
EACH_ELEMENT(put_8_bytes, uint64_t, uint64_t, *to = *row)
EACH_ELEMENT(add_each_f32, float, float, *to += *row)
EACH_ELEMENT(add_each_f64, double, double, *to += *row)
EACH_ELEMENT(add_each_bf16, wf_bf16, float, *to += wf_bf16_to_f32(*row))

static struct wf_index_visits visits_of_rows(const struct put *p)
{
    int64_t bytes = p->walk.row_elements == 1 ? p->walk.row_bytes : 0;

    if (bytes == 2 && p->join == add_f32)
        return (struct wf_index_visits){add_each_bf16, add_each_bf16_plain};
    if (bytes && p->join == add_f32)
        return (struct wf_index_visits){add_each_f32, add_each_f32_plain};
    if (bytes && p->join == add_f64)
        return (struct wf_index_visits){add_each_f64, add_each_f64_plain};
    if (p->add_row || p->join)
        return (struct wf_index_visits){p->add_row ? add_rows : join_rows, NULL};
    if (bytes == 2) return (struct wf_index_visits){put_2_bytes, put_2_bytes_plain};
    if (bytes == 4) return (struct wf_index_visits){put_4_bytes, put_4_bytes_plain};
    if (bytes == 8) return (struct wf_index_visits){put_8_bytes, put_8_bytes_plain};
    return (struct wf_index_visits){put_rows, NULL};
}

static void begin_result(const struct put *p, void *result, const void *const *in)
{
    if (p->widen && p->from_zero) return;      /* zeros are made wide */
    if (p->from_zero || !in[p->table_operand]) /* a table that another rank counts */
        memset(result, 0, (size_t)(p->n * p->bytes));
    else
        wf_strided_copy_run(&p->begin, result, in[p->table_operand]);
}

static void run_put(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                    const struct wf_scalars *scalars)
{
    const struct put *p = k->prep;
    char *scratch = wf_scratch_buffer(), *result = out[0], *rows;
    const char *index[WF_MAX_INDICES];

    begin_result(p, out[0], in);
    rows = (char *)wf_operand_copy_if_needed(&p->rows, in[p->row_operand], scratch);
    if (p->widen) {
        const void *from = out[0];

        result = scratch + wf_scratch_round_up(p->rows.scratch);
        if (p->from_zero)
            memset(result, 0, (size_t)p->n * sizeof(float));
        else
            p->widen(p->n, result, &from, scalars);
        from = rows;
        if (!p->narrow_rows) {
            rows = result + wf_scratch_round_up((size_t)p->n * sizeof(float));
            p->widen(p->n_rows, rows, &from, scalars);
        }
    }
    for (int i = 0; i < p->walk.n_indices; i++) index[i] = in[p->index_operand[i]];
    wf_index_walk_run(k, &p->walk, result, rows, index, visits_of_rows(p), p);
    if (p->round) {
        const void *from = result;

        p->round(p->n, out[0], &from, scalars);
    }
}

/* How elements meet: in f32 where 16-bit floats are joined. */
static weft_status choose_join(struct put *p, const struct wf_kernel_call *k, int mode)
{
    uint8_t dtype = k->out[0]->dtype;

    if (mode < 0) return WEFT_OK;
    if (wf_dtype_is_16_bit_float(dtype)) {
        p->widen = WF_ISA_PICK(wf_cast_where_fill_loops)->cast[dtype][WEFT_F32];
        p->round = WF_ISA_PICK(wf_cast_where_fill_loops)->cast[WEFT_F32][dtype];
        p->wide_result.dtype = WEFT_F32;
    }
    p->join = joins[p->wide_result.dtype][mode];
    if (!p->join) return wf_fail_no_kernel(k, dtype);
    if (p->join == add_f32)
        p->add_row = (dtype == WEFT_BF16  ? WF_ISA_PICK(wf_embedding_bf16)
                      : dtype == WEFT_F16 ? WF_ISA_PICK(wf_embedding_f16)
                                          : WF_ISA_PICK(wf_embedding_f32))
                         ->add;
    if (p->join == add_f64) p->add_row = WF_ISA_PICK(wf_embedding_f64)->add;
    return WEFT_OK;
}

/* Rows of 16-bit floats are added as they are; others are made wide first, and f16 element by
 * element, which takes long without vectors. */
static void choose_rows(struct put *p, uint8_t dtype)
{
    p->narrow_rows = p->widen && p->add_row && (p->walk.row_elements > 1 || dtype == WEFT_BF16);
    if (!p->widen || p->narrow_rows) return;
    p->walk.row_bytes = p->walk.row_elements * (int64_t)sizeof(float);
    if (p->add_row) p->add_row = WF_ISA_PICK(wf_embedding_f32)->add;
}

static void reserve_scratch(struct put *p)
{
    size_t scratch = wf_scratch_round_up(p->rows.scratch);

    if (p->widen) scratch += wf_scratch_round_up((size_t)p->n * sizeof(float));
    if (p->widen && !p->narrow_rows) scratch += (size_t)p->n_rows * sizeof(float);
    wf_scratch_reserve(scratch);
    p->reserved = true;
}

/* The operands are known but for the walk, which is over f32 where 16-bit floats are joined. */
static weft_status prepare_put(struct wf_kernel_call *k, struct wf_index_operands *o, int mode)
{
    const struct wf_tensor_desc *y = k->out[0], *rows = k->in[0], *table = k->in[2];
    struct put *p = WF_NEW(struct put);

    k->prep = p;
    k->drop = put_free;
    p->bytes = wf_dtypes[y->dtype].size;
    p->n = y->numel;
    p->n_rows = rows->numel;
    p->table_operand = 2;
    p->from_zero = !table;
    p->wide_result = *y;
    wf_operand_prepare_dense(&p->rows, rows);
    if (rows->dtype != y->dtype || (table && table->dtype != y->dtype))
        return wf_fail_no_kernel(k, rows->dtype);
    if (table) {
        struct wf_operand_strides to = wf_strides_row_major(p->bytes, y->shape, y->ndim);

        wf_strided_copy_init(&p->begin, y->shape, table->stride, to.stride, y->ndim,
                             (size_t)p->bytes);
    }
    WF_TRY(choose_join(p, k, mode));
    o->table = &p->wide_result;
    o->rows = rows;
    WF_TRY(wf_index_walk_make(k, &p->walk, o));
    choose_rows(p, y->dtype);
    reserve_scratch(p);
    k->run = y->numel ? run_put : wf_kernel_run_noop;
    for (int i = 0; i < o->n_indices; i++) p->index_operand[i] = i == 0 ? 1 : i + 2;
    return WEFT_OK;
}

/* rows, index 0, table or NULL, the other index tensors */
static weft_status prepare_index_put(struct wf_kernel_call *k, int mode)
{
    const struct wf_index_put_attrs *attrs = &k->attrs->index_put;
    struct wf_index_operands o =
        wf_index_operands_of_dims(k->out[0], k->out[0]->stride, k->in[0], attrs->at, attrs->dim);

    o.wrap = attrs->wrap;
    o.index[o.n_indices++] = k->in[1];
    for (int i = 3; i < k->n_in; i++) o.index[o.n_indices++] = k->in[i];
    wf_index_operands_align(&o, (int)attrs->at);
    return prepare_put(k, &o, mode);
}

weft_status wf_cpu_index_put(struct wf_kernel_call *k) { return prepare_index_put(k, -1); }
weft_status wf_cpu_index_add(struct wf_kernel_call *k) { return prepare_index_put(k, JOIN_ADD); }

/* rows, index, table or NULL; index and rows may be smaller than the table in any dim */
static weft_status prepare_scatter(struct wf_kernel_call *k, int mode)
{
    int dim = (int)k->attrs->scatter.dim;
    struct wf_index_operands o = {.n_indices = 1, .index = {k->in[1]}, .counted_dim = {dim}};

    for (int d = 0; d < k->out[0]->ndim; d++)
        o.table_stride[d] = d == dim ? 0 : k->out[0]->stride[d];
    return prepare_put(k, &o, mode);
}

weft_status wf_cpu_scatter(struct wf_kernel_call *k) { return prepare_scatter(k, -1); }
weft_status wf_cpu_scatter_add(struct wf_kernel_call *k) { return prepare_scatter(k, JOIN_ADD); }

weft_status wf_cpu_scatter_reduce(struct wf_kernel_call *k)
{
    weft_reduce reduce = (weft_reduce)k->attrs->scatter.reduce;

    return prepare_scatter(k, reduce == WEFT_PRODUCT ? JOIN_MULTIPLY
                              : reduce == WEFT_MAX   ? JOIN_LARGER
                                                     : JOIN_SMALLER);
}
