/*
 * test_parallel.c: models on two mesh axes, data parallel over one of them, with and without
 * activation recomputation: compiled, they train as they do in immediate execution, and gradient
 * hooks hear of each gradient as soon as it is there.
 */
/* ranks: 1 2 4 */
/* mpi: 4 */
#include <string.h>

#include "as_immediate.h"
#include "base/observers.h"
#include "support/near_modules.h"

enum { STEPS = 4, BATCH = 2, CONTEXT = 6, VOCAB = 13 };

static weft_tensor *tokens(int64_t step, int64_t start)
{
    int64_t values[BATCH * CONTEXT], shape[] = {BATCH, CONTEXT};

    for (int64_t i = 0; i < BATCH * CONTEXT; i++) values[i] = (step * i * i + start) % VOCAB;
    return weft_from_data(WEFT_I64, shape, 2, values);
}

/* Without data parallelism yet. */
static weft_module *new_gpt(struct wt_world *w, bool recompute)
{
    weft_module *gpt;

    weft_manual_seed(5);
    gpt = wt_own(weft_gpt(
        (weft_gpt_config){.vocab = VOCAB,
                          .context = CONTEXT,
                          .width = 16,
                          .heads = 4,
                          .layers = 2,
                          .dropout = 0.1,
                          .recompute = recompute ? WEFT_RECOMPUTE_BLOCK : WEFT_RECOMPUTE_NONE,
                          .act = WEFT_GELU_TANH}));
    WT_ALL(weft_parallelize_module(gpt, wt_part(w, "tp"), weft_gpt_plan()) == WEFT_OK);
    return gpt;
}

static weft_module *new_model(struct wt_world *w, bool recompute, weft_data_parallel_config config)
{
    weft_module *gpt = new_gpt(w, recompute);

    WT_ALL(weft_data_parallel(gpt, wt_part(w, "dp"), config) == WEFT_OK);
    return gpt;
}

static weft_status loss_of(weft_tensor *const *in, int n_in CK_ATTRIBUTE_UNUSED, weft_tensor **out,
                           int n_out CK_ATTRIBUTE_UNUSED, void *gpt)
{
    out[0] = weft_gpt_loss(gpt, in[0], in[1]);
    return out[0] ? WEFT_OK : weft_error_status();
}

/* CAP-22 */
WT_TEST_TIMES_IN(data_and_tensor_parallel__train_as_immediate, w, i, 4, wt_world_open_two_axes())
{
    bool recompute = i % 2, fullgraph = i / 2;
    weft_data_parallel_config config = {0};
    weft_module *gpt[2] = {new_model(w, recompute, config), new_model(w, recompute, config)};
    weft_optim *optim[2];
    weft_compiled *compiled = wt_compile(loss_of, gpt[0], fullgraph);
    int replica = weft_mesh_coordinate(w->mesh, 0);

    for (int k = 0; k < 2; k++)
        optim[k] = wt_own(weft_adamw(gpt[k], (weft_adamw_config){.lr = 1e-2}));
    for (int step = 0; step < STEPS; step++) {
        for (int k = 0; k < 2; k++) {
            weft_scope *scope = weft_scope_open();
            weft_tensor *in[] = {tokens(7 + step, 3 + replica), tokens(5, step + replica)}, *loss;

            weft_manual_seed(40 + (uint64_t)step);
            WT_ALL((k ? loss_of(in, 2, &loss, 1, gpt[k])
                      : weft_compiled_call(compiled, in, 2, &loss, 1)) == WEFT_OK);
            WT_ALL(weft_data_parallel_backward(gpt[k], loss, BATCH * CONTEXT) == WEFT_OK);
            WT_ALL(weft_step(optim[k]) == WEFT_OK);
            weft_scope_close(scope);
        }
        wt_note("step %d: %s", step, weft_compiled_reason(compiled));
        WT_NEAR_PARAMETERS(gpt[0], gpt[1], WT_EXACT);
    }
    WT_EQ(weft_compiled_get_counts(compiled).captures, 1);
    WT_EQ(weft_compiled_get_counts(compiled).replays, STEPS - 1);
}

/* ---- hooks in the middle of a replayed backward ---- */

enum { BACKWARDS = 2 };

struct backward_times {
    double first_bucket, last_of_backward; /* when they began */
};

static void note_collective(const struct wf_event *event, void *payload)
{
    struct backward_times *times = payload;

    if (event->where.phase != WF_BACKWARD) return;
    if (strcmp(event->axis, "dp") == 0 &&
        (times->first_bucket == 0 || event->began < times->first_bucket))
        times->first_bucket = event->began;
    if (strcmp(event->axis, "tp") == 0 && event->began > times->last_of_backward)
        times->last_of_backward = event->began;
}

/* Small buckets, sent in the second of two backwards. */
WT_TEST_TIMES_IN(buckets__leave_while_backward_runs, w, i, 4, wt_world_open_two_axes())
{
    bool recompute = i % 2, fullgraph = i / 2;
    weft_data_parallel_config config = {.bucket_bytes = 600, .backwards = BACKWARDS};
    weft_module *gpt[2] = {new_model(w, recompute, config), new_model(w, recompute, config)};
    weft_compiled *compiled = wt_compile(loss_of, gpt[0], fullgraph);
    bool both_communicate =
        weft_mesh_axis_size(w->mesh, 0) > 1 && weft_mesh_axis_size(w->mesh, 1) > 1;
    int replica = weft_mesh_coordinate(w->mesh, 0);
    weft_optim *optim[2];

    for (int k = 0; k < 2; k++)
        optim[k] = wt_own(weft_adamw(gpt[k], (weft_adamw_config){.lr = 1e-2}));
    for (int step = 0; step < STEPS; step++)
        for (int b = 0; b < BACKWARDS; b++)
            for (int k = 0; k < 2; k++) {
                struct backward_times times = {0};
                weft_scope *scope = weft_scope_open();
                weft_tensor *in[] = {tokens(7 + step + b, 3 + replica), tokens(5, step + replica)},
                            *loss;
                double norm;
                int observer;

                weft_manual_seed(40 + (uint64_t)step);
                WT_ALL((k ? loss_of(in, 2, &loss, 1, gpt[k])
                          : weft_compiled_call(compiled, in, 2, &loss, 1)) == WEFT_OK);
                observer = wf_observer_add(WF_EVENT_COLL, note_collective, &times);
                WT_ALL(weft_data_parallel_backward(gpt[k], loss, BATCH * CONTEXT) == WEFT_OK);
                if (b == BACKWARDS - 1) /* which waits for the buckets */
                    WT_EQ(weft_clip_grad_norm(gpt[k], 1e9, &norm), WEFT_OK);
                wf_observer_remove(observer);
                weft_scope_close(scope);
                wt_note("step %d, backward %d of model %d", step, b, k);
                if (both_communicate && b == BACKWARDS - 1 && step > 0)
                    WT_ALL(times.first_bucket > 0 && times.first_bucket < times.last_of_backward);
                if (b == 0 || k == 0) continue;
                WT_NEAR_GRADIENTS(gpt[0], gpt[1], WT_EXACT);
                for (int m = 0; m < 2; m++) weft_optim_zero_grad(optim[m]);
            }
}

/* ---- parameters that are updated in the run ---- */

enum { MOST_PARAMETERS = 64 };

struct parameters {
    weft_tensor *of[MOST_PARAMETERS];
    int n;
};

static weft_status add_parameter(weft_module *m, const char *name, weft_tensor *parameter,
                                 void *payload)
{
    struct parameters *all = payload;

    (void)m, (void)name;
    if (all->n < MOST_PARAMETERS) all->of[all->n++] = parameter;
    return WEFT_OK;
}

/* What was updated in backward has no gradient any more. gives: how many those are */
static int count_updated(weft_module *m, bool updated[MOST_PARAMETERS])
{
    struct parameters all = {.n = 0};
    int n = 0;

    WT_EQ(weft_module_each_parameter(m, add_parameter, &all), WEFT_OK);
    for (int i = 0; i < all.n; i++) n += updated[i] = weft_grad(all.of[i]) == NULL;
    return n;
}

static weft_module *new_updating_gpt(struct wt_world *w, bool recompute, weft_optim **optim)
{
    weft_module *gpt = new_gpt(w, recompute);

    *optim = wt_own(weft_adamw(gpt, (weft_adamw_config){.lr = 1e-2}));
    WT_EQ(weft_optim_update_in_backward(*optim, true), WEFT_OK);
    return gpt;
}

WT_TEST_TIMES_IN_WORLD(optimizer_that_updates_in_backward__is_bit_by_bit_as_immediate, w, i, 8)
{
    bool recompute = i % 2, fullgraph = i / 2 % 2, warm = i / 4;
    weft_optim *optim[2];
    weft_module *gpt[2] = {new_updating_gpt(w, recompute, &optim[0]),
                           new_updating_gpt(w, recompute, &optim[1])};
    weft_compiled *compiled = wt_compile(loss_of, gpt[0], fullgraph);

    for (int step = 0; step < STEPS; step++) {
        bool updated[2][MOST_PARAMETERS] = {{false}};

        for (int k = 0; k < 2; k++) {
            weft_scope *scope = weft_scope_open();
            weft_tensor *in[] = {tokens(7 + step, 3), tokens(5, step)}, *loss;

            weft_manual_seed(40 + (uint64_t)step);
            if (warm && step + k == 0) WT_EQ(weft_compiled_warm_up(compiled, in, 2, 1), WEFT_OK);
            WT_ALL((k ? loss_of(in, 2, &loss, 1, gpt[k])
                      : weft_compiled_call(compiled, in, 2, &loss, 1)) == WEFT_OK);
            WT_ALL(weft_backward(loss) == WEFT_OK);
            weft_scope_close(scope);
        }
        for (int k = 0; k < 2; k++) WT_ALL(count_updated(gpt[k], updated[k]) > 0);
        WT_EQ(memcmp(updated[0], updated[1], sizeof updated[0]), 0);
        for (int k = 0; k < 2; k++) WT_EQ(weft_step(optim[k]), WEFT_OK);
        wt_note("step %d: %s", step, weft_compiled_reason(compiled));
        WT_NEAR_PARAMETERS(gpt[0], gpt[1], WT_EXACT);
    }
    WT_EQ(weft_compiled_get_counts(compiled).replays, STEPS - !warm);
}

/* A replay refuses as a whole what it may not add to one leaf. */
WT_TEST_IN_WORLD(backward_that_is_refused__updates_nothing, w)
{
    weft_optim *optim[2];
    weft_module *gpt[2] = {new_updating_gpt(w, false, &optim[0]),
                           new_updating_gpt(w, false, &optim[1])};
    weft_compiled *compiled = wt_compile(loss_of, gpt[0], true);

    for (int step = 0; step < STEPS; step++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *in[] = {tokens(7 + step, 3), tokens(5, step)};

        for (int k = 0; k < 2; k++) {
            weft_tensor *table = weft_module_parameter(gpt[k], "blocks.0.mlp.up.weight"), *loss;

            if (step == STEPS - 1) /* updates it alone */
                WT_EQ(weft_backward(weft_full_tensor(weft_sum_all(weft_mul(table, table)))),
                      WEFT_OK);
            weft_manual_seed(40 + (uint64_t)step);
            WT_ALL((k ? loss_of(in, 2, &loss, 1, gpt[k])
                      : weft_compiled_call(compiled, in, 2, &loss, 1)) == WEFT_OK);
            if (step == STEPS - 1)
                WT_FAILS(weft_backward(loss), WEFT_ERR_STATE, "was updated");
            else
                WT_EQ(weft_backward(loss), WEFT_OK);
            WT_EQ(weft_step(optim[k]), WEFT_OK);
        }
        weft_scope_close(scope);
        wt_note("step %d", step);
        WT_NEAR_PARAMETERS(gpt[0], gpt[1], WT_EXACT);
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "parallel"); }
