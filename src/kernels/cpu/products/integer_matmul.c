/* integer_matmul.c: y = op(a) op(b) of integers, by plain loops: rows of b, times an element of a,
 * are added to a row of y. */
#include "kernels/cpu/products/integer_matmul.h"

#include "base/elements/dtype.h"
#include "base/mem.h"
#include "kernels/operands/loop_nest.h"
#include "kernels/operands/matrix_view.h"

enum { A, B, Y, OPERANDS };

struct integer_matmul {
    int64_t m, n, k;
    int64_t a_m, a_k, b_k, b_n; /* elements to the next index */
    struct wf_loop_nest batch;
};

/* Unsigned: what is beyond the range is cut off, as in other kernels of integers. */
#define PRODUCT(name, type)                                                                        \
    static void name(const struct integer_matmul *p, const type *a, const type *b, type *y)        \
    {                                                                                              \
        for (int64_t i = 0; i < p->m; i++, y += p->n) {                                            \
            for (int64_t j = 0; j < p->n; j++) y[j] = 0;                                           \
            for (int64_t l = 0; l < p->k; l++) {                                                   \
                type factor = a[i * p->a_m + l * p->a_k];                                          \
                                                                                                   \
                for (int64_t j = 0; j < p->n; j++) y[j] += factor * b[l * p->b_k + j * p->b_n];    \
            }                                                                                      \
        }                                                                                          \
    }
PRODUCT(product_32, uint32_t)
PRODUCT(product_64, uint64_t)

static void integer_matmul_run(const struct wf_kernel_call *k, void *const *out,
                               const void *const *in, const struct wf_scalars *scalars)
{
    const struct integer_matmul *p = k->prep;
    struct wf_loop_walk walk = {.at = {in[A], in[B], out[0]}};

    (void)scalars;
    do {
        /* a walk's pointers are const, y's memory is not */
        void *y = (void *)(uintptr_t)walk.at[Y];

        if (k->out[0]->dtype == WEFT_I32)
            product_32(p, (const void *)walk.at[A], (const void *)walk.at[B], y);
        else
            product_64(p, (const void *)walk.at[A], (const void *)walk.at[B], y);
    } while (wf_loop_walk_next(&p->batch, &walk));
}

static void prepare_batch(struct integer_matmul *p, const struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *y = k->out[0];
    struct wf_tensor_desc a = wf_leading_dims(k->in[A]), b = wf_leading_dims(k->in[B]),
                          c = wf_leading_dims(y);
    struct wf_operand_strides strides[OPERANDS] = {
        wf_strides_broadcast(&a, y->shape, c.ndim),
        wf_strides_broadcast(&b, y->shape, c.ndim),
        wf_strides_broadcast(&c, y->shape, c.ndim),
    };

    wf_loop_nest_make(&p->batch, y->shape, c.ndim, strides, OPERANDS);
}

weft_status wf_integer_matmul_prepare(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *a = k->in[A], *b = k->in[B], *y = k->out[0];
    int a_rows = a->ndim - (k->attrs->matmul.transpose_a ? 1 : 2),
        a_columns = 2 * a->ndim - 3 - a_rows;
    int b_rows = b->ndim - (k->attrs->matmul.transpose_b ? 1 : 2),
        b_columns = 2 * b->ndim - 3 - b_rows;
    struct integer_matmul *p = WF_NEW(struct integer_matmul);

    p->m = y->shape[y->ndim - 2];
    p->n = y->shape[y->ndim - 1];
    p->k = a->shape[a_columns];
    p->a_m = a->stride[a_rows];
    p->a_k = a->stride[a_columns];
    p->b_k = b->stride[b_rows];
    p->b_n = b->stride[b_columns];
    prepare_batch(p, k);
    k->prep = p;
    k->run = integer_matmul_run;
    return WEFT_OK;
}
