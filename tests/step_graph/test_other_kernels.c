/*
 * test_other_kernels.c: a graph with a call that comes to other kernels than when it was captured
 * is not launched; with collectives in it that ends the job.
 */
/* ranks: 1 2 */
/* mpi: 2 */
#include <setjmp.h>
#include <stdlib.h>

#include "base/error.h"
#include "device/capture.h"
#include "device/device.h"
#include "support/given.h"

enum { NUMBERS = 12 };

static const int64_t numbers_shape[] = {NUMBERS};

static struct wt_world open_unwatched(void)
{
    struct wt_world world = wt_world_open();

    weft_ledger_stop(world.ledger);
    return world;
}

/* ---- a call of fills ---- */

struct fills {
    weft_tensor *t;
    int step, kernels; /* how many steps were counted; how many fills a call gives */
};

static void count_step(void *self, int by) { ((struct fills *)self)->step += by; }

static void give_fills(void *self)
{
    const struct fills *f = self;
    float value = (float)f->step;

    for (int i = 0; i < f->kernels; i++)
        wf_device_fill(WEFT_CUDA, weft_data(f->t), &value, sizeof value, NUMBERS);
}

static void keep(void *self) { (void)self; }

/* No verdicts in a capture: they are collectives. */
static struct wf_graph *capture_fills(struct fills *f, bool with_collective)
{
    struct wf_graph *graph;
    char why[256] = "";

    (void)wf_capture_begin(true);
    wf_capture_add_call((struct wf_changing_call){
        .advance = count_step, .give = give_fills, .release = keep, .self = f});
    if (with_collective) wf_capture_note_collective();
    graph = wf_capture_end(why, sizeof why);
    WT_ALL(graph && !why[0]);
    return graph;
}

/* ---- launches ---- */

static bool has_graphs(void)
{
    return wt_device() == WEFT_CUDA && !getenv("WEFT_TEST_DEVICE_GRAPHS");
}

WT_TEST_IN_IF(graph__other_kernels_than_captured_are_not_launched, w, has_graphs(),
              open_unwatched())
{
    struct fills f = {weft_full(WEFT_F32, numbers_shape, 1, 7), 1, 2};
    struct wf_graph *graph = capture_fills(&f, false);

    WT_ALL(wt_local_is_all(f.t, 1));
    WT_ALL(wf_graph_launch(graph) && wt_local_is_all(f.t, 2));
    for (f.kernels = 1; f.kernels <= 3; f.kernels += 2) {
        WT_ALL(!wf_graph_launch(graph));
        WT_EQ(f.step, 2);
        WT_ALL(wt_local_is_all(f.t, 2));
    }
    wf_graph_free(graph);
}

static _Thread_local jmp_buf died;

static void jump(void) { longjmp(died, 1); }

/* Other ranks may launch it, and would wait for this one. */
WT_TEST_IN_IF(graph__other_kernels_beside_a_collective_end_the_job, w, has_graphs(),
              open_unwatched())
{
    struct fills f = {weft_full(WEFT_F32, numbers_shape, 1, 7), 1, 2};
    struct wf_graph *graph = capture_fills(&f, true);
    volatile bool dead = false;

    WT_ALL(wf_graph_launch(graph) && wt_local_is_all(f.t, 2));
    f.kernels = 3;
    wf_die_set_handler(jump);
    WT_ALL(true);
    if (setjmp(died) == 0)
        (void)wf_graph_launch(graph);
    else
        dead = true;
    WT_ALL(true);
    wf_die_set_handler(NULL);
    WT_ALL(dead);
    wf_graph_free(graph);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "other_kernels"); }
