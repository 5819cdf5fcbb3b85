/*
 * test_attention_scores.c: scores that are large, infinite, no numbers or far apart, and heads that
 * share their keys, over several blocks of these.
 */
#include "plain_attention.h"

/* Scores of up to 6000 and more times the scale: e^ of them does not exist, but the probabilities
 * do, and the gradient of the values is made of them: 1 of key 0 for the first 290 queries, then
 * halves of keys 0 and 290. */
static void check_large_scores(double size, double rounding)
{
    struct run r = run_new(&(struct attention_case){1, 300, 300, 1, 1, true}, WEFT_F32, PLAIN);
    struct operand dv = operand_new(WEFT_F32, PLAIN, 4, r.v.desc.shape);
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
    backward(&r, NULL, NULL, &dv);
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

        for (int64_t i = 0; i < 70; i++) {
            r.q.values[i] = sizes[s] * (1 + 0.01 * (double)i);
            r.k.values[i] = i == 33 ? 3 : -1;
            r.g.values[i] = 1;
        }
        operand_write(&r.q);
        operand_write(&r.k);
        operand_write(&r.g);
        forward(&r);
        backward(&r, NULL, NULL, &dv);
        for (int64_t i = 0; i < 70; i++) ck_assert_double_eq(dv.values[i], i == 33 ? 70 : 0);
        operand_free(&dv);
        run_free(&r);
    }
}

/* lse against the plain one, relative to its size; -inf of a query that sees no key. */
static void expect_lse_relative(const struct run *r)
{
    for (int64_t i = 0; i < r->lse.desc.numel; i++) {
        double want = r->plain.lse[i], got = r->lse.values[i];

        ck_assert(isinf(want) ? got == want : fabs(got - want) <= 1e-6 * (1 + fabs(want)));
    }
}

enum { MANY = 600 }; /* keys, several blocks of them */

/* Scores that rise or fall from key to key by `step`; those of `infinite` keys from the
 * first_infinite one on are -inf. */
static void check_sloping_scores(double step, bool causal, int64_t first_infinite, int64_t infinite)
{
    struct run r = run_new(&(struct attention_case){1, MANY, MANY, 1, 9, causal}, WEFT_F32, PLAIN);

    for (int64_t i = 0; i < MANY; i++) {
        bool none = i >= first_infinite && i < first_infinite + infinite;

        r.q.values[9 * i] = 1;
        r.k.values[9 * i] = none ? -(double)INFINITY : (double)(float)(step / SCALE * (double)i);
    }
    operand_write(&r.q);
    operand_write(&r.k);
    plain_forward(r.c, &r.plain);
    forward(&r);
    expect_near("attention", &r.o, r.plain.o, 64 * r.bound);
    expect_lse_relative(&r);
    run_free(&r);
}

/* What probabilities are relative to is the first keys' maximum, until others are far above it. */
WT_UNIT(attention__scores_may_rise_or_fall_over_blocks)
{
    static const double steps[] = {0.01, 0.05, 0.3, 1, -0.05, -0.3, -5};

    EACH_ISA
    for (int i = 0; i < 7; i++)
        for (int causal = 0; causal < 2; causal++) {
            check_sloping_scores(steps[i], causal, 0, 0);
            check_sloping_scores(steps[i], causal, 3, 2);
            check_sloping_scores(steps[i], causal, 270, 1);
            if (!causal) check_sloping_scores(steps[i], false, 0, 20);
        }
}

/* Key number `far` is above all others, which are alike. */
static void check_one_key_above(const struct attention_case *c, int64_t far, double above)
{
    struct run r = run_new(c, WEFT_F32, PLAIN);

    for (int64_t n = 0; n < c->tq; n++) r.q.values[c->d * n] = 1;
    for (int64_t n = 0; n < c->tk; n++)
        r.k.values[c->d * n] = n == far ? (double)(float)(above / SCALE) : 0;
    operand_write(&r.q);
    operand_write(&r.k);
    plain_forward(c, &r.plain);
    forward(&r);
    expect_near("attention", &r.o, r.plain.o, 16 * r.bound);
    expect_lse_relative(&r);
    check_backward(&r, 0);
    run_free(&r);
}

/* The last key is in no whole tile of any instruction set. */
WT_UNIT(attention__one_late_key_may_be_far_above_the_others)
{
    static const double above[] = {10, 60, 89, 95, 100, 130, 200, 300, 400, 600};

    EACH_ISA
    for (int i = 0; i < 10; i++)
        for (int causal = 0; causal < 2; causal++)
            check_one_key_above(&(struct attention_case){1, 71, 71, 1, 3, causal}, 70, above[i]);
}

/* A key on the diagonal is seen by some of the queries that are computed together, the whole of
 * them or the second half, wherever the diagonal begins. */
WT_UNIT(attention__a_key_far_above_may_be_on_the_diagonal)
{
    static const struct attention_case cases[] = {{1, 71, 71, 1, 3, true},
                                                  {1, 71, 84, 1, 3, true},
                                                  {1, 64, 600, 1, 3, true},
                                                  {1, 90, 70, 1, 3, true}};
    static const double above[] = {60, 130, 400};

    EACH_ISA
    for (int c = 0; c < 4; c++)
        for (int64_t query = 0; query < 64; query += 5)
            for (int i = 0; i < 3; i++) {
                int64_t far = query + cases[c].tk - cases[c].tq;

                if (far >= 0) check_one_key_above(&cases[c], far, above[i]);
            }
}

/* Of equal keys the probabilities are equal, within what rounding makes of large scores. */
WT_UNIT(attention__equal_keys_have_equal_probabilities)
{
    EACH_ISA
    {
        struct run r = run_new(&(struct attention_case){1, 70, 70, 1, 64, false}, WEFT_F32, PLAIN);
        double scale = 0;

        for (int64_t j = 0; j < 64; j++) scale += r.k.values[j] * r.k.values[j];
        for (int64_t i = 0; i < 70 * 64; i++) {
            r.k.values[i] = r.k.values[i % 64];
            r.q.values[i] = (double)(float)(80 / SCALE / scale * r.k.values[i % 64]);
        }
        operand_write(&r.q);
        operand_write(&r.k);
        forward(&r);
        for (int64_t j = 0; j < 64; j++) {
            double mean = 0;

            for (int64_t i = 0; i < 70; i++) mean += r.v.values[64 * i + j] / 70;
            for (int64_t i = 0; i < 70; i++)
                ck_assert_double_eq_tol(r.o.values[64 * i + j], mean, 5e-5);
        }
        run_free(&r);
    }
}

/* A key that is no number makes none of the queries that see it, and leaves the others. */
WT_UNIT(attention__a_nan_key_is_for_those_that_see_it)
{
    static const double values[] = {NAN, INFINITY};

    EACH_ISA
    for (int64_t at = 2; at < MANY; at += 149)
        for (int v = 0; v < 2; v++) {
            struct run r =
                run_new(&(struct attention_case){1, MANY, MANY, 1, 9, true}, WEFT_F32, PLAIN);

            for (int64_t i = 0; i < MANY; i++) r.q.values[9 * i] = 1;
            operand_write(&r.q);
            plain_forward(r.c, &r.plain);
            r.k.values[9 * at] = values[v];
            operand_write(&r.k);
            forward(&r);
            for (int64_t i = 0; i < 9 * MANY; i++)
                ck_assert(i < 9 * at ? fabs(r.o.values[i] - r.plain.o[i]) <= 8 * r.bound
                                     : isnan(r.o.values[i]));
            run_free(&r);
        }
}

/* Pairs of heads added up: [T,2 n,D] to [T,n,D]. */
static void add_pairs(int64_t rows, int64_t d, double *x)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < d; j++) x[i * d + j] = x[2 * i * d + j] + x[(2 * i + 1) * d + j];
}

/* Its dim of 4 heads as 2 groups of 2. */
static void group_heads(struct operand *x, int dim)
{
    for (int i = x->desc.ndim++; i > dim; i--) x->desc.shape[i] = x->desc.shape[i - 1];
    x->desc.shape[dim] = x->desc.shape[dim + 1] = 2;
    for (int i = 0; i < x->desc.ndim; i++) x->desc.global[i] = x->desc.shape[i];
    operand_strides(&x->desc, PLAIN);
}

/* Two heads of queries for each of keys, against keys given once for each head of queries. */
static void check_shared_keys(int64_t tq, int64_t tk)
{
    const struct attention_case c = {1, tq, tk, 4, 9, true};
    struct run r = run_new(&c, WEFT_F32, PLAIN);
    struct operand k = operand_noise(WEFT_F32, PLAIN, 4, (int64_t[]){1, tk, 2, c.d}, 5);
    struct operand v = operand_noise(WEFT_F32, PLAIN, 4, (int64_t[]){1, tk, 2, c.d}, 6);
    struct operand dq = operand_new(WEFT_F32, PLAIN, 4, r.q.desc.shape);
    struct operand dk = operand_new(WEFT_F32, PLAIN, 4, k.desc.shape);
    struct operand dv = operand_new(WEFT_F32, PLAIN, 4, k.desc.shape);
    const union wf_op_attrs attrs = {.attention = {.causal = true}};
    double *want[3];

    for (int64_t n = 0; n < tk * 4 * c.d; n++) {
        int64_t j = n % c.d, h = n / c.d % 4, t = n / c.d / 4;

        r.k.values[n] = k.values[(t * 2 + h / 2) * c.d + j];
        r.v.values[n] = v.values[(t * 2 + h / 2) * c.d + j];
    }
    plain_forward(&c, &r.plain);
    for (int i = 0; i < 3; i++)
        want[i] = calloc((size_t)(i ? r.k : r.q).desc.numel, sizeof(double));
    plain_backward(&c, &r.plain, r.g.values, want);
    for (int i = 1; i < 3; i++) add_pairs(tk * 2, c.d, want[i]);
    for (int i = 0; i < 4; i++) group_heads((struct operand *[]){&r.q, &r.g, &r.o, &dq}[i], 2);
    group_heads(&r.lse, 1);
    kernel_run(wf_cpu_attention,
               &(struct wf_kernel_call){.op = "attention", .n_in = 3, .n_out = 2, .attrs = &attrs},
               (struct operand *[]){&r.o, &r.lse}, (struct operand *[]){&r.q, &k, &v}, &scalars);
    expect_near("attention", &r.o, r.plain.o, r.bound);
    expect_lse(&r);
    kernel_run(
        wf_cpu_attention_grad,
        &(struct wf_kernel_call){.op = "attention_grad", .n_in = 6, .n_out = 3, .attrs = &attrs},
        (struct operand *[]){&dq, &dk, &dv}, (struct operand *[]){&r.g, &r.q, &k, &v, &r.o, &r.lse},
        &scalars);
    expect_near("dq", &dq, want[0], 8 * r.bound);
    expect_near("dk", &dk, want[1], 16 * r.bound);
    expect_near("dv", &dv, want[2], 16 * r.bound);
    for (int i = 0; i < 3; i++) free(want[i]);
    OPERANDS_FREE(&k, &v, &dq, &dk, &dv);
    run_free(&r);
}

WT_UNIT(attention__heads_may_share_many_keys)
{
    EACH_ISA
    {
        check_shared_keys(300, 300);
        check_shared_keys(290, 560);
    }
}

/* A key whose score is -inf gets no gradient, nor does its value. */
WT_UNIT(attention_grad__a_key_of_score_minus_infinity_gets_none)
{
    EACH_ISA
    {
        struct run r =
            run_new(&(struct attention_case){1, MANY, MANY, 1, 9, false}, WEFT_F32, PLAIN);
        struct operand dk = operand_new(WEFT_F32, PLAIN, 4, r.k.desc.shape);
        struct operand dv = operand_new(WEFT_F32, PLAIN, 4, r.v.desc.shape);
        double *want[3];

        for (int i = 0; i < 3; i++) want[i] = calloc((size_t)r.q.desc.numel, sizeof(double));
        for (int64_t i = 0; i < MANY; i++) r.q.values[9 * i] = 1;
        r.k.values[9 * 17] = -(double)INFINITY;
        operand_write(&r.q);
        operand_write(&r.k);
        plain_forward(r.c, &r.plain);
        plain_backward(r.c, &r.plain, r.g.values, want);
        forward(&r);
        backward(&r, NULL, &dk, &dv);
        expect_near("dk", &dk, want[1], 8 * r.bound);
        expect_near("dv", &dv, want[2], 8 * r.bound);
        for (int64_t j = 0; j < 9; j++)
            ck_assert(dk.values[9 * 17 + j] == 0 && dv.values[9 * 17 + j] == 0);
        for (int i = 0; i < 3; i++) free(want[i]);
        OPERANDS_FREE(&dk, &dv);
        run_free(&r);
    }
}

int main(void) { return wt_unit_main("attention_scores"); }
