/*
 * test_step_graph.c: a training step as a graph is bit by bit the ordinary one, random numbers,
 * learning rates and counts included; each reason for which it is not launched. On meshes of the
 * CPU, and on GPUs with more than one rank without NCCL, the reason is the same in every run.
 */
/* ranks: 1 2 */
/* mpi: 2 */
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "support/given.h"
#include "support/near_modules.h"

enum { STEPS = 7, BATCH = 2, CONTEXT = 8, VOCAB = 19 };

/* A world in which nobody watches. */
static struct wt_world open_unwatched(void)
{
    struct wt_world world = wt_world_open();

    weft_ledger_stop(world.ledger);
    return world;
}
#define TEST(name) WT_TEST_IN(name, w, open_unwatched())

/* Why no step of several kernels and one collective is launched here; NULL: it is. WT_BACKEND says
 * that each rank has a GPU of its own and NCCL. */
static const char *reason_here(const struct wt_world *w)
{
    if (wt_device() != WEFT_CUDA) return "the mesh is not on a GPU";
    if (getenv("WEFT_TEST_DEVICE_LACKS")) return "has no kernel for this GPU and runs on the CPU";
    if (getenv("WEFT_TEST_DEVICE_GRAPHS")) return "the device has no graphs";
    if (weft_mesh_size(w->mesh) == 1 || getenv("WT_BACKEND")) return NULL;
    return "the collective goes through host memory";
}

static bool has_reason(const weft_step_graph *graph, const char *part)
{
    const char *reason = weft_step_graph_reason(graph);

    return part ? reason && strstr(reason, part) : !reason;
}

/* ---- a GPT ---- */

struct training {
    weft_module *gpt;
    weft_optim *optim;
    weft_step_graph *graph; /* NULL: the function is called */
};

static weft_tensor *tokens(int64_t step, int64_t start)
{
    int64_t values[BATCH * CONTEXT], shape[] = {BATCH, CONTEXT};

    for (int64_t i = 0; i < BATCH * CONTEXT; i++) values[i] = (step * i * i + start) % VOCAB;
    return weft_from_data(WEFT_I64, shape, 2, values);
}

static weft_tensor *train_step(weft_tensor *const *in, int n, void *payload)
{
    struct training *t = payload;
    weft_tensor *loss = n == 2 ? weft_gpt_loss(t->gpt, in[0], in[1]) : NULL;

    if (!loss || weft_backward(loss) != WEFT_OK || weft_step(t->optim) != WEFT_OK) return NULL;
    return loss;
}

static weft_gpt_config config_of(weft_dtype dtype)
{
    return (weft_gpt_config){.vocab = VOCAB,
                             .context = CONTEXT,
                             .width = 24,
                             .heads = 6,
                             .layers = 2,
                             .act = WEFT_GELU_TANH,
                             .dropout = 0.2,
                             .dtype = dtype};
}

static weft_tensor *a_parameter(const struct training *t)
{
    return weft_module_parameter(t->gpt, "norm_f.weight");
}

enum { OTHERS = 96, LARGE = 1 << 30 };

/* Others take and fill memory of all sizes: none of the graph's. */
static void take_memory(weft_tensor *others[OTHERS])
{
    int64_t n = 16;

    for (int i = 0; i < OTHERS; i++, n += i % 3 ? 0 : n / 4)
        others[i] = weft_full(WEFT_F32, &n, 1, LARGE);
}

static bool is_untouched(weft_tensor *others[OTHERS])
{
    bool all = true;

    for (int i = 0; i < OTHERS; i++) all &= wt_is_all(others[i], LARGE);
    return all;
}

typedef weft_optim *new_optim(weft_module *module);

static struct training new_training(struct wt_world *w, weft_dtype dtype, new_optim *make)
{
    struct training t = {.gpt = wt_own(weft_gpt(config_of(dtype)))};

    WT_ALL(weft_parallelize_module(t.gpt, w->mesh, weft_gpt_plan()) == WEFT_OK);
    t.optim = wt_own(make(t.gpt));
    return t;
}

static double take_step(struct training *t, int step)
{
    static const weft_schedule schedule = {
        .kind = WEFT_SCHEDULE_COSINE, .lr = 0.01, .min_lr = 1e-4, .warmup = 2, .total = STEPS};
    weft_scope *scope = weft_scope_open();
    weft_tensor *in[] = {tokens(7 + step, 3), tokens(5, step)};
    weft_tensor *others[OTHERS];
    double loss;

    take_memory(others);
    weft_optim_set_lr(t->optim, weft_schedule_lr(&schedule, step));
    loss = weft_item(t->graph ? weft_step_graph_run(t->graph, in, 2) : train_step(in, 2, t));
    if (step == STEPS - 2) WT_ALL(is_untouched(others));
    weft_scope_close(scope);
    return loss;
}

static weft_optim *new_adamw(weft_module *m)
{
    return weft_adamw(m, (weft_adamw_config){.lr = 1e-3, .weight_decay = 0.1});
}
static weft_optim *new_nadam(weft_module *m)
{
    return weft_nadam(m, (weft_nadam_config){.lr = 1e-3});
}
static weft_optim *new_asgd(weft_module *m)
{
    return weft_asgd(m, (weft_asgd_config){.lr = 1e-2, .t0 = 2});
}
static weft_optim *new_sgd(weft_module *m)
{
    return weft_sgd(m, (weft_sgd_config){.lr = 1e-2, .momentum = 0.9, .dampening = 0.1});
}
static weft_optim *new_muon(weft_module *m)
{
    return weft_muon(m, (weft_muon_config){.lr = 1e-2, .weight_decay = 0.1});
}

static weft_step_graph *new_graph(struct wt_world *w, struct training *t)
{
    return wt_own(weft_step_graph_new(w->mesh, train_step, t));
}

/* ---- as in ordinary execution ---- */

static const struct {
    new_optim *make;
    weft_dtype dtype;
    bool in_backward, forked, seeded; /* between runs */
} trainings[] = {
    {new_adamw, WEFT_F32, false, false, false}, {new_adamw, WEFT_BF16, false, false, false},
    {new_adamw, WEFT_F32, true, false, false},  {new_nadam, WEFT_F32, false, true, false},
    {new_asgd, WEFT_F64, false, false, true},   {new_sgd, WEFT_F32, false, true, true},
    {new_muon, WEFT_F32, false, false, false},
};
enum { TRAININGS = sizeof trainings / sizeof trainings[0] };

/* gives: how many numbers were drawn */
static uint64_t train(struct training *t, int which, double *losses)
{
    weft_generator *own = weft_generator_new(31), *numbers;
    uint64_t drawn;

    weft_manual_seed(11);
    if (trainings[which].forked) weft_default_generator_open(own);
    numbers = weft_default_generator();
    for (int step = 0; step < STEPS; step++) {
        if (trainings[which].seeded && step % 3 == 2) weft_manual_seed(100 + (uint64_t)step);
        losses[step] = take_step(t, step);
    }
    drawn = weft_generator_draws(numbers);
    if (trainings[which].forked) weft_default_generator_close();
    weft_generator_release(own);
    return drawn;
}

static struct training given_training(struct wt_world *w, int which)
{
    struct training t;

    weft_manual_seed(5);
    t = new_training(w, trainings[which].dtype, trainings[which].make);
    if (trainings[which].in_backward)
        WT_ALL(weft_optim_update_in_backward(t.optim, true) == WEFT_OK);
    return t;
}

WT_TEST_TIMES_IN(step_graph__trains_as_ordinary_steps, w, which, TRAININGS, open_unwatched())
{
    struct training plain = given_training(w, which), t = given_training(w, which);
    int64_t version = weft_tensor_version(a_parameter(&t)), writes;
    double want[STEPS], got[STEPS];

    writes = -weft_tensor_version(a_parameter(&plain));
    t.graph = new_graph(w, &t);
    WT_EQ(train(&t, which, got), train(&plain, which, want));
    WT_ALL(memcmp(got, want, sizeof got) == 0);
    WT_NEAR_PARAMETERS(t.gpt, plain.gpt, WT_WITHIN(0));
    WT_EQ(weft_optim_step_count(t.optim), STEPS);
    writes += weft_tensor_version(a_parameter(&plain));
    WT_EQ(weft_tensor_version(a_parameter(&t)) - version, writes);
    WT_EQ(weft_step_graph_launch_count(t.graph), reason_here(w) ? 0 : STEPS - 2);
    WT_ALL(has_reason(t.graph, reason_here(w)));
    /* Ordinary steps go on from there. */
    t.graph = NULL;
    WT_EQ(train(&t, which, got), train(&plain, which, want));
    WT_ALL(memcmp(got, want, sizeof got) == 0);
    WT_NEAR_PARAMETERS(t.gpt, plain.gpt, WT_WITHIN(0));
}

/* ---- reasons ---- */

enum { RUNS = 6, NUMBERS = 12 };
static const int64_t numbers_shape[] = {NUMBERS};

/* What a step uses that is there before it. */
struct kept {
    weft_tensor *x, *other;
    weft_module *module;
    weft_optim *optim;
    weft_step_graph *inner;
    weft_generator *twin; /* begins as the default one */
};

static weft_tensor *sum_up(weft_tensor *const *in, int n, void *payload)
{
    struct kept *k = payload;

    if (n < 1 || !weft_add_(k->x, in[0])) return NULL;
    return weft_sum(k->x, NULL, 0, false);
}

static weft_tensor *read_on_host(weft_tensor *const *in, int n, void *payload)
{
    weft_tensor *sum = sum_up(in, n, payload);

    return weft_item(sum) > 0 ? sum_up(in, n, payload) : sum;
}

static weft_tensor *draw(weft_tensor *const *in, int n, void *payload)
{
    struct kept *k = payload;

    if (weft_uniform_(k->other, 0, 1, NULL) != WEFT_OK) return NULL;
    return sum_up(&k->other, 1, k) ? sum_up(in, n, k) : NULL;
}

static weft_tensor *draw_from_twins(weft_tensor *const *in, int n, void *payload)
{
    struct kept *k = payload;

    if (weft_uniform_(k->other, 0, 1, k->twin) != WEFT_OK) return NULL;
    return draw(in, n, payload);
}

static weft_tensor *seed(weft_tensor *const *in, int n, void *payload)
{
    weft_manual_seed(3);
    return draw(in, n, payload);
}

static weft_tensor *make_generator(weft_tensor *const *in, int n, void *payload)
{
    weft_generator *g = weft_generator_new(9);
    struct kept *k = payload;
    weft_status status = weft_uniform_(k->other, 0, 1, g);

    weft_generator_release(g);
    return status == WEFT_OK && sum_up(&k->other, 1, k) ? sum_up(in, n, k) : NULL;
}

static weft_tensor *leave_open(weft_tensor *const *in, int n, void *payload)
{
    weft_default_generator_open(NULL);
    return draw(in, n, payload);
}

/* The fork draws what the step draws after it. */
static weft_tensor *draw_in_fork(weft_tensor *const *in, int n, void *payload)
{
    weft_tensor *first;

    weft_default_generator_open(NULL);
    first = draw(in, n, payload);
    weft_default_generator_close();
    return first ? draw(in, n, payload) : NULL;
}

static weft_tensor *replace(weft_tensor *const *in, int n, void *payload)
{
    struct kept *k = payload;
    weft_tensor *sum = weft_add(k->other, in[0]);

    weft_release(k->other);
    k->other = weft_retain(sum);
    return sum_up(&sum, n ? 1 : 0, k);
}

static weft_tensor *bring_from_host(weft_tensor *const *in, int n, void *payload)
{
    static const float values[NUMBERS] = {1, 2, 3};

    (void)in;
    return sum_up((weft_tensor *[]){weft_from_data(WEFT_F32, numbers_shape, 1, values)}, n,
                  payload);
}

static weft_tensor *compute_on_cpu(weft_tensor *const *in, int n, void *payload)
{
    weft_device before = weft_set_default_device(WEFT_CPU);
    weft_tensor *one = weft_full(WEFT_F32, numbers_shape, 1, 1), *two = weft_add(one, one);

    weft_set_default_device(before);
    return two ? sum_up(in, n, payload) : NULL;
}

static weft_tensor *set_rate(weft_tensor *const *in, int n, void *payload)
{
    struct kept *k = payload;

    weft_optim_set_lr(k->optim, 0.5);
    return sum_up(in, n, k);
}

/* Gradients grow with the inputs: their norm is below the limit in the first runs and above it
 * later. */
static weft_tensor *clip_and_step(weft_tensor *const *in, int n, double *norm, struct kept *k)
{
    weft_tensor *parameter = weft_module_parameter(k->module, "weight"), *loss, *kept;

    loss = weft_sum(weft_mul(parameter, parameter), NULL, 0, false);
    loss = n == 1 ? weft_mul(loss, weft_sum(in[0], NULL, 0, false)) : NULL;
    if (!loss || weft_backward(loss) != WEFT_OK ||
        weft_clip_grad_norm(k->module, 30, norm) != WEFT_OK || weft_step(k->optim) != WEFT_OK)
        return NULL;
    weft_no_grad_open();
    kept = sum_up((weft_tensor *[]){weft_sum(parameter, NULL, 0, false)}, 1, k);
    weft_no_grad_close();
    return kept;
}
static weft_tensor *clip(weft_tensor *const *in, int n, void *payload)
{
    return clip_and_step(in, n, NULL, payload);
}
static weft_tensor *clip_and_read(weft_tensor *const *in, int n, void *payload)
{
    double norm;

    return clip_and_step(in, n, &norm, payload);
}

static weft_tensor *run_another(weft_tensor *const *in, int n, void *payload)
{
    struct kept *k = payload;

    return k->inner ? weft_step_graph_run(k->inner, in, n) : sum_up(in, n, payload);
}

static weft_tensor *give_nothing(weft_tensor *const *in, int n, void *payload)
{
    (void)sum_up(in, n, payload);
    return NULL;
}

static const struct {
    weft_step_function *function;
    const char *reason; /* on a GPU; NULL: it is launched */
} steps[] = {
    {sum_up, NULL},
    {draw, NULL},
    {draw_in_fork, NULL},
    {run_another, NULL},
    {read_on_host, "the host reads from the GPU (item)"},
    {draw_from_twins, "two generators have the same seed"},
    {seed, "it seeds a generator"},
    {make_generator, "it makes a generator"},
    {leave_open, "it leaves another generator the default one"},
    {replace, "it releases a tensor on the GPU that was made before it"},
    {bring_from_host, "48 bytes of the host are copied to the GPU"},
    {compute_on_cpu, "runs on the CPU"},
    {set_rate, "it sets a learning rate"},
    {clip, NULL},
    {clip_and_read, "the host reads from the GPU"},
    {give_nothing, "it failed"},
};
enum { FUNCTIONS = sizeof steps / sizeof steps[0] };

static struct kept new_kept(void)
{
    struct kept k;

    weft_manual_seed(5); /* parameters are alike */
    k = (struct kept){.x = weft_retain(weft_full(WEFT_F32, numbers_shape, 1, 0.25)),
                      .other = weft_retain(weft_full(WEFT_F32, numbers_shape, 1, 3)),
                      .module =
                          wt_own(weft_linear_new((weft_linear_config){.in = {3}, .out = {2}}))};

    k.twin = wt_own(weft_generator_new(11));
    k.optim = wt_own(weft_sgd(k.module, (weft_sgd_config){.lr = 1e-3}));
    return k;
}

/* The one input of a run, on the mesh's device. */
static weft_tensor *input(int64_t n, int run) { return weft_full(WEFT_F32, &n, 1, 0.5 + run); }

/* Runs the function, or the graph. gives: the last result, -1: it gave none */
static double run(struct kept *k, weft_step_function *function, weft_step_graph *graph)
{
    double last = -1;

    weft_manual_seed(11);
    for (int i = 0; i < RUNS; i++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *in = input(NUMBERS, i), *others[OTHERS], *result;

        result = graph ? weft_step_graph_run(graph, &in, 1) : function(&in, 1, k);
        take_memory(others);
        if (result) last = weft_item(result);
        weft_scope_close(scope);
    }
    for (int i = 0; i < RUNS && function == leave_open; i++) weft_default_generator_close();
    return last;
}

static bool same_kept(const struct kept *a, const struct kept *b)
{
    bool x = false, other = false;

    return weft_equal(&x, a->x, b->x) == WEFT_OK && x &&
           weft_equal(&other, a->other, b->other) == WEFT_OK && other;
}

static void release_kept(struct kept *k)
{
    weft_release(k->x);
    weft_release(k->other);
}

/* These steps have no collective: on any number of ranks they are launched. */
static const char *reason_of(int which)
{
    if (wt_device() != WEFT_CUDA) return "the mesh is not on a GPU";
    if (getenv("WEFT_TEST_DEVICE_GRAPHS")) return "the device has no graphs";
    if (getenv("WEFT_TEST_DEVICE_LACKS")) return ""; /* some op's, or the step's own */
    return steps[which].reason;
}

WT_TEST_TIMES_IN(step_graph__runs_a_step_as_it_is_or_says_why, w, which, FUNCTIONS,
                 open_unwatched())
{
    struct kept plain = new_kept(), kept = new_kept();
    weft_step_graph *graph = wt_own(weft_step_graph_new(w->mesh, steps[which].function, &kept));
    uint64_t drawn;
    double want = run(&plain, steps[which].function, NULL);

    drawn = weft_generator_draws(weft_default_generator());
    kept.inner = wt_own(weft_step_graph_new(w->mesh, sum_up, &kept));
    WT_ALL(run(&kept, steps[which].function, graph) == want);
    WT_EQ(weft_generator_draws(weft_default_generator()), drawn);
    WT_ALL(same_kept(&kept, &plain));
    WT_ALL(has_reason(graph, reason_of(which)));
    WT_EQ(weft_step_graph_launch_count(graph), reason_of(which) ? 0 : RUNS - 2);
    release_kept(&plain);
    release_kept(&kept);
}

/* ---- reasons that pass ---- */

/* What is between the runs of a graph. */
static void open_fork(struct wt_world *w, int64_t *n)
{
    (void)w;
    (void)n;
    weft_default_generator_open(NULL);
}
static void close_fork(struct wt_world *w)
{
    (void)w;
    weft_default_generator_close();
}
static void make_longer(struct wt_world *w, int64_t *n)
{
    (void)w;
    *n = 1;
}
static void start_ledger(struct wt_world *w, int64_t *n)
{
    (void)n;
    weft_ledger_start(w->ledger);
}
static void stop_ledger(struct wt_world *w) { weft_ledger_stop(w->ledger); }
static void do_nothing(struct wt_world *w) { (void)w; }

static const struct {
    void (*begin)(struct wt_world *w, int64_t *n);
    void (*end)(struct wt_world *w);
    const char *reason;
} hindrances[] = {
    {open_fork, close_fork, "another generator is the default one than when the step was captured"},
    {make_longer, do_nothing, "input 0 is f32[1], captured was f32[12]"},
    {start_ledger, stop_ledger, "a ledger, a trace or a forecast watches it"},
};

WT_TEST_TIMES_IN(step_graph__is_launched_again_when_a_reason_is_gone, w, which, 3, open_unwatched())
{
    struct kept plain = new_kept(), kept = new_kept();
    weft_step_graph *graph = wt_own(weft_step_graph_new(w->mesh, draw, &kept));
    const char *here = reason_of(0);
    double sums[2][RUNS];

    for (int turn = 0; turn < 2; turn++) {
        weft_step_graph *used = turn ? graph : NULL;
        struct kept *k = turn ? &kept : &plain;

        weft_manual_seed(11);
        for (int i = 0; i < RUNS; i++) {
            int64_t n = NUMBERS;
            weft_tensor *in;

            if (i == 3) hindrances[which].begin(w, &n);
            in = input(n, i);
            sums[turn][i] = weft_item(used ? weft_step_graph_run(used, &in, 1) : draw(&in, 1, k));
            if (i == 3) hindrances[which].end(w);
            if (used && i > 1 && !here)
                WT_ALL(has_reason(used, i == 3 ? hindrances[which].reason : NULL));
        }
    }
    WT_ALL(memcmp(sums[0], sums[1], sizeof sums[0]) == 0);
    WT_ALL(same_kept(&kept, &plain));
    release_kept(&plain);
    release_kept(&kept);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "step_graph"); }
