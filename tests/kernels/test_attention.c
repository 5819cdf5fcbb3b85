/*
 * test_attention.c: attention against plain loops in f64, its gradients against the plain
 * gradients and against finite differences, and the packed forms against the plain ones.
 */
#include "operands.h"

struct attention_case {
    int64_t batch, tq, tk, heads, d;
    bool causal;
};

static const struct attention_case cases[] = {
    {1, 1, 1, 1, 1, true},     {2, 5, 5, 3, 4, true},     {1, 33, 33, 2, 7, true},
    {1, 70, 70, 1, 64, true},  {1, 64, 64, 2, 16, false}, {2, 9, 21, 1, 5, false},
    {1, 21, 9, 1, 5, false},   {1, 9, 21, 1, 8, true},   /* query i sees keys up to i + 12 */
    {1, 21, 9, 1, 8, true},                              /* the first 12 queries see nothing */
    {1, 40, 7, 1, 3, true},    {1, 3, 600, 1, 10, true}, /* several blocks of keys */
    {1, 300, 300, 1, 6, true}, {1, 20, 530, 1, 6, false}, {1, 130, 130, 1, 130, true},
    {1, 70, 150, 2, 96, true}, {0, 4, 4, 2, 4, true},     {2, 4, 4, 0, 4, true},
    {1, 0, 3, 2, 4, false},    {1, 3, 0, 2, 4, false},    {1, 3, 3, 1, 0, true},
};
enum { CASES = sizeof cases / sizeof *cases };

#define SCALE 0.37

/* One head's numbers: element (t, j) of batch b, head h of a [B,T,H,D] array. */
static int64_t at(const struct attention_case *c, int64_t t_size, int64_t b, int64_t t, int64_t h,
                  int64_t j)
{
    return ((b * t_size + t) * c->heads + h) * c->d + j;
}

static bool sees(const struct attention_case *c, int64_t query, int64_t key)
{
    return !c->causal || key <= query + c->tk - c->tq;
}

struct plain {
    const double *q, *k, *v;
    double *o, *lse;
    double *probs; /* [B,H,Tq,Tk] */
};

static double score(const struct attention_case *c, const struct plain *x, int64_t b, int64_t h,
                    int64_t i, int64_t l)
{
    double sum = 0;

    for (int64_t j = 0; j < c->d; j++)
        sum += x->q[at(c, c->tq, b, i, h, j)] * x->k[at(c, c->tk, b, l, h, j)];
    return SCALE * sum;
}

static void plain_query(const struct attention_case *c, struct plain *x, int64_t b, int64_t h,
                        int64_t i)
{
    int64_t row = (b * c->heads + h) * c->tq + i;
    double sum = 0, *probs = x->probs + row * c->tk;

    for (int64_t l = 0; l < c->tk; l++) {
        probs[l] = sees(c, i, l) ? exp(score(c, x, b, h, i, l)) : 0;
        sum += probs[l];
    }
    x->lse[row] = log(sum);
    for (int64_t j = 0; j < c->d; j++) x->o[at(c, c->tq, b, i, h, j)] = 0;
    for (int64_t l = 0; l < c->tk && sum > 0; l++) {
        probs[l] /= sum;
        for (int64_t j = 0; j < c->d; j++)
            x->o[at(c, c->tq, b, i, h, j)] += probs[l] * x->v[at(c, c->tk, b, l, h, j)];
    }
}

static void plain_forward(const struct attention_case *c, struct plain *x)
{
    for (int64_t b = 0; b < c->batch; b++)
        for (int64_t h = 0; h < c->heads; h++)
            for (int64_t i = 0; i < c->tq; i++) plain_query(c, x, b, h, i);
}

/* dq, dk, dv, each zero before. */
static void plain_backward(const struct attention_case *c, const struct plain *x, const double *g,
                           double *const *dx)
{
    for (int64_t n = 0; n < c->batch * c->heads * c->tq * c->tk; n++) {
        int64_t l = n % c->tk, i = n / c->tk % c->tq, h = n / c->tk / c->tq % c->heads;
        int64_t b = n / c->tk / c->tq / c->heads;
        double dp = 0, delta = 0, ds;

        for (int64_t j = 0; j < c->d; j++) {
            dp += g[at(c, c->tq, b, i, h, j)] * x->v[at(c, c->tk, b, l, h, j)];
            delta += g[at(c, c->tq, b, i, h, j)] * x->o[at(c, c->tq, b, i, h, j)];
        }
        ds = x->probs[n] * (dp - delta) * SCALE;
        for (int64_t j = 0; j < c->d; j++) {
            dx[0][at(c, c->tq, b, i, h, j)] += ds * x->k[at(c, c->tk, b, l, h, j)];
            dx[1][at(c, c->tk, b, l, h, j)] += ds * x->q[at(c, c->tq, b, i, h, j)];
            dx[2][at(c, c->tk, b, l, h, j)] += x->probs[n] * g[at(c, c->tq, b, i, h, j)];
        }
    }
}

struct run {
    const struct attention_case *c;
    weft_dtype dtype, lse_dtype;
    struct operand q, k, v, g; /* inputs */
    struct operand o, lse;     /* what the kernel gives */
    struct plain plain;
    double bound;
};

static struct run run_new(const struct attention_case *c, weft_dtype dtype, enum lie lie)
{
    struct run r = {.c = c, .dtype = dtype, .lse_dtype = dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32};
    int64_t queries[] = {c->batch, c->tq, c->heads, c->d},
            keys[] = {c->batch, c->tk, c->heads, c->d};
    int64_t rows[] = {c->batch, c->heads, c->tq};

    r.q = operand_noise(dtype, lie, 4, queries, 1);
    r.k = operand_noise(dtype, lie, 4, keys, 2);
    r.v = operand_noise(dtype, lie, 4, keys, 3);
    r.g = operand_noise(dtype, lie, 4, queries, 4);
    r.o = operand_new(dtype, PLAIN, 4, queries);
    r.lse = operand_new(r.lse_dtype, PLAIN, 3, rows);
    r.bound = dtype_bound(dtype);
    r.plain = (struct plain){
        .q = r.q.values,
        .k = r.k.values,
        .v = r.v.values,
        .o = calloc((size_t)r.o.desc.numel + 1, sizeof(double)),
        .lse = calloc((size_t)r.lse.desc.numel + 1, sizeof(double)),
        .probs = calloc((size_t)(r.lse.desc.numel * c->tk) + 1, sizeof(double)),
    };
    plain_forward(c, &r.plain);
    return r;
}

static void run_free(struct run *r)
{
    free(r->plain.o);
    free(r->plain.lse);
    free(r->plain.probs);
    OPERANDS_FREE(&r->q, &r->k, &r->v, &r->g, &r->o, &r->lse);
}

static const struct wf_scalars scalars = {.s = {SCALE}};

static void forward(struct run *r)
{
    struct wf_kernel_call k = {.op = "attention",
                               .n_in = 3,
                               .n_out = 2,
                               .attrs =
                                   &(union wf_op_attrs){.attention = {.causal = r->c->causal}}};

    kernel_run(wf_cpu_attention, &k, (struct operand *[]){&r->o, &r->lse},
               (struct operand *[]){&r->q, &r->k, &r->v}, &scalars);
}

static void expect_lse(const struct run *r)
{
    for (int64_t i = 0; i < r->lse.desc.numel; i++) {
        double want = r->plain.lse[i], got = r->lse.values[i];

        if (isinf(want) ? got == want : fabs(got - want) <= dtype_bound(r->lse_dtype)) continue;
        ck_abort_msg("lse %lld is %g, not %g", (long long)i, got, want);
    }
}

WT_UNIT_TIMES(attention__equals_plain_loops, CASES)
{
    EACH_ISA
    for (int d = 0; d < FLOAT_DTYPES; d++)
        for (int lie = 0; lie < LIES; lie++) {
            struct run r = run_new(&cases[_i], float_dtypes[d], (enum lie)lie);

            forward(&r);
            expect_near("attention", &r.o, r.plain.o, r.bound);
            expect_lse(&r);
            run_free(&r);
        }
}

/* Inputs that the backward saved are taken as rounded by the forward, as in use. */
static void check_backward(struct run *r, int unwanted)
{
    struct operand dx[] = {operand_new(r->dtype, PLAIN, 4, r->q.desc.shape),
                           operand_new(r->dtype, PLAIN, 4, r->k.desc.shape),
                           operand_new(r->dtype, PLAIN, 4, r->v.desc.shape)};
    struct wf_kernel_call k = {.op = "attention_grad",
                               .n_in = 6,
                               .n_out = 3,
                               .attrs =
                                   &(union wf_op_attrs){.attention = {.causal = r->c->causal}}};
    struct operand *out[3];
    double *want[3];

    for (int i = 0; i < 3; i++) {
        want[i] = calloc((size_t)dx[i].desc.numel + 1, sizeof(double));
        out[i] = i == unwanted ? NULL : &dx[i];
    }
    forward(r);
    plain_backward(r->c, &r->plain, r->g.values, want);
    kernel_run(wf_cpu_attention_grad, &k, out,
               (struct operand *[]){&r->g, &r->q, &r->k, &r->v, &r->o, &r->lse}, &scalars);
    for (int i = 0; i < 3; i++) {
        if (i != unwanted)
            expect_near(i == 0 ? "dq" : i == 1 ? "dk" : "dv", &dx[i], want[i], 8 * r->bound);
        free(want[i]);
        operand_free(&dx[i]);
    }
}

WT_UNIT_TIMES(attention_grad__equals_plain_gradients, CASES)
{
    EACH_ISA
    for (int d = 0; d < FLOAT_DTYPES; d++)
        for (int lie = 0; lie < LIES; lie++) {
            struct run r = run_new(&cases[_i], float_dtypes[d], (enum lie)lie);

            check_backward(&r, lie - 1);
            run_free(&r);
        }
}

/* sum(g o) as a function of one input element. */
static double loss(struct run *r)
{
    double sum = 0;

    forward(r);
    for (int64_t i = 0; i < r->o.desc.numel; i++) sum += r->g.values[i] * r->o.values[i];
    return sum;
}

static double slope(struct run *r, struct operand *x, int64_t i)
{
    const double step = 1e-5, middle = x->values[i];
    double up, down;

    x->values[i] = middle + step;
    operand_write(x);
    up = loss(r);
    x->values[i] = middle - step;
    operand_write(x);
    down = loss(r);
    x->values[i] = middle;
    operand_write(x);
    return (up - down) / (2 * step);
}

WT_UNIT(attention_grad__equals_finite_differences)
{
    struct run r = run_new(&(struct attention_case){2, 6, 7, 2, 3, true}, WEFT_F64, PLAIN);
    struct operand dx[] = {operand_new(WEFT_F64, PLAIN, 4, r.q.desc.shape),
                           operand_new(WEFT_F64, PLAIN, 4, r.k.desc.shape),
                           operand_new(WEFT_F64, PLAIN, 4, r.v.desc.shape)};
    struct operand *x[] = {&r.q, &r.k, &r.v};
    struct wf_kernel_call k = {.op = "attention_grad",
                               .n_in = 6,
                               .n_out = 3,
                               .attrs = &(union wf_op_attrs){.attention = {.causal = 1}}};

    forward(&r);
    kernel_run(wf_cpu_attention_grad, &k, (struct operand *[]){&dx[0], &dx[1], &dx[2]},
               (struct operand *[]){&r.g, &r.q, &r.k, &r.v, &r.o, &r.lse}, &scalars);
    for (int n = 0; n < 3; n++) {
        for (int64_t i = 0; i < x[n]->desc.numel; i++)
            ck_assert_double_eq_tol(dx[n].values[i], slope(&r, x[n], i), 1e-8);
        operand_free(&dx[n]);
    }
    run_free(&r);
}

/* Thirds of a [B,T,3,H,D] array as arrays of their own, or back. */
static void move_third(const struct attention_case *c, double *packed, double *third, int part,
                       bool split)
{
    int64_t n = c->heads * c->d;

    for (int64_t row = 0; row < c->batch * c->tq; row++) {
        double *from = packed + (row * 3 + part) * n, *to = third + row * n;

        memcpy(split ? to : from, split ? from : to, (size_t)n * sizeof(double));
    }
}

static void check_packed(const struct attention_case *c, weft_dtype dtype, enum lie lie)
{
    int64_t shape[] = {c->batch, c->tq, 3, c->heads, c->d};
    struct operand qkv = operand_noise(dtype, lie, 5, shape, 9);
    struct operand dqkv = operand_new(dtype, PLAIN, 5, shape);
    struct run r = run_new(c, dtype, PLAIN);
    struct operand *x[] = {&r.q, &r.k, &r.v};
    struct wf_kernel_call k = {.op = "attention_packed",
                               .n_in = 1,
                               .n_out = 2,
                               .attrs = &(union wf_op_attrs){.attention = {.causal = c->causal}}};
    double *want = calloc((size_t)qkv.desc.numel + 1, sizeof *want), *dx[3];

    for (int i = 0; i < 3; i++) {
        move_third(c, qkv.values, x[i]->values, i, true);
        dx[i] = calloc((size_t)r.q.desc.numel + 1, sizeof(double));
    }
    plain_forward(c, &r.plain);
    kernel_run(wf_cpu_attention_packed, &k, (struct operand *[]){&r.o, &r.lse},
               (struct operand *[]){&qkv}, &scalars);
    expect_near("attention_packed", &r.o, r.plain.o, r.bound);
    expect_lse(&r);
    plain_backward(c, &r.plain, r.g.values, dx);
    call_with(wf_cpu_attention_packed_grad,
              &(union wf_op_attrs){.attention = {.causal = c->causal}}, &dqkv, 4,
              (struct operand *[]){&r.g, &qkv, &r.o, &r.lse}, &scalars);
    for (int i = 0; i < 3; i++) {
        move_third(c, want, dx[i], i, false);
        free(dx[i]);
    }
    expect_near("attention_packed_grad", &dqkv, want, 8 * r.bound);
    free(want);
    OPERANDS_FREE(&qkv, &dqkv);
    run_free(&r);
}

WT_UNIT_TIMES(attention_packed__equals_the_plain_form, CASES)
{
    if (cases[_i].tq != cases[_i].tk) return;
    EACH_ISA
    for (int d = 0; d < FLOAT_DTYPES; d++)
        for (int lie = 0; lie < LIES; lie++)
            check_packed(&cases[_i], float_dtypes[d], (enum lie)lie);
}

/* Scores of up to 6000 and more times the scale: e^ of them does not exist, but the probabilities
 * do, and the gradient of the values is made of them: 1 of key 0 for the first 290 queries, then
 * halves of keys 0 and 290. */
static void check_large_scores(double size, double rounding)
{
    struct run r = run_new(&(struct attention_case){1, 300, 300, 1, 1, true}, WEFT_F32, PLAIN);
    struct operand dv = operand_new(WEFT_F32, PLAIN, 4, r.v.desc.shape);
    struct wf_kernel_call k = {.op = "attention_grad",
                               .n_in = 6,
                               .n_out = 3,
                               .attrs = &(union wf_op_attrs){.attention = {.causal = true}}};
    double first = 0, last = 0;

    for (int64_t i = 0; i < 300; i++) {
        r.q.values[i] = size;
        r.k.values[i] = i % 290 == 0 ? 3 : -1;
        r.v.values[i] = (double)i;
        r.g.values[i] = (double)(i % 7);
        if (i < 290)
            first += r.g.values[i];
        else
            last += r.g.values[i] / 2;
    }
    operand_write(&r.q);
    operand_write(&r.k);
    operand_write(&r.v);
    operand_write(&r.g);
    forward(&r);
    for (int64_t i = 0; i < 300; i++) ck_assert_double_eq(r.o.values[i], i < 290 ? 0 : 145);
    kernel_run(wf_cpu_attention_grad, &k, (struct operand *[]){NULL, NULL, &dv},
               (struct operand *[]){&r.g, &r.q, &r.k, &r.v, &r.o, &r.lse}, &scalars);
    for (int64_t i = 1; i < 300; i++)
        ck_assert_double_le(fabs(dv.values[i] - (i == 290 ? last : 0)), rounding * last);
    ck_assert_double_le(fabs(dv.values[0] - first - last), rounding * (first + last));
    operand_free(&dv);
    run_free(&r);
}

WT_UNIT(attention__large_scores_neither_overflow_nor_vanish)
{
    EACH_ISA
    {
        check_large_scores(2000, 1e-3);
        check_large_scores(2e5, 0.1);
    }
}

/* Where lse cannot hold the logarithm of the sum, one key's probability is 1 still. */
WT_UNIT(attention__scores_beyond_every_sum_have_gradients)
{
    static const double sizes[] = {3e7, 5e12, 7e25, 1e37};

    EACH_ISA
    for (int s = 0; s < 4; s++) {
        struct run r = run_new(&(struct attention_case){1, 70, 70, 1, 1, false}, WEFT_F32, PLAIN);
        struct operand dv = operand_new(WEFT_F32, PLAIN, 4, r.v.desc.shape);
        struct wf_kernel_call k = {.op = "attention_grad",
                                   .n_in = 6,
                                   .n_out = 3,
                                   .attrs = &(union wf_op_attrs){.attention = {.causal = false}}};

        for (int64_t i = 0; i < 70; i++) {
            r.q.values[i] = sizes[s] * (1 + 0.01 * (double)i);
            r.k.values[i] = i == 33 ? 3 : -1;
            r.g.values[i] = 1;
        }
        operand_write(&r.q);
        operand_write(&r.k);
        operand_write(&r.g);
        forward(&r);
        kernel_run(wf_cpu_attention_grad, &k, (struct operand *[]){NULL, NULL, &dv},
                   (struct operand *[]){&r.g, &r.q, &r.k, &r.v, &r.o, &r.lse}, &scalars);
        for (int64_t i = 0; i < 70; i++) ck_assert_double_eq(dv.values[i], i == 33 ? 70 : 0);
        operand_free(&dv);
        run_free(&r);
    }
}

enum { RISING = 600 }; /* keys, several blocks of them */

/* Scores that rise from key to key by `step`, some of them -inf from key `first_infinite` on. */
static void check_rising_scores(double step, bool causal, int64_t first_infinite, int64_t infinite)
{
    struct run r =
        run_new(&(struct attention_case){1, RISING, RISING, 1, 9, causal}, WEFT_F32, PLAIN);

    for (int64_t i = 0; i < RISING; i++) {
        bool hidden = i >= first_infinite && i < first_infinite + infinite;

        r.q.values[9 * i] = 1;
        r.k.values[9 * i] = hidden ? -(double)INFINITY : (double)(float)(step / SCALE * (double)i);
    }
    operand_write(&r.q);
    operand_write(&r.k);
    plain_forward(r.c, &r.plain);
    forward(&r);
    expect_near("attention", &r.o, r.plain.o, 64 * r.bound);
    for (int64_t i = 0; i < RISING; i++)
        ck_assert_double_le(fabs(r.lse.values[i] - r.plain.lse[i]),
                            1e-6 * (1 + fabs(r.plain.lse[i])));
    run_free(&r);
}

/* What probabilities are relative to is the first keys' maximum, until others are far above it. */
WT_UNIT(attention__scores_may_rise_or_fall_over_blocks)
{
    static const double steps[] = {0.01, 0.05, 0.3, 1, -0.05, -0.3, -5};

    EACH_ISA
    for (int i = 0; i < 7; i++)
        for (int causal = 0; causal < 2; causal++) {
            check_rising_scores(steps[i], causal, 0, 0);
            check_rising_scores(steps[i], causal, 3, 2);
            check_rising_scores(steps[i], causal, 270, 1);
            if (!causal) check_rising_scores(steps[i], false, 0, 20);
        }
}

/* A key whose score is -inf gets no gradient, nor does its value. */
WT_UNIT(attention_grad__a_key_of_probability_0_gets_none)
{
    EACH_ISA
    {
        struct run r =
            run_new(&(struct attention_case){1, RISING, RISING, 1, 9, false}, WEFT_F32, PLAIN);
        struct operand dk = operand_new(WEFT_F32, PLAIN, 4, r.k.desc.shape);
        struct operand dv = operand_new(WEFT_F32, PLAIN, 4, r.v.desc.shape);
        struct wf_kernel_call k = {.op = "attention_grad",
                                   .n_in = 6,
                                   .n_out = 3,
                                   .attrs = &(union wf_op_attrs){.attention = {.causal = false}}};
        double *want[3];

        for (int i = 0; i < 3; i++) want[i] = calloc((size_t)r.q.desc.numel, sizeof(double));
        for (int64_t i = 0; i < RISING; i++) r.q.values[9 * i] = 1;
        r.k.values[9 * 17] = -(double)INFINITY;
        operand_write(&r.q);
        operand_write(&r.k);
        plain_forward(r.c, &r.plain);
        plain_backward(r.c, &r.plain, r.g.values, want);
        forward(&r);
        kernel_run(wf_cpu_attention_grad, &k, (struct operand *[]){NULL, &dk, &dv},
                   (struct operand *[]){&r.g, &r.q, &r.k, &r.v, &r.o, &r.lse}, &scalars);
        expect_near("dk", &dk, want[1], 8 * r.bound);
        expect_near("dv", &dv, want[2], 8 * r.bound);
        for (int64_t j = 0; j < 9; j++)
            ck_assert(dk.values[9 * 17 + j] == 0 && dv.values[9 * 17 + j] == 0);
        for (int i = 0; i < 3; i++) free(want[i]);
        OPERANDS_FREE(&dk, &dv);
        run_free(&r);
    }
}

int main(void) { return wt_unit_main("attention"); }
