/*
 * reduce.c: reductions over any dims of strided inputs.
 *
 *   x, numbers or none  ->  y: x's shape without the dims of reduce.dims, or with them at size 1
 *
 * Numbers, one per element of y, are what some ops need beside x: a mean, a maximum.
 *
 * The dim along which the input has stride 1 is the inner loop, whether it is reduced (lines) or
 * kept (columns); all others are walked. Without such a dim, lines are gathered first.
 */
#include "kernels/cpu/reductions/reduce.h"

#include <math.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/scratch.h"
#include "kernels/operands/loop_nest.h"

enum { BLOCK = 256, X = 0, Y = 1 };

struct reduce {
    struct wf_reduce_loops loops;
    wf_reduce_finish *finish;
    struct wf_loop_nest kept, reduced; /* walked; operands X and Y, Y stands still in `reduced` */
    struct wf_loop_dim line;           /* lines: the inner reduced dim */
    /* columns: a reduced dim, and the inner kept dim; rows of a matrix: the kept dim */
    struct wf_loop_dim rows, columns;
    int64_t bytes, out_bytes; /* of an element */
    bool empty;               /* something reduced has size 0 */
    bool scaled;              /* by the call's number; else by `scale` */
    double scale;
    /* what MAP needs: an input, or the same number for all outputs, or nothing */
    bool has_numbers, has_number;
    struct wf_operand numbers;
    bool numbers_are_f64;
    double number;
};

/* The numbers of n outputs, `apart` from each other, the first of which is `at`. */
static const double *load_numbers(const struct reduce *p, const void *numbers, int64_t at,
                                  int64_t n, int64_t apart, double *room)
{
    if (!p->has_numbers && !p->has_number) return NULL;
    for (int64_t j = 0; j < n; j++, at += apart)
        room[j] = p->has_number        ? p->number
                  : p->numbers_are_f64 ? ((const double *)numbers)[at]
                                       : (double)((const float *)numbers)[at];
    return room;
}

static const void *dense_numbers(const struct reduce *p, const void *const *in)
{
    return p->has_numbers ? wf_operand_copy_if_needed(&p->numbers, in[1], wf_scratch_buffer())
                          : NULL;
}

static double scale_of_call(const struct reduce *p, const struct wf_scalars *scalars)
{
    return p->scaled ? scalars->s[0] : p->scale;
}

static void reduce_line(const struct reduce *p, const char *x, const double *number, void *acc)
{
    uint64_t buffer[BLOCK];
    int64_t stride = p->line.step[X] / p->bytes;

    if (stride == 1 || p->line.size == 1) {
        p->loops.line(p->line.size, x, number, acc);
        return;
    }
    for (int64_t i = 0; i < p->line.size; i += BLOCK) {
        int64_t n = p->line.size - i < BLOCK ? p->line.size - i : BLOCK;

        wf_gather_strided(buffer, x + i * p->line.step[X], n, stride, p->bytes);
        p->loops.line(n, buffer, number, acc);
    }
}

static void run_lines(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                      const struct wf_scalars *scalars)
{
    const struct reduce *p = k->prep;
    const void *numbers = dense_numbers(p, in);
    struct wf_loop_walk kept = {.at = {in[0], out[0]}};
    double scale = scale_of_call(p, scalars);

    do {
        int64_t y = (kept.at[Y] - (char *)out[0]) / p->bytes; /* a number of elements */
        struct wf_loop_walk reduced = {.at = {kept.at[X]}};
        double room;
        const double *number = load_numbers(p, numbers, y, 1, 1, &room);
        uint64_t acc;

        p->loops.start(1, &acc);
        do {
            if (!p->empty) reduce_line(p, reduced.at[X], number, &acc);
        } while (!p->empty && wf_loop_walk_next(&p->reduced, &reduced));
        p->finish(1, &acc, (char *)out[0] + y * p->out_bytes, 1, scale);
    } while (wf_loop_walk_next(&p->kept, &kept));
}

/* One dim is kept and one, dense, is reduced: a row of a matrix for each output. */
static void run_matrix_rows(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                            const struct wf_scalars *scalars)
{
    const struct reduce *p = k->prep;
    const char *x = in[0];
    char *y = out[0];
    const double *number = p->has_number ? &p->number : NULL;
    double scale = scale_of_call(p, scalars);
    uint64_t acc[WF_REDUCE_COLUMNS];

    for (int64_t r = 0; r < p->rows.size; r += WF_REDUCE_COLUMNS) {
        int64_t left = p->rows.size - r, n = left < WF_REDUCE_COLUMNS ? left : WF_REDUCE_COLUMNS;

        p->loops.start(n, acc);
        p->loops.lines(n, p->rows.step[X] / p->bytes, p->line.size, x, number, acc);
        p->finish(n, acc, y, 1, scale);
        x += n * p->rows.step[X];
        y += n * p->out_bytes;
    }
}

/* One piece of at most WF_REDUCE_COLUMNS outputs. */
static void reduce_columns(const struct reduce *p, int64_t n, const char *x, const double *numbers,
                           char *y, double scale)
{
    struct wf_loop_walk reduced = {.at = {x}};
    uint64_t acc[WF_REDUCE_COLUMNS];

    p->loops.start(n, acc);
    do {
        if (!p->empty)
            p->loops.columns(p->rows.size, p->rows.step[X] / p->bytes, n, reduced.at[X], numbers,
                             acc);
    } while (!p->empty && wf_loop_walk_next(&p->reduced, &reduced));
    p->finish(n, acc, y, p->columns.step[Y] / p->bytes, scale);
}

static void run_columns(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                        const struct wf_scalars *scalars)
{
    const struct reduce *p = k->prep;
    const void *numbers = dense_numbers(p, in);
    struct wf_loop_walk kept = {.at = {in[0], out[0]}};
    int64_t apart = p->columns.step[Y] / p->bytes;
    double scale = scale_of_call(p, scalars), room[WF_REDUCE_COLUMNS];

    do {
        int64_t y = (kept.at[Y] - (char *)out[0]) / p->bytes;

        for (int64_t j = 0; j < p->columns.size; j += WF_REDUCE_COLUMNS) {
            int64_t n =
                p->columns.size - j < WF_REDUCE_COLUMNS ? p->columns.size - j : WF_REDUCE_COLUMNS;

            reduce_columns(p, n, kept.at[X] + j * p->columns.step[X],
                           load_numbers(p, numbers, y + j * apart, n, apart, room),
                           (char *)out[0] + (y + j * apart) * p->out_bytes, scale);
        }
    } while (wf_loop_walk_next(&p->kept, &kept));
}

static int unit_stride_dim(const struct wf_loop_nest *nest, int64_t bytes)
{
    for (int d = nest->n_dims - 1; d >= 0; d--)
        if (nest->dim[d].step[X] == bytes) return d;
    return -1;
}

static void free_reduce(void *prep)
{
    struct reduce *p = prep;

    if (p->has_numbers) {
        wf_operand_free(&p->numbers);
        wf_scratch_release();
    }
    wf_free(p);
}

/* The result has x's dtype, or the one that it is computed in. Counts are always i64. */
static weft_status choose_finish(struct reduce *p, const struct wf_kernel_call *k)
{
    bool counts = p->loops.finish == p->loops.finish_wide;
    uint8_t x = counts ? WEFT_I64 : k->in[0]->dtype, y = k->out[0]->dtype;
    uint8_t wide = !wf_dtype_is_float(x) ? WEFT_I64 : wf_dtype_is_16_bit_float(x) ? WEFT_F32 : x;

    WF_NEED(y == x || y == wide, WEFT_ERR_DTYPE, "%s: gives %s, not %s", k->op, wf_dtypes[x].name,
            wf_dtypes[y].name);
    p->finish = y == wide ? p->loops.finish_wide : p->loops.finish;
    p->bytes = wf_dtypes[k->in[0]->dtype].size;
    p->out_bytes = wf_dtypes[y].size;
    return WEFT_OK;
}

/* A second input: one number of the computing type per output. */
static weft_status prepare_numbers(struct reduce *p, const struct wf_kernel_call *k)
{
    if (k->n_in < 2) return WEFT_OK;
    p->numbers_are_f64 = k->in[1]->dtype == WEFT_F64;
    WF_NEED(p->numbers_are_f64 == (k->in[0]->dtype == WEFT_F64) &&
                (p->numbers_are_f64 || k->in[1]->dtype == WEFT_F32),
            WEFT_ERR_DTYPE, "%s: numbers of %s beside %s", k->op, wf_dtypes[k->in[1]->dtype].name,
            wf_dtypes[k->in[0]->dtype].name);
    wf_operand_prepare_dense(&p->numbers, k->in[1]);
    wf_scratch_reserve(p->numbers.scratch);
    p->has_numbers = true;
    return WEFT_OK;
}

static weft_status choose_loops(struct reduce *p, struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *x = k->in[0];
    int dense;

    wf_loop_nest_of_dims(&p->kept, x, k->attrs->reduce.dims, false);
    wf_loop_nest_of_dims(&p->reduced, x, k->attrs->reduce.dims, true);
    p->empty = p->reduced.count == 0;
    if (k->out[0]->numel == 0) {
        k->run = wf_kernel_run_noop;
        return WEFT_OK;
    }
    dense = unit_stride_dim(&p->kept, p->bytes);
    if (dense >= 0) {
        p->columns = wf_loop_nest_remove_dim(&p->kept, dense);
        p->rows = wf_loop_nest_remove_dim(&p->reduced, p->reduced.n_dims - 1);
        k->run = run_columns;
        return WEFT_OK;
    }
    dense = unit_stride_dim(&p->reduced, p->bytes);
    p->line = wf_loop_nest_remove_dim(&p->reduced, dense >= 0 ? dense : p->reduced.n_dims - 1);
    k->run = run_lines;
    if (dense < 0 || p->empty || p->kept.n_dims != 1 || p->reduced.n_dims != 0) return WEFT_OK;
    if (p->has_numbers) return WEFT_OK;
    p->rows = wf_loop_nest_remove_dim(&p->kept, 0);
    k->run = run_matrix_rows;
    return WEFT_OK;
}

/* gives: NULL with the error set */
static struct reduce *prepare_reduce(struct wf_kernel_call *k, const wf_reduce_loops_of loops)
{
    struct reduce *p;

    if (!loops[k->in[0]->dtype].line) {
        (void)wf_fail_no_kernel(k, k->in[0]->dtype);
        return NULL;
    }
    k->prep = p = WF_NEW(struct reduce);
    k->drop = free_reduce;
    p->loops = loops[k->in[0]->dtype];
    p->scale = 1;
    if (choose_finish(p, k) != WEFT_OK || prepare_numbers(p, k) != WEFT_OK ||
        choose_loops(p, k) != WEFT_OK)
        return NULL;
    return p;
}

static weft_status prepare_plain(struct wf_kernel_call *k, const wf_reduce_loops_of loops)
{
    return prepare_reduce(k, loops) ? WEFT_OK : weft_error_status();
}

static weft_status prepare_scaled(struct wf_kernel_call *k, const wf_reduce_loops_of loops)
{
    struct reduce *p = prepare_reduce(k, loops);

    if (!p) return weft_error_status();
    p->scaled = true;
    return WEFT_OK;
}

/* Sums and products of bool are i64. */
static bool is_bool_from_bool(const struct wf_kernel_call *k)
{
    return k->in[0]->dtype == WEFT_BOOL && k->out[0]->dtype == WEFT_BOOL;
}

weft_status wf_cpu_sum(struct wf_kernel_call *k)
{
    if (is_bool_from_bool(k)) return wf_fail_no_kernel(k, WEFT_BOOL);
    return prepare_scaled(k, WF_ISA_PICK(wf_reductions)->sum);
}

weft_status wf_cpu_max(struct wf_kernel_call *k)
{
    return prepare_plain(k, WF_ISA_PICK(wf_reductions)->max);
}

weft_status wf_cpu_min(struct wf_kernel_call *k)
{
    return prepare_plain(k, WF_ISA_PICK(wf_reductions)->min);
}

weft_status wf_cpu_prod(struct wf_kernel_call *k)
{
    if (is_bool_from_bool(k)) return wf_fail_no_kernel(k, WEFT_BOOL);
    return prepare_plain(k, WF_ISA_PICK(wf_reductions)->prod);
}

weft_status wf_cpu_count_nonzero(struct wf_kernel_call *k)
{
    return prepare_plain(k, WF_ISA_PICK(wf_reductions)->count);
}

weft_status wf_cpu_deviation(struct wf_kernel_call *k)
{
    return prepare_plain(k, WF_ISA_PICK(wf_reductions)->deviation);
}

weft_status wf_cpu_sum_exp(struct wf_kernel_call *k)
{
    return prepare_plain(k, WF_ISA_PICK(wf_reductions)->sum_exp);
}

weft_status wf_cpu_norm(struct wf_kernel_call *k)
{
    const struct wf_reductions *all = WF_ISA_PICK(wf_reductions);
    double power = k->attrs->norm.p;
    struct reduce *p;

    if (isinf(power)) return prepare_plain(k, power > 0 ? all->norm_most : all->norm_least);
    if (power == 0 || power == 1 || power == 2)
        return prepare_plain(k, power == 0 ? all->norm_0 : power == 1 ? all->norm_1 : all->norm_2);
    p = prepare_reduce(k, all->norm_p);
    if (!p) return weft_error_status();
    p->has_number = true;
    p->number = power;
    p->scale = 1 / power;
    return WEFT_OK;
}
