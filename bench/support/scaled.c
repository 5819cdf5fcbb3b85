/* scaled.c: see scaled.h. */
#include "support/scaled.h"

enum { WIDTH = 512, HEAD = 64, LAYERS = 2, CONTEXT = 128, BATCH = 2, VOCAB = 1024 };
enum { WARM = 2, STEPS = 4, LINKS = 5, PRODUCTS = 15 };

struct bench_decoder scaled_model(int ranks)
{
    struct bench_decoder m = {.layers = LAYERS, .width = WIDTH, .context = CONTEXT, .batch = BATCH};

    for (; ranks >= 4; ranks /= 4) m.width *= 2;
    if (ranks == 2) m.layers *= 2;
    m.heads = m.kv_heads = m.width / HEAD;
    m.hidden = 4 * m.width;
    m.vocab = VOCAB;
    return m;
}

static int64_t part_of(int64_t n, int ranks) { return (n + ranks - 1) / ranks; }

/* Multiplications of the rank that has most to do, over those of one rank alone with its model.
 * Attention is causal: a token meets half of the others, twice. */
static double products(const struct bench_decoder *m, int ranks)
{
    double d = (double)m->width, heads = (double)(HEAD * part_of(m->heads, ranks));
    double block = heads * (4 * d + (double)CONTEXT) + 2 * d * (double)part_of(m->hidden, ranks);

    return m->layers * block + d * (double)part_of(m->vocab, ranks);
}

double scaled_work(const struct bench_decoder *m, int ranks)
{
    struct bench_decoder one = scaled_model(1);

    return products(m, ranks) / products(&one, 1);
}

/* ---- one rank's step ---- */

struct trainer {
    weft_module *model;
    weft_optim *adam;
    weft_tensor *inputs[2]; /* tokens, targets */
    weft_ledger *ledger;
    double in_comm[WARM + STEPS], cpu[WARM + STEPS];
    int n;
};

static void make(struct trainer *t, const struct bench_decoder *m)
{
    int64_t shape[] = {m->batch, m->context};

    t->model = bench_need(weft_gpt((weft_gpt_config){.vocab = m->vocab,
                                                     .context = m->context,
                                                     .width = m->width,
                                                     .heads = m->heads,
                                                     .layers = m->layers,
                                                     .act = WEFT_GELU_TANH}));
    for (int i = 0; i < 2; i++) {
        t->inputs[i] = bench_need(weft_empty(WEFT_I32, shape, 2));
        WEFT_CHECK(weft_randint_(t->inputs[i], 0, m->vocab, NULL));
    }
}

static void make_optimizer(struct trainer *t)
{
    t->adam = bench_need(weft_adamw(t->model, (weft_adamw_config){.lr = 1e-4}));
}

static void drop(struct trainer *t)
{
    weft_ledger_close(t->ledger);
    weft_optim_release(t->adam);
    weft_module_release(t->model);
}

static void step(void *payload)
{
    struct trainer *t = payload;
    weft_scope *scope = weft_scope_open();
    double began = bench_cpu_now();

    weft_ledger_reset(t->ledger);
    WEFT_CHECK(weft_backward(weft_gpt_loss(t->model, t->inputs[0], t->inputs[1])));
    WEFT_CHECK(weft_step(t->adam));
    t->in_comm[t->n] = weft_ledger_seconds(t->ledger);
    t->cpu[t->n++] = bench_cpu_now() - began;
    weft_scope_close(scope);
}

/* ---- measured ---- */

static void measure_links(struct scaled_run *run, weft_mesh *mesh)
{
    double latency[LINKS], bandwidth[LINKS];

    for (int i = 0; i < LINKS; i++) {
        WEFT_CHECK(weft_link_measure(mesh));
        weft_link("tp", &latency[i], &bandwidth[i]);
    }
    if (weft_world_rank() != 0) return;
    run->latency[run->round] = bench_median(latency, LINKS);
    run->bandwidth[run->round] = bench_median(bandwidth, LINKS);
}

static int train(void *payload)
{
    struct scaled_run *run = payload;
    int rank = weft_world_rank();
    weft_mesh *mesh = bench_need(weft_mesh_new(WEFT_CPU, "tp=%d", run->ranks));
    weft_scope *scope = weft_scope_open();
    struct trainer t = {.ledger = bench_need(weft_ledger_open())};
    struct bench_times times;

    weft_manual_seed(1);
    make(&t, &run->model);
    if (!run->apart) WEFT_CHECK(weft_parallelize_module(t.model, mesh, weft_gpt_plan()));
    make_optimizer(&t);
    for (int i = 0; i < WARM; i++) step(&t);
    if (rank == 0)
        run->bytes = weft_ledger_bytes(t.ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL);
    measure_links(run, mesh);
    times = bench_steps(mesh, STEPS, step, &t);
    if (rank == 0) run->step[run->round] = times.median;
    run->in_comm[run->round][rank] = bench_median(t.in_comm + WARM, STEPS);
    run->cpu[run->round][rank] = bench_median(t.cpu + WARM, STEPS);
    drop(&t);
    weft_scope_close(scope);
    weft_mesh_release(mesh);
    return 0;
}

void scaled_measure(struct scaled_run *run)
{
    if (weft_run(run->ranks, train, run) != 0) bench_need(NULL);
    run->round++;
}

/* ---- one rank's part of an MLP's products, computed here ---- */

struct thin {
    int64_t width, hidden; /* of this rank's part */
    double seconds;
};

static weft_tensor *normal(int64_t rows, int64_t columns)
{
    weft_tensor *t = bench_need(weft_empty(WEFT_F32, (int64_t[]){rows, columns}, 2));

    WEFT_CHECK(weft_normal_(t, 0, 1, NULL));
    return t;
}

static int multiply(void *payload)
{
    struct thin *thin = payload;
    weft_scope *scope = weft_scope_open();
    weft_tensor *x = normal(BATCH * CONTEXT, thin->width), *up = normal(thin->hidden, thin->width);
    weft_tensor *down = normal(thin->width, thin->hidden);
    double seconds[WARM + PRODUCTS];

    for (int i = 0; i < WARM + PRODUCTS; i++) {
        weft_scope *inner = weft_scope_open();
        double began = bench_cpu_now();

        bench_need(weft_linear(weft_linear(x, up, NULL, 1), down, NULL, 1));
        seconds[i] = bench_cpu_now() - began;
        weft_scope_close(inner);
    }
    thin->seconds = bench_median(seconds + WARM, PRODUCTS);
    weft_scope_close(scope);
    return 0;
}

double scaled_rate(int ranks)
{
    struct bench_decoder m = scaled_model(ranks);
    struct thin thin = {.width = m.width, .hidden = part_of(m.hidden, ranks)};

    if (weft_run(1, multiply, &thin) != 0) bench_need(NULL);
    return (double)(thin.width * thin.hidden) / thin.seconds;
}

/* ---- forecast ---- */

/* A training step on meta tensors; replicas have a batch each. */
static int predict(void *payload)
{
    struct scaled_forecast *f = payload;
    weft_scope *scope = weft_scope_open();
    weft_mesh *mesh = bench_need(weft_mesh_new_fake(0, "dp=%d,tp=%d", f->dp, f->tp));
    weft_mesh *dp = bench_need(weft_mesh_sub(mesh, "dp"));
    weft_mesh *tp = bench_need(weft_mesh_sub(mesh, "tp"));
    struct trainer t = {0};

    weft_set_default_device(WEFT_META);
    WEFT_CHECK(weft_link_set("tp", f->along_tp.latency_us, f->along_tp.megabytes_per_s));
    WEFT_CHECK(weft_link_set("dp", f->along_dp.latency_us, f->along_dp.megabytes_per_s));
    make(&t, &f->model);
    WEFT_CHECK(weft_parallelize_module(t.model, tp, weft_gpt_plan()));
    if (f->dp > 1)
        WEFT_CHECK(weft_data_parallel(t.model, dp,
                                      (weft_data_parallel_config){.start = WEFT_REPLICAS_TRUSTED}));
    make_optimizer(&t);
    WEFT_CHECK(weft_forecast_step(&f->result, t.model, t.adam, t.inputs, 2));
    drop(&t);
    weft_mesh_release(tp);
    weft_mesh_release(dp);
    weft_mesh_release(mesh);
    weft_scope_close(scope);
    return 0;
}

static void add_bytes(struct scaled_forecast *f)
{
    double gradients = (double)f->result.memory[WEFT_MEMORY_WEIGHTS].live;

    f->bytes = 0;
    for (int a = 0; a < f->result.n_axes; a++) f->bytes += (double)f->result.axes[a].bytes;
    f->bytes_by_hand = bench_sent_bytes(&f->model, f->tp) + (f->dp > 1 ? gradients : 0);
}

void scaled_predict(struct scaled_forecast *f)
{
    if (weft_run(1, predict, f) != 0) bench_need(NULL);
    add_bytes(f);
}
