/*
 * test_watched.c: a step graph beside a ledger that is open on one rank alone. With collectives in
 * the graphs of all ranks it is launched there too; else that rank's run is an ordinary one.
 */
/* ranks: 1 2 */
/* mpi: 2 */
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "support/given.h"

enum { RUNS = 6, NUMBERS = 12, WATCHED = 4 };

static struct wt_world open_unwatched(void)
{
    struct wt_world world = wt_world_open();

    weft_ledger_stop(world.ledger);
    return world;
}

/* Whether steps with or without collectives are launched on this device. */
static bool is_captured(const struct wt_world *w)
{
    return wt_device() == WEFT_CUDA && !getenv("WEFT_TEST_DEVICE_LACKS") &&
           !getenv("WEFT_TEST_DEVICE_GRAPHS") &&
           (weft_mesh_size(w->mesh) == 1 || getenv("WT_BACKEND"));
}

/* Squares, gathered from all ranks. */
static weft_tensor *gather_squares(weft_tensor *const *in, int n, void *payload)
{
    const struct wt_world *w = payload;

    return n == 1 ? weft_redistribute(weft_mul(in[0], in[0]), weft_placements(w->mesh, "R")) : NULL;
}

static weft_tensor *sharded(const struct wt_world *w, double value)
{
    weft_tensor *whole = weft_full(WEFT_F32, (int64_t[]){NUMBERS}, 1, value);

    return weft_distribute_tensor(whole, w->mesh, weft_placements(w->mesh, "S(0)"), -1);
}

WT_TEST_IN(step_graph__with_collectives_is_launched_whoever_watches, w, open_unwatched())
{
    weft_step_graph *graph = wt_own(weft_step_graph_new(w->mesh, gather_squares, w));
    bool collectives = weft_mesh_size(w->mesh) > 1, watches = weft_world_rank() == 0;
    bool captured = is_captured(w);
    int launches = captured ? RUNS - 2 : 0;

    for (int i = 0; i < RUNS; i++) {
        weft_tensor *in = sharded(w, i + 0.5), *result;

        if (watches && i == WATCHED) weft_ledger_start(w->ledger);
        result = weft_step_graph_run(graph, &in, 1);
        if (watches && i == WATCHED) weft_ledger_stop(w->ledger);
        WT_ALL(result && weft_item(weft_amax(result, NULL, 0, false)) == (i + 0.5) * (i + 0.5));
    }
    if (captured && !collectives) launches--;
    WT_EQ(weft_step_graph_launch_count(graph), launches);
}

/* All ranks capture the second run, also where the first was watched. */
WT_TEST_IN(step_graph__watched_in_its_first_run_is_captured_in_its_second, w, open_unwatched())
{
    weft_step_graph *graph = wt_own(weft_step_graph_new(w->mesh, gather_squares, w));
    bool watches = weft_world_rank() == 0;

    for (int i = 0; i < RUNS; i++) {
        weft_tensor *in = sharded(w, i + 0.5), *result;

        if (watches && i == 0) weft_ledger_start(w->ledger);
        result = weft_step_graph_run(graph, &in, 1);
        if (watches && i == 0) weft_ledger_stop(w->ledger);
        WT_ALL(result && weft_item(weft_amax(result, NULL, 0, false)) == (i + 0.5) * (i + 0.5));
    }
    WT_EQ(weft_step_graph_launch_count(graph), is_captured(w) ? RUNS - 2 : 0);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "watched"); }
