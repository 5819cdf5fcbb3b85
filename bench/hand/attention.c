/*
 * attention.c: P = softmax(mask(Q Kt / 8)), O = P V for each head, and the gradients.
 *
 * One head's matrices fit the second-level cache, so plain register tiles reach the core's speed.
 * A tile is ROWS x COLS; its right operand is packed in panels of COLS columns, because rows a
 * multiple of 256 bytes apart would share few sets of the first-level cache. Work above the
 * diagonal is skipped in steps of ROWS; what is stored there is zero up to the edge of a tile.
 */
#include "attention.h"

#include <math.h>

#include "hand.h"

enum { ROWS = LANES / 2, VECS = 2, COLS = VECS * LANES };

/* Panels of the operands of one head: q, k, v and dout as rows, k and v also transposed. */
static float *q_rows, *k_rows, *v_rows, *d_rows, *k_cols, *v_cols;
static float *scores; /* gradient of the scores of one head */

void attention_start(long context)
{
    float **panels[] = {&q_rows, &k_rows, &v_rows, &d_rows, &k_cols, &v_cols};

    for (int i = 0; i < 6; i++) *panels[i] = hand_floats(context * HEAD);
    scores = hand_floats(context * hand_stride(context));
}

/* c [ROWS,COLS] = a [ROWS,k] b [k,COLS]; a[i][p] is a[i * a_row + p * a_step], one of them is 1. */
static inline __attribute__((always_inline)) void
tile(long k, const float *a, long a_row, long a_step, const float *b, float *c, long ldc)
{
    vec sum[ROWS][VECS] = {{{0}}};

    for (long p = 0; p < k; p++)
#pragma GCC unroll 8
        for (long i = 0; i < ROWS; i++)
#pragma GCC unroll 2
            for (long v = 0; v < VECS; v++)
                sum[i][v] += a[i * a_row + p * a_step] * load(b + p * COLS + v * LANES);
#pragma GCC unroll 8
    for (long i = 0; i < ROWS; i++)
#pragma GCC unroll 2
        for (long v = 0; v < VECS; v++) store(c + i * ldc + v * LANES, sum[i][v]);
}

/* src [context,HEAD] as panels [HEAD/COLS][context][COLS] */
static void pack_rows(long context, const float *src, long ld, float *panels)
{
    for (long j = 0; j < HEAD; j += COLS)
        for (long t = 0; t < context; t++, panels += COLS)
            for (long v = 0; v < COLS; v++) panels[v] = src[t * ld + j + v];
}

/* src transposed as panels [context/COLS][HEAD][COLS] */
static void pack_cols(long context, const float *src, long ld, float *panels)
{
    for (long t = 0; t < context; t += COLS)
        hand_transpose(COLS, HEAD, src + t * ld, ld, panels + t * HEAD, COLS);
}

/* First column right of the tiles that hold column `last` */
static long tile_end(long last) { return (last + COLS) / COLS * COLS; }

/* out rows [ROWS] at i = left [.., context] right, left zero right of the diagonal */
static void times_lower(long i, const float *left, long ld, const float *right_rows, long context,
                        float *out, long out_ld)
{
    for (long j = 0; j < HEAD; j += COLS)
        tile(i + ROWS, left + i * ld, ld, 1, right_rows + j * context, out + i * out_ld + j,
             out_ld);
}

/* out rows [ROWS] at j = leftT right: only rows of left from j on are not zero */
static void times_lower_t(long j, const float *left, long ld, const float *right_rows, long context,
                          float *out, long out_ld)
{
    for (long c = 0; c < HEAD; c += COLS)
        tile(context - j, left + j * ld + j, 1, ld, right_rows + c * context + j * COLS,
             out + j * out_ld + c, out_ld);
}

/* Scores of one row become probabilities: entries [0, n), zero from there to end. */
static void softmax_row(float *restrict p, long n, long end)
{
    const float scale = 0.125f; /* 1 / sqrt(HEAD) */
    float top = p[0], sum = 0;

    for (long j = 1; j < n; j++) top = p[j] > top ? p[j] : top;
    for (long j = 0; j < n; j++) {
        p[j] = hand_exp((p[j] - top) * scale);
        sum += p[j];
    }
    float inverse = 1 / sum;
    for (long j = 0; j < n; j++) p[j] *= inverse;
    for (long j = n; j < end; j++) p[j] = 0;
}

static void head_forward(const struct attention *a, const float *q, const float *k, const float *v,
                         float *probs, float *out)
{
    long ld = a->qkv_ld, lp = a->probs_ld, context = a->context;

    pack_cols(context, k, ld, k_cols);
    pack_rows(context, v, ld, v_rows);
    for (long i = 0; i < context; i += ROWS) {
        long end = tile_end(i + ROWS - 1);
        for (long j = 0; j < end; j += COLS)
            tile(HEAD, q + i * ld, ld, 1, k_cols + j * HEAD, probs + i * lp + j, lp);
        for (long r = i; r < i + ROWS; r++) softmax_row(probs + r * lp, r + 1, end);
        times_lower(i, probs, lp, v_rows, context, out, a->out_ld);
    }
}

void attention(const struct attention *a, const float *qkv, float *probs, float *out)
{
    long wide = a->heads * HEAD;

    for (long h = 0; h < a->heads; h++) {
        const float *q = qkv + h * HEAD;
        head_forward(a, q, q + wide, q + 2 * wide, probs + h * a->context * a->probs_ld,
                     out + h * HEAD);
    }
}

/* ds = p (dp - delta) / 8, where delta = dout . out is the same for the whole row; in place of dp.
 */
static void softmax_grad_row(float *restrict ds, const float *restrict p, const float *dout,
                             const float *out, long end)
{
    float delta = 0;

    for (long j = 0; j < HEAD; j++) delta += dout[j] * out[j];
    for (long j = 0; j < end; j++) ds[j] = p[j] * (ds[j] - delta) * 0.125f;
}

static void head_backward(const struct attention *a, const float *q, const float *probs,
                          const float *out, const float *dout, float *dq)
{
    long wide = a->heads * HEAD, ld = a->qkv_ld, lo = a->out_ld, lp = a->probs_ld,
         context = a->context;

    pack_rows(context, q, ld, q_rows);
    pack_rows(context, q + wide, ld, k_rows);
    pack_cols(context, q + 2 * wide, ld, v_cols);
    pack_rows(context, dout, lo, d_rows);
    for (long i = 0; i < context; i += ROWS) {
        long end = tile_end(i + ROWS - 1);
        for (long j = 0; j < end; j += COLS)
            tile(HEAD, dout + i * lo, lo, 1, v_cols + j * HEAD, scores + i * lp + j, lp);
        for (long r = i; r < i + ROWS; r++)
            softmax_grad_row(scores + r * lp, probs + r * lp, dout + r * lo, out + r * lo, end);
        times_lower(i, scores, lp, k_rows, context, dq, ld);
    }
    for (long j = 0; j < context; j += ROWS) {
        times_lower_t(j, scores, lp, q_rows, context, dq + wide, ld);
        times_lower_t(j, probs, lp, d_rows, context, dq + 2 * wide, ld);
    }
}

void attention_grad(const struct attention *a, const float *qkv, const float *probs,
                    const float *out, const float *dout, float *dqkv)
{
    for (long h = 0; h < a->heads; h++)
        head_backward(a, qkv + h * HEAD, probs + h * a->context * a->probs_ld, out + h * HEAD,
                      dout + h * HEAD, dqkv + h * HEAD);
}
