/*
 * main.c: gpu_performance: traces the kernels of one layer and both ends of
 * each model at tp 1, 4 and 8, counts the launches of a step and the
 * collectives of a tensor-parallel one, and prints lines of words between tabs,
 * of which write_page makes docs/gpu-performance.md.
 *
 *     op model ranks text least-bytes     followed by its launches:
 *     launch kernel blocks threads shared traced asked-bytes new-bytes
 * useful-bytes passes least-passes flops tensor-flops worst ratio step model
 * what launches collectives model ranks count bytes sent
 *
 * For the stand-in for CUDA with WT_CUDA_STREAMS=eager.
 */
#include <stdio.h>
#include <stdlib.h>

#include "mesh/mesh_internal.h"
#include "models.h"
#include "traced_ops.h"

static void need(weft_status status)
{
    if (status == WEFT_OK) return;
    fprintf(stderr, "%s\n", weft_error_message());
    exit(EXIT_FAILURE);
}

static void trace_part(const struct model_sizes *s, int ranks)
{
    struct model_sizes part = model_part(s, ranks);
    weft_scope *scope = weft_scope_open();

    traced_ops_begin(s->name, ranks);
    need(part.run_part(&part));
    traced_ops_end();
    weft_scope_close(scope);
}

/* Rows of the table are sharded, and the tokens mean all of them: this rank's kernels look at every
 * token. Without ranks behind the mesh nothing may be communicated. */
static void trace_embedding(const struct model_sizes *s, int ranks)
{
    weft_scope *scope = weft_scope_open();
    weft_mesh *mesh = weft_mesh_new_fake(0, "rows=%d", ranks);
    const weft_placement rows = weft_shard(0), all = weft_replicate();
    int64_t part[] = {model_part(s, ranks).vocab, s->width}, whole[] = {s->vocab, s->width};
    int64_t rows_of_tokens[] = {s->batch, s->context, s->width};
    weft_tensor *tokens, *table, *d;

    mesh->device = WEFT_CUDA;
    table = weft_from_local(weft_empty(WEFT_BF16, part, 2), mesh, &rows, whole);
    table = weft_set_requires_grad(weft_detach(table), true);
    tokens = weft_from_local(tokens_of(s, 7919), mesh, &all, NULL);
    d = weft_from_local(weft_empty(WEFT_BF16, rows_of_tokens, 3), mesh, &all, NULL);
    traced_ops_begin(s->name, ranks);
    need(weft_backward_from(weft_embedding(table, tokens), d));
    traced_ops_end();
    weft_scope_close(scope);
    weft_mesh_release(mesh);
}

/* The optimizer has one launch for all parameters: in it an element is read
 * with its gradient and two states, and written with these. */
static void trace_optimizer(const struct model_sizes *s)
{
    weft_scope *scope = weft_scope_open();
    weft_module *m = weft_linear_new(
        (weft_linear_config){.in = {s->width}, .out = {s->hidden}, .no_bias = true});
    weft_optim *optim = weft_adamw(m, (weft_adamw_config){.lr = 1e-3});
    char name[128];

    need(weft_backward(weft_sum_all(weft_square(weft_module_parameter(m, "weight")))));
    need(weft_step(optim)); /* its states are made */
    need(weft_backward(weft_sum_all(weft_square(weft_module_parameter(m, "weight")))));
    snprintf(name, sizeof name, "adamw(f32[%lld,%lld])", (long long)s->hidden, (long long)s->width);
    traced_ops_begin(s->name, 1);
    traced_ops_name(name, 28.0 * (double)(s->width * s->hidden));
    need(weft_step(optim));
    traced_ops_end();
    weft_optim_release(optim);
    weft_module_release(m);
    weft_scope_close(scope);
}

/* Of the second step; the first makes gradients and states. */
static int launches_of_step(const struct model_sizes *s, int layers)
{
    weft_module *model = s->whole(s, layers);
    weft_optim *optim = weft_adamw(model, (weft_adamw_config){.lr = 1e-3});
    int launches = 0;

    for (int step = 0; step < 2; step++) {
        weft_scope *scope = weft_scope_open();

        traced_ops_count();
        need(train_step(model, s));
        need(weft_step(optim));
        launches = traced_ops_end();
        weft_scope_close(scope);
    }
    weft_optim_release(optim);
    weft_module_release(model);
    return launches;
}

/* All layers launch alike, so that two counts give those of any depth; and a
 * part of the vocabulary launches as all of it, in less memory. */
static void count_launches(const struct model_sizes *s)
{
    enum { PART = 8 };
    struct model_sizes few = *s;
    int one, two;

    few.vocab = s->vocab / PART;
    one = launches_of_step(&few, 1);
    two = launches_of_step(&few, 2);

    printf("step\t%s\t%d\t%d\n", s->name, s->layers, one + (s->layers - 1) * (two - one));
}

static void count_collectives(const struct model_sizes *s, int ranks)
{
    weft_device before = weft_set_default_device(WEFT_META);
    weft_mesh *mesh = weft_mesh_new_fake(0, "tp=%d", ranks);
    weft_scope *scope = weft_scope_open();
    weft_module *model = s->whole(s, s->layers);
    weft_forecast forecast;
    weft_tensor *inputs[2];

    need(weft_parallelize_module(model, mesh, weft_gpt_plan()));
    for (int i = 0; i < 2; i++)
        inputs[i] = weft_empty(WEFT_I64, (int64_t[]){s->batch, s->context}, 2);
    need(weft_forecast_step(&forecast, model, NULL, inputs, 2));
    for (int a = 0; a < forecast.n_axes; a++)
        printf("collectives\t%s\t%d\t%lld\t%lld\t%lld\n", s->name, ranks,
               (long long)forecast.axes[a].collectives, (long long)forecast.axes[a].bytes,
               (long long)forecast.axes[a].sent);
    weft_module_release(model);
    weft_scope_close(scope);
    weft_mesh_release(mesh);
    weft_set_default_device(before);
}

int main(int argc, char **argv)
{
    static const int ranks[] = {1, 4, 8};

    WEFT_CHECK(weft_init(&argc, &argv));
    for (int m = 0; m < model_count; m++)
        for (int r = 1; r < 3; r++) count_collectives(&models[m], ranks[r]);
    weft_set_default_device(WEFT_CUDA);
    traced_ops_end();
    for (int m = 0; m < model_count; m++) {
        for (int r = 0; r < 3; r++) {
            if (ranks[r] > 1) trace_embedding(&models[m], ranks[r]);
            trace_part(&models[m], ranks[r]);
        }
        trace_optimizer(&models[m]);
        weft_memory_trim(); /* a host has less of it than a GPU */
        count_launches(&models[m]);
        weft_memory_trim();
    }
    return weft_finalize();
}
