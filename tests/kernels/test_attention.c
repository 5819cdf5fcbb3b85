/*
 * test_attention.c: attention against plain loops in f64, its gradients against the plain
 * gradients and against finite differences, and the packed forms against the plain ones.
 */
#include "plain_attention.h"

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

    forward(&r);
    backward(&r, &dx[0], &dx[1], &dx[2]);
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

int main(void) { return wt_unit_main("attention"); }
