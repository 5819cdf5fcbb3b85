/*
 * test_replay.c: what backward computes again (weft_recomputed) draws the numbers of the first time
 * wherever they come from, leaves generators alone, nests, and fails in the open.
 */
/* ranks: 1 2 3 4 6 8 */
/* mpi: 4 */
#include <string.h>

#include "megatron/lines.h"

static weft_tensor *wanted(weft_tensor *t) { return weft_set_requires_grad(t, true); }

static weft_tensor *noise(int64_t a, int64_t b)
{
    return weft_make_randn((weft_spec){.dtype = WEFT_F64, .ndim = 2, .shape = {a, b}}, NULL);
}

static bool equal(weft_tensor *got, weft_tensor *want)
{
    return wt_near_tensors(got, want, WT_EXACT);
}

/* ---- where the numbers of a piece come from ---- */

enum source { CURRENT, RESEEDED, NAMED, FORKED, GIVEN, COPIED, BY_PART, SOURCES };

struct draws {
    enum source from;
    weft_generator *given;
};

/* x times numbers of its own, and dropped by half. */
static weft_tensor *scaled(weft_tensor *x, weft_generator *g)
{
    return weft_dropout(weft_mul(x, weft_rand_like(x, g)), 0.5, g);
}

static weft_tensor *in_fork(weft_tensor *x, weft_generator *g)
{
    weft_tensor *y;

    weft_default_generator_open(g);
    y = scaled(x, NULL);
    return weft_default_generator_close() == WEFT_OK ? y : NULL;
}

static weft_tensor *by_part(weft_tensor *x)
{
    weft_tensor *y;

    weft_local_random_open();
    y = scaled(x, NULL);
    weft_local_random_close();
    return y;
}

static weft_tensor *draw(weft_tensor *const *in, int n, void *payload)
{
    const struct draws *d = payload;

    (void)n;
    switch (d->from) {
    case RESEEDED:
        weft_manual_seed(31);
        return scaled(in[0], NULL);
    case NAMED:
        return scaled(in[0], weft_generator_find("masks"));
    case FORKED:
        return in_fork(in[0], weft_generator_find("masks"));
    case GIVEN:
        return scaled(in[0], d->given);
    case COPIED:
        return in_fork(in[0], NULL);
    case BY_PART:
        return by_part(in[0]);
    default:
        return scaled(in[0], NULL);
    }
}

struct places {
    uint64_t current, named, given;
};

static struct places places_of(const struct draws *d)
{
    return (struct places){weft_generator_draws(weft_default_generator()),
                           weft_generator_draws(weft_generator_find("masks")),
                           weft_generator_draws(d->given)};
}

/* With x all ones the gradient of the sum is the output itself. */
static void check_source(struct draws *d, weft_tensor *x)
{
    struct places after, now;
    weft_tensor *y, *next;

    weft_manual_seed(3);
    next = noise(2, 2); /* not the first draw */
    y = weft_recomputed(draw, &x, 1, d, NULL);
    after = places_of(d);
    next = scaled(x, d->given); /* between forward and backward all goes on */
    for (int times = 1; times <= 2; times++) {
        now = places_of(d);
        WT_EQ((times == 1 ? weft_backward_retain : weft_backward)(weft_sum_all(y)), WEFT_OK);
        WT_ALL(equal(weft_grad(x), weft_mul_scalar(y, times)));
        WT_EQ(places_of(d).current, now.current);
        WT_EQ(places_of(d).named, now.named);
        WT_EQ(places_of(d).given, now.given);
    }
    WT_EQ(now.given, after.given + 2);
    WT_ALL(next != NULL);
    weft_zero_grad(x);
}

/* MEG-17: values and gradients are of the same numbers, and nobody notices that they were drawn
 * twice; of a plain tensor and of one that is spread. */
WT_TEST(replay__draws_the_same_numbers_from_everywhere)
{
    struct lines l = lines_open();
    const weft_placement rows = weft_shard(0);
    struct draws d = {.given = wt_own(weft_generator_new(8))};
    weft_tensor *plain = wanted(lines_full(4, 3, 1)), *spread;

    weft_generator_add("masks", 7);
    spread = wanted(weft_distribute_tensor(lines_full(5, 3, 1), l.tp, &rows, -1));
    for (int from = 0; from < SOURCES; from++) {
        d.from = (enum source)from;
        check_source(&d, plain);
        check_source(&d, spread);
    }
    weft_generator_reset();
}

/* What was current the first time may no longer be, or not be yet. */
WT_TEST(replay__has_its_own_fork)
{
    weft_generator *g = wt_own(weft_generator_new(5));
    struct draws d = {.from = CURRENT, .given = g};
    weft_tensor *x = wanted(lines_full(4, 3, 1)), *y;

    for (int inside = 0; inside < 2; inside++) {
        if (inside) weft_default_generator_open(g);
        y = weft_recomputed(draw, &x, 1, &d, NULL);
        if (inside)
            WT_EQ(weft_default_generator_close(), WEFT_OK);
        else
            weft_default_generator_open(g);
        weft_generator_reseed(g, 6);
        WT_EQ(weft_backward(weft_sum_all(y)), WEFT_OK);
        WT_EQ(weft_generator_seed(g), 6);
        WT_EQ(weft_generator_draws(g), 0);
        if (!inside) WT_EQ(weft_default_generator_close(), WEFT_OK);
        WT_ALL(equal(weft_grad(x), y));
        weft_zero_grad(x);
    }
}

/* ---- a seed that differs along an axis ---- */

static weft_tensor *own_mask(weft_tensor *const *in, int n, void *payload)
{
    weft_tensor *y;

    (void)n;
    (void)payload;
    weft_default_generator_open(weft_generator_find(WEFT_MODEL_PARALLEL_RNG));
    y = weft_dropout(in[0], 0.5, NULL);
    return weft_default_generator_close() == WEFT_OK ? y : NULL;
}

/* The same values on all ranks of `mesh` along an axis. */
static bool agree(weft_tensor *t, weft_mesh *mesh, int axis)
{
    return equal(weft_mesh_all_reduce(t, WEFT_MAX, mesh, axis),
                 weft_mesh_all_reduce(t, WEFT_MIN, mesh, axis));
}

/* MEG-16, MEG-17: each rank of a group drops other elements, the groups the same, and so does
 * backward, of what is kept and of what is computed again. */
WT_TEST(replay__of_numbers_that_differ_between_ranks)
{
    struct lines l = lines_open();
    weft_tensor *kept = wanted(lines_full(8, 8, 4)), *again = wanted(lines_full(8, 8, 4)), *y, *z;

    WT_EQ(weft_manual_seed_parallel(l.mesh, 1, 999), WEFT_OK);
    y = own_mask(&kept, 1, NULL);
    WT_EQ(weft_manual_seed_parallel(l.mesh, 1, 999), WEFT_OK);
    z = weft_recomputed(own_mask, &again, 1, NULL, NULL);
    WT_ALL(equal(z, y));
    WT_ALL(agree(weft_detach(y), l.mesh, 0));
    WT_ALL(agree(weft_detach(y), l.mesh, 1) == (l.ways == 1));
    WT_EQ(weft_manual_seed_parallel(l.mesh, 1, 1), WEFT_OK); /* the next step's */
    WT_EQ(weft_backward(weft_sum_all(y)), WEFT_OK);
    WT_EQ(weft_backward(weft_sum_all(z)), WEFT_OK);
    WT_ALL(equal(weft_grad(again), weft_grad(kept)));
    WT_ALL(equal(weft_grad(again), weft_mul_scalar(z, 0.25)));
    weft_generator_reset();
}

/* ---- pieces in pieces ---- */

static weft_tensor *squared(weft_tensor *const *in, int n, void *payload)
{
    (void)n;
    (void)payload;
    return weft_dropout(weft_square(in[0]), 0.3, NULL);
}

static weft_tensor *thrice(weft_tensor *const *in, int n, void *payload)
{
    weft_tensor *x = weft_dropout(in[0], 0.3, NULL);

    x = payload ? weft_recomputed(squared, &x, n, NULL, NULL) : squared(&x, n, NULL);
    return weft_dropout(weft_mul_scalar(x, 3), 0.3, NULL);
}

WT_TEST(replay__inside_a_replay)
{
    bool nested = true;
    weft_tensor *x = noise(6, 5), *want, *want_grad;

    wanted(x);
    weft_manual_seed(2);
    want = thrice(&x, 1, NULL);
    WT_EQ(weft_backward(weft_sum_all(want)), WEFT_OK);
    want_grad = weft_detach(weft_contiguous(weft_mul_scalar(weft_grad(x), 1)));
    for (int i = 0; i < 3; i++) {
        weft_tensor *y;

        weft_zero_grad(x);
        weft_manual_seed(2);
        y = i ? weft_recomputed(thrice, &x, 1, i == 2 ? &nested : NULL, NULL)
              : thrice(&x, 1, &nested);
        WT_ALL(equal(y, want));
        WT_EQ(weft_generator_draws(weft_default_generator()), 3);
        WT_EQ(weft_backward(weft_sum_all(y)), WEFT_OK);
        WT_ALL(equal(weft_grad(x), want_grad));
        WT_EQ(weft_generator_draws(weft_default_generator()), 3);
    }
}

/* ---- inputs without gradients, leaves beside the inputs ---- */

static weft_tensor *masked(weft_tensor *const *in, int n, void *payload)
{
    weft_tensor *mask = weft_cast(weft_reshape(in[1], (int64_t[]){2, 1}, 2), WEFT_F64);

    (void)n;
    (void)payload;
    return weft_mul(in[0], mask);
}

static weft_tensor *weighted(weft_tensor *const *in, int n, void *payload)
{
    (void)n;
    return weft_mul(in[0], payload);
}

/* MEG-17: a mask of integers; rows that were looked up before; a parameter that only the function
 * knows of, where the input is frozen. */
WT_TEST(replay__of_integers_and_of_leaves_beside)
{
    const int64_t index[] = {2, 0}, bits[] = {1, 0}, two = 2;
    const double grads[] = {0, 0, 0, 0, 1, 1};
    weft_tensor *table = wanted(noise(3, 2)), *weight = wanted(lines_full(1, 0, 2)), *in[2];

    in[0] = weft_embedding(table, weft_from_data(WEFT_I64, &two, 1, index));
    in[1] = weft_from_data(WEFT_I64, &two, 1, bits);
    WT_EQ(weft_backward(weft_sum_all(weft_recomputed(masked, in, 2, NULL, NULL))), WEFT_OK);
    WT_ALL(wt_near_full(weft_grad(table), grads, WT_EXACT));
    in[0] = lines_full(3, 0, 1);
    WT_EQ(weft_backward(weft_sum_all(weft_recomputed(weighted, in, 1, weight, NULL))), WEFT_OK);
    WT_ALL(weft_item(weft_grad(weight)) == 3);
    WT_ALL(!weft_grad(in[0]));
}

static weft_tensor *second(weft_tensor *const *in, int n, void *payload)
{
    (void)n;
    return payload ? weft_square(in[1]) : weft_detach(in[1]);
}

/* An input that the result does not depend on has no share in the loss. */
WT_TEST(replay__of_inputs_that_are_not_used)
{
    struct lines l = lines_open();
    const weft_placement rows = weft_shard(0);
    bool used = true;

    for (int i = 0; i < 4; i++) {
        weft_tensor *in[2], *x[2], *zeros;

        for (int j = 0; j < 2; j++) {
            weft_tensor *t = lines_full(5, 2, j + 2);

            x[j] = wanted(i / 2 ? weft_distribute_tensor(t, l.tp, &rows, -1) : t);
            in[j] = weft_mul_scalar(x[j], 1);
        }
        zeros = weft_zeros_like(x[0]);
        WT_EQ(
            weft_backward(weft_sum_all(weft_recomputed(second, in, 2, i % 2 ? &used : NULL, NULL))),
            WEFT_OK);
        WT_ALL(equal(weft_grad(x[0]), zeros));
        WT_ALL(equal(weft_grad(x[1]), i % 2 ? weft_full_like(x[1], 6) : zeros));
    }
}

/* ---- failures ---- */

struct failing {
    int runs, at; /* the run that fails, from 1 */
    bool silently;
    weft_tensor *factor;
};

static weft_tensor *may_fail(weft_tensor *const *in, int n, void *payload)
{
    struct failing *f = payload;
    weft_tensor *y = weft_mul(in[0], f->factor);

    (void)n;
    if (++f->runs != f->at) return y;
    weft_default_generator_open(NULL); /* and never joined */
    weft_dropout(y, 0.5, NULL);
    return f->silently ? NULL : weft_matmul(y, y); /* 2 x 3 by 2 x 3 */
}

static void check_failure(struct failing f, bool frozen_input)
{
    weft_tensor *x = lines_full(2, 3, 1), *y;

    f.factor = wanted(lines_full(2, 3, 2));
    weft_set_requires_grad(x, !frozen_input);
    weft_manual_seed(4);
    y = weft_recomputed(may_fail, &x, 1, &f, NULL);
    WT_ALL((y != NULL) == (f.at == 2));
    if (f.at == 2)
        WT_ALL(weft_backward(weft_sum_all(y)) != WEFT_OK);
    else
        WT_EQ(weft_default_generator_close(), WEFT_OK); /* the function's own */
    WT_EQ(f.runs, f.at);
    WT_ALL(f.silently || strstr(weft_error_message(), "matmul") != NULL);
    weft_error_clear();
    WT_ALL(weft_default_generator_close() == WEFT_ERR_STATE); /* no fork is left */
    weft_error_clear();
    WT_EQ(weft_generator_draws(weft_default_generator()), 0);
    WT_ALL(!weft_grad(x) && !weft_grad(f.factor));
    WT_EQ(weft_backward(weft_sum_all(weft_recomputed(weighted, &x, 1, f.factor, NULL))), WEFT_OK);
    WT_ALL(equal(weft_grad(f.factor), x));
}

/* MEG-17: whichever run fails, it is told, nothing stays behind, and the next piece is as ever. */
WT_TEST(replay__that_fails_is_told)
{
    for (int i = 0; i < 4; i++) {
        check_failure((struct failing){.at = 2, .silently = i / 2}, i % 2);
        if (i < 2) check_failure((struct failing){.at = 1}, i % 2);
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "replay"); }
