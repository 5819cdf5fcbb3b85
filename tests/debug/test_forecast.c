/* test_forecast.c: steps without elements and without ranks come out as the real ones do. */
/* ranks: 1 2 3 4 */
/* mpi: 2 */
#include <stdlib.h>
#include <string.h>

#include "debug/models.h"
#include "debug/text.h"
#include "support/worlds.h"

static const weft_direction ANY = WEFT_DIRECTION_ANY;

struct training {
    weft_module *model;
    weft_optim *adam;
    weft_tensor *inputs[2];
};

static weft_tensor *tokens(int64_t below)
{
    weft_tensor *t = weft_empty(WEFT_I32, (int64_t[]){2, 6}, 2);
    int32_t *data = weft_data(t);

    for (int i = 0; data && i < 12; i++) data[i] = (int32_t)((i * 5 + 2) % below);
    return t;
}

/* A small GPT on one axis, on the device that is the default now. */
static struct training prepare(weft_mesh *mesh)
{
    const weft_style_options keep = {.keep_distributed = true};
    const weft_plan plan[] = {{"wte", weft_rowwise_parallel()},
                              {"blocks.*.attn.qkv", weft_colwise_parallel()},
                              {"blocks.*.attn.proj", weft_rowwise_parallel()},
                              {"blocks.*.mlp.up", weft_colwise_parallel()},
                              {"blocks.*.mlp.down", weft_rowwise_parallel()},
                              {"head", weft_colwise_parallel_with(keep)},
                              {"loss", weft_cross_entropy_parallel()},
                              {0}};
    struct training t;

    t.model = weft_gpt(
        (weft_gpt_config){.vocab = 29, .context = 8, .width = 24, .heads = 4, .layers = 2});
    WEFT_CHECK(weft_parallelize_module(t.model, mesh, plan));
    t.adam = weft_adamw(t.model, (weft_adamw_config){.lr = 1e-3});
    t.inputs[0] = tokens(29);
    t.inputs[1] = tokens(29);
    return t;
}

static void end(struct training *t)
{
    weft_optim_release(t->adam);
    weft_module_release(t->model);
}

static weft_status forecast(weft_forecast *f, weft_mesh *mesh)
{
    weft_device before = weft_set_default_device(WEFT_META);
    struct training t = prepare(mesh);
    weft_status status = weft_forecast_step(f, t.model, t.adam, t.inputs, 2);

    end(&t);
    weft_set_default_device(before);
    return status;
}

/* What a real step of this rank does is what was forecast for it, uneven shards and all. */
WT_TEST_IN_WORLD(forecast__is_what_a_real_step_then_does, w)
{
    weft_mesh *fake = weft_mesh_new_fake(wt_rank(), "tp=%d", wt_ranks());
    int64_t weights = weft_memory_of(WEFT_MEMORY_WEIGHTS).live;
    int64_t optimizer = weft_memory_of(WEFT_MEMORY_OPTIMIZER).live;
    weft_ledger_sum sum;
    weft_forecast f;
    struct training t;

    WT_ALL(forecast(&f, fake) == WEFT_OK);
    WT_EQ(weft_memory_of(WEFT_MEMORY_WEIGHTS).live, weights);
    t = prepare(w->mesh);
    weft_ledger_reset(w->ledger);
    WT_ALL(weft_backward(weft_call_n(t.model, t.inputs, 2)) == WEFT_OK);
    WT_ALL(weft_step(t.adam) == WEFT_OK);
    sum = weft_ledger_total(w->ledger, WEFT_COLL_COUNT, ANY, NULL);
    WT_EQ(f.n_axes, wt_ranks() > 1);
    WT_EQ(f.n_axes ? f.axes[0].collectives : 0, wt_ranks() > 1 ? sum.count : 0);
    WT_EQ(f.n_axes ? f.axes[0].sent : 0, sum.sent);
    WT_EQ(f.n_axes ? f.axes[0].bytes : 0, wt_ranks() > 1 ? sum.bytes : 0);
    WT_EQ(f.memory[WEFT_MEMORY_WEIGHTS].live, weft_memory_of(WEFT_MEMORY_WEIGHTS).live - weights);
    WT_EQ(f.memory[WEFT_MEMORY_OPTIMIZER].live,
          weft_memory_of(WEFT_MEMORY_OPTIMIZER).live - optimizer);
    WT_EQ(f.parameters, weft_module_numel(t.model));
    end(&t);
    weft_mesh_release(fake);
}

/* All ranks' forecasts from one process: their parts add up to the whole. */
WT_TEST(forecast__of_every_rank_adds_up)
{
    int64_t whole, split = 0, weights;
    weft_forecast f;

    for (int ranks = 1; ranks <= 8; ranks += 7) {
        split = 0;
        for (int rank = 0; rank < ranks; rank++) {
            weft_mesh *fake = weft_mesh_new_fake(rank, "tp=%d", ranks);

            WT_ALL(forecast(&f, fake) == WEFT_OK);
            weights = f.memory[WEFT_MEMORY_WEIGHTS].live;
            split += weights;
            weft_mesh_release(fake);
        }
        whole = f.parameters * 4;
        WT_ALL(ranks > 1 ? split > whole && split < 2 * whole : split == whole);
    }
}

static weft_status rows_to_all(weft_module *m, weft_tensor **inputs, int n, weft_mesh *mesh,
                               void *payload)
{
    weft_placement p[3] = {weft_shard(0), weft_replicate(), weft_replicate()};

    (void)m;
    (void)n;
    (void)payload;
    inputs[0] = weft_distribute_tensor(inputs[0], mesh, p, -1);
    return inputs[0] ? WEFT_OK : weft_error_status();
}

/* Data parallelism over 512 ranks: 2 (d-1)/d of the parameters, by latency and bandwidth. */
WT_TEST(forecast__of_many_ranks_follows_the_closed_form)
{
    weft_device before = weft_set_default_device(WEFT_META);
    weft_mesh *mesh = weft_mesh_new_fake(77, "dp=512,pp=2");
    weft_scope *scope = weft_scope_open();

    WEFT_CHECK(weft_link_set("dp", 0, 1000));
    for (int64_t width = 512; width <= 1024; width += 512) {
        weft_module *m = weft_mlp((weft_mlp_config){.in = width, .hidden = 512, .out = width});
        weft_tensor *x = weft_empty(WEFT_F32, (int64_t[]){512, width}, 2);
        int64_t bytes = weft_module_numel(m) * 4;
        weft_forecast f;

        WEFT_CHECK(weft_distribute_module(m, mesh, NULL, rows_to_all, NULL, NULL));
        WT_ALL(weft_forecast_step(&f, m, NULL, &x, 1) == WEFT_OK);
        WT_EQ(f.n_axes, 1);
        WT_ALL(strcmp(f.axes[0].name, "dp") == 0 && f.axes[0].ranks == 512);
        WT_EQ(f.axes[0].bytes, bytes);
        WT_EQ(f.axes[0].sent, bytes / 512 * 511 * 2);
        WT_ALL(f.seconds > 0.999e-9 * (double)f.axes[0].sent &&
               f.seconds < 1.001e-9 * (double)f.axes[0].sent);
        WT_EQ(f.memory[WEFT_MEMORY_GRADIENTS].live, bytes);
        weft_module_release(m);
    }
    weft_scope_close(scope);
    weft_mesh_release(mesh);
    weft_set_default_device(before);
}

/* ---- three axes: batch over dp, sequence over cp, features over tp ---- */

static const struct row {
    const char *path, *weight, *bias, *input, *output;
} rows[] = {
    {"attn.qkv", "R,R,S(1)", "R,R,S(1)", NULL, "S(0),S(3),S(3)"},
    {"attn.proj", "R,R,S(1)", "R,R,R", "S(0),S(1),S(2)", "S(0),S(1),R"},
    {"mlp.up", "R,R,S(0)", "R,R,S(0)", NULL, NULL},
    {"mlp.down", "R,R,S(1)", "R,R,R", NULL, "S(0),S(1),R"},
};

static weft_status move_input(weft_module *m, weft_tensor **inputs, int n, void *payload)
{
    (void)m;
    (void)n;
    inputs[0] = wt_to(inputs[0], payload);
    return inputs[0] ? WEFT_OK : weft_error_status();
}

static weft_tensor *move_output(weft_module *m, weft_tensor *output, void *payload)
{
    (void)m;
    return wt_to(output, payload);
}

static void spread(weft_module *m, const char *name, weft_mesh *mesh, const char *text)
{
    weft_placement p[WEFT_MAX_AXES];
    weft_tensor *t = weft_module_parameter(m, name);

    weft_placements_parse(p, WEFT_MAX_AXES, text);
    WEFT_CHECK(weft_module_set_parameter(m, name, weft_distribute_tensor(t, mesh, p, -1)));
}

static weft_status partition(weft_module *m, weft_mesh *mesh, void *payload)
{
    const char *path = strchr(weft_module_path(m), '.');

    (void)payload;
    for (size_t i = 0; path && i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];

        if (strcmp(path + 1, row->path) != 0) continue;
        spread(m, "weight", mesh, row->weight);
        spread(m, "bias", mesh, row->bias);
        if (row->input) WEFT_CHECK(weft_module_on_input(m, move_input, (void *)row->input, NULL));
        if (row->output)
            WEFT_CHECK(weft_module_on_output(m, move_output, (void *)row->output, NULL));
    }
    return WEFT_OK;
}

/* Communication along tp in one step of so many blocks. */
static weft_forecast_axis blocks_on_tp(weft_mesh *mesh, int n, int64_t width)
{
    weft_placement p[3] = {weft_shard(0), weft_shard(1), weft_replicate()};
    weft_module *model = weft_sequential_new();
    weft_tensor *x = weft_empty(WEFT_F32, (int64_t[]){32, 512, width}, 3);
    weft_forecast f;
    char name[12];

    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%d", i);
        WEFT_CHECK(weft_module_add_child(
            model, name, weft_block_new((weft_block_config){.width = width, .heads = 64})));
    }
    WEFT_CHECK(weft_distribute_module(model, mesh, partition, NULL, NULL, NULL));
    x = weft_distribute_tensor(x, mesh, p, -1);
    WT_ALL(weft_forecast_step(&f, model, NULL, &x, 1) == WEFT_OK);
    weft_module_release(model);
    for (int a = 0; a < f.n_axes; a++)
        if (strcmp(f.axes[a].name, "tp") == 0) return f.axes[a];
    return (weft_forecast_axis){.ranks = -1};
}

/* A block more sends 8 k more: four all-reduces of a rank's activation, and its norms' gradients,
 * which are terms on tp, in the reduction of all. */
WT_TEST(forecast__of_a_thousand_ranks_adds_8k_per_block)
{
    weft_device before = weft_set_default_device(WEFT_META);
    weft_mesh *mesh = weft_mesh_new_fake(0, "dp=16,cp=4,tp=16");
    weft_scope *scope = weft_scope_open();

    for (int64_t width = 512; width <= 1024; width += 512) {
        weft_forecast_axis few = blocks_on_tp(mesh, 2, width), more = blocks_on_tp(mesh, 3, width);
        int64_t activation = 2 * 128 * width * 4, norms = 4 * width * 4;

        WT_EQ(few.ranks, 16);
        WT_EQ(more.collectives - few.collectives, 4);
        WT_EQ(more.bytes - few.bytes, 4 * activation + norms);
        WT_EQ(more.sent - few.sent, (8 * activation + 2 * norms) / 16 * 15);
    }
    weft_scope_close(scope);
    weft_mesh_release(mesh);
    weft_set_default_device(before);
}

WT_TEST(forecast__refuses_models_with_elements)
{
    weft_module *real = wt_mlp(), *empty = weft_sequential_new();
    weft_tensor *x = wt_whole(WEFT_F32, 0, 4, 10);
    weft_forecast f;

    WT_FAILS(weft_forecast_step(&f, real, NULL, &x, 1), WEFT_ERR_STATE, "parameters with elements");
    WT_FAILS(weft_forecast_step(&f, empty, NULL, &x, 1), WEFT_ERR_STATE, "no parameters");
    WT_RELEASE(weft_module_release, real, empty);
}

WT_TEST(forecast_print__has_memory_and_communication)
{
    weft_mesh *fake = weft_mesh_new_fake(0, "tp=4");
    struct wt_text t;
    weft_forecast f;

    WT_ALL(forecast(&f, fake) == WEFT_OK);
    wt_text_begin(&t);
    weft_forecast_print(&f, t.out);
    WT_EQ(wt_occurrences(wt_text_end(&t), "\ntp                  4 "), 1);
    WT_EQ(wt_occurrences(t.text, "\nweights "), 1);
    WT_EQ(wt_occurrences(t.text, "\nall "), 2);
    free(t.text);
    weft_mesh_release(fake);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "forecast"); }
