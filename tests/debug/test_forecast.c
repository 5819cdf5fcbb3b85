/* test_forecast.c: steps without elements and without ranks come out as the real ones do. */
/* ranks: 1 2 3 4 */
/* mpi: 2 */
#include <stdlib.h>
#include <string.h>

#include "debug/models.h"
#include "debug/text.h"
#include "ranks/worlds.h"

static const weft_direction ANY = WEFT_DIRECTION_ANY;

struct training {
    weft_module *model;
    weft_optim *adam;
    weft_tensor *inputs[2];
};

static weft_tensor *tokens(int64_t below)
{
    weft_tensor *t = weft_empty(WEFT_I32, 2, (int64_t[]){2, 6});
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
                              {"loss", weft_loss_parallel()},
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
WT_TEST(forecast__is_what_a_real_step_then_does)
{
    struct wt_world w = wt_world_open();
    weft_mesh *fake = weft_mesh_fake(wt_rank(), "tp=%d", wt_ranks());
    int64_t weights = weft_memory_of(WEFT_MEMORY_WEIGHTS).live;
    int64_t optimizer = weft_memory_of(WEFT_MEMORY_OPTIMIZER).live;
    weft_ledger_sum sum;
    weft_forecast f;
    struct training t;

    WT_ALL(forecast(&f, fake) == WEFT_OK);
    WT_EQ(weft_memory_of(WEFT_MEMORY_WEIGHTS).live, weights);
    t = prepare(w.mesh);
    weft_ledger_reset(w.ledger);
    WT_ALL(weft_backward(weft_call_n(t.model, t.inputs, 2)) == WEFT_OK);
    WT_ALL(weft_step(t.adam) == WEFT_OK);
    sum = weft_ledger_total(w.ledger, WEFT_COLL_COUNT, ANY, NULL);
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
    wt_world_close(&w);
}

/* All ranks' forecasts from one process: their parts add up to the whole. */
WT_TEST(forecast__of_every_rank_adds_up)
{
    int64_t whole, split = 0, weights;
    weft_forecast f;

    for (int ranks = 1; ranks <= 8; ranks += 7) {
        split = 0;
        for (int rank = 0; rank < ranks; rank++) {
            weft_mesh *fake = weft_mesh_fake(rank, "tp=%d", ranks);

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
    weft_mesh *mesh = weft_mesh_fake(77, "dp=512,pp=2");
    weft_scope *scope = weft_scope_open();

    WEFT_CHECK(weft_link_set("dp", 0, 1000));
    for (int64_t width = 512; width <= 1024; width += 512) {
        weft_module *m = weft_mlp((weft_mlp_config){.in = width, .hidden = 512, .out = width});
        weft_tensor *x = weft_empty(WEFT_F32, 2, (int64_t[]){512, width});
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

WT_TEST(forecast__refuses_models_with_elements)
{
    weft_module *real = wt_mlp(), *empty = weft_sequential_new();
    weft_tensor *x = wt_whole(WEFT_F32, 0, 4, 10);
    weft_forecast f;

    WT_ALL(weft_forecast_step(&f, real, NULL, &x, 1) == WEFT_ERR_STATE);
    WT_FAILED(WEFT_ERR_STATE, "parameters with elements");
    WT_ALL(weft_forecast_step(&f, empty, NULL, &x, 1) == WEFT_ERR_STATE);
    WT_FAILED(WEFT_ERR_STATE, "no parameters");
    weft_module_release(real);
    weft_module_release(empty);
}

WT_TEST(forecast_print__has_memory_and_communication)
{
    weft_mesh *fake = weft_mesh_fake(0, "tp=4");
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

int main(int argc, char **argv)
{
    static const struct wt_case cases[] = {
        WT_CASE(forecast__is_what_a_real_step_then_does),
        WT_CASE(forecast__of_every_rank_adds_up),
        WT_CASE(forecast__of_many_ranks_follows_the_closed_form),
        WT_CASE(forecast__refuses_models_with_elements),
        WT_CASE(forecast_print__has_memory_and_communication),
        WT_END,
    };

    return wt_main(argc, argv, "forecast", cases);
}
