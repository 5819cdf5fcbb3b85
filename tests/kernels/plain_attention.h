/*
 * plain_attention.h: attention and its gradients by plain loops in f64, and one run of the kernel
 * beside them.
 */
#pragma once

#include "operands.h"

struct attention_case {
    int64_t batch, tq, tk, heads, d;
    bool causal;
};

#define SCALE 0.37

/* One head's numbers: element (t, j) of batch b, head h of a [B,T,H,D] array. */
static inline int64_t at(const struct attention_case *c, int64_t t_size, int64_t b, int64_t t,
                         int64_t h, int64_t j)
{
    return ((b * t_size + t) * c->heads + h) * c->d + j;
}

static inline bool sees(const struct attention_case *c, int64_t query, int64_t key)
{
    return !c->causal || key <= query + c->tk - c->tq;
}

struct plain {
    const double *q, *k, *v;
    double *o, *lse;
    double *probs; /* [B,H,Tq,Tk] */
};

static inline double score(const struct attention_case *c, const struct plain *x, int64_t b,
                           int64_t h, int64_t i, int64_t l)
{
    double sum = 0;

    for (int64_t j = 0; j < c->d; j++)
        sum += x->q[at(c, c->tq, b, i, h, j)] * x->k[at(c, c->tk, b, l, h, j)];
    return SCALE * sum;
}

static inline void plain_query(const struct attention_case *c, struct plain *x, int64_t b,
                               int64_t h, int64_t i)
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

static inline void plain_forward(const struct attention_case *c, struct plain *x)
{
    for (int64_t b = 0; b < c->batch; b++)
        for (int64_t h = 0; h < c->heads; h++)
            for (int64_t i = 0; i < c->tq; i++) plain_query(c, x, b, h, i);
}

/* dq, dk, dv, each zero before. */
static inline void plain_backward(const struct attention_case *c, const struct plain *x,
                                  const double *g, double *const *dx)
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

static inline struct run run_new(const struct attention_case *c, weft_dtype dtype, enum lie lie)
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

static inline void run_free(struct run *r)
{
    free(r->plain.o);
    free(r->plain.lse);
    free(r->plain.probs);
    OPERANDS_FREE(&r->q, &r->k, &r->v, &r->g, &r->o, &r->lse);
}

static const struct wf_scalars scalars = {.s = {SCALE}};

static inline void forward(struct run *r)
{
    struct wf_kernel_call k = {.op = "attention",
                               .n_in = 3,
                               .n_out = 2,
                               .attrs =
                                   &(union wf_op_attrs){.attention = {.causal = r->c->causal}}};

    kernel_run(wf_cpu_attention, &k, (struct operand *[]){&r->o, &r->lse},
               (struct operand *[]){&r->q, &r->k, &r->v}, &scalars);
}

static inline void expect_lse(const struct run *r)
{
    for (int64_t i = 0; i < r->lse.desc.numel; i++) {
        double want = r->plain.lse[i], got = r->lse.values[i];

        if (isinf(want) ? got == want : fabs(got - want) <= dtype_bound(r->lse_dtype)) continue;
        ck_abort_msg("lse %lld is %g, not %g", (long long)i, got, want);
    }
}

/* The gradients that are not NULL; forward has run. */
static inline void backward(struct run *r, struct operand *dq, struct operand *dk,
                            struct operand *dv)
{
    struct wf_kernel_call k = {.op = "attention_grad",
                               .n_in = 6,
                               .n_out = 3,
                               .attrs =
                                   &(union wf_op_attrs){.attention = {.causal = r->c->causal}}};

    kernel_run(wf_cpu_attention_grad, &k, (struct operand *[]){dq, dk, dv},
               (struct operand *[]){&r->g, &r->q, &r->k, &r->v, &r->o, &r->lse}, &scalars);
}

/* Inputs that the backward saved are taken as rounded by the forward, as in use. */
static inline void check_backward(struct run *r, int unwanted)
{
    struct operand dx[] = {operand_new(r->dtype, PLAIN, 4, r->q.desc.shape),
                           operand_new(r->dtype, PLAIN, 4, r->k.desc.shape),
                           operand_new(r->dtype, PLAIN, 4, r->v.desc.shape)};
    struct operand *out[3];
    double *want[3];

    for (int i = 0; i < 3; i++) {
        want[i] = calloc((size_t)dx[i].desc.numel + 1, sizeof(double));
        out[i] = i == unwanted ? NULL : &dx[i];
    }
    forward(r);
    plain_backward(r->c, &r->plain, r->g.values, want);
    backward(r, out[0], out[1], out[2]);
    for (int i = 0; i < 3; i++) {
        if (i != unwanted)
            expect_near(i == 0 ? "dq" : i == 1 ? "dk" : "dv", &dx[i], want[i], 8 * r->bound);
        free(want[i]);
        operand_free(&dx[i]);
    }
}
