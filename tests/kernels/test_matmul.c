/* test_matmul.c: matmul, linear and its gradients against plain loops in f64. */
#include "plain_product.h"

struct shape {
    int ndim;
    int64_t n[WEFT_MAX_DIMS];
};

static int64_t product(const struct shape *s, int first, int last)
{
    int64_t n = 1;

    for (int i = first; i < last; i++) n *= s->n[i];
    return n;
}

/* Sums of 16-bit floats are f32; f32 sums of k terms lose about sqrt(k) of their last bits. */
static double bound_for(weft_dtype dtype, int64_t k)
{
    return dtype_bound(dtype) * (dtype == WEFT_F32 ? 1 + (double)k / 100 : 1);
}

struct linear_case {
    struct shape x, w; /* [*,K...], [N...,K...] */
    int k_dims;
};

static const struct linear_case linear_cases[] = {
    {{2, {3, 5}}, {2, {4, 5}}, 1},
    {{2, {1, 1}}, {2, {1, 1}}, 1},
    {{2, {1, 40}}, {2, {33, 40}}, 1}, /* few rows of x: w is read once */
    {{2, {1, 33}}, {2, {2, 33}}, 1},
    {{2, {1, 70}}, {2, {4, 70}}, 1},
    {{2, {2, 67}}, {2, {18, 67}}, 1},
    {{2, {3, 96}}, {2, {20, 96}}, 1},
    {{2, {4, 35}}, {2, {9, 35}}, 1},
    {{2, {5, 131}}, {2, {7, 131}}, 1},
    {{2, {8, 50}}, {2, {11, 50}}, 1},
    {{2, {17, 40}}, {2, {33, 40}}, 1}, /* few rows: the turned form */
    {{2, {16, 1024}}, {2, {130, 1024}}, 1},
    {{2, {64, 33}}, {2, {20, 33}}, 1},
    {{3, {5, 7, 48}}, {2, {100, 48}}, 1},
    {{2, {20, 30}}, {2, {40, 30}}, 1},
    {{2, {300, 70}}, {2, {65, 70}}, 1},
    {{2, {24, 40}}, {2, {30, 40}}, 1},
    {{2, {24, 512}}, {2, {30, 512}}, 1},      /* dx: rows of w 2 KiB apart */
    {{3, {2, 3, 10}}, {4, {3, 2, 5, 10}}, 1}, /* N is three dims, as qkv */
    {{4, {2, 6, 3, 5}}, {3, {11, 3, 5}}, 2},  /* K is two dims, as the output of heads */
    {{1, {6}}, {2, {4, 6}}, 1},
    {{2, {33, 40}}, {2, {1, 40}}, 1}, /* vectors: one column, */
    {{2, {33, 1}}, {2, {20, 1}}, 1},  /* one term in each sum, */
    {{2, {40, 1}}, {2, {1, 1}}, 1},   /* both, */
    {{2, {1, 1}}, {2, {40, 1}}, 1},   /* one row of one term, */
    {{2, {1, 40}}, {2, {1, 40}}, 1},  /* one sum */
    {{2, {0, 5}}, {2, {4, 5}}, 1},
    {{2, {3, 0}}, {2, {4, 0}}, 1},
    {{2, {3, 5}}, {2, {0, 5}}, 1},
    {{2, {0, 0}}, {2, {0, 0}}, 1},
};
enum { LINEAR_CASES = sizeof linear_cases / sizeof *linear_cases };

struct linear_run {
    const struct linear_case *c;
    weft_dtype dtype;
    enum lie lie;
    struct shape y;
    int64_t rows, n, k;
    struct operand x, w, bias;
};

static struct linear_run linear_start(const struct linear_case *c, weft_dtype dtype, enum lie lie)
{
    struct linear_run r = {.c = c, .dtype = dtype, .lie = lie};
    int n_dims = c->w.ndim - c->k_dims, lead = c->x.ndim - c->k_dims;

    r.y.ndim = lead + n_dims;
    memcpy(r.y.n, c->x.n, (size_t)lead * sizeof r.y.n[0]);
    memcpy(r.y.n + lead, c->w.n, (size_t)n_dims * sizeof r.y.n[0]);
    r.rows = product(&c->x, 0, lead);
    r.k = product(&c->x, lead, c->x.ndim);
    r.n = product(&c->w, 0, n_dims);
    r.x = operand_noise(dtype, lie, c->x.ndim, c->x.n, 1);
    r.w = operand_noise(dtype, lie, c->w.ndim, c->w.n, 2);
    r.bias = operand_noise(dtype, lie, n_dims, c->w.n, 3);
    return r;
}

static void linear_stop(struct linear_run *r) { OPERANDS_FREE(&r->x, &r->w, &r->bias); }

static void check_forward_to(struct linear_run *r, weft_dtype dtype, bool described, bool given)
{
    struct operand y = operand_new(dtype, PLAIN, r->y.ndim, r->y.n);
    struct wf_kernel_call k = {.op = "linear",
                               .n_in = 3,
                               .n_out = 1,
                               .attrs = &(union wf_op_attrs){.linear = {.k_dims = r->c->k_dims}}};
    struct naive p = {r->rows, r->n, r->k, r->k, 1, 1, r->k};
    const void *in[] = {r->x.data, r->w.data, given ? r->bias.data : NULL};
    void *out[] = {y.data};

    k.in[0] = &r->x.desc;
    k.in[1] = &r->w.desc;
    k.in[2] = described ? &r->bias.desc : NULL;
    k.out[0] = &y.desc;
    multiply(&p, r->x.values, r->w.values, given ? r->bias.values : NULL, y.want);
    ck_assert_int_eq(wf_cpu_linear(&k), WEFT_OK);
    k.run(&k, out, in, NULL);
    operand_read(&y);
    expect_near("linear", &y, y.want, bound_for(dtype, r->k));
    wf_kernel_call_drop(&k);
    operand_free(&y);
}

static void check_forward(struct linear_run *r, bool described, bool given)
{
    check_forward_to(r, r->dtype, described, given);
}

static void check_dx(struct linear_run *r)
{
    struct operand dx = operand_new(r->dtype, PLAIN, r->c->x.ndim, r->c->x.n);
    struct operand d = operand_noise(r->dtype, r->lie, r->y.ndim, r->y.n, 4);
    struct naive p = {r->rows, r->k, r->n, r->n, 1, r->k, 1};

    multiply(&p, d.values, r->w.values, NULL, dx.want);
    call_with(wf_cpu_linear_dx, &(union wf_op_attrs){.linear = {.k_dims = r->c->k_dims}}, &dx, 2,
              (struct operand *[]){&d, &r->w}, NULL);
    expect_near("linear_dx", &dx, dx.want, bound_for(r->dtype, r->n));
    OPERANDS_FREE(&dx, &d);
}

static void check_dw(struct linear_run *r)
{
    int n_dims = r->c->w.ndim - r->c->k_dims;
    struct operand dw = operand_new(r->dtype, PLAIN, r->c->w.ndim, r->c->w.n);
    struct operand d = operand_noise(r->dtype, r->lie, r->y.ndim, r->y.n, 4);
    struct naive p = {r->n, r->k, r->rows, 1, r->n, r->k, 1};

    multiply(&p, d.values, r->x.values, NULL, dw.want);
    call_with(wf_cpu_linear_dw,
              &(union wf_op_attrs){.linear_dw = {.k_dims = r->c->k_dims, .n_dims = n_dims}}, &dw, 2,
              (struct operand *[]){&d, &r->x}, NULL);
    expect_near("linear_dw", &dw, dw.want, bound_for(r->dtype, r->rows));
    OPERANDS_FREE(&dw, &d);
}

WT_UNIT_TIMES(linear__equals_plain_loops_for_any_strides, LINEAR_CASES)
{
    EACH_ISA
    for (int d = 0; d < FLOAT_DTYPES; d++)
        for (int lie = 0; lie < LIES; lie++) {
            struct linear_run r = linear_start(&linear_cases[_i], float_dtypes[d], (enum lie)lie);

            check_forward(&r, true, true);
            if (wf_dtype_is_16_bit_float(r.dtype)) check_forward_to(&r, WEFT_F32, true, true);
            check_dx(&r);
            check_dw(&r);
            linear_stop(&r);
        }
}

WT_UNIT_TIMES(linear__bias_may_be_absent_from_plan_or_call, LINEAR_CASES)
{
    for (int d = 0; d < FLOAT_DTYPES; d++) {
        struct linear_run r = linear_start(&linear_cases[_i], float_dtypes[d], PLAIN);

        check_forward(&r, false, false);
        check_forward(&r, true, false);
        linear_stop(&r);
    }
}

struct matmul_case {
    struct shape a, b, y; /* as stored */
    bool turn_a, turn_b;
};

static const struct matmul_case matmul_cases[] = {
    {{2, {3, 5}}, {2, {5, 4}}, {2, {3, 4}}, false, false},
    {{2, {5, 3}}, {2, {4, 5}}, {2, {3, 4}}, true, true},
    {{3, {2, 3, 5}}, {2, {5, 4}}, {3, {2, 3, 4}}, false, false}, /* one tall product */
    {{3, {2, 5, 3}}, {2, {5, 4}}, {3, {2, 3, 4}}, true, false},
    {{2, {3, 5}}, {3, {2, 5, 4}}, {3, {2, 3, 4}}, false, false},
    {{4, {2, 1, 3, 5}}, {4, {1, 4, 6, 5}}, {4, {2, 4, 3, 6}}, false, true},
    {{4, {2, 3, 4, 8}}, {4, {2, 3, 8, 4}}, {4, {2, 3, 4, 4}}, false, false},
    {{3, {4, 1, 7}}, {3, {4, 7, 1}}, {3, {4, 1, 1}}, false, false},
    {{2, {1, 40}}, {2, {40, 33}}, {2, {1, 33}}, false, false}, /* vectors: one row, */
    {{2, {40, 1}}, {2, {33, 40}}, {2, {1, 33}}, true, true},
    {{3, {2, 33, 40}}, {3, {2, 40, 1}}, {3, {2, 33, 1}}, false, false}, /* one column, */
    {{3, {2, 40, 33}}, {3, {2, 1, 40}}, {3, {2, 33, 1}}, true, true},
    {{3, {2, 33, 1}}, {3, {2, 1, 20}}, {3, {2, 33, 20}}, false, false}, /* one term, */
    {{3, {2, 1, 33}}, {3, {2, 20, 1}}, {3, {2, 33, 20}}, true, true},
    {{3, {3, 1, 40}}, {3, {1, 40, 1}}, {3, {3, 1, 1}}, false, false}, /* one sum */
    {{2, {300, 20}}, {2, {300, 70}}, {2, {20, 70}}, true, false},     /* own loops, many k blocks */
    {{2, {100, 64}}, {2, {64, 600}}, {2, {100, 600}}, false, false},
    {{3, {130, 2, 3}}, {3, {130, 3, 4}}, {3, {130, 2, 4}}, false, false}, /* many */
    {{3, {33, 130, 20}}, {3, {1, 20, 132}}, {3, {33, 130, 132}}, false, false},
    {{3, {33, 40, 129}}, {3, {33, 131, 40}}, {3, {33, 129, 131}}, true, true},
    {{3, {0, 3, 5}}, {3, {1, 5, 4}}, {3, {0, 3, 4}}, false, false},
    {{3, {2, 3, 0}}, {3, {2, 0, 4}}, {3, {2, 3, 4}}, false, false},
    {{3, {2, 0, 5}}, {2, {5, 4}}, {3, {2, 0, 4}}, false, false},
    {{2, {3, 5}}, {2, {5, 0}}, {2, {3, 0}}, false, false},
};
enum { MATMUL_CASES = sizeof matmul_cases / sizeof *matmul_cases };

/* Where the batch's matrix number `batch` of y begins in an operand with fewer or size-1 dims. */
static int64_t batch_offset(const struct shape *s, const struct shape *y, int64_t batch)
{
    int64_t offset = 0, stride = product(s, s->ndim - 2, s->ndim);

    for (int i = y->ndim - 3; i >= 0; i--) {
        int own = i - (y->ndim - s->ndim);
        int64_t index = batch % y->n[i];

        batch /= y->n[i];
        if (own < 0) continue;
        if (s->n[own] > 1) offset += index * stride;
        stride *= s->n[own];
    }
    return offset;
}

static void matmul_naive(const struct matmul_case *c, const double *a, const double *b, double *y)
{
    int64_t m = c->y.n[c->y.ndim - 2], n = c->y.n[c->y.ndim - 1];
    int64_t k = c->a.n[c->a.ndim - (c->turn_a ? 2 : 1)];
    struct naive p = {
        m, n, k, c->turn_a ? 1 : k, c->turn_a ? m : 1, c->turn_b ? 1 : n, c->turn_b ? k : 1};

    for (int64_t i = 0; i < product(&c->y, 0, c->y.ndim - 2); i++)
        multiply(&p, a + batch_offset(&c->a, &c->y, i), b + batch_offset(&c->b, &c->y, i), NULL,
                 y + i * m * n);
}

static void check_matmul(const struct matmul_case *c, weft_dtype dtype, enum lie lie_a,
                         enum lie lie_b)
{
    struct operand a = operand_noise(dtype, lie_a, c->a.ndim, c->a.n, 1);
    struct operand b = operand_noise(dtype, lie_b, c->b.ndim, c->b.n, 2);
    struct operand y = operand_new(dtype, PLAIN, c->y.ndim, c->y.n);

    matmul_naive(c, a.values, b.values, y.want);
    call_with(wf_cpu_matmul,
              &(union wf_op_attrs){.matmul = {.transpose_a = c->turn_a, .transpose_b = c->turn_b}},
              &y, 2, (struct operand *[]){&a, &b}, NULL);
    expect_near("matmul", &y, y.want, bound_for(dtype, 100));
    OPERANDS_FREE(&a, &b, &y);
}

WT_UNIT_TIMES(matmul__equals_plain_loops_for_any_strides, MATMUL_CASES)
{
    EACH_ISA
    for (int d = 0; d < FLOAT_DTYPES; d++) /* Large ones with both operands alike. */
        for (int lie = 0;
             lie<LIES * LIES; lie += product(&matmul_cases[_i].y, 0, 3)> 1 << 18 ? LIES + 1 : 1)
            check_matmul(&matmul_cases[_i], float_dtypes[d], (enum lie)(lie % LIES),
                         (enum lie)(lie / LIES));
}

int main(void) { return wt_unit_main("matmul"); }
