/*
 * test_extremes.c: maxima and minima over ranks in a step graph, of which one rank's numbers have a
 * NaN: it stays in each run, launched or not. Under NCCL they are captured with their keys.
 */
/* ranks: 1 2 3 */
/* mpi: 2 */
#include <math.h>
#include <stdlib.h>

#include "support/given.h"

enum { RUNS = 5, NUMBERS = 6 };

static struct wt_world open_unwatched(void)
{
    struct wt_world world = wt_world_open();

    weft_ledger_stop(world.ledger);
    return world;
}

/* Number i of a rank in a run. The last rank has a NaN, in another place in each run. */
static double term(int rank, int ranks, int run, int i)
{
    if (rank == ranks - 1 && i == run) return NAN;
    return (rank * 5 + i * 3 + run) % 7 - 3;
}

/* This rank's. */
static weft_tensor *terms(int run)
{
    int rank = weft_world_rank(), ranks = weft_world_size();
    float values[NUMBERS];

    for (int i = 0; i < NUMBERS; i++) values[i] = (float)term(rank, ranks, run, i);
    return weft_to_device(weft_from_data(WEFT_F32, (int64_t[]){NUMBERS}, 1, values), wt_device());
}

static bool is_extreme(const double *got, bool largest, int run)
{
    int ranks = weft_world_size();

    for (int i = 0; i < NUMBERS; i++) {
        double want = term(0, ranks, run, i);

        for (int rank = 1; rank < ranks; rank++) {
            double x = term(rank, ranks, run, i);

            if (isnan(x) || (largest ? x > want : x < want)) want = x;
        }
        if (isnan(want) ? !isnan(got[i]) : got[i] != want) return false;
    }
    return true;
}

struct combination {
    weft_mesh *mesh;
    const char *placement;
};

static weft_tensor *combine(weft_tensor *const *in, int n, void *payload)
{
    const struct combination *c = payload;
    const weft_placement *partial = weft_placements(c->mesh, c->placement);

    return n == 1 ? weft_redistribute(weft_from_local(in[0], c->mesh, partial, NULL),
                                      weft_placements(c->mesh, "R"))
                  : NULL;
}

WT_TEST_IN(step_graph__maxima_and_minima_keep_a_nan, w, open_unwatched())
{
    for (int largest = 0; largest < 2; largest++) {
        struct combination c = {w->mesh, largest ? "P(max)" : "P(min)"};
        weft_step_graph *graph = wt_own(weft_step_graph_new(w->mesh, combine, &c));

        for (int run = 0; run < RUNS; run++) {
            weft_tensor *in = terms(run);
            double got[NUMBERS];

            WT_ALL(weft_read_f64(weft_step_graph_run(graph, &in, 1), got, NUMBERS) == WEFT_OK);
            WT_ALL(is_extreme(got, largest, run));
        }
        if (getenv("WT_BACKEND")) WT_EQ(weft_step_graph_launch_count(graph), RUNS - 2);
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "extremes"); }
