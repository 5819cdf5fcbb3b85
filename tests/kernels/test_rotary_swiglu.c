/* test_rotary_swiglu.c: rotary positions and SwiGLU against plain loops in f64. */
#include "cases.h"

/* ---- swiglu ---- */

static double silu(double x) { return x / (1 + exp(-x)); }

static double dsilu(double x)
{
    double s = 1 / (1 + exp(-x));

    return s * (1 + x * (1 - s));
}

static double swiglu_bound(weft_dtype dtype)
{
    return dtype == WEFT_F64 ? 1e-14 : dtype == WEFT_F32 ? 1e-6 : 1e-2;
}

/* Rows [rows, n] of a result; x has [rows, 2, n]. */
static void check_swiglu(weft_dtype dtype, enum lie lie, int64_t rows, int64_t n)
{
    struct operand x = operand_noise(dtype, lie, 3, (int64_t[]){rows, 2, n}, 1);
    struct operand d = operand_noise(dtype, lie, 2, (int64_t[]){rows, n}, 2);
    struct operand y = operand_new(dtype, PLAIN, 2, (int64_t[]){rows, n});
    struct operand dx = operand_new(dtype, PLAIN, 3, (int64_t[]){rows, 2, n});
    double *want = calloc((size_t)(3 * rows * n) + 1, sizeof *want), *want_dx = want + rows * n;

    for (int64_t i = 0; i < rows * n; i++) {
        int64_t g = i / n * 2 * n + i % n;
        double gate = x.values[g], up = x.values[g + n];

        want[i] = silu(gate) * up;
        want_dx[g] = d.values[i] * up * dsilu(gate);
        want_dx[g + n] = d.values[i] * silu(gate);
    }
    call(wf_cpu_swiglu, &y, 1, (struct operand *[]){&x}, NULL);
    expect_near("swiglu", &y, want, swiglu_bound(dtype));
    call(wf_cpu_swiglu_grad, &dx, 2, (struct operand *[]){&d, &x}, NULL);
    expect_near("swiglu_grad", &dx, want_dx, swiglu_bound(dtype));
    expect_guards(&y);
    expect_guards(&dx);
    operand_free(&x);
    operand_free(&d);
    operand_free(&y);
    operand_free(&dx);
    free(want);
}

WT_UNIT(swiglu__equals_its_formula)
{
    static const int64_t sizes[][2] = {{1, 1}, {1, 7}, {5, 8}, {3, 64}, {7, 33}, {0, 8}, {2, 520}};

    EACH_ISA
    for (int i = 0; i < 7 * FLOAT_DTYPES * LIES; i++)
        check_swiglu(float_dtypes[i / 7 % FLOAT_DTYPES], nth_lie(i / 7 / FLOAT_DTYPES),
                     sizes[i % 7][0], sizes[i % 7][1]);
}

WT_UNIT(swiglu__refuses_integers)
{
    struct operand x = operand_new(WEFT_I32, PLAIN, 2, (int64_t[]){2, 4});
    struct wf_kernel_call k = {
        .op = "swiglu", .n_in = 1, .n_out = 1, .in = {&x.desc}, .out = {&x.desc}};

    ck_assert_int_eq(wf_cpu_swiglu(&k), WEFT_ERR_DTYPE);
    weft_error_clear();
    operand_free(&x);
}

/* ---- rotary ---- */

/* What element `number` of x becomes: that of its head, turned by its token's position. */
static double turned(const struct operand *x, int64_t number, const struct wf_rotary_attrs *attrs,
                     double position)
{
    const struct wf_tensor_desc *desc = &x->desc;
    int64_t d = desc->shape[desc->ndim - 1], j = number % d, half = attrs->dims / 2, pair, other;
    int64_t last = desc->ndim > 3 ? desc->shape[desc->ndim - 2] : 1;
    bool second = attrs->interleaved ? j % 2 : j >= half;
    double angle, sine;

    if (j >= 2 * half || number / d % last >= attrs->heads) return x->values[number];
    pair = attrs->interleaved ? j / 2 : j % half;
    other = number + (attrs->interleaved ? 1 : half) * (second ? -1 : 1);
    angle = position * pow(attrs->base, -2.0 * (double)pair / (double)attrs->dims);
    sine = attrs->backward ? -sin(angle) : sin(angle);
    return x->values[number] * cos(angle) + x->values[other] * (second ? sine : -sine);
}

struct rotary_case {
    struct sizes x; /* [B,T,...,D] */
    int64_t dims, heads;
    int64_t offset; /* of the shard's first token */
};

static const struct rotary_case rotary_cases[] = {
    {{4, {2, 5, 3, 16}}, 16, 3, 0},      {{4, {2, 5, 9, 16}}, 16, 4, 7},
    {{4, {1, 3, 6, 20}}, 12, 6, 0},      {{3, {2, 3, 16}}, 16, 1, 100},
    {{5, {2, 3, 2, 4, 8}}, 8, 3, 0},     {{4, {1, 2, 1, 6}}, 2, 1, 1},
    {{4, {1, 2, 2, 600}}, 600, 2, 3},    {{4, {1, 2, 2, 1040}}, 1024, 2, 0},
    {{4, {2, 3, 2, 8}}, 0, 2, 0},        {{4, {2, 0, 2, 8}}, 8, 2, 0},
    {{4, {1, 2, 5, 32}}, 16, 5, 1 << 20}};
enum { ROTARY_CASES = sizeof rotary_cases / sizeof *rotary_cases };

/* `positions`: i32, i64, or neither: tokens count. */
static void check_rotary(const struct rotary_case *c, weft_dtype dtype, enum lie lie,
                         weft_dtype positions, bool interleaved, bool backward)
{
    union wf_op_attrs attrs = {.rotary = {.backward = backward,
                                          .interleaved = interleaved,
                                          .dims = c->dims,
                                          .heads = c->heads,
                                          .base = 10000}};
    struct wf_kernel_call k = {.op = "rotary", .n_in = 2, .n_out = 1, .attrs = &attrs};
    const struct wf_scalars scalars = {.v = {3}};
    bool indexed = positions == WEFT_I32 || positions == WEFT_I64;
    struct operand x = operand_noise(dtype, lie, c->x.ndim, c->x.n, 1);
    struct operand y = operand_new(dtype, PLAIN, c->x.ndim, c->x.n);
    struct operand index = operand_new(indexed ? positions : WEFT_I32, lie, 2, c->x.n);
    int64_t tokens = c->x.n[0] * c->x.n[1], token = tokens ? x.desc.numel / tokens : 1;
    double *want = calloc((size_t)x.desc.numel + 1, sizeof *want);

    operand_whole(&index, 3, 500);
    x.desc.offset[1] = c->offset;
    for (int64_t i = 0; i < x.desc.numel; i++) {
        int64_t t = i / token;

        want[i] = turned(&x, i, &attrs.rotary,
                         3 + (indexed ? index.values[t] : (double)(c->offset + t % c->x.n[1])));
    }
    kernel_run(wf_cpu_rotary, &k, &(struct operand *){&y},
               (struct operand *[]){&x, indexed ? &index : NULL}, &scalars);
    expect_near("rotary", &y, want, dtype == WEFT_F64 ? 1e-9 : dtype == WEFT_F32 ? 1e-6 : 1e-2);
    expect_guards(&y);
    operand_free(&x);
    operand_free(&y);
    operand_free(&index);
    free(want);
}

WT_UNIT(rotary__turns_pairs_by_their_angles)
{
    static const weft_dtype positions[] = {WEFT_I32, WEFT_I64, WEFT_F32};

    EACH_ISA
    for (int i = 0; i < ROTARY_CASES * FLOAT_DTYPES * LIES * 3; i++)
        check_rotary(&rotary_cases[i % ROTARY_CASES], float_dtypes[i / ROTARY_CASES % FLOAT_DTYPES],
                     nth_lie(i / ROTARY_CASES / FLOAT_DTYPES), positions[i / ROTARY_CASES % 7 % 3],
                     i / ROTARY_CASES / FLOAT_DTYPES / LIES % 2, i % 5 == 3);
}

int main(void) { return wt_unit_main("rotary_swiglu"); }
