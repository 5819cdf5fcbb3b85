/*
 * choose.c: the next token of each sequence, from logits that stay where they are.
 *
 * Never are whole logits on a rank: the likeliest token and the top k are picked by every rank from
 * its shard of the vocabulary first (weft_topk). To choose among all tokens by their probability, a
 * number of Gumbel's distribution is added to each logit, and the largest sum taken: the numbers
 * belong to elements of the whole tensor, so each rank draws those of its shard.
 */
#include "choose.h"

#include <math.h>
#include <stdlib.h>

/* ---- among all tokens ---- */

static weft_status likeliest(weft_tensor *scores, int32_t *tokens)
{
    weft_tensor *best = weft_argmax(scores, -1);
    const int64_t *index = best ? weft_data(weft_to_local(best, NULL)) : NULL;

    if (!index) return weft_error_status();
    for (int64_t b = 0; b < weft_size(scores, 0); b++) tokens[b] = (int32_t)index[b];
    return WEFT_OK;
}

static weft_status by_noise(weft_tensor *logits, const struct choice *c, int32_t *tokens)
{
    weft_tensor *noise = weft_empty_like(logits, weft_tensor_device(logits));
    weft_status status = noise ? weft_exponential_(noise, 1, c->g) : weft_error_status();

    if (status != WEFT_OK) return status;
    return likeliest(weft_sub(weft_mul_scalar(logits, 1 / c->temperature), weft_log(noise)),
                     tokens);
}

/* ---- among the top ones ---- */

/* Of each row: the largest logits, and the sum over all of e^((logit - largest) / temperature). */
struct candidates {
    int64_t rows, k;
    double *values, *indices, *sums;
};

static void candidates_free(struct candidates *c)
{
    free(c->values);
    free(c->indices);
    free(c->sums);
}

static weft_status read_all(weft_tensor *t, double **out)
{
    int64_t n = t ? weft_numel(t) : 0;

    if (!t) return weft_error_status();
    *out = malloc((size_t)n * sizeof **out);
    return *out ? weft_read_f64(weft_full_tensor(t), *out, n) : WEFT_ERR_MEMORY;
}

static weft_status candidates_take(struct candidates *top, weft_tensor *logits, int64_t k,
                                   double temperature)
{
    static const int last[] = {-1};
    weft_tensor *indices, *values = weft_topk(logits, k, -1, &indices), *largest, *sums;
    weft_status status;

    *top = (struct candidates){.rows = weft_size(logits, 0), .k = k};
    largest = values ? weft_slice(values, 1, 0, 1) : NULL;
    sums = weft_sum(weft_exp(weft_mul_scalar(weft_sub(logits, largest), 1 / temperature)), last, 1,
                    false);
    status = read_all(values, &top->values);
    if (status == WEFT_OK) status = read_all(indices, &top->indices);
    if (status == WEFT_OK) status = read_all(sums, &top->sums);
    return status;
}

/* Values become weights, and the answer is their sum. */
static double weigh(const struct candidates *top, int64_t row, double temperature)
{
    double *value = top->values + row * top->k, largest = value[0], sum = 0;

    for (int64_t i = 0; i < top->k; i++) sum += value[i] = exp((value[i] - largest) / temperature);
    return sum;
}

/* One of the first weights that make up `most` together, by their size. */
static int64_t draw(const double *weight, int64_t n, double most, double u)
{
    double sum = 0;
    int64_t kept = 0;

    while (kept < n && sum < most) sum += weight[kept++];
    u *= sum;
    for (int64_t i = 0; i < kept; i++)
        if ((u -= weight[i]) < 0) return i;
    return kept - 1;
}

static int64_t at_most(int64_t x, int64_t limit) { return x < limit ? x : limit; }

/* False when the candidates lack a part of the `top_p`. `u`: a number in [0, 1) for each row. */
static bool draw_all(struct candidates *top, const struct choice *c, int64_t vocab, const double *u,
                     int32_t *tokens)
{
    bool all = top->k == vocab || top->k == c->top_k;

    for (int64_t row = 0; row < top->rows; row++) {
        double sum = weigh(top, row, c->temperature);
        double most = c->top_p * (c->top_k ? sum : top->sums[row]);
        int64_t i;

        if (!all && sum < most) return false;
        i = draw(top->values + row * top->k, top->k, most, u[row]);
        tokens[row] = (int32_t)top->indices[row * top->k + i];
    }
    return true;
}

/* Without top_k nobody knows how many it takes: more and more. */
static weft_status by_rank(weft_tensor *logits, const struct choice *c, int32_t *tokens)
{
    enum { FIRST = 64, MORE = 8 };
    int64_t vocab = weft_size(logits, 1), rows = weft_size(logits, 0);
    weft_tensor *u = weft_empty(WEFT_F64, &rows, 1);
    weft_status status = u ? weft_uniform_(u, 0, 1, c->g) : weft_error_status();
    bool done = false;

    for (int64_t k = at_most(c->top_k ? c->top_k : FIRST, vocab); status == WEFT_OK && !done;
         k = at_most(MORE * k, vocab)) {
        struct candidates top;

        status = candidates_take(&top, logits, k, c->temperature);
        done = status == WEFT_OK && draw_all(&top, c, vocab, weft_data(u), tokens);
        candidates_free(&top);
    }
    return status;
}

weft_status choose(weft_tensor *logits, const struct choice *c, int32_t *tokens)
{
    if (!logits) return weft_error_status();
    if (c->temperature == 0) return likeliest(logits, tokens);
    if (weft_dtype_size(weft_tensor_dtype(logits)) == 2) logits = weft_cast(logits, WEFT_F32);
    if (c->top_k || c->top_p < 1) return by_rank(logits, c, tokens);
    return by_noise(logits, c, tokens);
}
