/*
 * test_promotion.c: operands of several dtypes: the dtype of the result is torch.result_type's, the
 * values those of operands that were cast first, gradients come in each input's dtype, and calls of
 * one dtype cast nothing.
 */
/* ranks: 1 2 4 */
#include <string.h>

#include "support/worlds.h"

/* What torch 2.15 gives for arrays: rows and columns in the order of weft_dtype. */
static const weft_dtype met[WEFT_DTYPE_COUNT][WEFT_DTYPE_COUNT] = {
#define F32 WEFT_F32
#define F64 WEFT_F64
#define BF16 WEFT_BF16
#define F16 WEFT_F16
#define I32 WEFT_I32
#define I64 WEFT_I64
#define U8 WEFT_U8
#define BOOL WEFT_BOOL
#define I16 WEFT_I16
#define I8 WEFT_I8
    [F32] = {F32, F64, F32, F32, F32, F32, F32, F32, F32, F32},
    [F64] = {F64, F64, F64, F64, F64, F64, F64, F64, F64, F64},
    [BF16] = {F32, F64, BF16, F32, BF16, BF16, BF16, BF16, BF16, BF16},
    [F16] = {F32, F64, F32, F16, F16, F16, F16, F16, F16, F16},
    [I32] = {F32, F64, BF16, F16, I32, I64, I32, I32, I32, I32},
    [I64] = {F32, F64, BF16, F16, I64, I64, I64, I64, I64, I64},
    [U8] = {F32, F64, BF16, F16, I32, I64, U8, U8, I16, I16},
    [BOOL] = {F32, F64, BF16, F16, I32, I64, U8, BOOL, I16, I8},
    [I16] = {F32, F64, BF16, F16, I32, I64, I16, I16, I16, I16},
    [I8] = {F32, F64, BF16, F16, I32, I64, I16, I8, I16, I8},
};

static weft_tensor *ones(weft_dtype dtype, int ndim)
{
    return weft_full(dtype, (int64_t[]){3, 2}, ndim, 1);
}

static bool is_float(weft_dtype d) { return weft_dtype_is_float(d); }
static int kind(weft_dtype d) { return is_float(d) ? 2 : d != WEFT_BOOL; }

WT_TEST(promotion__of_arrays_is_torchs)
{
    for (int k = 0; k < WEFT_C64 * WEFT_C64; k++) {
        weft_dtype a = (weft_dtype)(k / WEFT_C64), b = (weft_dtype)(k % WEFT_C64);
        weft_scope *scope = weft_scope_open();
        weft_tensor *y = weft_maximum(ones(a, 2), ones(b, 2)), *q;

        wt_note("%s and %s", weft_dtype_name(a), weft_dtype_name(b));
        WT_ALL(weft_tensor_dtype(y) == met[a][b] && wt_is_all(y, 1));
        q = weft_div(ones(a, 2), ones(b, 2));
        WT_ALL(weft_tensor_dtype(q) == (is_float(met[a][b]) ? met[a][b] : WEFT_F32));
        WT_ALL(weft_tensor_dtype(weft_le(ones(a, 2), ones(b, 2))) == WEFT_BOOL);
        weft_scope_close(scope);
    }
}

/* A tensor without dims counts where its kind is higher. */
WT_TEST(promotion__of_numbers_is_torchs)
{
    for (int k = 0; k < WEFT_C64 * WEFT_C64; k++) {
        weft_dtype a = (weft_dtype)(k / WEFT_C64), b = (weft_dtype)(k % WEFT_C64);
        weft_dtype want = kind(b) > kind(a) ? b : a;
        weft_scope *scope = weft_scope_open();
        weft_tensor *y;

        if (want != WEFT_BOOL) {
            wt_note("%s and a number of %s", weft_dtype_name(a), weft_dtype_name(b));
            y = weft_add(ones(a, 1), ones(b, 0));
            WT_ALL(weft_tensor_dtype(y) == want && wt_is_all(y, 2));
            y = weft_mul(ones(b, 0), ones(a, 1));
            WT_ALL(weft_tensor_dtype(y) == want && wt_is_all(y, 1));
        }
        weft_scope_close(scope);
    }
}

WT_TEST(promotion__beside_plain_numbers_and_of_functions)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *three = weft_full(WEFT_I16, (int64_t[]){5}, 1, 3);
    weft_tensor *truth = weft_full(WEFT_BOOL, (int64_t[]){5}, 1, 1), *y;

    y = weft_mul_scalar(three, 2);
    WT_ALL(weft_tensor_dtype(y) == WEFT_I16 && wt_is_all(y, 6));
    y = weft_mul_scalar(three, 0.5);
    WT_ALL(weft_tensor_dtype(y) == WEFT_F32 && wt_is_all(y, 1.5));
    y = weft_add_scalar(truth, 2);
    WT_ALL(weft_tensor_dtype(y) == WEFT_I64 && wt_is_all(y, 3));
    y = weft_sqrt(weft_add_scalar(three, 1));
    WT_ALL(weft_tensor_dtype(y) == WEFT_F32 && wt_is_all(y, 2));
    y = weft_floor(three);
    WT_ALL(weft_tensor_dtype(y) == WEFT_I16 && wt_is_all(y, 3));
    y = weft_pow_scalar(three, 2);
    WT_ALL(weft_tensor_dtype(y) == WEFT_I16 && wt_is_all(y, 9));
    y = weft_where(truth, three, weft_full(WEFT_F64, (int64_t[]){5}, 1, 0.5));
    WT_ALL(weft_tensor_dtype(y) == WEFT_F64 && wt_is_all(y, 3));
    y = weft_where_scalar(weft_logical_not(truth), three, 0.25);
    WT_ALL(weft_tensor_dtype(y) == WEFT_F32 && wt_is_all(y, 0.25));
    y = weft_lerp(three, weft_full(WEFT_BF16, (int64_t[]){5}, 1, 5),
                  weft_full(WEFT_F64, NULL, 0, 0.5));
    WT_ALL(weft_tensor_dtype(y) == WEFT_BF16 && wt_is_all(y, 4));
    weft_scope_close(scope);
}

/* Wholes of Python's kind and C's, by every sign. */
WT_TEST(promotion__whole_quotients)
{
    static const weft_dtype dtypes[] = {WEFT_I8, WEFT_I16, WEFT_I32, WEFT_I64, WEFT_F32, WEFT_BF16};
    static const struct {
        double a, b, down, toward_0;
    } cases[] = {{7, 2, 3, 3},    {-7, 2, -4, -3}, {7, -2, -4, -3}, {-7, -2, 3, 3},
                 {-6, 3, -2, -2}, {0, -5, 0, 0},   {-1, 100, -1, 0}};

    for (int k = 0; k < 6 * 7; k++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *a = weft_full(dtypes[k / 7], (int64_t[]){19}, 1, cases[k % 7].a);
        weft_tensor *b = weft_full(dtypes[k / 7], (int64_t[]){19}, 1, cases[k % 7].b);

        WT_ALL(wt_is_all(weft_floor_divide(a, b), cases[k % 7].down));
        WT_ALL(wt_is_all(weft_trunc_divide(a, b), cases[k % 7].toward_0));
        weft_scope_close(scope);
    }
}

WT_TEST(promotion__bits_of_small_integers)
{
    static const weft_dtype dtypes[] = {WEFT_I8, WEFT_I16, WEFT_U8, WEFT_I64};

    for (int k = 0; k < 4; k++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *x = weft_full(dtypes[k], (int64_t[]){33}, 1, 100);

        WT_ALL(wt_is_all(weft_bitwise_not(x), dtypes[k] == WEFT_U8 ? 155 : -101));
        WT_ALL(wt_is_all(weft_add(x, x), k == 0 ? -56 : 200)); /* wraps */
        WT_ALL(wt_is_all(weft_bitwise_and(x, weft_full(dtypes[k], NULL, 0, 6)), 4));
        WT_ALL(wt_is_all(weft_bitwise_left_shift(x, weft_full(dtypes[k], NULL, 0, 1)),
                         k == 0 ? -56 : 200));
        weft_scope_close(scope);
    }
    WT_FAILS(weft_bitwise_not(wt_constant(2, 2, 1)), WEFT_ERR_DTYPE, "has no bits");
}

/* Each gradient in its input's dtype and layout; on shards nothing is sent. */
WT_TEST_IN_WORLD(promotion__gradients_are_cast_back, w)
{
    weft_tensor *a = wt_spread(w, weft_full(WEFT_BF16, (int64_t[]){5, 3}, 2, 2), "S(0)");
    weft_tensor *b = wt_spread(w, weft_full(WEFT_F64, (int64_t[]){5, 3}, 2, 3), "S(0)"), *y;

    weft_set_requires_grad(a, true);
    weft_set_requires_grad(b, true);
    y = weft_mul(a, b);
    WT_ALL(weft_tensor_dtype(y) == WEFT_F64 && wt_is_placed(y, "S(0)"));
    WT_STILL(w);
    WT_EQ(weft_backward(weft_sum_all(y)), WEFT_OK);
    WT_ALL(weft_tensor_dtype(weft_grad(a)) == WEFT_BF16 && wt_is_all(weft_grad(a), 3));
    WT_ALL(weft_tensor_dtype(weft_grad(b)) == WEFT_F64 && wt_is_all(weft_grad(b), 2));
}

/* Sums of small integers over ranks wrap, and their extremes are their own. */
WT_TEST_IN_WORLD(promotion__partial_small_integers, w)
{
    static const weft_dtype dtypes[] = {WEFT_I8, WEFT_I16};
    int ranks = weft_world_size();

    for (int k = 0; k < 2; k++) {
        weft_tensor *t = weft_full(dtypes[k], (int64_t[]){5, 3}, 2, 60), *y;
        int sum = k ? 60 * ranks : (int8_t)(60 * ranks);

        y = wt_partial(w, t, WEFT_SUM);
        WT_ALL(wt_is_all(y, sum) && wt_is_all(wt_to(y, "S(0)"), sum));
        WT_ALL(wt_is_all(weft_add(y, y), (k ? 2 * sum : (int8_t)(2 * sum))));
        WT_ALL(wt_is_all(wt_partial(w, t, WEFT_MAX), 60));
        WT_ALL(wt_is_all(wt_partial(w, weft_neg(t), WEFT_MIN), -60));
        WT_ALL(wt_is_all(wt_to(wt_spread(w, t, "S(0)"), "S(1)"), 60));
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "promotion"); }
