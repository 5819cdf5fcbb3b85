/*
 * decompositions.c: eigh and svd of [*,m,n], one matrix after the other.
 *
 * f32 is computed in f64. A matrix that is not finite has NaN everywhere in its results.
 */
#include "kernels/cpu/products/decompositions.h"

#include <math.h>

#include "base/elements/dtype.h"
#include "base/int_math.h"
#include "base/mem.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/scratch.h"

struct decomposition {
    const struct wf_decomposition_loops *loops;
    struct wf_operand x;
    int64_t batch, m, n, least; /* the smaller of m and n */
    size_t bytes;
    bool f32;
};

static void free_decomposition(void *prep)
{
    wf_operand_free(&((struct decomposition *)prep)->x);
    wf_scratch_release();
    wf_free(prep);
}

static double element(const struct decomposition *p, const void *x, int64_t i)
{
    return p->f32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

/* rows x cols of a result, from `from` at these steps; `good` false: NaN */
static void write_matrix(const struct decomposition *p, bool good, void *to, int64_t rows,
                         int64_t cols, const double *from, int64_t row_step, int64_t col_step)
{
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            double value = good ? from[i * row_step + j * col_step] : (double)NAN;

            if (p->f32)
                ((float *)to)[i * cols + j] = (float)value;
            else
                ((double *)to)[i * cols + j] = value;
        }
    }
}

/* Result `j` of matrix b. */
static void *result(const struct decomposition *p, void *const *out, int j, int64_t b, int64_t size)
{
    return (char *)out[j] + (size_t)(b * size) * p->bytes;
}

static void eigh_run(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                     const struct wf_scalars *scalars)
{
    const struct decomposition *p = k->prep;
    char *scratch = wf_scratch_buffer();
    const char *x = wf_operand_copy_if_needed(&p->x, in[0], scratch);
    int64_t n = p->n;
    double *a = (double *)(void *)(scratch + p->x.scratch), *values = a + n * n,
           *vectors = values + n;

    (void)scalars;
    for (int64_t b = 0; b < p->batch; b++, x += (size_t)(n * n) * p->bytes) {
        bool good;

        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                a[i * n + j] = element(p, x, i * n + j) / 2 + element(p, x, j * n + i) / 2;
        good = p->loops->eigh(n, a, values, vectors, vectors + n * n);
        write_matrix(p, good, result(p, out, 0, b, n), 1, n, values, 0, 1);
        write_matrix(p, good, result(p, out, 1, b, n * n), n, n, vectors, 1, n);
    }
}

/* A tall matrix is turned: the loops want rows that are no longer than columns. */
static void svd_run(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                    const struct wf_scalars *scalars)
{
    const struct decomposition *p = k->prep;
    char *scratch = wf_scratch_buffer();
    const char *x = wf_operand_copy_if_needed(&p->x, in[0], scratch);
    int64_t m = p->m, n = p->n, least = p->least, most = m + n - least;
    bool tall = m > n;
    double *a = (double *)(void *)(scratch + p->x.scratch), *values = a + m * n,
           *left = values + least, *right = left + least * least, *u = tall ? right : left,
           *v = tall ? left : right;

    (void)scalars;
    for (int64_t b = 0; b < p->batch; b++, x += (size_t)(m * n) * p->bytes) {
        bool good;

        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                a[tall ? j * m + i : i * n + j] = element(p, x, i * n + j);
        good = p->loops->svd(least, most, a, left, values, right, tall, right + least * most);
        write_matrix(p, good, result(p, out, 0, b, m * least), m, least, u, 1, m);
        write_matrix(p, good, result(p, out, 1, b, least), 1, least, values, 0, 1);
        write_matrix(p, good, result(p, out, 2, b, least * n), least, n, v, n, 1);
    }
}

static weft_status prepare(struct wf_kernel_call *k,
                           void (*run)(const struct wf_kernel_call *, void *const *,
                                       const void *const *, const struct wf_scalars *),
                           bool symmetric)
{
    const struct wf_tensor_desc *x = k->in[0];
    struct decomposition *p;
    int64_t numbers;

    if (x->dtype != WEFT_F32 && x->dtype != WEFT_F64) return wf_fail_no_kernel(k, x->dtype);
    k->prep = p = WF_NEW(struct decomposition);
    k->drop = free_decomposition;
    k->run = run;
    p->loops = WF_ISA_PICK(wf_decompositions);
    p->f32 = x->dtype == WEFT_F32;
    p->bytes = wf_dtypes[x->dtype].size;
    p->m = x->shape[x->ndim - 2];
    p->n = x->shape[x->ndim - 1];
    p->least = wf_min_i64(p->m, p->n);
    p->batch = 1;
    for (int d = 0; d < x->ndim - 2; d++) p->batch *= x->shape[d];
    numbers = 2 * p->m * p->n + p->least * (p->least + 1) +
              (symmetric ? p->loops->eigh_scratch(p->n)
                         : p->loops->svd_scratch(p->least, p->m + p->n - p->least));
    wf_operand_prepare_dense(&p->x, x);
    wf_scratch_reserve(p->x.scratch + (size_t)numbers * sizeof(double));
    return WEFT_OK;
}

weft_status wf_cpu_eigh(struct wf_kernel_call *k) { return prepare(k, eigh_run, true); }

weft_status wf_cpu_svd(struct wf_kernel_call *k) { return prepare(k, svd_run, false); }
