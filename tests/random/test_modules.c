/*
 * test_modules.c: first values of parameters that were made on the meta device, sequences of draws
 * as a training step makes them, and numbering by parts.
 */
/* mpi: 4 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random/draws.h"
#include "tensor/tensor.h"

enum { SEED = 1234 };

/* Undefined parameters of a module get elements and first values where they are. */
static weft_status reset(weft_module *m, const char *name)
{
    weft_tensor *real = weft_empty_like(weft_module_parameter(m, name), WEFT_CPU);

    WT_ALL(real && weft_kaiming_uniform_(real, sqrt(5), WEFT_FAN_IN, NULL) == WEFT_OK);
    return weft_module_set_parameter(m, name, real);
}

static weft_module *meta_linear(int64_t in, int64_t out)
{
    weft_device before = weft_set_default_device(WEFT_META);
    weft_module *m =
        weft_linear_new((weft_linear_config){.in = {in}, .out = {out}, .no_bias = true});

    weft_set_default_device(before);
    return m;
}

static weft_status colwise(weft_module *m, weft_mesh *mesh)
{
    const weft_plan plan[] = {{"", weft_colwise_parallel()}, {0}};

    return weft_parallelize_module(m, mesh, plan);
}

/* RNG-05: a column-wise weight made on the meta device; one row and three rows per rank. */
WT_TEST_TIMES_IN_WORLD(colwise__weights_differ_between_ranks, w, i, 2)
{
    int per_rank = 1 + 2 * i;
    weft_module *m = meta_linear(wt_ranks(), per_rank * wt_ranks());

    weft_manual_seed(SEED);
    WT_ALL(colwise(m, w->mesh) == WEFT_OK && reset(m, "weight") == WEFT_OK);
    wt_parts_differ(weft_module_parameter(m, "weight"), per_rank * wt_ranks(), "weight");
    weft_module_release(m);
}

/* RNG-06: column-wise on tp, then sharded on dp too: a strided shard and a shard of one dim. */
WT_TEST_TIMES_IN(colwise__weights_differ_on_two_axes, w, i, wt_ranks() == 4 ? 2 : 0,
                 wt_world_open_mesh("dp=2,tp=2"))
{
    int rows = 4 + 4 * i;
    const int64_t shape[] = {rows, 4};
    weft_tensor *t = wt_placed(w, WEFT_F32, 2, shape, "SS(0,2),S(0)");

    weft_manual_seed(SEED);
    WT_ALL(weft_kaiming_uniform_(t, sqrt(5), WEFT_FAN_IN, NULL) == WEFT_OK);
    wt_parts_differ(t, rows, "weight");
}

/* Weights net1 [16,10] and net2 [10,16], column-wise on tp; equal between ranks r and s? */
static void check_nets(struct wt_world *w, bool by_element)
{
    static const int64_t sizes[][2] = {{10, 16}, {16, 10}};
    weft_mesh *tp = weft_mesh_sub(w->mesh, "tp");

    weft_manual_seed(0);
    for (int i = 0; i < 2; i++) {
        weft_module *m = meta_linear(sizes[i][0], sizes[i][1]);
        int64_t n = sizes[i][0] * sizes[i][1] / 2;
        double *all;

        if (!by_element) weft_local_random_open();
        WT_ALL(colwise(m, tp) == WEFT_OK && reset(m, "weight") == WEFT_OK);
        if (!by_element) weft_local_random_close();
        all = wt_local_rows(weft_module_parameter(m, "weight"), n);
        for (int r = 0; r < 4; r++)
            for (int s = 0; s < r; s++) {
                bool equal = memcmp(all + r * n, all + s * n, (size_t)n * sizeof *all) == 0;

                WT_ALL(equal == (!by_element || r % 2 == s % 2));
            }
        free(all);
        weft_module_release(m);
    }
    weft_mesh_release(tp);
}

/* RNG-21 */
WT_TEST_IN_IF(colwise__weights_are_equal_over_data_parallel_ranks, w, wt_ranks() == 4,
              wt_world_open_mesh("dp=2,tp=2"))
{
    check_nets(w, true);
    check_nets(w, false);
}

/* RNG-04: replicas are equal, numbered by element or by part. */
WT_TEST_TIMES_IN_WORLD(uniform__is_equal_on_all_replicas, w, i, 4)
{
    static const int64_t shapes[][2] = {{1024, 2048}, {31, 7}};
    const int64_t *shape = shapes[i / 2];
    weft_device before = weft_set_default_device(WEFT_META);
    weft_tensor *t = wt_placed(w, WEFT_F32, 2, shape, "R"), *real;
    double *all;

    weft_set_default_device(before);
    real = weft_empty_like(t, WEFT_CPU);
    weft_manual_seed(SEED);
    if (i % 2) weft_local_random_open();
    WT_ALL(weft_uniform_(real, 0, 1, NULL) == WEFT_OK);
    if (i % 2) weft_local_random_close();
    WT_STILL(w);
    /* enough of it to see: a row in the middle */
    all = wt_local_rows(weft_contiguous(weft_to_local(weft_slice(real, 0, 9, 10), NULL)), shape[1]);
    for (int r = 1; r < wt_ranks(); r++)
        WT_ALL(memcmp(all, all + r * shape[1], (size_t)shape[1] * sizeof *all) == 0);
    free(all);
}

/* Without elements a draw is counted all the same, so what follows does not depend on them. */
WT_TEST_IN_WORLD(meta__draws_are_counted, w)
{
    weft_device before = weft_set_default_device(WEFT_META);
    weft_tensor *t = wt_placed(w, WEFT_F32, 2, (int64_t[]){9, 4}, "S(0)");

    weft_manual_seed(SEED);
    WT_ALL(weft_normal_(t, 0, 1, NULL) == WEFT_OK && wt_generator_is(SEED, 1));
    WT_ALL(weft_tensor_device(weft_dropout(t, 0.5, NULL)) == WEFT_META && wt_generator_is(SEED, 2));
    WT_ALL(weft_tensor_device(weft_rand_like(t, NULL)) == WEFT_META && wt_generator_is(SEED, 3));
    WT_ALL(weft_fill_(t, 1) == WEFT_OK && wt_generator_is(SEED, 3));
    weft_set_default_device(before);
    WT_STILL(w);
}

/* By parts, equal shards are filled alike; dropout and bernoulli follow the same numbering. */
WT_TEST_IN_WORLD(local_random__numbers_each_part_from_0, w)
{
    const int64_t shape[] = {2 * wt_ranks(), 3}, part[] = {2, 3};
    weft_tensor *plain = weft_full(WEFT_F32, part, 2, 0.5), *t, *y;
    double want[3][6], got[6];

    weft_manual_seed(SEED);
    WT_ALL(weft_uniform_(plain, 0, 1, NULL) == WEFT_OK);
    weft_read_f64(plain, want[0], 6);
    weft_read_f64(weft_dropout(weft_full(WEFT_F32, part, 2, 1), 0.5, NULL), want[1], 6);
    weft_read_f64(weft_bernoulli(weft_full(WEFT_F32, part, 2, 0.5), NULL), want[2], 6);
    weft_manual_seed(SEED);
    weft_local_random_open();
    t = wt_placed(w, WEFT_F32, 2, shape, "S(0)");
    WT_ALL(weft_uniform_(t, 0, 1, NULL) == WEFT_OK);
    WT_ALL(weft_read_f64(t, got, 6) == WEFT_OK && memcmp(got, want[0], sizeof got) == 0);
    weft_fill_(t, 1);
    y = weft_dropout(t, 0.5, NULL);
    WT_ALL(weft_read_f64(y, got, 6) == WEFT_OK && memcmp(got, want[1], sizeof got) == 0);
    weft_fill_(t, 0.5);
    y = weft_bernoulli(t, NULL);
    WT_ALL(weft_read_f64(y, got, 6) == WEFT_OK && memcmp(got, want[2], sizeof got) == 0);
    WT_ALL(wt_is_placed(y, "S(0)") && wt_generator_is(SEED, 3));
    weft_local_random_close();
}

/* ---- the draws of a step ---- */

enum { STEPS = 10, RUNS = 3, N = 64 };

/* One of each kind of draw, as a step of training makes them. */
static weft_tensor *step(struct wt_world *w, int which, const int64_t *shape, const char *layout)
{
    weft_tensor *t = wt_placed(w, WEFT_F32, 2, shape, layout);

    weft_fill_(t, 0.5);
    switch (which) {
    case 0:
        return weft_dropout(t, 0.5, NULL);
    case 1:
        return weft_normal_(t, 0, 1, NULL) == WEFT_OK ? t : NULL;
    case 2:
        return weft_uniform_(t, 0, 1, NULL) == WEFT_OK ? t : NULL;
    case 3:
        return weft_rand_like(t, NULL);
    case 4:
        return weft_randn_like(t, NULL);
    case 5:
        return weft_randint_like(t, 0, 10, NULL);
    case 6:
        return weft_bernoulli(t, NULL);
    case 7:
        return weft_bernoulli_(t, 0.5, NULL) == WEFT_OK ? t : NULL;
    case 8:
        return weft_uniform_(t, 0, 1, NULL) == WEFT_OK ? weft_dropout(t, 0.5, NULL) : NULL;
    default:
        return weft_exponential_(t, 1, NULL) == WEFT_OK ? t : NULL;
    }
}

/* The parts that `which` gives in RUNS runs after seed 0, and the generator's state after each. */
static void run_steps(struct wt_world *w, int which, const int64_t *shape, const char *layout,
                      double (*parts)[N], unsigned char (*states)[WEFT_GENERATOR_BYTES])
{
    weft_manual_seed(0);
    for (int i = 0; i < RUNS; i++) {
        weft_tensor *t = step(w, which, shape, layout);

        memset(parts[i], 0, sizeof parts[i]);
        WT_ALL(t && weft_read_f64(t, parts[i], N) == WEFT_OK);
        weft_generator_state(weft_default_generator(), states[i]);
    }
}

static void check_runs(struct wt_world *w, int which, const int64_t *shape, const char *layout)
{
    double first[RUNS][N], second[RUNS][N], *all;
    unsigned char states[RUNS][WEFT_GENERATOR_BYTES], again[RUNS][WEFT_GENERATOR_BYTES];
    bool few;

    wt_moved(w, WEFT_COLL_COUNT);
    run_steps(w, which, shape, layout, first, states);
    run_steps(w, which, shape, layout, second, again);
    WT_STILL(w);
    WT_ALL(memcmp(first, second, sizeof first) == 0 && memcmp(states, again, sizeof states) == 0);
    for (int i = 1; i < RUNS; i++) WT_ALL(memcmp(states[i], states[i - 1], sizeof *states) != 0);
    all = wt_of_all_ranks(first[0], (int64_t)RUNS * N);
    few = weft_local_numel(wt_placed(w, WEFT_F32, 2, shape, layout)) <= 8; /* equal by chance */
    WT_ALL(few || wt_rows_differ(first[0], RUNS, N));
    for (int r = 1; layout[0] == 'R' && r < wt_ranks(); r++)
        WT_ALL(memcmp(all, all + r * RUNS * N, sizeof first) == 0);
    free(all);
}

/*
 * RNG-20, its eager half: after seed 0 the same runs give the same numbers and states, states
 * change from run to run, and replicas are equal. A captured graph takes its draws from the same
 * generator, one for each op in order, so its half is this test with a replayed step; it waits for
 * capture.
 */
WT_TEST_IN_WORLD(steps__repeat_after_the_same_seed, w)
{
    static const int64_t shapes[][2] = {{8, 8}, {7, 5}};

    for (int i = 0; i < 4 * STEPS; i++)
        check_runs(w, i / 4, shapes[i % 2], i / 2 % 2 ? "S(0)" : "R");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "modules"); }
