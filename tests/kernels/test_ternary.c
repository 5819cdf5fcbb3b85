/*
 * test_ternary.c: the kernels of pointwise.def that have three operands, of which any may repeat
 * its elements or be what the result is written over.
 */
#include "cases.h"

static double of_lerp(double a, double b, double c) { return a + c * (b - a); }
static double of_addcmul(double a, double b, double c) { return a + 2 * b * c; }
static double of_addcdiv(double a, double b, double c) { return a + 2 * b / c; }
static double of_clamp(double a, double b, double c) { return fmin(fmax(a, b), c); }

static const struct {
    const char *name;
    wf_kernel_prepare *kernel;
    double (*of)(double a, double b, double c);
    bool floats_only;
} ternaries[] = {
    {"lerp", wf_cpu_lerp, of_lerp, true},
    {"addcmul", wf_cpu_addcmul, of_addcmul, false},
    {"addcdiv", wf_cpu_addcdiv, of_addcdiv, true},
    {"clamp", wf_cpu_clamp_tensor, of_clamp, false},
};
enum { TERNARIES = sizeof ternaries / sizeof *ternaries, OPERANDS = 3 };

static bool computes(int op, weft_dtype dtype)
{
    return dtype != WEFT_BOOL && (wf_dtypes[dtype].is_float || !ternaries[op].floats_only);
}

/* Small whole numbers, divisors of +-1 and +-2, of which every dtype computes exactly. */
static void fill_and_compute(int op, struct operand *x, double *want,
                             const struct wf_tensor_desc *y)
{
    for (int i = 0; i < OPERANDS; i++) operand_whole(&x[i], (uint64_t)i + 1, 3);
    for (int64_t i = 0; ternaries[op].of == of_addcdiv && i < x[2].desc.numel; i++)
        x[2].values[i] = (x[2].values[i] < 0 ? -1 : 1) * (fabs(x[2].values[i]) > 1 ? 2 : 1);
    operand_write(&x[2]);
    for (int64_t i = 0; i < y->numel; i++)
        want[i] = ternaries[op].of(x[0].values[broadcast_number(&x[0].desc, y, i)],
                                   x[1].values[broadcast_number(&x[1].desc, y, i)],
                                   x[2].values[broadcast_number(&x[2].desc, y, i)]);
}

/* Operands of the set `repeated` repeat in any way that a pair of shapes has; others are whole. */
static void check_ternary(int op, weft_dtype dtype, enum lie lie, int pair, int repeated)
{
    struct sizes whole = broadcast_pairs[pair].y, part = broadcast_pairs[pair].b;
    struct operand x[OPERANDS], y = operand_new(dtype, PLAIN, whole.ndim, whole.n);

    for (int i = 0; i < OPERANDS; i++) {
        struct sizes size = repeated >> i & 1 ? part : whole;

        x[i] = operand_new(dtype, (enum lie)((lie + (i == 1)) % LIES), size.ndim, size.n);
    }
    fill_and_compute(op, x, y.want, &y.desc);
    call(ternaries[op].kernel, &y, OPERANDS, (struct operand *[]){&x[0], &x[1], &x[2]},
         &(struct wf_scalars){.s = {2}});
    expect_near(ternaries[op].name, &y, y.want, 0);
    expect_guards(&y);
    OPERANDS_FREE(&x[0], &x[1], &x[2], &y);
}

WT_UNIT(ternary__broadcasts_in_every_dtype)
{
    EACH_ISA
    for (int op = 0; op < TERNARIES; op++)
        for (int t = WEFT_F32; t < REAL_DTYPES; t++)
            for (int i = 0; i < BROADCAST_PAIRS * LIES && computes(op, (weft_dtype)t); i++)
                for (int repeated = 1; repeated < 1 << OPERANDS; repeated++)
                    check_ternary(op, (weft_dtype)t, nth_lie(i), i / LIES, repeated);
}

/* Over operand `over`, `n` elements of each; where `repeated`, the last operand is one number. The
 * others stay as they are. */
static void check_in_place(int op, weft_dtype dtype, int64_t n, int over, bool repeated)
{
    struct wf_kernel_call k = {.op = "test", .n_in = OPERANDS, .n_out = 1};
    const void *from[OPERANDS];
    struct operand x[OPERANDS];
    double *want = calloc((size_t)n, sizeof *want);

    for (int i = 0; i < OPERANDS; i++) {
        x[i] = operand_new(dtype, PLAIN, repeated && i == 2 ? 0 : 1, &n);
        k.in[i] = &x[i].desc;
        from[i] = x[i].data;
    }
    fill_and_compute(op, x, want, &x[over].desc);
    for (int i = 0; i < OPERANDS; i++)
        memcpy(x[i].want, i == over ? want : x[i].values, (size_t)x[i].desc.numel * sizeof *want);
    k.out[0] = &x[over].desc;
    ck_assert_int_eq(ternaries[op].kernel(&k), WEFT_OK);
    k.run(&k, (void *[]){x[over].data}, from, &(struct wf_scalars){.s = {2}});
    for (int i = 0; i < OPERANDS; i++) {
        operand_read(&x[i]);
        expect_near(ternaries[op].name, &x[i], x[i].want, 0);
        expect_guards(&x[i]);
    }
    wf_kernel_call_drop(&k);
    free(want);
    OPERANDS_FREE(&x[0], &x[1], &x[2]);
}

WT_UNIT(ternary__works_in_place)
{
    static const int64_t lengths[] = {1, 21, 64, 301, 1027};

    EACH_ISA
    for (int op = 0; op < TERNARIES; op++)
        for (int t = WEFT_F32; t < REAL_DTYPES; t++)
            for (int i = 0; i < 5 && computes(op, (weft_dtype)t); i++) {
                for (int over = 0; over < OPERANDS; over++)
                    check_in_place(op, (weft_dtype)t, lengths[i], over, false);
                for (int over = 0; over < OPERANDS - 1; over++)
                    check_in_place(op, (weft_dtype)t, lengths[i], over, true);
            }
}

int main(void) { return wt_unit_main("ternary"); }
