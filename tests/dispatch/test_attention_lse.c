/*
 * test_attention_lse.c: attention's log-sum-exp and its gradient, and attention over parts of the
 * keys merged, beside attention over all of them, in every layout.
 */
/* mpi: 2 4 */
#include <math.h>

#include "support/worlds.h"

enum { BATCH = 2, QUERIES = 5, HEADS = 4, GROUPS = 2, SIZE = 3 };

/* Batch, heads (those of the keys), none, and both. */
static const char *const places[] = {"S(0)", "S(2)", "R"};
enum { PLACES = 3 };

static weft_tensor *heads_of(struct wt_world *w, int which, int64_t tokens, int64_t heads,
                             const char *placed)
{
    weft_tensor *x = wt_whole3(WEFT_F64, which, BATCH * tokens, heads, SIZE);

    return wt_spread(w, weft_reshape(x, (int64_t[]){BATCH, tokens, heads, SIZE}, 4), placed);
}

static weft_tensor *leaf(weft_tensor *x) { return weft_set_requires_grad(weft_detach(x), true); }

/* A loss: the elements of x with weights. */
static weft_tensor *weigh(struct wt_world *w, weft_tensor *x, double scale)
{
    weft_tensor *weights = wt_whole(WEFT_F64, 9, 1, weft_numel(x));
    int64_t shape[WEFT_MAX_DIMS];

    for (int d = 0; d < weft_ndim(x); d++) shape[d] = weft_size(x, d);
    weights = weft_mul_scalar(weft_reshape(weights, shape, weft_ndim(x)), scale);
    if (weft_tensor_mesh(x)) weights = wt_spread(w, weights, "R");
    return weft_sum_all(weft_mul(x, weights));
}

/* The same from scores that are written out. */
static weft_tensor *lse_by_hand(weft_tensor *q, weft_tensor *k, weft_tensor *bias, double scale)
{
    weft_tensor *scores = weft_einsum("bqhd,bkhd->bhqk", (weft_tensor *[]){q, k}, 2);

    scores = weft_mul_scalar(scores, scale);
    if (bias) scores = weft_add(scores, bias);
    return weft_logsumexp(scores, (int[]){3}, 1, false);
}

WT_TEST_TIMES_IN_WORLD(lse__equals_scores_written_out__with_its_gradient, w, i, 2 * PLACES)
{
    const char *placed = places[i % PLACES];
    bool both = i >= PLACES;
    weft_tensor *q = leaf(heads_of(w, 0, QUERIES, HEADS, placed)), *lse, *out, *loss;
    weft_tensor *k = leaf(heads_of(w, 1, 7, HEADS, placed)),
                *v = leaf(heads_of(w, 2, 7, HEADS, placed));
    weft_tensor *bias = leaf(wt_spread(w,
                                       weft_reshape(wt_whole3(WEFT_F64, 3, HEADS, QUERIES, 7),
                                                    (int64_t[]){1, HEADS, QUERIES, 7}, 4),
                                       "R"));
    weft_tensor *in[] = {q, k, v, bias}, *by_hand[4];

    out = weft_attention_lse(q, k, v, (weft_attention_options){.scale = 0.7, .bias = bias}, &lse);
    WT_ALL(wt_has_shape(lse, 3, BATCH, HEADS, QUERIES));
    loss = weigh(w, lse, 0.25);
    if (both) loss = weft_add(loss, weigh(w, out, 0.125));
    WT_ALL(weft_backward(loss) == WEFT_OK);

    for (int j = 0; j < 4; j++) by_hand[j] = leaf(weft_full_tensor(in[j]));
    loss = lse_by_hand(by_hand[0], by_hand[1], by_hand[3], 0.7);
    WT_ALL(wt_near_tensors(lse, loss, WT_WITHIN(1e-13)));
    loss = weigh(w, loss, 0.25);
    if (both)
        loss = weft_add(loss, weigh(w,
                                    weft_attention_with(
                                        by_hand[0], by_hand[1], by_hand[2],
                                        (weft_attention_options){.scale = 0.7, .bias = by_hand[3]}),
                                    0.125));
    WT_ALL(weft_backward(loss) == WEFT_OK);
    for (int j = 0; j < 4; j++)
        if (both || j != 2)
            WT_ALL(wt_near_tensors(weft_grad(in[j]), weft_grad(by_hand[j]), WT_WITHIN(1e-12)));
    if (!both) WT_ALL(wt_near_tensors(weft_grad(v), weft_zeros_like(v), WT_EXACT));
}

/* Fewer key heads, in both forms of the queries. */
WT_TEST_TIMES_IN_WORLD(lse__of_grouped_heads, w, i, PLACES)
{
    weft_tensor *q = leaf(heads_of(w, 0, QUERIES, HEADS, "R")), *lse, *grouped, *out;
    weft_tensor *k = heads_of(w, 1, 7, GROUPS, places[i]),
                *v = heads_of(w, 2, 7, GROUPS, places[i]);
    weft_tensor *q5 = weft_reshape(q, (int64_t[]){BATCH, QUERIES, GROUPS, HEADS / GROUPS, SIZE}, 5);

    out = weft_attention_lse(q, k, v, (weft_attention_options){.causal = true}, &lse);
    WT_ALL(wt_has_shape(lse, 3, BATCH, HEADS, QUERIES));
    weft_attention_lse(q5, k, v, (weft_attention_options){.causal = true}, &grouped);
    WT_ALL(wt_has_shape(grouped, 4, BATCH, GROUPS, HEADS / GROUPS, QUERIES));
    WT_ALL(wt_near_tensors(weft_reshape(grouped, (int64_t[]){BATCH, HEADS, QUERIES}, 3), lse,
                           WT_EXACT));
    WT_ALL(weft_backward(weft_add(weigh(w, lse, 0.5), weigh(w, out, 0.5))) == WEFT_OK);
    WT_ALL(weft_grad(q) != NULL);
}

/* Of keys 0 .. 2 and 3 .. 6, and of those by themselves in three parts. */
WT_TEST_TIMES_IN_WORLD(merge__of_parts_equals_the_whole, w, i, 2 * PLACES)
{
    static const int64_t ends[2][4] = {{0, 3, 7, 7}, {0, 1, 4, 7}};
    const char *placed = places[i % PLACES];
    weft_tensor *in[3], *whole[3], *out = NULL, *lse = NULL, *want, *want_lse;

    in[0] = leaf(heads_of(w, 0, QUERIES, HEADS, placed));
    for (int j = 1; j < 3; j++) in[j] = leaf(heads_of(w, j, 7, HEADS, placed));
    for (int part = 0; part < 3; part++) {
        int64_t from = ends[i / PLACES][part], to = ends[i / PLACES][part + 1];
        weft_tensor *part_lse, *part_out;

        if (from == to) continue;
        part_out = weft_attention_lse(in[0], weft_slice(in[1], 1, from, to),
                                      weft_slice(in[2], 1, from, to),
                                      (weft_attention_options){.scale = 1.5}, &part_lse);
        wt_moved(w, WEFT_COLL_COUNT);
        out = out ? weft_attention_merge(out, lse, part_out, part_lse, &lse) : part_out;
        if (!lse) lse = part_lse;
        WT_STILL(w);
    }
    WT_ALL(wt_is_placed(out, placed));
    for (int j = 0; j < 3; j++) whole[j] = leaf(weft_full_tensor(in[j]));
    want = weft_attention_lse(whole[0], whole[1], whole[2], (weft_attention_options){.scale = 1.5},
                              &want_lse);
    WT_ALL(wt_near_tensors(out, want, WT_WITHIN(1e-13)));
    WT_ALL(wt_near_tensors(lse, want_lse, WT_WITHIN(1e-13)));
    WT_ALL(weft_backward(weft_add(weigh(w, out, 0.25), weigh(w, lse, 0.5))) == WEFT_OK);
    WT_ALL(weft_backward(weft_add(weigh(w, want, 0.25), weigh(w, want_lse, 0.5))) == WEFT_OK);
    for (int j = 0; j < 3; j++)
        WT_ALL(wt_near_tensors(weft_grad(in[j]), weft_grad(whole[j]), WT_WITHIN(1e-12)));
}

static bool is_true_everywhere(weft_tensor *x)
{
    return weft_item(weft_full_tensor(weft_all(x, NULL, 0, false))) == 1;
}

static bool is_lowest_everywhere(weft_tensor *x)
{
    weft_tensor *lowest = weft_logical_and(weft_isinf(x), weft_lt(x, weft_zeros_like(x)));

    return is_true_everywhere(lowest);
}

/* CP-09 */
WT_TEST_TIMES_IN_WORLD(merge__with_a_masked_step_changes_nothing, w, i, 4 * PLACES)
{
    const char *placed = places[i % PLACES];
    weft_dtype dtype = i / PLACES % 2 ? WEFT_F32 : WEFT_BF16;
    int64_t keys = i / PLACES / 2 ? 7 : 40;
    weft_tensor *in[3], *hidden, *out[2], *lse[2], *merged, *merged_lse;

    in[0] = leaf(weft_cast(heads_of(w, 0, QUERIES, HEADS, placed), dtype));
    for (int j = 1; j < 3; j++) in[j] = leaf(weft_cast(heads_of(w, j, keys, HEADS, placed), dtype));
    hidden = wt_spread(w, weft_full(WEFT_BOOL, (int64_t[]){1, keys}, 2, 0), "R");
    out[0] =
        weft_attention_lse(in[0], in[1], in[2], (weft_attention_options){.mask = hidden}, &lse[0]);
    out[1] =
        weft_attention_lse(in[0], in[1], in[2], (weft_attention_options){.scale = 0.5}, &lse[1]);
    WT_ALL(weft_tensor_dtype(lse[0]) == WEFT_F32);
    WT_ALL(wt_near_tensors(out[0], weft_zeros_like(out[0]), WT_EXACT));
    WT_ALL(is_lowest_everywhere(lse[0]));
    for (int first = 0; first < 2; first++) {
        merged =
            weft_attention_merge(out[first], lse[first], out[!first], lse[!first], &merged_lse);
        WT_ALL(wt_near_tensors(merged, out[1], WT_EXACT));
        WT_ALL(wt_near_tensors(merged_lse, lse[1], WT_EXACT));
    }
    WT_ALL(weft_backward_retain(weft_add(weft_sum_all(merged), weft_sum_all(merged_lse))) ==
           WEFT_OK);
    for (int j = 0; j < 3; j++) WT_ALL(is_true_everywhere(weft_isfinite(weft_grad(in[j]))));
    merged = weft_attention_merge(out[0], lse[0], out[0], lse[0], &merged_lse);
    WT_ALL(wt_near_tensors(merged, out[0], WT_EXACT) && is_lowest_everywhere(merged_lse));
    merged_lse = weft_masked_fill(merged_lse, weft_isinf(merged_lse), 0);
    WT_ALL(weft_backward(weft_add(weft_sum_all(merged), weft_sum_all(merged_lse))) == WEFT_OK);
    for (int j = 0; j < 3; j++) WT_ALL(is_true_everywhere(weft_isfinite(weft_grad(in[j]))));
}

WT_TEST_IN_WORLD(merge__refuses_what_does_not_fit, w)
{
    weft_tensor *q = heads_of(w, 0, QUERIES, HEADS, "R"), *lse, *out;

    out = weft_attention_lse(q, q, q, (weft_attention_options){0}, &lse);
    WT_ALL(!weft_attention_merge(out, lse, out, weft_transpose(lse, 1, 2), NULL));
    WT_ALL(weft_error_status() == WEFT_ERR_SHAPE);
    weft_error_clear();
    WT_ALL(!weft_attention_merge(out, weft_cast(lse, WEFT_I32), out, lse, NULL));
    WT_ALL(weft_error_status() == WEFT_ERR_DTYPE);
    weft_error_clear();
}

int main(int argc, char **argv) { return wt_main(argc, argv, "attention_lse"); }
