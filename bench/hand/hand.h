/*
 * hand.h: what the hand-written steps share: vectors, memory, the window that ranks share, matrix
 * products with an epilogue, AdamW, data that do not depend on the number of ranks, timing.
 *
 * These programs are yardsticks: the fastest step we can write for a fixed model, compiled for the
 * machine they run on (-O3 -march=native -ffast-math). They share no code with the library.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "value.h"

/* ---- vectors: loops that need registers held across a product are written with these ---- */
#if defined(__AVX512F__)
enum { LANES = 16 };
#else
enum { LANES = 8 };
#endif
typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline vec load(const float *p) { return *(const vec *)p; }

static inline void store(float *p, vec x) { *(vec *)p = x; }

/* ---- ranks and what they share ---- */
extern int hand_rank, hand_ranks;

void hand_start(int *argc, char ***argv);
/* Open the window with room for so many floats (beside the padding of each piece). */
void hand_window_open(long floats, long pieces);
/* The next n floats of the window, zeroed; the same memory on every rank. */
float *hand_window(long n);
/* barrier = post + wait; what comes between may touch only what the others do not wait for. */
void hand_post(void);
void hand_wait(void);
void hand_barrier(void);
/* Sum over ranks / maximum over ranks, for reports and checks only. */
double hand_sum(double x);
double hand_max(double x);
int hand_finish(void);
void hand_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* The rows of `n` that belong to this rank where work is split evenly over ranks. */
static inline long hand_begin(long n) { return n * hand_rank / hand_ranks; }

static inline long hand_end(long n) { return n * (hand_rank + 1) / hand_ranks; }

/* ---- memory ---- */
/* n floats on huge pages, zeroed and touched. Private to the rank. */
float *hand_floats(long n);
/* Row stride for rows of n floats: an odd number of cache lines. Rows a multiple of 4 KB apart
 * would compete for the same few sets of the first-level cache. */
static inline long hand_stride(long n) { return ((n + 15) & ~15L) | 16; }

/* dst[j][i] = src[i][j]; rows and cols are multiples of 8. */
void hand_transpose(long rows, long cols, const float *src, long src_ld, float *dst, long dst_ld);

/* ---- matrix products ---- */
/* Called when rows [row, row + rows) of the result are complete; c points to the first of them. */
typedef void hand_epilogue(void *payload, long row, long rows, float *c);

/*
 * c [m,n] = op(a) [m,k] op(b) [k,n] + beta c, row-major, by oneDNN.
 *
 * The rows may be computed in several parts so that the epilogue finds each in cache; how many is
 * chosen by hand_tune(). With `scratch`, c has room for the rows of one part only in cache terms:
 * every part is written to the same place, and only the epilogue sees it.
 */
struct hand_gemm {
    long m, n, k;
    bool ta, tb; /* a is stored [k,m]; b is stored [n,k] */
    const float *a, *b;
    float *c;
    long lda, ldb, ldc;
    float beta;
    bool scratch;
    hand_epilogue *epilogue;
    void *payload;
};

void hand_gemm(const struct hand_gemm *g);

/* Choose the parts of every product: run `step` on zeroed data, timing each shape in place. */
void hand_tune(double (*step)(void));

/* ---- AdamW on everything, weight decay 0.01 ---- */
struct hand_param {
    const char *name;
    long rows, cols, ld;
    float *w, *m, *v; /* [rows][ld] */
    float *g;         /* the gradient, kept only while checking */
};

extern bool hand_checking; /* keep gradients in hand_param.g and leave the weights alone */

struct hand_param hand_param(const char *name, long rows, long cols);
/* Fill w with scale * value(stream, element) where w[r][c] is element (row0 + r) * width + col0 +
 * c. */
void hand_param_init(struct hand_param *p, int stream, long row0, long col0, long width,
                     float scale);
/* Once per step, before the first update. `reset` starts over at step 0. */
void hand_adam_next(void);
void hand_adam_reset(void);
/* One row, or part of one; a null gradient is zero. */
void hand_adam(long n, const float *g, float *w, float *m, float *v);
/* Update rows of a parameter whose gradient rows (stride p->ld) start at g. A hand_epilogue. */
void hand_update(void *param, long row, long rows, float *g);

/* ---- functions of one number, free of branches so that loops vectorise ---- */
static inline float hand_exp(float x)
{
    /* exp(x) = 2^n exp(r), |r| <= ln 2 / 2, Taylor to r^6; 2^n by building the exponent */
    union {
        int32_t i;
        float f;
    } power;
    float bounded = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    float n = __builtin_rintf(bounded * 1.44269504f);
    float r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.0f / 720;

    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    power.i = ((int32_t)n + 127) << 23;
    return p * power.f;
}

/* gelu in its tanh form is x s(u) with the logistic function s and u = 2 sqrt(2/pi) (x + c x^3):
 * one exponential gives the value and the derivative s + x s (1 - s) u'. */
static inline float hand_gelu(float x, float *derivative)
{
    const float a = 1.5957691216f, c = 0.044715f;
    float s = 1.0f / (1.0f + hand_exp(-a * x * (1.0f + c * x * x)));
    float y = x * s;

    *derivative = s + y * (1.0f - s) * a * (1.0f + 3.0f * c * x * x);
    return y;
}

/* ---- timing and reports ---- */
double hand_now(void);
/* Run `step` n times, all ranks starting together; min and median seconds. */
struct hand_times {
    double min, median;
} hand_measure(int n, double (*step)(void));
/* The report every program ends with: five losses, step times, and the products of a step alone:
 * `products`, or for NULL the hand_gemm calls of a step repeated without their epilogues. */
void hand_report(const char *what, int steps, double (*step)(void), double (*products)(void));
/* How the ranks hold a parameter: a piece each, one copy in the window, or a copy each. */
enum hand_held { HAND_SPLIT, HAND_WINDOW, HAND_COPIED };
/*
 * Compare the gradient g with the loss along it, (loss(w + e g/|g|) - loss(w - e g/|g|)) / 2e
 * against |g|. Ends the program when they differ by more than 3e-3 of |g|.
 */
void hand_check(const struct hand_param *p, enum hand_held held, double (*step)(void));
