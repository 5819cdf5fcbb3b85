/*
 * test_few.c: attention of few queries and of many are two pieces of code that must agree: many
 * queries at once against the same a few at a time, with masks, groups and unused keys.
 */
/* ranks: 1 2 */
#include <math.h>
#include <string.h>

#include "support/worlds.h"

enum { B = 2, Q = 20, K = 27, G = 2, R = 3, D = 10, FEW = 4, UNUSED = 3 };

static weft_tensor *noise(weft_dtype dtype, int ndim, const int64_t *shape)
{
    weft_spec spec = {.dtype = dtype, .ndim = ndim};

    memcpy(spec.shape, shape, (size_t)ndim * sizeof *shape);
    return weft_make_normal(spec, 0, 1, NULL);
}

/* Some keys are hidden from all, and all from some query. */
static weft_tensor *mask_of(weft_dtype dtype, int64_t rows)
{
    weft_tensor *t = weft_full(WEFT_F64, (int64_t[]){B, rows, K}, 3, 0);
    double *x = weft_data(t);

    for (int64_t i = 0; i < B * rows * K; i++) {
        bool seen = (i * 7 + i / K) % 5 != 0 && (rows == 1 || i / K % rows != 6);

        x[i] = dtype == WEFT_BOOL ? seen : seen ? 0.25 * (double)(i % 4) : -INFINITY;
    }
    return weft_cast(t, dtype);
}

/* The same, FEW queries at a time. */
static weft_tensor *few_at_a_time(weft_tensor *q, weft_tensor *k, weft_tensor *v,
                                  weft_attention_options options)
{
    weft_tensor *parts[Q / FEW];

    for (int i = 0; i < Q / FEW; i++) {
        weft_attention_options some = options;
        int64_t first = i * FEW, end = first + FEW;

        if (options.mask && weft_size(options.mask, 1) == Q)
            some.mask = weft_slice(options.mask, 1, first, end);
        if (options.causal) some.unused_keys += Q - end;
        parts[i] = weft_attention_with(weft_slice(q, 1, first, end), k, v, some);
    }
    return weft_cat(parts, Q / FEW, 1);
}

static void check(weft_dtype dtype, double bound)
{
    weft_tensor *k = noise(dtype, 4, (int64_t[]){B, K, G, D});
    weft_tensor *v = noise(dtype, 4, (int64_t[]){B, K, G, D});
    weft_tensor *grouped = noise(dtype, 5, (int64_t[]){B, Q, G, R, D});
    weft_tensor *single = noise(dtype, 4, (int64_t[]){B, Q, G, D});
    weft_attention_options all[] = {
        {0},
        {.causal = true},
        {.unused_keys = UNUSED},
        {.causal = true, .unused_keys = UNUSED},
        {.mask = mask_of(WEFT_BOOL, Q)},
        {.mask = mask_of(WEFT_BOOL, 1), .unused_keys = UNUSED},
        {.mask = mask_of(dtype, Q), .causal = true},
        {.mask = mask_of(dtype, 1)},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int j = 0; j < 2; j++) {
            weft_tensor *q = j ? grouped : single;
            weft_tensor *many = weft_attention_with(q, k, v, all[i]);

            wt_note("options %d of %s", (int)i, j ? "groups" : "heads");
            WT_ALL(many != NULL);
            WT_ALL(wt_near_tensors(few_at_a_time(q, k, v, all[i]), many, WT_WITHIN(bound)));
        }
}

WT_TEST(attention__of_few_queries_is_that_of_many)
{
    check(WEFT_F64, 1e-12);
    check(WEFT_F32, 2e-6);
    check(WEFT_BF16, 2e-2);
    check(WEFT_F16, 3e-3);
}

/* One query that is no number, and nothing that is one among its scores: it must not look as if it
 * saw no key. */
WT_TEST(attention__not_a_number_stays)
{
    static const int counts[] = {1, FEW, Q};

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int64_t queries[] = {1, counts[i], G, D}, keys[] = {1, K, G, D};
        weft_tensor *q = noise(WEFT_F32, 4, queries), *k = noise(WEFT_F32, 4, keys), *o;
        bool as_it_was = true;

        ((float *)weft_data(q))[0] = NAN;
        o = weft_attention(q, k, k, false, 0);
        for (int64_t j = 0; j < weft_numel(o); j++)
            as_it_was &= isnan(((float *)weft_data(o))[j]) ? j < D : j >= D;
        wt_note("%d queries", counts[i]);
        WT_ALL(as_it_was);
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "few"); }
