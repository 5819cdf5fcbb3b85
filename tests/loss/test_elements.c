/*
 * test_elements.c: losses of elements, of classes and of directions against PyTorch
 * (tests/golden/losses.txt, made by make_losses.py), with gradients, in every pair of layouts.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/golden.h"
#include "support/worlds.h"

static const int64_t shape[2] = {6, 5};

struct numbers {
    double scale, offset;
};

static const struct numbers numbers = {2, 0}, chances = {0.45, 0.5}, logs = {0.8, -1},
                            logits = {4, 0};

static weft_tensor *by_formula(weft_dtype dtype, int index, const int64_t *sizes, int ndim,
                               struct numbers n)
{
    weft_tensor *t = weft_full(WEFT_F64, sizes, ndim, 0);
    double *to = weft_data(t);

    for (int64_t i = 0; i < weft_numel(t); i++)
        to[i] = wt_golden_formula(i, index, n.scale, n.offset);
    return weft_cast(t, dtype);
}

static bool matches(const struct wt_golden *golden, const char *name, const char *part,
                    weft_tensor *t, double bound)
{
    char text[64];

    snprintf(text, sizeof text, "%s.%s", name, part);
    wt_note("%s", text);
    return t && wt_golden_matches(golden, text, weft_cast(t, WEFT_F64), WT_WITHIN(bound));
}

static double bound_of(weft_dtype dtype)
{
    return dtype == WEFT_F64 ? 1e-12 : dtype == WEFT_F32 ? 3e-5 : dtype == WEFT_F16 ? 2e-2 : 1.5e-1;
}

/* Backward of a loss as the script weights it. */
static weft_status backward(struct wt_world *w, weft_tensor *loss)
{
    weft_tensor *up;
    int64_t sizes[2];

    if (!loss) return WEFT_ERR_ARG;
    if (weft_ndim(loss) == 0) return weft_backward(loss);
    for (int d = 0; d < weft_ndim(loss); d++) sizes[d] = weft_size(loss, d);
    up = by_formula(weft_tensor_dtype(loss), 3, sizes, weft_ndim(loss), (struct numbers){1, 0});
    return weft_backward_from(loss, weft_tensor_mesh(loss) ? wt_spread(w, up, "R") : up);
}

typedef weft_tensor *loss_function(weft_tensor *a, weft_tensor *b, weft_loss_options o);

struct loss {
    const char *name;
    loss_function *f;
    const struct numbers *a, *b;
    double beta;
    bool weighted, log_target;
};

static const struct loss losses[] = {
    {"mse", weft_mse_with, &numbers, &numbers, 0, false, false},
    {"l1", weft_l1_loss, &numbers, &numbers, 0, false, false},
    {"smooth_l1", weft_smooth_l1_loss, &numbers, &numbers, 0, false, false},
    {"smooth_l1_beta", weft_smooth_l1_loss, &numbers, &numbers, 0.3, false, false},
    {"huber", weft_huber_loss, &numbers, &numbers, 1.7, false, false},
    {"bce", weft_binary_cross_entropy, &chances, &chances, 0, false, false},
    {"bce_weight", weft_binary_cross_entropy, &chances, &chances, 0, true, false},
    {"logits", weft_binary_cross_entropy_with_logits, &logits, &chances, 0, false, false},
    {"logits_weight", weft_binary_cross_entropy_with_logits, &logits, &chances, 0, true, false},
    {"kl", weft_kl_div, &logs, &chances, 0, false, false},
    {"kl_log", weft_kl_div, &logs, &logs, 0, false, true},
};

enum { LOSSES = sizeof losses / sizeof losses[0], LAYOUTS = 3 };

static const char *const reductions[] = {"mean", "sum", "none", "batchmean"};
static const char *const layouts[LAYOUTS] = {"R", "S(0)", "S(1)"};

/* Plain where there is no layout. */
static weft_tensor *placed(struct wt_world *w, weft_tensor *t, const char *layout)
{
    return layout ? wt_spread(w, t, layout) : t;
}

static void check_loss(struct wt_world *w, const struct wt_golden *golden, const struct loss *l,
                       int reduction, weft_dtype dtype, const char *a_layout, const char *b_layout)
{
    weft_tensor *a = placed(w, by_formula(dtype, 0, shape, 2, *l->a), a_layout), *y;
    weft_tensor *b = placed(w, by_formula(dtype, 1, shape, 2, *l->b), b_layout);
    weft_loss_options o = {
        .reduction = (weft_loss_reduction)reduction, .beta = l->beta, .log_target = l->log_target};
    char name[40];

    weft_set_requires_grad(a, true);
    weft_set_requires_grad(b, true);
    if (l->weighted) {
        o.weight = by_formula(dtype, 4, shape, 2, (struct numbers){0.4, 0.6});
        o.weight = placed(w, o.weight, a_layout ? "R" : NULL);
        if (l->f != weft_binary_cross_entropy) {
            o.pos_weight = by_formula(dtype, 5, shape + 1, 1, (struct numbers){0.8, 1.2});
            o.pos_weight = placed(w, o.pos_weight, a_layout ? "R" : NULL);
        }
    }
    snprintf(name, sizeof name, "%s.%s", l->name, reductions[reduction]);
    y = l->f(a, b, o);
    WT_ALL(y && weft_tensor_dtype(y) == dtype);
    WT_ALL(matches(golden, name, "y", y, bound_of(dtype) * (reduction == 1 ? 4 : 1)));
    WT_EQ(backward(w, y), WEFT_OK);
    WT_ALL(matches(golden, name, "a", weft_grad(a), bound_of(dtype)));
    WT_ALL(matches(golden, name, "b", weft_grad(b), bound_of(dtype)));
}

/* Means are over the elements of all ranks, however many a rank has. */
WT_TEST_TIMES_IN_WORLD(losses__are_those_of_torch, w, k, LOSSES)
{
    const struct wt_golden *golden = wt_golden_open("losses");
    const struct loss *l = &losses[k];
    int ways = strcmp(l->name, "kl") == 0 ? 4 : 3;

    for (int reduction = 0; reduction < ways; reduction++) {
        for (int dtype = 0; dtype < 4; dtype++)
            check_loss(w, golden, l, reduction, (weft_dtype)dtype, NULL, NULL);
        for (int p = 0; p < LAYOUTS * LAYOUTS; p++) {
            wt_note("%s, %s", layouts[p / LAYOUTS], layouts[p % LAYOUTS]);
            check_loss(w, golden, l, reduction, WEFT_F64, layouts[p / LAYOUTS],
                       layouts[p % LAYOUTS]);
        }
    }
}

/* Chances of 0 and 1: logarithms and gradients stay finite, as torch's. */
WT_TEST_IN_WORLD(binary_cross_entropy__at_its_ends, w)
{
    static const double p[] = {0, 1, 0, 1, 1e-20, 0.5}, t[] = {0, 1, 1, 0, 1, 0.25};
    const struct wt_golden *golden = wt_golden_open("losses");
    weft_tensor *a = weft_full(WEFT_F64, shape, 1, 0), *b = weft_full(WEFT_F64, shape, 1, 0), *y;

    memcpy(weft_data(a), p, sizeof p);
    memcpy(weft_data(b), t, sizeof t);
    a = weft_set_requires_grad(wt_spread(w, a, "S(0)"), true);
    y = weft_binary_cross_entropy(a, wt_spread(w, b, "S(0)"),
                                  (weft_loss_options){.reduction = WEFT_LOSS_NONE});
    WT_ALL(matches(golden, "special", "y", y, 1e-12));
    WT_EQ(backward(w, y), WEFT_OK);
    WT_ALL(matches(golden, "special", "a", weft_grad(a), 1e-12));
    WT_ALL(weft_binary_cross_entropy(a, weft_full(WEFT_F64, NULL, 0, 0), (weft_loss_options){0}) ==
           NULL);
    weft_error_clear();
}

/* Classes and tokens sharded; weights; targets that are ignored. */
WT_TEST_TIMES_IN_WORLD(nll_loss__is_that_of_torch, w, k, 9)
{
    static const char *const names[] = {"nll", "nll_weight", "nll_ignore"};
    const struct wt_golden *golden = wt_golden_open("losses");
    char name[40];

    snprintf(name, sizeof name, "%s.%s", names[k % 3], reductions[k / 3]);
    for (int p = -1; p < 2 * LAYOUTS; p++) {
        const char *layout = p < 0 ? NULL : layouts[p % LAYOUTS];
        weft_tensor *a = by_formula(WEFT_F64, 0, shape, 2, logs), *target, *y;
        weft_cross_entropy_options o = {.reduction = (weft_loss_reduction)(k / 3)};

        target = weft_full(WEFT_I64, shape, 1, 0);
        for (int64_t i = 0; i < 6; i++) ((int64_t *)weft_data(target))[i] = (i * i + 1) % 5;
        target = placed(w, target, p < 0 ? NULL : p < LAYOUTS ? "R" : "S(0)");
        if (k % 3 > 0)
            o.weight = placed(w, by_formula(WEFT_F64, 6, shape + 1, 1, (struct numbers){0.4, 0.6}),
                              p < 0 ? NULL : "R");
        if (k % 3 > 1) o.ignore_index = 2;
        if (p % 2 == 1) { /* classes before tokens */
            a = weft_transpose(a, 0, 1);
            o.class_dim = -2;
        }
        a = weft_set_requires_grad(placed(w, weft_contiguous(a), layout), true);
        wt_note("%s, %s", name, layout ? layout : "plain");
        y = weft_nll_loss(a, target, o);
        WT_ALL(matches(golden, name, "y", y, 1e-12));
        WT_EQ(backward(w, y), WEFT_OK);
        WT_ALL(matches(golden, name, "a",
                       p % 2 == 1 ? weft_transpose(weft_grad(a), 0, 1) : weft_grad(a), 1e-12));
    }
}

/* Of classes that are sharded no logarithms are gathered: two numbers are added up. */
WT_TEST_IN_WORLD(nll_loss__adds_up_two_numbers, w)
{
    weft_tensor *a =
        weft_set_requires_grad(wt_spread(w, wt_whole(WEFT_F32, 0, 12, 16), "S(1)"), true);
    weft_tensor *target = wt_spread(w, weft_full(WEFT_I64, (int64_t[]){12}, 1, 3), "R"), *y;

    y = wt_to(weft_nll_loss(a, target, (weft_cross_entropy_options){.class_dim = -1}), "R");
    WT_ALL(wt_moved(w, WEFT_COLL_COUNT) <= 2);
    WT_EQ(weft_backward(y), WEFT_OK);
    WT_STILL(w);
    WT_ALL(wt_is_placed(weft_grad(a), "S(1)"));
}

WT_TEST_TIMES_IN_WORLD(directions__are_those_of_torch, w, dim, 2)
{
    static const double powers[] = {1, 2, 3, INFINITY};
    const struct wt_golden *golden = wt_golden_open("losses");
    char name[40];

    for (int p = -1; p < LAYOUTS; p++) {
        const char *layout = p < 0 ? NULL : layouts[p];
        weft_tensor *a = placed(w, by_formula(WEFT_F64, 0, shape, 2, numbers), layout), *y;
        weft_tensor *b = placed(w, by_formula(WEFT_F64, 1, shape, 2, numbers), layout);

        weft_set_requires_grad(a, true);
        weft_set_requires_grad(b, true);
        y = weft_cosine_similarity(a, b, dim, 1e-8);
        snprintf(name, sizeof name, "cosine%d", dim);
        WT_ALL(matches(golden, name, "y", y, 1e-12));
        WT_EQ(backward(w, y), WEFT_OK);
        WT_ALL(matches(golden, name, "a", weft_grad(a), 1e-12));
        WT_ALL(matches(golden, name, "b", weft_grad(b), 1e-12));
        for (int i = 0; i < 4; i++) {
            weft_tensor *x = placed(w, by_formula(WEFT_F64, 0, shape, 2, numbers), layout);

            weft_set_requires_grad(x, true);
            y = weft_normalize(x, powers[i], dim, 1e-12);
            snprintf(name, sizeof name, "normalize%d_%g", dim, powers[i]);
            WT_ALL(matches(golden, name, "y", y, 1e-12));
            WT_EQ(backward(w, y), WEFT_OK);
            WT_ALL(matches(golden, name, "a", weft_grad(x), 1e-11));
        }
    }
}

/* A vector of zeros has a direction of zeros, and no gradient that is not a number. */
WT_TEST_IN_WORLD(directions__of_nothing, w)
{
    weft_tensor *x = weft_set_requires_grad(
        wt_spread(w, weft_full(WEFT_F32, (int64_t[]){3, 4}, 2, 0), "S(1)"), true);

    WT_EQ(weft_backward(weft_sum_all(weft_normalize(x, 2, 1, 1e-12))), WEFT_OK);
    WT_ALL(wt_is_all(weft_normalize(x, 2, 1, 1e-12), 0));
    WT_ALL(wt_is_all(weft_isfinite(weft_grad(x)), 1));
    WT_ALL(wt_is_all(weft_cosine_similarity(x, x, 1, 1e-8), 0));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "elements"); }
