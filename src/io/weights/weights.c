/* weights.c: opening one or several files as one set of names. The format is safetensors.c's. */
#include "io/weights/weights.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/element_type.h"
#include "io/json/json_reader.h"

static int compare_by_name(const void *a, const void *b)
{
    const struct wf_weight *x = a, *y = b;

    return strcmp(x->info.name, y->info.name);
}

static void add_weight(weft_weights *w, const struct wf_safetensors *file,
                       const struct wf_safetensors_entry *entry)
{
    w->items = wf_array_grow(w->items, w->n_items, sizeof *w->items);
    w->items[w->n_items++] =
        (struct wf_weight){.info = {.name = entry->name,
                                    .file = file->path,
                                    .dtype = wf_element_type_info(entry->type)->name,
                                    .ndim = entry->ndim,
                                    .shape = entry->shape,
                                    .bytes = (int64_t)(entry->end - entry->begin)},
                           .file = file,
                           .entry = entry};
}

/* ---- one file ---- */

static weft_status open_weights_file(weft_weights *w, const char *path)
{
    w->files = WF_NEW(struct wf_safetensors);
    WF_TRY(wf_safetensors_open(w->files, path));
    w->n_files = 1;
    for (int64_t i = 0; i < w->files->n_entries; i++)
        add_weight(w, w->files, &w->files->entries[i]);
    return WEFT_OK;
}

/* ---- an index: {"weight_map": {tensor: file}} ---- */

struct index {
    const char *path;
    char **tensors, **files; /* as listed: tensors[i] is in files[i] */
    int64_t count;
    bool found;
};

static bool read_index_entry(struct wf_json_reader *r, const char *key, void *payload)
{
    struct index *index = payload;
    char *file = wf_json_read_string(r);

    if (!file) return false;
    if (!file[0] || file[0] == '.' || strchr(file, '/')) {
        wf_json_reader_fail(r, "\"%.80s\" is no name of a file beside the index", file);
        wf_free(file);
        return false;
    }
    index->tensors = wf_array_grow(index->tensors, index->count, sizeof *index->tensors);
    index->files = wf_array_grow(index->files, index->count, sizeof *index->files);
    index->tensors[index->count] = wf_strdup(key);
    index->files[index->count++] = file;
    return true;
}

static bool read_index_member(struct wf_json_reader *r, const char *key, void *payload)
{
    struct index *index = payload;

    if (strcmp(key, "weight_map") != 0) return wf_json_skip_value(r);
    index->found = true;
    return wf_json_read_object(r, read_index_entry, index);
}

static weft_status parse_weights_index(struct index *index, const struct wf_file_map *map)
{
    struct wf_json_reader r;

    wf_json_reader_init(&r, map->bytes ? map->bytes : "", map->size);
    if (wf_json_read_object(&r, read_index_member, index)) wf_json_reader_expect_end(&r);
    WF_NEED(!r.failed, WEFT_ERR_IO, "%s: %s", index->path, r.problem);
    WF_NEED(index->found, WEFT_ERR_IO, "%s: no weight_map", index->path);
    return WEFT_OK;
}

static weft_status add_tensor_of_index(weft_weights *w, const struct index *index, const char *name)
{
    const struct wf_safetensors *file = &w->files[w->n_files - 1];
    const struct wf_safetensors_entry *entry = wf_safetensors_find_tensor(file, name);

    WF_NEED(entry, WEFT_ERR_IO, "%s: tensor '%s' should be in %s, and is not", index->path, name,
            file->path);
    add_weight(w, file, entry);
    return WEFT_OK;
}

/* Room for all files is made at once: items point into them. */
static weft_status open_files_of_index(weft_weights *w, const struct index *index)
{
    struct wf_name_index order = {0}; /* numbers of tensors, those of one file together */
    weft_status status = WEFT_OK;
    const char *opened = "";

    for (int64_t i = 0; i < index->count; i++) wf_name_index_add(&order, index->files[i], i);
    wf_name_index_sort(&order);
    w->files = wf_calloc((size_t)index->count + 1, sizeof *w->files);
    for (int64_t i = 0; i < order.count && status == WEFT_OK; i++) {
        const struct wf_name_at *place = &order.items[i];

        if (strcmp(place->name, opened) != 0) {
            char *path = wf_path_in_same_folder(index->path, place->name);

            status = wf_safetensors_open(&w->files[w->n_files], path);
            wf_free(path);
            if (status != WEFT_OK) break;
            w->n_files++;
            opened = place->name;
        }
        status = add_tensor_of_index(w, index, index->tensors[place->at]);
    }
    wf_name_index_free(&order);
    return status;
}

static weft_status open_weights_index(weft_weights *w, const char *path)
{
    struct index index = {.path = path};
    struct wf_file_map map;
    weft_status status;

    WF_TRY(wf_file_map(&map, path));
    status = parse_weights_index(&index, &map);
    wf_file_unmap(&map);
    if (status == WEFT_OK) status = open_files_of_index(w, &index);
    for (int64_t i = 0; i < index.count; i++) {
        wf_free(index.tensors[i]);
        wf_free(index.files[i]);
    }
    wf_free(index.tensors);
    wf_free(index.files);
    return status;
}

/* ---- a path ---- */

char *wf_path_in_same_folder(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');

    return slash ? wf_format("%.*s/%s", (int)(slash - path), path, name) : wf_strdup(name);
}

static bool path_exists(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

static weft_status open_weights_folder(weft_weights *w, const char *path)
{
    char *one = wf_format("%s/model.safetensors", path);
    char *many = wf_format("%s/model.safetensors.index.json", path);
    weft_status status;

    if (path_exists(many))
        status = open_weights_index(w, many);
    else if (path_exists(one))
        status = open_weights_file(w, one);
    else
        status = WF_FAIL(WEFT_ERR_NOT_FOUND,
                         "%s: neither model.safetensors nor model.safetensors.index.json", path);
    wf_free(one);
    wf_free(many);
    return status;
}

weft_weights *weft_weights_open(const char *path)
{
    weft_weights *w;
    weft_status status;
    struct stat st;
    size_t n;

    WF_NEED_PTR(path, WEFT_ERR_ARG, "weights: the path is NULL");
    w = WF_NEW(weft_weights);
    n = strlen(path);
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        status = open_weights_folder(w, path);
    else if (n > 5 && strcmp(path + n - 5, ".json") == 0)
        status = open_weights_index(w, path);
    else
        status = open_weights_file(w, path);
    if (status == WEFT_OK) {
        if (w->n_items) qsort(w->items, (size_t)w->n_items, sizeof *w->items, compare_by_name);
        return w;
    }
    weft_weights_close(w);
    return NULL;
}

weft_status weft_weights_close(weft_weights *weights)
{
    if (!weights) return WEFT_OK;
    for (int i = 0; i < weights->n_files; i++) wf_safetensors_close(&weights->files[i]);
    wf_free(weights->files);
    wf_free(weights->items);
    wf_free(weights);
    return WEFT_OK;
}

/* ---- asking ---- */

int64_t weft_weights_count(const weft_weights *weights) { return weights ? weights->n_items : 0; }

const weft_weight *weft_weights_at(const weft_weights *weights, int64_t index)
{
    return weights && index >= 0 && index < weights->n_items ? &weights->items[index].info : NULL;
}

static const struct wf_weight *find_stored_weight(const weft_weights *w, const char *name)
{
    const struct wf_weight key = {.info = {.name = name}};

    return w->n_items ? bsearch(&key, w->items, (size_t)w->n_items, sizeof key, compare_by_name)
                      : NULL;
}

const char *weft_weights_note(const weft_weights *weights, const char *key)
{
    const char *note = NULL;

    for (int i = 0; weights && key && i < weights->n_files && !note; i++)
        note = wf_safetensors_metadata(&weights->files[i], key);
    return note;
}

const struct wf_weight *wf_weights_find(const weft_weights *weights, const char *name)
{
    const struct wf_weight *found = find_stored_weight(weights, name);
    const char *other = found ? NULL : weft_weights_note(weights, name);

    return other ? find_stored_weight(weights, other) : found;
}

const weft_weight *weft_weights_find(const weft_weights *weights, const char *name)
{
    const struct wf_weight *found = weights && name ? wf_weights_find(weights, name) : NULL;

    return found ? &found->info : NULL;
}
