/*
 * mlp.c: one training step of y = W2 gelu(W1 x + b1) + b2, 1024 - 4096 - 1024, mean squared error,
 * AdamW, f32, written by hand for n ranks: W1 split by rows, W2 by columns, partial sums in a
 * window.
 *
 *     mpiexec -n 2 hand_mlp TOKENS [STEPS] [check]      TOKENS: a multiple of 16
 *
 * What makes it fast: no product of the slow form x Wt with few rows (forward works on
 * feature-major activations, W xt, which reads W as it lies); gelu keeps its derivative; each
 * weight gradient goes into AdamW while it is in cache; each rank finishes the loss for its own
 * share of the output; 16 tokens, where everything waits for memory, read each weight twice and
 * never store a gradient (see few_*).
 *
 * Shapes: T tokens, D = 1024 in and out, f = 4096 / ranks hidden features of this rank. A suffix
 * says how rows lie: x_td is [T][ld], h_ft is [f][lt], and so on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hand.h"

enum { D = 1024, F = 4096, FEW = 16, MAX_RANKS = 8 };

static long T, f, ld, lf, lt; /* extents; strides of rows of D, f and T floats */
static float *x_td, *target_td;
static struct hand_param w1, w2, b1, b2; /* [f,D], [D,f], [f], [D] */

static float *x_dt, *h_ft, *h_tf;  /* input turned; activations in both orders */
static float *slope_ft, *slope_tf; /* gelu's derivative */
static float *dh_tf, *dh_ft;
static float *gradient; /* scratch for a part of a weight gradient */

/* in the window */
static float *part_dt[MAX_RANKS];  /* this rank's term of the output */
static float *part_dx[MAX_RANKS];  /* this rank's term of the input's gradient */
static float *dy_dt, *dx_td, *db2; /* whole: each rank writes its share */
static double *loss_part;          /* one cache line per rank */

enum { LOSS_LINE = 8 };

/* ---- any number of tokens ---- */

/* Rows [row, row + rows) of h_ft: bias and gelu, then value and derivative turned to [T][f] for the
 * products of the backward pass. */
static void gelu_rows(void *payload, long row, long rows, float *h)
{
    (void)payload;
    for (long i = 0; i < rows; i++) {
        float bias = b1.w[row + i];
        float *restrict value = h + i * lt, *restrict slope = slope_ft + (row + i) * lt;
        for (long t = 0; t < T; t++) {
            float d;
            value[t] = hand_gelu(value[t] + bias, &d);
            slope[t] = d;
        }
        if (i % 8 == 7) {
            hand_transpose(8, T, h + (i - 7) * lt, lt, h_tf + row + i - 7, lf);
            hand_transpose(8, T, slope_ft + (row + i - 7) * lt, lt, slope_tf + row + i - 7, lf);
        }
    }
}

static void gelu_grad_rows(void *payload, long row, long rows, float *dh)
{
    (void)payload;
    for (long i = 0; i < rows; i++) {
        float *restrict g = dh + i * lf, *restrict sum = b1.g;
        const float *restrict slope = slope_tf + (row + i) * lf;
        for (long j = 0; j < f; j++) {
            g[j] *= slope[j];
            sum[j] += g[j];
        }
    }
}

/* Sum of the ranks' terms: rows [from, to) of n floats. */
static void add_terms(float *out, float *const *terms, long from, long to, long n, long stride)
{
    for (long i = from; i < to; i++) {
        float *restrict o = out + i * stride;
        memcpy(o, terms[0] + i * stride, 4 * (size_t)n);
        for (int r = 1; r < hand_ranks; r++) {
            const float *restrict term = terms[r] + i * stride;
            for (long j = 0; j < n; j++) o[j] += term[j];
        }
    }
}

/* Output features [from, to): y = sum of terms + b2, its error, the gradients of y and b2. */
static double finish_output(long from, long to, const float *target_dt)
{
    const float scale = 2.0f / (float)(T * D);
    double squares = 0;

    add_terms(dy_dt, part_dt, from, to, T, lt);
    for (long i = from; i < to; i++) {
        float *restrict y = dy_dt + i * lt, bias = b2.w[i], sum = 0, square = 0;
        const float *restrict want = target_dt + (i - from) * lt;
        for (long t = 0; t < T; t++) {
            float e = y[t] + bias - want[t];
            square += e * e;
            y[t] = e * scale;
            sum += y[t];
        }
        squares += square;
        db2[i] = sum;
    }
    return squares;
}

static double mean_loss(double squares)
{
    double sum = 0;

    loss_part[hand_rank * LOSS_LINE] = squares;
    hand_barrier();
    for (int r = 0; r < hand_ranks; r++) sum += loss_part[r * LOSS_LINE];
    return sum / (double)(T * D);
}

static double forward(void)
{
    long from = hand_begin(D), to = hand_end(D);

    hand_transpose(T, D, x_td, ld, x_dt, lt);
    hand_gemm(&(struct hand_gemm){.m = f,
                                  .n = T,
                                  .k = D,
                                  .a = w1.w,
                                  .lda = w1.ld,
                                  .b = x_dt,
                                  .ldb = lt,
                                  .c = h_ft,
                                  .ldc = lt,
                                  .epilogue = gelu_rows});
    hand_gemm(&(struct hand_gemm){.m = D,
                                  .n = T,
                                  .k = f,
                                  .a = w2.w,
                                  .lda = w2.ld,
                                  .b = h_ft,
                                  .ldb = lt,
                                  .c = part_dt[hand_rank],
                                  .ldc = lt});
    hand_transpose(T, to - from, target_td + from, ld, gradient, lt);
    hand_barrier();
    return mean_loss(finish_output(from, to, gradient));
}

static void update_biases(void)
{
    hand_update(&b1, 0, 1, b1.g);
    hand_update(&b2, 0, 1, db2);
}

static void backward(void)
{
    memset(b1.g, 0, 4 * (size_t)f);
    hand_gemm(&(struct hand_gemm){.m = T,
                                  .n = f,
                                  .k = D,
                                  .ta = true,
                                  .a = dy_dt,
                                  .lda = lt,
                                  .b = w2.w,
                                  .ldb = w2.ld,
                                  .c = dh_tf,
                                  .ldc = lf,
                                  .epilogue = gelu_grad_rows});
    hand_gemm(&(struct hand_gemm){.m = T,
                                  .n = D,
                                  .k = f,
                                  .a = dh_tf,
                                  .lda = lf,
                                  .b = w1.w,
                                  .ldb = w1.ld,
                                  .c = part_dx[hand_rank],
                                  .ldc = ld});
    hand_post(); /* the others may have my term while I update */
    hand_gemm(&(struct hand_gemm){.m = D,
                                  .n = f,
                                  .k = T,
                                  .a = dy_dt,
                                  .lda = lt,
                                  .b = h_tf,
                                  .ldb = lf,
                                  .c = gradient,
                                  .ldc = w2.ld,
                                  .scratch = true,
                                  .epilogue = hand_update,
                                  .payload = &w2});
    hand_gemm(&(struct hand_gemm){.m = f,
                                  .n = D,
                                  .k = T,
                                  .ta = true,
                                  .a = dh_tf,
                                  .lda = lf,
                                  .b = x_td,
                                  .ldb = ld,
                                  .c = gradient,
                                  .ldc = w1.ld,
                                  .scratch = true,
                                  .epilogue = hand_update,
                                  .payload = &w1});
    update_biases();
    hand_wait();
    add_terms(dx_td, part_dx, hand_begin(T), hand_end(T), D, ld);
    hand_barrier();
}

static double step(void)
{
    hand_adam_next();
    double loss = forward();
    backward();
    return loss;
}

/* ---- 16 tokens: an activation of all tokens is one or two vectors, and weights come from memory
 * ---- */
enum {
    VECS = FEW / LANES,
    TILE = 16 / VECS / VECS, /* rows or columns of W whose sums stay in registers */
    BLOCK = 16,              /* rows of W taken together, so that they are read once into cache */
    PANEL = 256              /* columns of a gradient finished at a time */
};

/* out[n][16] = W[n][k] in[k][16]. Prefetches the rows that come next. */
static void few_forward(const struct hand_param *w, const float *in, float *out)
{
    for (long n = 0; n < w->rows; n += TILE) {
        const float *rows = w->w + n * w->ld;
        vec sum[TILE][VECS] = {{{0}}};

        for (long k0 = 0; k0 < w->cols; k0 += 16) {
            for (long i = 0; i < TILE; i++)
                __builtin_prefetch(rows + (TILE + i) * w->ld + k0, 0, 2);
            for (long k = k0; k < k0 + 16; k++) {
#pragma GCC unroll 16
                for (long i = 0; i < TILE; i++)
#pragma GCC unroll 2
                    for (long v = 0; v < VECS; v++)
                        sum[i][v] += rows[i * w->ld + k] * load(in + k * FEW + v * LANES);
            }
        }
#pragma GCC unroll 16
        for (long i = 0; i < TILE; i++)
#pragma GCC unroll 2
            for (long v = 0; v < VECS; v++) store(out + (n + i) * FEW + v * LANES, sum[i][v]);
    }
}

/* din[k][16] += W[n..n+BLOCK][k] dout[n..n+BLOCK][16] */
static void few_input_grad(const struct hand_param *w, long n, const float *dout, float *din)
{
    const float *rows = w->w + n * w->ld;
    const float *d = dout + n * FEW;

    for (long k = 0; k < w->cols; k += TILE) {
        vec sum[TILE][VECS];
#pragma GCC unroll 16
        for (long j = 0; j < TILE; j++)
#pragma GCC unroll 2
            for (long v = 0; v < VECS; v++) sum[j][v] = load(din + (k + j) * FEW + v * LANES);
        for (long i = 0; i < BLOCK; i++) {
            __builtin_prefetch(rows + (BLOCK + i) * w->ld + k, 0, 2);
#pragma GCC unroll 16
            for (long j = 0; j < TILE; j++)
#pragma GCC unroll 2
                for (long v = 0; v < VECS; v++)
                    sum[j][v] += rows[i * w->ld + k + j] * load(d + i * FEW + v * LANES);
        }
#pragma GCC unroll 16
        for (long j = 0; j < TILE; j++)
#pragma GCC unroll 2
            for (long v = 0; v < VECS; v++) store(din + (k + j) * FEW + v * LANES, sum[j][v]);
    }
}

/* g[i][PANEL] = sum over tokens of dout[i][t] in[t][PANEL], for two rows i */
static void few_gradient(const float *dout, const float *in, long in_ld, float g[2][PANEL])
{
    enum { WIDE = LANES / 2 };

    for (long j = 0; j < PANEL; j += WIDE * LANES) {
        vec sum[2][WIDE] = {{{0}}};
        for (long t = 0; t < FEW; t++)
#pragma GCC unroll 8
            for (long v = 0; v < WIDE; v++) {
                vec x = load(in + t * in_ld + j + v * LANES);
                sum[0][v] += dout[t] * x;
                sum[1][v] += dout[FEW + t] * x;
            }
#pragma GCC unroll 2
        for (long i = 0; i < 2; i++)
#pragma GCC unroll 8
            for (long v = 0; v < WIDE; v++) store(g[i] + j + v * LANES, sum[i][v]);
    }
}

/* AdamW for PANEL weights at `at`, while the same columns of the next block of rows come closer. */
static void few_adam(struct hand_param *w, long at, const float *g)
{
    for (long j = 0; j < PANEL; j += 16) {
        __builtin_prefetch(w->m + at + BLOCK * w->ld + j, 1, 2);
        __builtin_prefetch(w->v + at + BLOCK * w->ld + j, 1, 2);
    }
    if (hand_checking)
        memcpy(w->g + at, g, 4 * PANEL);
    else
        hand_adam(PANEL, g, w->w + at, w->m + at, w->v + at);
}

/* AdamW on BLOCK rows: a gradient lives in registers and one panel of first-level cache. */
static void few_update(struct hand_param *w, long n, const float *dout, const float *in, long in_ld)
{
    float g[2][PANEL];

    for (long k = 0; k < w->cols; k += PANEL)
        for (long i = n; i < n + BLOCK; i += 2) {
            few_gradient(dout + i * FEW, in + k, in_ld, g);
            few_adam(w, i * w->ld + k, g[0]);
            few_adam(w, (i + 1) * w->ld + k, g[1]);
        }
}

/* din = Wt dout, then the update of W; the second use of a block of rows finds it in cache. */
static void few_backward(struct hand_param *w, const float *dout, const float *in, long in_ld,
                         float *din)
{
    memset(din, 0, 4 * FEW * (size_t)w->cols);
    for (long n = 0; n < w->rows; n += BLOCK) {
        few_input_grad(w, n, dout, din);
        few_update(w, n, dout, in, in_ld);
    }
}

static float *few_target_dt;

static double few_step(void)
{
    hand_adam_next();
    hand_transpose(FEW, D, x_td, ld, x_dt, FEW);
    hand_transpose(FEW, D, target_td, ld, few_target_dt, FEW);
    few_forward(&w1, x_dt, h_ft);
    for (long i = 0; i < f; i++)
        for (long t = 0; t < FEW; t++)
            h_ft[i * FEW + t] = hand_gelu(h_ft[i * FEW + t] + b1.w[i], &slope_ft[i * FEW + t]);
    hand_transpose(f, FEW, h_ft, FEW, h_tf, lf);
    few_forward(&w2, h_ft, part_dt[hand_rank]);
    hand_barrier();
    /* 64 KB: all of it on every rank costs less than a second barrier */
    double squares = finish_output(0, D, few_target_dt);
    few_backward(&w2, dy_dt, h_tf, lf, dh_ft);
    for (long i = 0; i < f; i++) {
        float sum = 0;
        for (long t = 0; t < FEW; t++) sum += dh_ft[i * FEW + t] *= slope_ft[i * FEW + t];
        b1.g[i] = sum;
    }
    few_backward(&w1, dh_ft, x_td, ld, part_dx[hand_rank]);
    update_biases();
    hand_barrier();
    add_terms(dx_td, part_dx, hand_begin(D), hand_end(D), FEW, FEW); /* feature-major here */
    hand_barrier();
    return squares / (double)(FEW * D);
}

/* The products of a step with 16 tokens: the same loops without gelu, loss, AdamW and barriers. */
static double few_products(void)
{
    float g[2][PANEL];

    few_forward(&w1, x_dt, h_ft);
    few_forward(&w2, h_ft, part_dt[hand_rank]);
    for (int second = 0; second < 2; second++) {
        struct hand_param *w = second ? &w1 : &w2;
        for (long n = 0; n < w->rows; n += BLOCK) {
            few_input_grad(w, n, second ? dh_ft : dy_dt, second ? part_dx[hand_rank] : dh_ft);
            for (long k = 0; k < w->cols; k += PANEL)
                for (long i = n; i < n + BLOCK; i += 2)
                    few_gradient((second ? dh_ft : dy_dt) + i * FEW, (second ? x_td : h_tf) + k,
                                 second ? ld : lf, g);
        }
    }
    return g[0][0];
}

/* ---- set-up ---- */
static void allocate(void)
{
    long wide = lt > ld ? lt : ld;

    hand_window_open((2 * hand_ranks + 2) * (T > D ? T : D) * wide + 2 * D, 2 * hand_ranks + 4);
    for (int r = 0; r < hand_ranks; r++) {
        part_dt[r] = hand_window(D * lt);
        part_dx[r] = hand_window(T == FEW ? D * FEW : T * ld);
    }
    dx_td = hand_window(T == FEW ? D * FEW : T * ld);
    loss_part = (double *)hand_window(2 * LOSS_LINE * hand_ranks);
    /* with 16 tokens every rank keeps these two to itself */
    dy_dt = T == FEW ? hand_floats(D * lt) : hand_window(D * lt);
    db2 = T == FEW ? hand_floats(D) : hand_window(D);
    x_td = hand_floats(T * ld);
    target_td = hand_floats(T * ld);
    x_dt = hand_floats(D * lt);
    few_target_dt = hand_floats(D * FEW);
    h_ft = hand_floats(f * lt);
    h_tf = hand_floats(T * lf);
    slope_ft = hand_floats(f * lt);
    slope_tf = hand_floats(T * lf);
    dh_tf = hand_floats(T * lf);
    dh_ft = hand_floats(f * FEW);
    gradient = hand_floats(F * wide);
    w1 = hand_param("W1", f, D);
    w2 = hand_param("W2", D, f);
    b1 = hand_param("b1", 1, f);
    b2 = hand_param("b2", 1, D);
    if (b1.g == NULL) b1.g = hand_floats(f);
}

static void initialize(void)
{
    hand_param_init(&w1, 1, hand_rank * f, 0, D, 1.0f / 32);
    hand_param_init(&b1, 2, 0, hand_rank * f, F, 1.0f / 32);
    hand_param_init(&w2, 3, 0, hand_rank * f, F, 1.0f / 64);
    hand_param_init(&b2, 4, 0, 0, D, 1.0f / 64);
    for (long t = 0; t < T; t++)
        for (long j = 0; j < D; j++) {
            x_td[t * ld + j] = 1.7f * hand_value(5, (uint64_t)(t * D + j));
            target_td[t * ld + j] = hand_value(6, (uint64_t)(t * D + j));
        }
}

static void check(double (*run)(void))
{
    /* the input as a parameter whose gradient is dx */
    struct hand_param x = {
        .name = "x", .rows = T, .cols = D, .ld = ld, .w = x_td, .g = hand_floats(T * ld)};

    run();
    for (long t = 0; t < T; t++)
        for (long j = 0; j < D; j++)
            x.g[t * ld + j] = T == FEW ? dx_td[j * FEW + t] : dx_td[t * ld + j];
    hand_check(&w1, HAND_SPLIT, run);
    hand_check(&w2, HAND_SPLIT, run);
    hand_check(&b1, HAND_SPLIT, run);
    hand_check(&b2, HAND_COPIED, run);
    hand_check(&x, HAND_COPIED, run);
}

int main(int argc, char **argv)
{
    hand_start(&argc, &argv);
    T = argc > 1 ? atol(argv[1]) : 128;
    int steps = argc > 2 ? atoi(argv[2]) : 50;
    hand_checking = argc > 3 && strcmp(argv[3], "check") == 0;
    if (T < 16 || T % 16 || steps < 0 || F % (hand_ranks * PANEL) || hand_ranks > MAX_RANKS)
        hand_die(
            "usage: [mpiexec -n 1|2|4|8] hand_mlp TOKENS [STEPS] [check]; TOKENS a multiple of 16");
    f = F / hand_ranks;
    ld = hand_stride(D);
    lf = hand_stride(f);
    lt = T == FEW ? FEW : hand_stride(T);
    allocate();
    if (T != FEW) hand_tune(step);
    initialize();
    if (hand_checking) check(T == FEW ? few_step : step);
    hand_checking = false;
    hand_adam_reset();
    char title[64];
    snprintf(title, sizeof title, "hand_mlp, %ld tokens", T);
    hand_report(title, steps, T == FEW ? few_step : step, T == FEW ? few_products : NULL);
    return hand_finish();
}
