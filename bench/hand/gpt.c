/*
 * gpt.c: one training step of a GPT-2 style decoder, f32, AdamW on everything, written by hand for
 * n ranks: attention split by heads, MLP by hidden features, embedding and head by vocabulary.
 *
 * What makes it fast: a row-parallel product leaves its partial sum in a window; each rank adds,
 * norms and writes back its own share of the tokens, so nothing is done twice; weight gradients go
 * into AdamW part by part while in cache; attention keeps its probabilities (attention.c); logits
 * are made in chunks of the vocabulary that stay in cache for their exponentials, which the
 * backward pass only scales. Read gpt.h first; memory and main are in gpt_setup.c.
 */
#include "gpt.h"

#include <math.h>
#include <string.h>

/* ---- products: activations [N][k] times a weight, its transpose, and the weight's gradient ----
 */
static void linear(const float *in, long in_ld, const struct hand_param *w, float *out, long out_ld,
                   hand_epilogue *epilogue, void *payload)
{
    hand_gemm(&(struct hand_gemm){.m = N,
                                  .n = w->rows,
                                  .k = w->cols,
                                  .tb = true,
                                  .a = in,
                                  .lda = in_ld,
                                  .b = w->w,
                                  .ldb = w->ld,
                                  .c = out,
                                  .ldc = out_ld,
                                  .epilogue = epilogue,
                                  .payload = payload});
}

static void linear_dx(const float *dy, long dy_ld, const struct hand_param *w, float *dx,
                      long dx_ld, hand_epilogue *epilogue, void *payload)
{
    hand_gemm(&(struct hand_gemm){.m = N,
                                  .n = w->cols,
                                  .k = w->rows,
                                  .a = dy,
                                  .lda = dy_ld,
                                  .b = w->w,
                                  .ldb = w->ld,
                                  .c = dx,
                                  .ldc = dx_ld,
                                  .epilogue = epilogue,
                                  .payload = payload});
}

static void linear_update(const float *dy, long dy_ld, const float *in, long in_ld,
                          struct hand_param *w)
{
    hand_gemm(&(struct hand_gemm){.m = w->rows,
                                  .n = w->cols,
                                  .k = N,
                                  .ta = true,
                                  .a = dy,
                                  .lda = dy_ld,
                                  .b = in,
                                  .ldb = in_ld,
                                  .c = gradient,
                                  .ldc = w->ld,
                                  .scratch = true,
                                  .epilogue = hand_update,
                                  .payload = w});
}

static void add_bias(void *payload, long row, long rows, float *c)
{
    const struct layer *l = payload;

    (void)row;
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < 3 * d; j++) c[i * l3 + j] += l->qkv_b.w[j];
}

static void bias_gelu(void *payload, long row, long rows, float *c)
{
    const struct layer *l = payload;
    const float *restrict bias = l->up_b.w;

    for (long i = 0; i < rows; i++) {
        float *restrict value = c + i * lf, *restrict slope = l->slope + (row + i) * lf;
        for (long j = 0; j < f; j++) value[j] = hand_gelu(value[j] + bias[j], &slope[j]);
    }
}

static void add_columns(float *restrict sum, const float *c, long rows, long cols, long stride)
{
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < cols; j++) sum[j] += c[i * stride + j];
}

static void gelu_grad(void *payload, long row, long rows, float *c)
{
    struct layer *l = payload;

    for (long i = 0; i < rows; i++) {
        float *restrict g = c + i * lf;
        const float *restrict slope = l->slope + (row + i) * lf;
        for (long j = 0; j < f; j++) g[j] *= slope[j];
    }
    add_columns(l->up_b.g, c, rows, f, lf);
}

/* ---- residual and norm, for own tokens ---- */

/* One row of the ranks' terms, added up. */
static void add_parts(float *restrict sum, long token_)
{
    memcpy(sum, part[0] + token_ * ld, 4 * (size_t)D);
    for (int r = 1; r < hand_ranks; r++) {
        const float *restrict term = part[r] + token_ * ld;
        for (long j = 0; j < D; j++) sum[j] += term[j];
    }
}

static void norm_row(float *restrict unit, float *restrict result, float *rstd,
                     const float *restrict row, const float *restrict weight,
                     const float *restrict bias)
{
    float sum = 0, squares = 0;

    for (long j = 0; j < D; j++) sum += row[j];
    float mean = sum / (float)D;
    for (long j = 0; j < D; j++) squares += (row[j] - mean) * (row[j] - mean);
    *rstd = 1 / sqrtf(squares / (float)D + 1e-5f);
    for (long j = 0; j < D; j++) {
        unit[j] = (row[j] - mean) * *rstd;
        result[j] = unit[j] * weight[j] + bias[j];
    }
}

/* x += the product whose terms wait in the window + bias (not before the first norm); norm of x. */
static void residual_norm(const float *restrict bias, const float *weight, const float *norm_bias,
                          struct norm *norm)
{
    float *restrict sum = gradient; /* any scratch row */

    for (long i = 0; i < own; i++) {
        float *restrict row = x + i * ld;
        if (bias) {
            add_parts(sum, first + i);
            for (long j = 0; j < D; j++) row[j] += sum[j] + bias[j];
        }
        norm_row(norm->unit + i * ld, norm->result + (first + i) * ld, norm->rstd + i, row, weight,
                 norm_bias);
    }
    hand_barrier();
}

/* Adds one row's norm gradient to the stream's; dy is the gradient of the norm's result. */
static void norm_grad_row(float *restrict dx, float *restrict dy, const float *restrict unit,
                          float rstd, const float *restrict weight, float *restrict dweight,
                          float *restrict dbias)
{
    float mean = 0, along = 0;

    for (long j = 0; j < D; j++) {
        dweight[j] += dy[j] * unit[j];
        dbias[j] += dy[j];
        dy[j] *= weight[j];
        mean += dy[j];
        along += dy[j] * unit[j];
    }
    mean /= (float)D;
    along /= (float)D;
    for (long j = 0; j < D; j++) dx[j] += rstd * (dy[j] - mean - unit[j] * along);
}

/* The terms in the window are the gradient of a norm's result. `bias_sum`: gradient of the bias of
 * the row-parallel layer whose output joined the stream before this norm; may be NULL. */
static void residual_norm_grad(const struct norm *norm, const float *weight, float *dweight,
                               float *dbias, float *bias_sum)
{
    float *dy = gradient;

    for (long i = 0; i < own; i++) {
        float *dx = stream + (first + i) * ld;
        add_parts(dy, first + i);
        norm_grad_row(dx, dy, norm->unit + i * ld, norm->rstd[i], weight, dweight, dbias);
        if (bias_sum) add_columns(bias_sum, dx, 1, D, ld);
    }
    hand_barrier();
}

/* ---- embedding ---- */
static void embed(void)
{
    for (long i = 0; i < N; i++) {
        long row = token[i] - hand_rank * vocab;
        if (row >= 0 && row < vocab) memcpy(stream + i * ld, wte.w + row * wte.ld, 4 * (size_t)D);
    }
    hand_barrier();
    for (long i = 0; i < own; i++) {
        const float *restrict word = stream + (first + i) * ld, *restrict place =
                                                                    wpe.w + (first + i) % T * D;
        for (long j = 0; j < D; j++) x[i * ld + j] = word[j] + place[j];
    }
}

static void update_row(struct hand_param *p, long row, float *g) { hand_update(p, row, 1, g); }

/* Rows without a token have a gradient of zero, but AdamW moves them too. */
static void update_embedding(void)
{
    float *sum = gradient;

    for (long row = 0; row < vocab; row++) row_head[row] = -1;
    for (int i = 0; i < N; i++) {
        long row = token[i] - hand_rank * vocab;
        if (row >= 0 && row < vocab) {
            row_next[i] = row_head[row];
            row_head[row] = i;
        }
    }
    for (long row = 0; row < vocab; row++) {
        long at = row * wte.ld;
        if (row_head[row] < 0 && !hand_checking) {
            hand_adam(D, NULL, wte.w + at, wte.m + at, wte.v + at);
            continue;
        }
        memset(sum, 0, 4 * (size_t)D);
        for (int i = row_head[row]; i >= 0; i = row_next[i])
            add_columns(sum, stream + i * ld, 1, D, ld);
        update_row(&wte, row, sum);
    }
}

/* Parameters in the window: each rank adds the terms and updates its share of the rows. */
static void update_shared(void)
{
    float *sum = gradient;

    for (long row = hand_begin(small.rows); row < hand_end(small.rows); row++) {
        memset(sum, 0, 4 * (size_t)D);
        for (int r = 0; r < hand_ranks; r++) add_columns(sum, small_part[r] + row * D, 1, D, D);
        update_row(&small, row, sum);
    }
    for (long t = hand_begin(T); t < hand_end(T); t++) {
        memset(sum, 0, 4 * (size_t)D);
        add_columns(sum, stream + t * ld, B, D, T * ld);
        update_row(&wpe, t, sum);
    }
}

/* ---- head and loss ---- */

/* Rows of a chunk of logits: exponentials in place; top and sum over this rank's chunks so far. */
static void exponentials(void *payload, long row, long rows, float *c)
{
    struct chunk *chunk = payload;
    float *top = softmax[hand_rank], *sum = top + N, *hit = sum + N;

    for (long i = row; i < row + rows; i++, c += chunk->ld) {
        long t = target[i] - chunk->first;
        float best = c[0], total = 0;
        if (t >= 0 && t < chunk->width) hit[i] = c[t];
        for (long j = 1; j < chunk->width; j++) best = c[j] > best ? c[j] : best;
        for (long j = 0; j < chunk->width; j++) {
            c[j] = hand_exp(c[j] - best);
            total += c[j];
        }
        chunk->top[i] = best;
        float higher = best > top[i] ? best : top[i];
        sum[i] = sum[i] * hand_exp(top[i] - higher) + total * hand_exp(best - higher);
        top[i] = higher;
    }
}

/* The rows of the head that a chunk of logits comes from. */
static struct hand_param head_rows(const struct chunk *chunk)
{
    struct hand_param part_ = head;
    long at = (chunk->first - hand_rank * vocab) * head.ld;

    part_.rows = chunk->width;
    part_.w += at;
    part_.m += at;
    part_.v += at;
    part_.g = head.g ? head.g + at : NULL;
    return part_;
}

static double finish_loss(void)
{
    double loss = 0;

    for (long i = 0; i < N; i++) {
        float top = softmax[0][i], sum = 0, hit = 0;
        for (int r = 1; r < hand_ranks; r++) top = softmax[r][i] > top ? softmax[r][i] : top;
        for (int r = 0; r < hand_ranks; r++) {
            sum += softmax[r][N + i] * hand_exp(softmax[r][i] - top);
            hit += softmax[r][2 * N + i];
        }
        lse[i] = top + logf(sum);
        loss += (double)lse[i] - (double)hit;
    }
    return loss / (double)N;
}

static double head_forward_loss(const float *in)
{
    for (long i = 0; i < N; i++) {
        softmax[hand_rank][i] = -1e30f;
        softmax[hand_rank][N + i] = 0;
        softmax[hand_rank][2 * N + i] = 0;
    }
    for (struct chunk *c = chunks; c < chunks + n_chunks; c++) {
        struct hand_param rows = head_rows(c);
        linear(in, ld, &rows, c->p, c->ld, exponentials, c);
    }
    hand_barrier();
    return finish_loss();
}

/* (softmax - one at the target) / N */
static void logits_grad(struct chunk *c)
{
    const float each = 1 / (float)N;

    for (long i = 0; i < N; i++) {
        float *restrict p = c->p + i * c->ld, scale = hand_exp(c->top[i] - lse[i]) * each;
        long t = target[i] - c->first;
        for (long j = 0; j < c->width; j++) p[j] *= scale;
        if (t >= 0 && t < c->width) p[t] -= each;
    }
}

/* Last chunk first: it is the one still in cache. */
static void head_backward(const float *in)
{
    for (long i = n_chunks - 1; i >= 0; i--) {
        struct chunk *c = &chunks[i];
        struct hand_param rows = head_rows(c);
        logits_grad(c);
        hand_gemm(&(struct hand_gemm){.m = N,
                                      .n = D,
                                      .k = c->width,
                                      .a = c->p,
                                      .lda = c->ld,
                                      .b = rows.w,
                                      .ldb = rows.ld,
                                      .c = part[hand_rank],
                                      .ldc = ld,
                                      .beta = i < n_chunks - 1 ? 1 : 0});
        if (i == 0) hand_post();
        linear_update(c->p, c->ld, in, ld, &rows);
    }
    hand_wait();
}

/* ---- one layer ---- */
static void layer_forward(long l)
{
    struct layer *at = &layers[l];
    struct norm *before = &norms[2 * l], *between = before + 1;

    residual_norm(l ? small_w(l - 1, DOWN_B) : NULL, small_w(l, NORM1_W), small_w(l, NORM1_B),
                  before);
    linear(before->result, ld, &at->qkv, at->qkv_n, l3, add_bias, at);
    for (long b = 0; b < B; b++)
        attention(&shape, at->qkv_n + b * T * l3, at->probs + b * shape.heads * T * shape.probs_ld,
                  at->out + b * T * ldo);
    linear(at->out, ldo, &at->proj, part[hand_rank], ld, NULL, NULL);
    hand_barrier();
    residual_norm(small_w(l, PROJ_B), small_w(l, NORM2_W), small_w(l, NORM2_B), between);
    linear(between->result, ld, &at->up, at->h, lf, bias_gelu, at);
    linear(at->h, lf, &at->down, part[hand_rank], ld, NULL, NULL);
    hand_barrier();
}

/* Products that read `stream` come before hand_post(): after it another rank may change its share.
 */
static void mlp_backward(long l)
{
    struct layer *at = &layers[l];
    struct norm *norm = &norms[2 * l + 1];

    memset(at->up_b.g, 0, 4 * (size_t)f);
    linear_dx(stream, ld, &at->down, dh, lf, gelu_grad, at);
    linear_update(stream, ld, at->h, lf, &at->down);
    linear_dx(dh, lf, &at->up, part[hand_rank], ld, NULL, NULL);
    hand_post();
    linear_update(dh, lf, norm->result, ld, &at->up);
    hand_update(&at->up_b, 0, 1, at->up_b.g);
    hand_wait();
    residual_norm_grad(norm, small_w(l, NORM2_W), small_g(l, NORM2_W), small_g(l, NORM2_B),
                       small_g(l, PROJ_B));
}

static void attention_backward(long l)
{
    struct layer *at = &layers[l];
    struct norm *norm = &norms[2 * l];

    memset(at->qkv_b.g, 0, 4 * (size_t)(3 * d));
    linear_dx(stream, ld, &at->proj, dout, ldo, NULL, NULL);
    linear_update(stream, ld, at->out, ldo, &at->proj);
    for (long b = 0; b < B; b++) {
        attention_grad(&shape, at->qkv_n + b * T * l3,
                       at->probs + b * shape.heads * T * shape.probs_ld, at->out + b * T * ldo,
                       dout + b * T * ldo, dqkv + b * T * l3);
        add_columns(at->qkv_b.g, dqkv + b * T * l3, T, 3 * d, l3);
    }
    linear_dx(dqkv, l3, &at->qkv, part[hand_rank], ld, NULL, NULL);
    hand_post();
    linear_update(dqkv, l3, norm->result, ld, &at->qkv);
    hand_update(&at->qkv_b, 0, 1, at->qkv_b.g);
    hand_wait();
    residual_norm_grad(norm, small_w(l, NORM1_W), small_g(l, NORM1_W), small_g(l, NORM1_B),
                       l ? small_g(l - 1, DOWN_B) : NULL);
}

double gpt_step(void)
{
    struct norm *last = &norms[2 * L];

    hand_adam_next();
    memset(small_part[hand_rank], 0, 4 * (size_t)(small.rows * D));
    embed();
    for (long l = 0; l < L; l++) layer_forward(l);
    residual_norm(small_w(L - 1, DOWN_B), small_w(L, NORM1_W), small_w(L, NORM1_B), last);
    double loss = head_forward_loss(last->result);
    head_backward(last->result);
    memset(stream + first * ld, 0, 4 * (size_t)(own * ld));
    residual_norm_grad(last, small_w(L, NORM1_W), small_g(L, NORM1_W), small_g(L, NORM1_B),
                       small_g(L - 1, DOWN_B));
    for (long l = L - 1; l >= 0; l--) {
        mlp_backward(l);
        attention_backward(l);
    }
    update_shared();
    update_embedding();
    hand_barrier();
    return loss;
}
