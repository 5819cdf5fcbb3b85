/* decoder.c: see decoder.h. */
#include "support/decoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hand/value.h"
#include "support/training.h"

enum { SIZES = 8 }; /* words that are not optional, the program's name included */

/* ---- counted by hand ---- */

/* Elements of one layer's parameters: cut over the ranks, and whole on each. */
static double split_parameters(const struct bench_decoder *m)
{
    double d = (double)m->width, f = (double)m->hidden, up = m->gated ? 2 * f : f;
    double kv = 2 * d * (double)m->kv_heads / (double)m->heads;

    return d * (d + kv) + d * d + d * (up + f) + (m->no_bias ? 0 : d + kv + up);
}

static double whole_parameters(const struct bench_decoder *m)
{
    return (m->no_bias ? 2 : 6) * (double)m->width; /* norms; biases after a sum over the ranks */
}

static double whole_at_the_ends(const struct bench_decoder *m)
{
    double d = (double)m->width;

    return m->no_bias ? d : 2 * d + (double)m->context * d;
}

/* Elements per token that a norm and an MLP keep for their gradients: the norm's input is a part of
 * the residual stream, its result is whole, since products read it. */
static double kept_by_mlp(const struct bench_decoder *m, double r)
{
    double f = (double)m->hidden;

    return (double)m->width + (m->gated ? 3 * f : 2 * f) / r;
}

static double kept_by_attention(const struct bench_decoder *m, double r)
{
    double d = (double)m->width, kv = 2 * d * (double)m->kv_heads / (double)m->heads;

    return d + (2 * d + kv + (double)m->heads) / r; /* q, k, v, the result, a number per head */
}

double bench_kept_bytes(const struct bench_decoder *m, int ranks)
{
    double r = ranks, layers = m->layers, d = (double)m->width, v = (double)m->vocab;
    double parameters = (layers * split_parameters(m) + 2 * v * d) / r +
                        layers * whole_parameters(m) + whole_at_the_ends(m);
    double residual = m->sequence ? d / r : d;
    double attention = residual + kept_by_attention(m, r), mlp = residual + kept_by_mlp(m, r);
    double per_token = residual + d + v / r;

    if (m->recompute == WEFT_RECOMPUTE_BLOCK)
        per_token += layers * residual + attention + mlp;
    else if (m->recompute == WEFT_RECOMPUTE_MLP)
        per_token += layers * (attention + residual) + mlp;
    else
        per_token += layers * (attention + mlp);
    return 4 * (4 * parameters + (double)(m->batch * m->context) * per_token);
}

/*
 * Forward, every layer has two collectives, one more is behind the embedding; backward there are
 * two and one before the head. Each is an all-reduce of the residual stream; with sequence
 * parallelism, a reduce-scatter and an all-gather of it. The loss takes a maximum, in the logits'
 * dtype, and two f32 sums per token. With sequence parallelism the gradients of norms and positions
 * are partial sums; those of biases behind a row-wise product are not, since what comes back to it
 * is gathered.
 */
double bench_sent_bytes(const struct bench_decoder *m, int ranks)
{
    double layers = m->layers, d = (double)m->width, tokens = (double)(m->batch * m->context);
    double element = m->bf16 ? 2 : 4, stream = tokens * d * element, loss = tokens * (element + 8);
    double again = m->recompute == WEFT_RECOMPUTE_BLOCK ? 2 * layers
                   : m->recompute == WEFT_RECOMPUTE_MLP ? layers
                                                        : 0;
    double collectives = 4 * layers + 2 + again;
    double partial = layers * (m->no_bias ? 2 : 4) * d + whole_at_the_ends(m);

    if (ranks == 1) return 0;
    if (!m->sequence) return collectives * stream + loss;
    return 2 * collectives * stream + loss + partial * element;
}

/* ---- the program ---- */

static weft_tensor *text(const struct bench_decoder *m, int64_t first)
{
    int64_t shape[] = {m->batch, m->context};
    weft_tensor *t = bench_need(weft_empty(WEFT_I32, shape, 2));
    int32_t *data = weft_data(t);

    for (int64_t i = 0; i < weft_numel(t); i++) {
        float unit = hand_value(3, (uint64_t)(first + i)) * 0.5f + 0.5f;
        data[i] = (int32_t)(unit * (float)m->vocab) % (int32_t)m->vocab;
    }
    return t;
}

static void read_word(struct bench_decoder *m, const char *word)
{
    if (strcmp(word, "sequence") == 0)
        m->sequence = true;
    else if (strcmp(word, "bf16") == 0)
        m->bf16 = true;
    else if (strcmp(word, "recompute=mlp") == 0)
        m->recompute = WEFT_RECOMPUTE_MLP;
    else if (strcmp(word, "recompute=block") == 0)
        m->recompute = WEFT_RECOMPUTE_BLOCK;
    else if (strncmp(word, "kv=", 3) == 0)
        m->kv_heads = atoll(word + 3);
    else if (strncmp(word, "hidden=", 7) == 0)
        m->hidden = atoll(word + 7);
    else {
        fprintf(stderr, "unknown word %s\n", word);
        exit(EXIT_FAILURE);
    }
}

static void read_sizes(struct bench_decoder *m, int argc, char **word)
{
    m->layers = atoi(word[1]);
    m->width = atoll(word[2]);
    m->heads = m->kv_heads = atoll(word[3]);
    m->context = atoll(word[4]);
    m->batch = atoll(word[5]);
    m->vocab = atoll(word[6]);
    m->steps = atoi(word[7]);
    m->hidden = 4 * m->width;
    for (int i = SIZES; i < argc; i++) read_word(m, word[i]);
}

static void build(struct bench_training *t, const struct bench_decoder *m, bench_make_decoder *make,
                  weft_mesh *mesh)
{
    t->model = bench_need(make(m));
    if (m->bf16) WEFT_CHECK(weft_module_cast(t->model, WEFT_BF16));
    WEFT_CHECK(weft_parallelize_module(t->model, mesh,
                                       m->sequence ? weft_gpt_plan_sequence() : weft_gpt_plan()));
    t->adam =
        bench_need(weft_adamw(t->model, (weft_adamw_config){.lr = 3e-4, .weight_decay = 0.01}));
    t->in[0] = text(m, 0);
    t->in[1] = text(m, 1);
}

static void report(const struct bench_decoder *m, const weft_ledger *ledger)
{
    int ranks = weft_world_size();
    double peak = (double)weft_memory_of(WEFT_MEMORY_CATEGORIES).peak;
    double sent = (double)weft_ledger_bytes(ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL);

    if (weft_world_rank() != 0) return;
    printf("peak_bytes %.0f bound %.0f\n", peak, bench_kept_bytes(m, ranks));
    printf("comm_bytes %.0f bound %.0f\n", sent, bench_sent_bytes(m, ranks));
    weft_print_memory(stdout);
    weft_ledger_print(ledger, stdout);
}

/* Five steps: the plans are made in the first, the peak and the ledger are those of the last. */
static void first_steps(struct bench_training *t, const struct bench_decoder *m)
{
    weft_ledger *ledger = bench_need(weft_ledger_open());

    for (int i = 0; i < 5; i++) {
        if (i == 2) weft_memory_reset_peak();
        weft_ledger_reset(ledger);
        bench_take_step(t);
        if (weft_world_rank() == 0) printf("loss %d %.9f\n", i, t->loss);
    }
    report(m, ledger);
    weft_ledger_close(ledger);
}

int bench_train_decoder(int argc, char **argv, struct bench_decoder size, bench_make_decoder *make)
{
    struct bench_training t = {.function = bench_train_gpt};
    weft_scope *scope;
    weft_mesh *mesh;

    read_sizes(&size, argc, argv);
    WEFT_CHECK(weft_init(&argc, &argv));
    mesh = bench_need(weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size()));
    scope = weft_scope_open();
    build(&t, &size, make, mesh);
    t.compiled = bench_compile(t.function, &t);
    first_steps(&t, &size);
    if (size.steps > 0) bench_report(bench_steps(mesh, size.steps, bench_take_step, &t));
    bench_training_release(&t);
    weft_scope_close(scope);
    weft_mesh_release(mesh);
    return weft_finalize();
}
