/*
 * setup.c: mesh, plan, model, optimizer, in this order: a model is spread over the mesh while it
 * has no elements, so that each rank makes room for its own shard only.
 */
#include "setup.h"

#include <stdio.h>
#include <string.h>

#include "common/say.h"

/* ---- mesh ---- */

static weft_status make_mesh(struct setup *s, bool fake)
{
    weft_device device = s->o->device == GPU ? WEFT_CUDA : WEFT_CPU;
    const char *text = s->o->mesh;
    int ranks = fake && !text ? 1 : weft_world_size();

    if (!text)
        s->mesh =
            fake ? weft_mesh_new_fake(0, "tp=%d", ranks) : weft_mesh_new(device, "tp=%d", ranks);
    else
        s->mesh = fake ? weft_mesh_new_fake(0, "%s", text) : weft_mesh_new(device, "%s", text);
    if (!s->mesh) return weft_error_status();
    for (int i = 0; i < weft_mesh_ndim(s->mesh); i++) {
        const char *name = weft_mesh_axis_name(s->mesh, i);

        if (!strcmp(name, "dp") || !strcmp(name, "tp")) continue;
        complain("--mesh %s: axes are called dp and tp", text);
        return WEFT_ERR_ARG;
    }
    if (!fake && weft_mesh_size(s->mesh) != ranks) {
        complain("--mesh %s has %d ranks, and there are %d", text, weft_mesh_size(s->mesh), ranks);
        return WEFT_ERR_ARG;
    }
    if (weft_mesh_axis(s->mesh, "tp") >= 0) s->tp = weft_mesh_sub(s->mesh, "tp");
    if (weft_mesh_axis(s->mesh, "dp") >= 0) s->dp = weft_mesh_sub(s->mesh, "dp");
    return weft_error_status();
}

int setup_replicas(const struct setup *s) { return s->dp ? weft_mesh_size(s->dp) : 1; }
int setup_replica(const struct setup *s) { return s->dp ? weft_mesh_coordinate(s->dp, 0) : 0; }

/* ---- plan ---- */

/* Without loss parallelism the head hands on whole logits, and the loss is as on one device. */
static void whole_logits(struct setup *s)
{
    int n = 0;

    for (int i = 0; s->lines[i].pattern; i++) {
        weft_plan line = s->lines[i];

        if (!strcmp(line.pattern, "loss")) continue;
        if (!strcmp(line.pattern, "head")) {
            line.style.options.output_layouts = "R";
            line.style.options.keep_distributed = false;
        }
        s->lines[n++] = line;
    }
    s->lines[n] = (weft_plan){0};
}

static weft_status make_plan(struct setup *s)
{
    const struct options *o = s->o;
    const weft_plan *ready = o->sequence ? weft_gpt_plan_sequence() : weft_gpt_plan();
    int n = 0;

    if (o->plan) s->plan = s->read = weft_plan_read(o->plan);
    if (o->plan) return s->plan ? WEFT_OK : weft_error_status();
    while (ready[n].pattern && n < PLAN_LINES - 1) {
        s->lines[n] = ready[n];
        n++;
    }
    if (o->loss == OFF) whole_logits(s);
    s->plan = s->lines;
    return WEFT_OK;
}

/* ---- model ---- */

static const char *config_path(const struct options *o, char *room, size_t bytes)
{
    if (o->config) return o->config;
    snprintf(room, bytes, "%s/config.json", o->weights);
    return o->weights ? room : NULL;
}

static weft_status make_gpt(struct setup *s, const char *path)
{
    weft_gpt_config config;
    weft_status status = decoder_gpt(&s->o->decoder, s->o->context, path, &config);

    if (status != WEFT_OK) return status;
    if (s->o->context > config.context) {
        complain("--context %d: the model takes %lld tokens", s->o->context,
                 (long long)config.context);
        return WEFT_ERR_ARG;
    }
    s->vocab = config.vocab;
    s->model = weft_gpt(config);
    return s->model ? WEFT_OK : weft_error_status();
}

static weft_status make_llama(struct setup *s, const char *path)
{
    weft_llama_config config;
    weft_status status = decoder_llama(&s->o->decoder, path, &config);

    if (status != WEFT_OK) return status;
    s->vocab = config.vocab;
    s->model = weft_llama(config);
    return s->model ? WEFT_OK : weft_error_status();
}

static weft_status load(struct setup *s)
{
    weft_weights *weights = weft_weights_open(s->o->weights);
    const char *family = s->o->model == GPT2 ? "gpt2" : "llama";
    weft_status status = weft_weights_load(s->model, weights, weft_weight_names_of_family(family));

    weft_weights_close(weights);
    return status;
}

/* Replicas are made alike: equal seeds, equal files. A forecast has no elements to compare. */
static weft_status replicate(struct setup *s, bool fake)
{
    weft_data_parallel_config config = {.backwards = s->o->accumulate,
                                        .shard = s->o->shard,
                                        .start =
                                            fake ? WEFT_REPLICAS_TRUSTED : WEFT_REPLICAS_COMPARED};

    return weft_data_parallel(s->model, s->dp, config);
}

/* Spread the model, then give it elements. */
static weft_status spread(struct setup *s, bool fake)
{
    weft_status status = WEFT_OK;

    if (s->tp) status = weft_parallelize_module(s->model, s->tp, s->plan);
    if (status == WEFT_OK && s->o->print_plan && s->tp && weft_world_rank() == 0)
        status = weft_plan_print(s->model, s->tp, s->plan, stdout);
    if (status == WEFT_OK && !fake)
        status = weft_module_materialize(s->model, weft_mesh_device(s->mesh));
    if (status == WEFT_OK && !fake && s->o->weights) status = load(s);
    if (status == WEFT_OK && s->dp) status = replicate(s, fake);
    return status;
}

static weft_status make_model(struct setup *s, bool fake)
{
    weft_device before = weft_set_default_device(WEFT_META);
    char room[4096];
    const char *path = config_path(s->o, room, sizeof room);
    weft_status status = s->o->model == GPT2 ? make_gpt(s, path) : make_llama(s, path);

    weft_set_default_device(before);
    return status == WEFT_OK ? spread(s, fake) : status;
}

/* ---- all of it ---- */

weft_status setup_make(struct setup *s, const struct options *o, bool fake)
{
    weft_status status;

    *s = (struct setup){.o = o};
    weft_manual_seed(o->seed);
    status = make_mesh(s, fake);
    if (status == WEFT_OK) status = make_plan(s);
    if (status == WEFT_OK) status = make_model(s, fake);
    if (status != WEFT_OK) return status;
    s->optim = weft_adamw(s->model, (weft_adamw_config){.lr = o->lr, .weight_decay = o->decay});
    return s->optim ? WEFT_OK : weft_error_status();
}

void setup_free(struct setup *s)
{
    weft_optim_release(s->optim);
    weft_module_release(s->model);
    weft_plan_release(s->read);
    weft_mesh_release(s->tp);
    weft_mesh_release(s->dp);
    weft_mesh_release(s->mesh);
}

weft_status setup_forecast(struct setup *s)
{
    int64_t shape[] = {(s->o->batch + setup_replicas(s) - 1) / setup_replicas(s), s->o->context};
    weft_device before = weft_set_default_device(WEFT_META);
    weft_scope *scope = weft_scope_open();
    weft_tensor *in[] = {weft_empty(WEFT_I32, shape, 2), weft_empty(WEFT_I32, shape, 2)};
    weft_forecast forecast;
    weft_status status = weft_forecast_step(&forecast, s->model, s->optim, in, 2);

    weft_scope_close(scope);
    weft_set_default_device(before);
    if (status == WEFT_OK && weft_world_rank() == 0) weft_forecast_print(&forecast, stdout);
    return status;
}
