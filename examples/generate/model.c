/*
 * model.c: the model that writes, split over all ranks.
 *
 * It is spread before it has elements, so that each rank makes room for, and reads, its shard only.
 */
#include "model.h"

#include <stdio.h>
#include <string.h>

static weft_status make_gpt(struct model *m, const struct options *o, const char *path)
{
    weft_gpt_config config;
    weft_status status = decoder_gpt(&o->decoder, o->context, path, &config);

    if (status != WEFT_OK) return status;
    m->vocab = config.vocab;
    m->context = config.context;
    m->module = weft_gpt(config);
    return m->module ? WEFT_OK : weft_error_status();
}

static weft_status make_llama(struct model *m, const struct options *o, const char *path)
{
    weft_llama_config config;
    weft_status status = decoder_llama(&o->decoder, path, &config);

    if (status != WEFT_OK) return status;
    /* Files fit both; random weights of the two would differ. */
    config.by_heads = path && config.kv_heads && config.kv_heads < weft_world_size();
    m->vocab = config.vocab;
    m->module = weft_llama(config);
    return m->module ? WEFT_OK : weft_error_status();
}

/* The family that config.json speaks of, else the one that was asked for. */
static weft_status make(struct model *m, const struct options *o, const char **family)
{
    char path[4096];
    weft_status status;

    snprintf(path, sizeof path, "%s/config.json", o->model ? o->model : "");
    *family = o->llama ? "llama" : "gpt2";
    if (!o->model) return o->llama ? make_llama(m, o, NULL) : make_gpt(m, o, NULL);
    *family = "gpt2";
    status = make_gpt(m, o, path);
    if (status != WEFT_ERR_ARG || !strstr(weft_error_message(), "model_type")) return status;
    weft_error_clear();
    *family = "llama";
    return make_llama(m, o, path);
}

static weft_status load_weights(struct model *m, const char *folder, const char *family)
{
    weft_weights *weights = weft_weights_open(folder);
    weft_status status = weft_weights_load(m->module, weights, weft_weight_names_of_family(family));

    weft_weights_close(weights);
    return status;
}

/* train_gpt's parameters are called model.PATH. */
static weft_status load_checkpoint(struct model *m, const char *folder)
{
    weft_state *state = weft_state_new();
    weft_status status = weft_state_add_module(state, "model", m->module);

    if (status == WEFT_OK) status = weft_checkpoint_load(folder, state);
    weft_state_release(state);
    return status;
}

weft_status model_make(struct model *m, const struct options *o)
{
    weft_device before;
    const char *family;
    weft_status status;

    *m = (struct model){.mesh = weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size())};
    if (!m->mesh) return weft_error_status();
    weft_manual_seed(o->seed);
    before = weft_set_default_device(WEFT_META);
    status = make(m, o, &family);
    weft_set_default_device(before);
    if (status == WEFT_OK) status = weft_parallelize_module(m->module, m->mesh, weft_gpt_plan());
    if (status == WEFT_OK) status = weft_module_materialize(m->module, WEFT_CPU);
    if (status == WEFT_OK && o->model) status = load_weights(m, o->model, family);
    if (status == WEFT_OK && o->checkpoint) status = load_checkpoint(m, o->checkpoint);
    if (status == WEFT_OK) weft_module_train(m->module, false);
    return status;
}

void model_free(struct model *m)
{
    weft_module_release(m->module);
    weft_mesh_release(m->mesh);
}
