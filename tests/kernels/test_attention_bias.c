/*
 * test_attention_bias.c: a bias of the scores and its gradient against plain loops in f64, for
 * every way in which batch entries, heads and queries can share it.
 */
#include "operands.h"

#define SCALE 0.37

struct bias_case {
    int64_t batch, tq, tk, groups, repeats, d;
    bool causal;
    int64_t unused;
};

static const struct bias_case cases[] = {
    {2, 5, 5, 3, 2, 4, true, 0},      {2, 33, 33, 2, 1, 7, true, 0},
    {1, 70, 290, 1, 2, 16, false, 0}, {3, 1, 19, 2, 3, 8, true, 4},
    {2, 21, 9, 2, 1, 5, true, 0},     {2, 40, 45, 1, 3, 6, true, 6},
    {2, 130, 130, 2, 2, 5, true, 0},  {0, 4, 4, 2, 1, 4, true, 0},
    {2, 0, 3, 2, 2, 4, false, 0},     {2, 3, 0, 1, 2, 4, false, 0},
    {2, 3, 3, 2, 0, 4, false, 0},
};
enum { CASES = sizeof cases / sizeof *cases, SHARED = 16 };

struct run {
    struct bias_case c;
    weft_dtype dtype;
    bool mask_is_added;                    /* to scores, otherwise it hides keys */
    struct operand q, k, v, g, bias, mask; /* inputs */
    struct operand o, lse;
    struct operand dq, dk, dv, dbias;
    double *want_o, *want_lse, *want_dq, *want_dk, *want_dv, *want_dbias;
};

static int64_t query_at(const struct run *r, const int64_t *at, int64_t j)
{
    const struct bias_case *c = &r->c; /* at: b, g, r, i */

    return (((at[0] * c->tq + at[3]) * c->groups + at[1]) * c->repeats + at[2]) * c->d + j;
}

static int64_t key_at(const struct run *r, const int64_t *at, int64_t key, int64_t j)
{
    return ((at[0] * r->c.tk + key) * r->c.groups + at[1]) * r->c.d + j;
}

static int64_t bias_element(const struct run *r, const int64_t *at, int64_t key)
{
    const int64_t *shape = r->bias.desc.shape;
    int64_t n = 0;

    for (int d = 0; d < 4; d++) n = n * shape[d] + (shape[d] == 1 ? 0 : at[d]);
    return n * r->c.tk + key;
}

/* The mask has a row for each batch entry, or one for each query. */
static double mask_value(const struct run *r, const int64_t *at, int64_t key)
{
    return r->mask.values[(r->mask_is_added ? at[3] : at[0]) * r->c.tk + key];
}

static bool sees(const struct run *r, const int64_t *at, int64_t key)
{
    int64_t there = r->c.tk - r->c.unused;

    return key < there && (!r->c.causal || key <= at[3] + there - r->c.tq) &&
           (r->mask_is_added || mask_value(r, at, key) != 0);
}

static double score(const struct run *r, const int64_t *at, int64_t key)
{
    double sum = 0;

    for (int64_t j = 0; j < r->c.d; j++)
        sum += r->q.values[query_at(r, at, j)] * r->k.values[key_at(r, at, key, j)];
    return SCALE * sum + r->bias.values[bias_element(r, at, key)] +
           (r->mask_is_added ? mask_value(r, at, key) : 0);
}

/* One query, forward and backward; p has room for its probabilities. */
static void plain_query(struct run *r, const int64_t *at, double *p)
{
    const struct bias_case *c = &r->c;
    double sum = 0, delta = 0;

    for (int64_t l = 0; l < c->tk; l++) sum += p[l] = sees(r, at, l) ? exp(score(r, at, l)) : 0;
    r->want_lse[((at[0] * c->groups + at[1]) * c->repeats + at[2]) * c->tq + at[3]] = log(sum);
    for (int64_t l = 0; l < c->tk && sum > 0; l++) {
        p[l] /= sum;
        for (int64_t j = 0; j < c->d; j++)
            r->want_o[query_at(r, at, j)] += p[l] * r->v.values[key_at(r, at, l, j)];
    }
    for (int64_t j = 0; j < c->d; j++)
        delta += r->g.values[query_at(r, at, j)] * r->want_o[query_at(r, at, j)];
    for (int64_t l = 0; l < c->tk; l++) {
        double dp = 0, ds;

        for (int64_t j = 0; j < c->d; j++) {
            dp += r->g.values[query_at(r, at, j)] * r->v.values[key_at(r, at, l, j)];
            r->want_dv[key_at(r, at, l, j)] += p[l] * r->g.values[query_at(r, at, j)];
        }
        ds = p[l] * (dp - delta);
        r->want_dbias[bias_element(r, at, l)] += ds;
        for (int64_t j = 0; j < c->d; j++) {
            r->want_dq[query_at(r, at, j)] += SCALE * ds * r->k.values[key_at(r, at, l, j)];
            r->want_dk[key_at(r, at, l, j)] += SCALE * ds * r->q.values[query_at(r, at, j)];
        }
    }
}

static void plain(struct run *r)
{
    const struct bias_case *c = &r->c;
    double *p = calloc((size_t)c->tk + 1, sizeof *p);

    for (int64_t n = 0; n < c->batch * c->groups * c->repeats * c->tq; n++) {
        int64_t heads = c->groups * c->repeats, i = n % c->tq, h = n / c->tq % heads;

        plain_query(r, (int64_t[]){n / c->tq / heads, h / c->repeats, h % c->repeats, i}, p);
    }
    free(p);
}

static double *zeros(const struct operand *like)
{
    return calloc((size_t)like->desc.numel + 1, sizeof(double));
}

/* Bits of `shared`: batch entries, groups, heads of a group, queries have one bias. */
static struct run run_new(const struct bias_case *c, weft_dtype dtype, enum lie lie, int shared)
{
    struct run r = {.c = *c, .dtype = dtype};
    int64_t queries[] = {c->batch, c->tq, c->groups, c->repeats, c->d};
    int64_t keys[] = {c->batch, c->tk, c->groups, c->d};
    int64_t mask[] = {c->batch, 1, c->tk}, added[] = {1, c->tq, c->tk};
    int64_t rows[] = {c->batch, c->groups, c->repeats, c->tq};
    int64_t bias[] = {c->batch, c->groups, c->repeats, c->tq, c->tk};

    for (int d = 0; d < 4; d++)
        if (shared >> d & 1) bias[d] = 1;
    r.q = operand_noise(dtype, lie, 5, queries, 1);
    r.k = operand_noise(dtype, lie, 4, keys, 2);
    r.v = operand_noise(dtype, lie, 4, keys, 3);
    r.g = operand_noise(dtype, lie, 5, queries, 4);
    r.bias = operand_noise(dtype, lie, 5, bias, 5);
    r.mask_is_added = shared % 3 == 1;
    r.mask = r.mask_is_added ? operand_noise(dtype, lie, 3, added, 6)
                             : operand_new(WEFT_BOOL, PLAIN, 3, mask);
    for (int64_t i = 0; !r.mask_is_added && i < r.mask.desc.numel; i++)
        r.mask.values[i] = i % 7 != 2;
    operand_write(&r.mask);
    r.o = operand_new(dtype, PLAIN, 5, queries);
    r.lse = operand_new(dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32, PLAIN, 4, rows);
    r.dq = operand_new(dtype, PLAIN, 5, queries);
    r.dk = operand_new(dtype, PLAIN, 4, keys);
    r.dv = operand_new(dtype, PLAIN, 4, keys);
    r.dbias = operand_new(dtype, PLAIN, 5, bias);
    r.want_o = zeros(&r.o);
    r.want_lse = zeros(&r.lse);
    r.want_dq = zeros(&r.dq);
    r.want_dk = zeros(&r.dk);
    r.want_dv = zeros(&r.dv);
    r.want_dbias = zeros(&r.dbias);
    plain(&r);
    return r;
}

static void run_free(struct run *r)
{
    struct operand *all[] = {&r->q, &r->k,   &r->v,  &r->g,  &r->bias, &r->mask,
                             &r->o, &r->lse, &r->dq, &r->dk, &r->dv,   &r->dbias};
    double *wanted[] = {r->want_o, r->want_lse, r->want_dq, r->want_dk, r->want_dv, r->want_dbias};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) operand_free(all[i]);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) free(wanted[i]);
}

static void expect_lse(const struct run *r)
{
    for (int64_t i = 0; i < r->lse.desc.numel; i++) {
        double want = r->want_lse[i], got = r->lse.values[i];

        if (isinf(want) ? got == want : fabs(got - want) <= 2 * dtype_bound(r->lse.desc.dtype))
            continue;
        ck_abort_msg("lse %lld is %g, not %g", (long long)i, got, want);
    }
}

static void check(struct run *r, bool wanted)
{
    struct wf_scalars scalars = {.s = {SCALE}, .v = {r->c.unused}};
    struct wf_kernel_call k = {.op = "attention",
                               .n_in = 5,
                               .n_out = 2,
                               .attrs = &(union wf_op_attrs){.attention = {.causal = r->c.causal}}};
    struct wf_kernel_call grad = {
        .op = "attention_grad",
        .n_in = 8,
        .n_out = 4,
        .attrs =
            &(union wf_op_attrs){.attention = {.causal = r->c.causal, .bias_gradient = wanted}}};
    double bound = dtype_bound(r->dtype), many = (double)(r->c.batch * r->c.tq + 1);

    kernel_run(wf_cpu_attention, &k, (struct operand *[]){&r->o, &r->lse},
               (struct operand *[]){&r->q, &r->k, &r->v, &r->mask, &r->bias}, &scalars);
    expect_near("attention", &r->o, r->want_o, 2 * bound);
    expect_lse(r);
    kernel_run(wf_cpu_attention_grad, &grad,
               (struct operand *[]){&r->dq, &r->dk, &r->dv, wanted ? &r->dbias : NULL},
               (struct operand *[]){&r->g, &r->q, &r->k, &r->v, &r->o, &r->lse, &r->mask, &r->bias},
               &scalars);
    expect_near("dq", &r->dq, r->want_dq, 8 * bound);
    expect_near("dk", &r->dk, r->want_dk, 8 * bound);
    expect_near("dv", &r->dv, r->want_dv, 8 * bound);
    /* O is rounded before it enters the gradient: one such error per query that shares. */
    if (wanted)
        expect_near("dbias", &r->dbias, r->want_dbias,
                    bound * (wf_dtype_is_16_bit_float(r->dtype) ? 4 * sqrt(many) : 8));
}

/* trial 4.4 */
WT_UNIT_TIMES(attention_bias__values_and_gradients_equal_plain_loops, CASES)
{
    EACH_ISA
    for (int d = 0; d < FLOAT_DTYPES; d++)
        for (int shared = 0; shared < SHARED; shared++) {
            enum lie lie = (enum lie)((shared + d) % LIES);
            struct run r = run_new(&cases[_i], float_dtypes[d], lie, shared);

            check(&r, shared % 5 != 3);
            run_free(&r);
        }
}

int main(void) { return wt_unit_main("attention_bias"); }
