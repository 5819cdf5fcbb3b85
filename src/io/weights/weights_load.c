/* weights_load.c: a module from a file and into one, by a family's names. */
#include <string.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/agree_on_status.h"
#include "io/weights/weights_map.h"
#include "io/weights/weights_write.h"
#include "tensor/host_copy.h"

/* ---- load ---- */

static weft_status fill_parameter_from_source(const struct wf_weight_fill *fill, weft_tensor *host,
                                              const struct wf_weight_source *source,
                                              const struct wf_local_runs *local)
{
    const struct wf_weight *item = source->item;
    struct wf_index_range whole[WEFT_MAX_DIMS];
    struct wf_file_slice piece;

    wf_file_slice_of_whole(&piece, whole, item->entry->type, fill->tensor->layout->desc.global,
                           weft_ndim(fill->tensor));
    whole[fill->join] = (struct wf_index_range){source->rows.first, source->rows.count};
    memcpy(piece.stride, source->rows.stride, sizeof piece.stride);
    piece.data = item->file->data + item->entry->begin;
    WF_NEED(wf_file_slice_read(host, local, &piece), WEFT_ERR_DTYPE,
            "%s: tensor '%s': a number does not fit %s", item->info.file, item->info.name,
            weft_dtype_name(weft_tensor_dtype(fill->tensor)));
    return WEFT_OK;
}

/* On the host, wherever the parameter is. */
static weft_status fill_parameter(const struct wf_weight_fill *fill)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *host = wf_tensor_on_host(fill->tensor, "weft_weights_load");
    weft_status status = host ? WEFT_OK : weft_error_status();
    struct wf_local_runs local;

    wf_tensor_before_write(fill->tensor, "weft_weights_load");
    wf_local_runs_of_tensor(&local, fill->tensor);
    for (int s = 0; s < fill->n_sources && status == WEFT_OK; s++)
        status = fill_parameter_from_source(fill, host, &fill->sources[s], &local);
    wf_local_runs_free(&local);
    if (status == WEFT_OK) status = wf_tensor_write_back_from_host(fill->tensor, host);
    weft_scope_close(scope);
    return status;
}

static weft_status fill_parameters(const struct wf_weights_map *map)
{
    weft_status status = WEFT_OK;

    for (int64_t i = 0; i < map->count && status == WEFT_OK; i++)
        status = fill_parameter(&map->fills[i]);
    return status;
}

static weft_status map_parameters_to_weights(struct wf_weights_map *map, weft_module *module,
                                             weft_weights *weights, const weft_weight_names *names)
{
    WF_NEED_GIVEN(module && weights, "load weights: %s is NULL", module ? "weights" : "module");
    return wf_weights_map_build(map, module, weights, names, WF_MAP_ELEMENTS);
}

weft_status weft_weights_load(weft_module *module, weft_weights *weights,
                              const weft_weight_names *names)
{
    struct wf_weights_map map = {0};
    weft_status status = wf_agree_status(map_parameters_to_weights(&map, module, weights, names));

    if (status == WEFT_OK) status = wf_agree_status(fill_parameters(&map));
    wf_weights_map_free(&map);
    return status;
}

/* ---- save ---- */

struct saving {
    const weft_weight_names *names;
    struct wf_weight_job *jobs;
    int64_t count;
};

static void add_write_job(struct saving *saving, const char *name, weft_tensor *t,
                          const weft_weight_rule *rule, int64_t first, int64_t rows)
{
    int ndim = weft_ndim(t), split = rule && rule->rows ? rule->rows : 1;
    const int64_t *shape = t->layout->desc.global;
    struct wf_weight_job *job;
    struct wf_stored_rows stored;

    saving->jobs = wf_array_grow(saving->jobs, saving->count, sizeof *saving->jobs);
    job = &saving->jobs[saving->count++];
    *job = (struct wf_weight_job){.name = wf_strdup(name), .tensor = t, .ndim = ndim};
    memcpy(job->shape, shape, sizeof job->shape);
    if (!rule || ndim == 0) return;
    if (split > ndim) split = ndim;
    wf_stored_rows_make(&stored, job->shape, &job->ndim, rule->join, first, rows, shape, ndim,
                        split, rule->transposed);
    job->join = rule->join;
    job->first = first;
    job->rows = rows;
    job->strided = true;
    memcpy(job->stride, stored.stride, sizeof job->stride);
}

/* Each name but the first has one index of the dim along which they are joined. */
static weft_status add_write_jobs(struct saving *saving, const struct wf_name_candidates *c,
                                  const char *path, weft_tensor *t)
{
    int join = c->rule ? c->rule->join : 0, names = c->joined[0];
    int64_t size = weft_ndim(t) > join ? weft_size(t, join) : 1, first = 0;

    WF_NEED(size >= names || names == 1, WEFT_ERR_SHAPE,
            "save weights: '%s' has %lld slices for %d names", path, (long long)size, names);
    for (int k = 0; k < names; k++) {
        int64_t rows = k ? 1 : size - names + 1;

        add_write_job(saving, c->names[0][k], t, c->rule, first, rows);
        first += rows;
    }
    return WEFT_OK;
}

static weft_status add_module_tensor(const weft_module_tensor *it, void *payload)
{
    struct saving *saving = payload;
    struct wf_name_candidates c;
    weft_status status;

    if (it->unsaved) return WEFT_OK;
    status = wf_name_candidates_of(&c, saving->names, it->path);
    if (status == WEFT_OK)
        status =
            c.count ? add_write_jobs(saving, &c, it->path, it->tensor)
                    : WF_FAIL(WEFT_ERR_NOT_FOUND, "save weights: %s has no name for parameter '%s'",
                              saving->names->family, it->path);
    wf_name_candidates_free(&c);
    return status;
}

static weft_status save_module_weights(weft_module *module, const char *path,
                                       const weft_weight_names *names, int64_t most)
{
    struct saving saving = {.names = names};
    weft_status status;

    status = weft_module_each_tensor(module, add_module_tensor, &saving);
    if (status == WEFT_OK)
        status = most ? wf_weights_write_shards(path, saving.jobs, saving.count, most)
                      : wf_weights_write(path, saving.jobs, saving.count);
    for (int64_t i = 0; i < saving.count; i++) wf_free((char *)saving.jobs[i].name);
    wf_free(saving.jobs);
    return status;
}

weft_status weft_weights_save(weft_module *module, const char *path, const weft_weight_names *names)
{
    return save_module_weights(module, path, names, 0);
}

weft_status weft_weights_save_shards(weft_module *module, const char *folder, int64_t most_bytes,
                                     const weft_weight_names *names)
{
    WF_NEED(folder && folder[0], WEFT_ERR_ARG, "save weights: no folder");
    WF_NEED(most_bytes > 0, WEFT_ERR_ARG, "save weights: shards of at most %lld bytes",
            (long long)most_bytes);
    return save_module_weights(module, folder, names, most_bytes);
}
