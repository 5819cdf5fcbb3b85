/* test_replicas.c: replicas train as one device does, whatever each of them gets to see. */
/* ranks: 1 2 3 4 6 8 */
/* mpi: 2 4 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

#include "data_parallel/twins.h"

/* ---- whole steps ---- */

static bool near(double a, double b) { return fabs(a - b) <= 1e-10 * (1 + fabs(b)); }

/* Three steps of two batches each, clipped. */
static void train(struct twins *t, tw_counts *counts)
{
    for (int step = 0; step < 3; step++) {
        double norm[2];

        tw_backward(t, 2 * step, counts);
        WT_EQ(weft_clip_grad_norm(t->whole, 0.5, &norm[0]), WEFT_OK);
        WT_EQ(weft_clip_grad_norm(t->replica, 0.5, &norm[1]), WEFT_OK);
        WT_ALL(near(norm[1], norm[0]));
        WT_ALL(tw_same_gradients(t));
        WT_EQ(weft_step(t->whole_optim), WEFT_OK);
        WT_EQ(weft_step(t->replica_optim), WEFT_OK);
        WT_ALL(tw_same_parameters(t));
    }
}

static void train_everywhere(struct tw_options o, tw_counts *counts)
{
    for (int dp = 0, tp; tw_next_mesh(&dp, &tp);) {
        struct twins t = tw_open(dp, tp, o);

        train(&t, counts);
        tw_close(&t);
    }
}

WT_TEST(replicas__train_as_one_device) { train_everywhere((struct tw_options){0}, tw_all); }

int main(int argc, char **argv)
{
    static const struct wt_case cases[] = {
        WT_CASE(replicas__train_as_one_device),
        WT_END,
    };
    return wt_main(argc, argv, "replicas", cases);
}
