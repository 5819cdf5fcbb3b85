/* test_vectors.c: products of vectors, products that are added to something, and those of integers:
 * the values and gradients of one device in every pair of layouts. */
#include <stdlib.h>

#include "products/compare.h"

static const char *const three[] = {"R", "S(0)", "S(1)", "S(2)"};

static weft_tensor *matmul(weft_tensor *const *in) { return weft_matmul(in[0], in[1]); }

static weft_tensor *mv(weft_tensor *const *in) { return weft_mv(in[0], in[1]); }

static weft_tensor *dot(weft_tensor *const *in) { return weft_dot(in[0], in[1]); }

static weft_tensor *outer(weft_tensor *const *in) { return weft_outer(in[0], in[1]); }

static weft_tensor *kron(weft_tensor *const *in) { return weft_kron(in[0], in[1]); }

/* Sums of elements, with a plain loop: result[i] of x times y. */
static bool is_product(weft_tensor *got, weft_tensor *x, weft_tensor *y, int64_t batch, int64_t m,
                       int64_t k, int64_t n, bool shared)
{
    double *a = wt_values(x), *b = wt_values(y), *want = calloc((size_t)(batch * m * n), 8);
    bool near;

    for (int64_t t = 0; t < batch; t++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                for (int64_t l = 0; l < k; l++)
                    want[(t * m + i) * n + j] +=
                        a[(t * m + i) * k + l] * b[((shared ? 0 : t) * k + l) * n + j];
    near = wt_near_full(got, want, WT_WITHIN(1e-5));
    free(a);
    free(b);
    free(want);
    return near;
}

WT_TEST_TIMES_IN_WORLD(matmul__takes_vectors_as_torch_does, w, k, 2)
{
    int64_t m = k ? 5 : 8, inner = k ? 3 : 4, n = k ? 7 : 12;
    weft_tensor *v = vector(0, inner), *a = wt_whole(WEFT_F32, 1, m, inner);
    weft_tensor *b = wt_whole(WEFT_F32, 2, inner, n), *batch = wt_whole3(WEFT_F32, 3, 2, m, inner);
    weft_tensor *right = wt_whole3(WEFT_F32, 4, 3, inner, n);

    WT_ALL(is_product(weft_matmul(v, v), v, v, 1, 1, inner, 1, false));
    WT_ALL(is_product(weft_matmul(a, v), a, v, 1, m, inner, 1, false));
    WT_ALL(is_product(weft_matmul(v, b), v, b, 1, 1, inner, n, false));
    WT_ALL(is_product(weft_matmul(batch, v), batch, v, 2, m, inner, 1, true));
    WT_ALL(wt_has_shape(weft_matmul(batch, v), 2, (int64_t)2, m));
    WT_ALL(wt_has_shape(weft_matmul(v, right), 2, (int64_t)3, n));
    WT_ALL(wt_has_shape(weft_matmul(v, v), 0));
    WT_ALL(is_product(weft_outer(vector(0, m), vector(1, n)), vector(0, m), vector(1, n), 1, m, 1,
                      n, false));
    for (int p = 0; p < 16; p++) {
        const char *const layouts[] = {three[p / 4], three[p % 4]};

        wt_note("%s, %s", layouts[0], layouts[1]);
        if (p / 4 < 2 && p % 4 < 2) {
            (void)compare(w, dot, (weft_tensor *[]){v, v}, layouts, 2, 2);
            (void)compare(w, outer, (weft_tensor *[]){v, v}, layouts, 2, 2);
        }
        if (p / 4 < 3 && p % 4 < 2) {
            (void)compare(w, mv, (weft_tensor *[]){a, v}, layouts, 2, 2);
            (void)compare(w, kron, (weft_tensor *[]){a, v}, layouts, 2, 2);
        }
        if (p % 4 < 2) (void)compare(w, matmul, (weft_tensor *[]){batch, v}, layouts, 2, 2);
        if (p / 4 < 2) (void)compare(w, matmul, (weft_tensor *[]){v, right}, layouts, 2, 2);
        if (p / 4 < 2 && p % 4 < 3)
            (void)compare(w, matmul, (weft_tensor *[]){v, b}, layouts, 2, 2);
        if (p % 4 < 3) (void)compare(w, matmul, (weft_tensor *[]){batch, b}, layouts, 2, 2);
    }
}

/* Of integers, and the other forms that add a product. */
WT_TEST_IN_WORLD(addends__of_other_products, w)
{
    weft_tensor *v = vector(0, 4), *u = vector(1, 5), *a = wt_whole(WEFT_F32, 2, 5, 4);
    weft_tensor *p = wt_whole3(WEFT_F32, 0, 3, 5, 2), *q = wt_whole3(WEFT_F32, 1, 3, 2, 4);
    weft_tensor *whole = weft_cast(wt_whole(WEFT_F64, 0, 1, 6), WEFT_I64), *y;
    int64_t six = 6;

    LIKE(weft_addmv(wt_spread(w, u, "R"), wt_spread(w, a, "S(1)"), wt_spread(w, v, "S(0)"), 2, 3),
         weft_add(weft_mul_scalar(u, 2), weft_mul_scalar(weft_mv(a, v), 3)));
    LIKE(weft_addr(wt_spread(w, a, "R"), wt_spread(w, u, "S(0)"), wt_spread(w, v, "R"), 2, 3),
         weft_add(weft_mul_scalar(a, 2), weft_mul_scalar(weft_outer(u, v), 3)));
    LIKE(weft_baddbmm(wt_spread(w, a, "R"), wt_spread(w, p, "S(2)"), wt_spread(w, q, "S(1)"), 2, 3),
         weft_add(weft_mul_scalar(a, 2), weft_mul_scalar(weft_bmm(p, q), 3)));
    whole = weft_reshape(whole, &six, 1);
    y = weft_dot(wt_spread(w, whole, "S(0)"), wt_spread(w, whole, "S(0)"));
    WT_ALL(weft_tensor_dtype(y) == WEFT_I64);
    WT_ALL(wt_near_tensors(y, weft_sum_all(weft_mul(whole, whole)), WT_EXACT));
    WT_ALL(weft_tensor_dtype(weft_mv(wt_spread(w, weft_cast(a, WEFT_I32), "S(1)"),
                                     wt_spread(w, weft_cast(v, WEFT_I32), "S(0)"))) == WEFT_I32);
    WT_ALL(weft_bmm(p, p) == NULL);
    weft_error_clear();
    WT_ALL(weft_mm(a, v) == NULL && weft_error_status() == WEFT_ERR_SHAPE);
    weft_error_clear();
}

/* Whole numbers, in every pair of layouts: exactly. */
WT_TEST_IN_WORLD(mm__of_integers, w)
{
    weft_tensor *a = weft_cast(weft_mul_scalar(wt_whole(WEFT_F64, 0, 7, 5), 100), WEFT_I64);
    weft_tensor *b = weft_cast(weft_mul_scalar(wt_whole(WEFT_F64, 1, 5, 6), 100), WEFT_I64), *in[2];
    weft_tensor *want = weft_mm(weft_cast(a, WEFT_F64), weft_cast(b, WEFT_F64));
    int64_t six = 6;
    weft_tensor *row = weft_reshape(weft_slice(b, 0, 0, 1), &six, 1);

    for (int p = 0; p < 9; p++) {
        in[0] = wt_spread(w, a, three[p / 3]);
        in[1] = wt_spread(w, b, three[p % 3]);
        wt_note("%s, %s", three[p / 3], three[p % 3]);
        WT_ALL(wt_near_tensors(weft_cast(weft_mm(in[0], in[1]), WEFT_F64), want, WT_EXACT));
        WT_ALL(wt_near_tensors(weft_cast(weft_einsum("mk,kn->nm", in, 2), WEFT_F64),
                               weft_transpose(want, 0, 1), WT_EXACT));
    }
    WT_ALL(wt_near_tensors(weft_cast(weft_addmm(wt_spread(w, row, "R"), wt_spread(w, a, "S(1)"),
                                                wt_spread(w, b, "S(0)"), 1, 1),
                                     WEFT_F64),
                           weft_add(want, weft_cast(row, WEFT_F64)), WT_EXACT));
    WT_ALL(weft_mm(weft_cast(a, WEFT_U8), weft_cast(b, WEFT_U8)) == NULL);
    weft_error_clear();
    WT_ALL(weft_mm(a, weft_cast(b, WEFT_I32)) == NULL);
    weft_error_clear();
}

int main(int argc, char **argv) { return wt_main(argc, argv, "vectors"); }
