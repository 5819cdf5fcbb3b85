/*
 * checkpoint_load.c: every rank reads the manifest and the headers of all files, finds the saved
 * shards that overlap its own, and copies the overlap. What attention saved under
 * other names is found by head_rows.c's table.
 *
 * Each saved shard's checksum is verified by one rank, which reads the whole shard, whichever ranks
 * need it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "io/agree_on_status.h"
#include "io/checkpoint/checkpoint.h"
#include "io/checkpoint/coverage.h"
#include "io/checkpoint/head_rows.h"
#include "io/checkpoint/manifest.h"
#include "io/checkpoint/shard_text.h"
#include "io/checkpoint/state.h"
#include "io/element_type.h"
#include "io/name_index.h"
#include "io/safetensors.h"
#include "io/weights/weights.h"
#include "tensor/host_copy.h"

/* A tensor of the checkpoint that makes an item's, or some rows of it. */
struct source {
    int64_t item, listed; /* of the state, of the manifest's tensors */
    struct wf_head_row_map map;
    int64_t next; /* the source before, of the same listed tensor; -1: none */
};

/* A saved shard of a source in a file. */
struct found {
    const struct wf_safetensors *file;
    const struct wf_safetensors_entry *entry;
    struct wf_local_runs saved;
    uint64_t hash;
    int64_t source, item; /* of the state: the source's */
};

struct loading {
    const char *path;
    weft_state *state;
    struct wf_manifest manifest;
    struct wf_name_index tensors, values; /* of the manifest's lists */
    struct source *sources;
    int64_t n_sources;
    int64_t *last; /* of each listed tensor: its last source, -1: nothing needs it */
    struct wf_safetensors *files;
    int n_files;
    struct found *found;
    int64_t n_found;
};

/* ---- the list: everything that is asked for is there, in the same shape ---- */

static void index_manifest_names(struct loading *l)
{
    const struct wf_manifest *m = &l->manifest;

    l->last = wf_calloc((size_t)m->n_tensors + 1, sizeof *l->last);
    for (int64_t i = 0; i < m->n_tensors; i++) {
        l->last[i] = -1;
        wf_name_index_add(&l->tensors, m->tensors[i].name, i);
    }
    for (int64_t i = 0; i < m->n_values; i++) wf_name_index_add(&l->values, m->values[i].name, i);
    wf_name_index_sort(&l->tensors);
    wf_name_index_sort(&l->values);
}

static const struct wf_name_index *name_index_of_item(const struct loading *l,
                                                      const struct wf_state_item *item)
{
    return item->kind == WF_STATE_TENSOR ? &l->tensors : &l->values;
}

/* What else of the checkpoint an item can be made from, under other names or in another shape;
 * false: nothing more. */
static bool next_saved_sources(const struct loading *l, struct wf_head_sources *from,
                               const struct wf_state_item *item)
{
    while (wf_head_sources_next(from, item->name)) {
        int there = 0;

        while (there < from->n &&
               wf_name_index_find(name_index_of_item(l, item), from->names[there]) >= 0)
            there++;
        if (there == from->n) return true;
    }
    return false;
}

static bool is_item_saved(const struct loading *l, const struct wf_state_item *item)
{
    struct wf_head_sources from = {0};
    bool there = wf_name_index_find(name_index_of_item(l, item), item->name) >= 0;

    if (!there) there = next_saved_sources(l, &from, item);
    wf_head_sources_free(&from);
    return there;
}

static weft_status check_missing_items(const struct loading *l)
{
    char text[400] = "";
    int64_t missing = 0;

    for (int64_t i = 0; i < l->state->count; i++) {
        const struct wf_state_item *item = &l->state->items[i];
        size_t used = strlen(text);

        if (is_item_saved(l, item)) continue;
        if (missing++ < 8)
            snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "", item->name);
    }
    WF_NEED(!missing, WEFT_ERR_NOT_FOUND, "%s: the checkpoint lacks %lld things: %s%s", l->path,
            (long long)missing, text, missing > 8 ? ", ..." : "");
    return WEFT_OK;
}

static void add_item_source(struct loading *l, int64_t item, int64_t listed,
                            const struct wf_head_row_map *map)
{
    l->sources = wf_array_grow(l->sources, l->n_sources, sizeof *l->sources);
    l->sources[l->n_sources] =
        (struct source){.item = item, .listed = listed, .map = *map, .next = l->last[listed]};
    l->last[listed] = l->n_sources++;
}

/* Whether the shapes of these sources, which are there, make the item; if so they are added. */
static bool add_head_sources(struct loading *l, int64_t at, const struct wf_head_sources *from)
{
    const struct wf_layout *layout = l->state->items[at].tensor->layout;
    struct wf_head_row_map maps[2];
    int64_t listed[2];

    for (int i = 0; i < from->n; i++) {
        const struct wf_manifest_tensor *saved;

        listed[i] = wf_name_index_find(&l->tensors, from->names[i]);
        saved = &l->manifest.tensors[listed[i]];
        if (!wf_head_row_map_init(&maps[i], from, i, layout->desc.global, layout->desc.ndim,
                                  saved->shape, saved->ndim))
            return false;
    }
    for (int i = 0; i < from->n; i++) add_item_source(l, at, listed[i], &maps[i]);
    return true;
}

/* The tensor of this name when it has the shape, else what it can be made from. `near`: what was
 * there, but does not fit. */
static bool find_item_sources(struct loading *l, int64_t at, int64_t *near)
{
    const struct wf_state_item *item = &l->state->items[at];
    const struct wf_tensor_desc *desc = &item->tensor->layout->desc;
    const struct wf_head_row_map as_it_is = {0};
    struct wf_head_sources from = {0};
    bool made = false;

    *near = wf_name_index_find(&l->tensors, item->name);
    if (*near >= 0) {
        const struct wf_manifest_tensor *listed = &l->manifest.tensors[*near];

        made = listed->ndim == desc->ndim &&
               memcmp(listed->shape, desc->global, (size_t)desc->ndim * sizeof *desc->global) == 0;
        if (made) add_item_source(l, at, *near, &as_it_is);
    }
    while (!made && next_saved_sources(l, &from, item)) {
        made = add_head_sources(l, at, &from);
        if (*near < 0) *near = wf_name_index_find(&l->tensors, from.names[0]);
    }
    wf_head_sources_free(&from);
    return made;
}

static weft_status check_tensor_item(struct loading *l, int64_t at)
{
    const struct wf_state_item *item = &l->state->items[at];
    const struct wf_manifest_tensor *listed;
    char has[WF_SHAPE_TEXT], wants[WF_SHAPE_TEXT];
    int64_t before = l->n_sources, near;
    bool made;

    WF_TRY(wf_check_has_elements("load checkpoint", item->name, item->tensor));
    WF_NEED(!item->tensor->node, WEFT_ERR_STATE, "load checkpoint: '%s' is the result of %s",
            item->name, item->tensor->origin);
    made = find_item_sources(l, at, &near);
    listed = &l->manifest.tensors[near];
    WF_NEED(made, WEFT_ERR_SHAPE, "%s: '%s' is %s, not %s%s%s", l->path, listed->name,
            wf_shape_text(has, listed->shape, listed->ndim),
            wf_shape_text(wants, item->tensor->layout->desc.global, weft_ndim(item->tensor)),
            strcmp(listed->name, item->name) ? " nor convertible to " : "",
            strcmp(listed->name, item->name) ? item->name : "");
    for (int64_t i = before; i < l->n_sources; i++) {
        listed = &l->manifest.tensors[l->sources[i].listed];
        WF_NEED(wf_element_type_converts_to(listed->type, weft_tensor_dtype(item->tensor)),
                WEFT_ERR_DTYPE, "%s: '%s' is %s, which cannot be read as %s", l->path, listed->name,
                wf_element_type_info(listed->type)->name,
                weft_dtype_name(weft_tensor_dtype(item->tensor)));
    }
    return WEFT_OK;
}

static const char *saved_value_text(const struct loading *l, const char *name)
{
    int64_t at = wf_name_index_find(&l->values, name);

    return at >= 0 ? l->manifest.values[at].text : NULL;
}

/* The text of this name, or one that all of its sources have. */
static weft_status find_saved_value(const struct loading *l, const struct wf_state_item *item,
                                    const char **text)
{
    struct wf_head_sources from = {0};
    weft_status status = WEFT_OK;

    *text = saved_value_text(l, item->name);
    if (*text || !next_saved_sources(l, &from, item)) return WEFT_OK;
    *text = saved_value_text(l, from.names[0]);
    if (from.n > 1 && strcmp(*text, saved_value_text(l, from.names[1])) != 0)
        status = WF_FAIL(WEFT_ERR_STATE,
                         "%s: '%s' (%.40s) and '%s' (%.40s) differ; '%s' is one thing for both",
                         l->path, from.names[0], *text, from.names[1],
                         saved_value_text(l, from.names[1]), item->name);
    wf_head_sources_free(&from);
    return status;
}

static weft_status check_state_items(struct loading *l)
{
    const char *text;

    WF_TRY(check_missing_items(l));
    for (int64_t i = 0; i < l->state->count; i++) {
        const struct wf_state_item *item = &l->state->items[i];

        if (item->kind == WF_STATE_TENSOR) {
            WF_TRY(check_tensor_item(l, i));
            continue;
        }
        WF_TRY(find_saved_value(l, item, &text));
        WF_NEED(wf_state_value_parse(item, text, false), WEFT_ERR_DTYPE,
                "%s: '%s' is another kind of thing there: %.60s", l->path, item->name, text);
    }
    return WEFT_OK;
}

/* ---- the files ---- */

static weft_status open_checkpoint_file(struct loading *l, const struct wf_manifest_file *listed)
{
    char *path = wf_format("%s/%s", l->path, listed->name);
    struct wf_safetensors *file = &l->files[l->n_files];
    weft_status status = wf_safetensors_open(file, path);
    size_t header;

    wf_free(path);
    WF_TRY(status);
    l->n_files++;
    header = (size_t)(file->data - (const unsigned char *)file->map.bytes);
    WF_NEED((int64_t)file->map.size == listed->bytes &&
                wf_hash_bytes(file->map.bytes, header) == listed->hash,
            WEFT_ERR_IO, "%s: damaged: not the file that was saved", file->path);
    return WEFT_OK;
}

static weft_status open_checkpoint_files(struct loading *l)
{
    l->files = wf_calloc((size_t)l->manifest.n_files + 1, sizeof *l->files);
    for (int64_t i = 0; i < l->manifest.n_files; i++)
        WF_TRY(open_checkpoint_file(l, &l->manifest.files[i]));
    return WEFT_OK;
}

/* Which shard of a source an entry is. */
static weft_status add_found_slice(struct loading *l, const struct wf_safetensors *file,
                                   const struct wf_safetensors_entry *entry, int64_t source)
{
    const struct wf_manifest_tensor *listed = &l->manifest.tensors[l->sources[source].listed];
    const char *note = wf_safetensors_metadata(file, entry->name);
    struct found found = {
        .file = file, .entry = entry, .source = source, .item = l->sources[source].item};
    bool ok = note && entry->ndim == listed->ndim &&
              wf_file_slice_parse(&found.saved, &found.hash, note, entry->shape, listed->shape,
                                  entry->ndim);

    l->found = wf_array_grow(l->found, l->n_found, sizeof found);
    l->found[l->n_found++] = found;
    WF_NEED(ok, WEFT_ERR_IO, "%s: tensor '%s': its note does not say which shard it is", file->path,
            entry->name);
    return WEFT_OK;
}

static weft_status find_file_slices(struct loading *l)
{
    for (int f = 0; f < l->n_files; f++)
        for (int64_t i = 0; i < l->files[f].n_entries; i++) {
            const struct wf_safetensors_entry *entry = &l->files[f].entries[i];
            int64_t listed = wf_name_index_find(&l->tensors, entry->name);

            for (int64_t s = listed >= 0 ? l->last[listed] : -1; s >= 0; s = l->sources[s].next)
                WF_TRY(add_found_slice(l, &l->files[f], entry, s));
        }
    return WEFT_OK;
}

/* Each element is in exactly one shard, whatever wrote the files. */
static weft_status check_slices_complete(const struct loading *l)
{
    struct wf_coverage *coverage = wf_calloc((size_t)l->n_sources + 1, sizeof *coverage);
    const char *lacking = NULL;

    for (int64_t i = 0; i < l->n_found; i++)
        wf_coverage_add_slice(&coverage[l->found[i].source], &l->found[i].saved,
                              l->found[i].entry->ndim);
    for (int64_t i = 0; i < l->n_sources; i++) {
        const struct wf_manifest_tensor *listed = &l->manifest.tensors[l->sources[i].listed];

        if (!wf_coverage_is_complete(&coverage[i], listed->shape, listed->ndim))
            lacking = listed->name;
    }
    wf_free(coverage);
    WF_NEED(
        !lacking, WEFT_ERR_IO,
        "%s: the shards of '%s' do not make up the tensor: an element is missing, or there twice",
        l->path, lacking);
    return WEFT_OK;
}

static weft_status check_checksums(const struct loading *l)
{
    int64_t shards = 0;

    for (int64_t i = 0; i < l->n_found; i++) {
        const struct found *found = &l->found[i];
        uint64_t hash;

        if (l->sources[found->source].next >= 0) continue; /* the same bytes are found once more */
        if (shards++ % weft_world_size() != weft_world_rank()) continue;
        hash = wf_hash_bytes(found->file->data + found->entry->begin,
                             (size_t)(found->entry->end - found->entry->begin));
        WF_NEED(hash == found->hash, WEFT_ERR_IO,
                "%s: tensor '%s': damaged: its checksum is another", found->file->path,
                found->entry->name);
    }
    return WEFT_OK;
}

static weft_status read_and_check_checkpoint(struct loading *l)
{
    WF_NEED_GIVEN(l->state, "checkpoint: the list is NULL");
    WF_TRY(wf_manifest_read(&l->manifest, l->path));
    index_manifest_names(l);
    WF_TRY(check_state_items(l));
    WF_TRY(open_checkpoint_files(l));
    WF_TRY(find_file_slices(l));
    WF_TRY(check_slices_complete(l));
    return check_checksums(l);
}

/* ---- copying ---- */

static weft_status copy_found_slice(const struct loading *l, const struct found *found,
                                    weft_tensor *t)
{
    const struct source *source = &l->sources[found->source];
    const struct wf_safetensors_entry *entry = found->entry;
    struct wf_file_slice piece;
    struct wf_local_runs local;
    bool fits;

    wf_file_slice_of_runs(&piece, &found->saved, entry->type, entry->shape, entry->ndim);
    piece.data = found->file->data + entry->begin;
    wf_local_runs_of_tensor(&local, t);
    fits = wf_head_row_map_read(&source->map, t, &local, &piece, entry->ndim);
    wf_local_runs_free(&local);
    WF_NEED(fits, WEFT_ERR_DTYPE, "%s: '%s': a number does not fit %s", l->path, entry->name,
            weft_dtype_name(weft_tensor_dtype(t)));
    return WEFT_OK;
}

/* Those of one tensor together, in the order in which they were found. */
static int compare_by_item(const void *a, const void *b)
{
    const struct found *x = a, *y = b;

    if (x->item != y->item) return x->item < y->item ? -1 : 1;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    if (x->entry != y->entry) return x->entry < y->entry ? -1 : 1;
    return (x->source < y->source) - (x->source > y->source);
}

/* The slices of one tensor, from `*at` on, on the host, wherever the tensor is. */
static weft_status copy_slices_of_item(const struct loading *l, int64_t *at)
{
    int64_t item = l->found[*at].item;
    weft_tensor *t = l->state->items[item].tensor, *host;
    weft_scope *scope = weft_scope_open();
    weft_status status;

    host = wf_tensor_on_host(t, "weft_checkpoint_load");
    status = host ? WEFT_OK : weft_error_status();
    for (; *at < l->n_found && l->found[*at].item == item && status == WEFT_OK; ++*at)
        status = copy_found_slice(l, &l->found[*at], host);
    if (status == WEFT_OK) status = wf_tensor_write_back_from_host(t, host);
    weft_scope_close(scope);
    return status;
}

static weft_status copy_all_items(const struct loading *l)
{
    int64_t at = 0;
    const char *text;

    for (int64_t i = 0; i < l->state->count; i++)
        if (l->state->items[i].kind == WF_STATE_TENSOR)
            wf_tensor_before_write(l->state->items[i].tensor, "weft_checkpoint_load");
    if (l->n_found) qsort(l->found, (size_t)l->n_found, sizeof *l->found, compare_by_item);
    while (at < l->n_found) WF_TRY(copy_slices_of_item(l, &at));
    for (int64_t i = 0; i < l->state->count; i++) {
        const struct wf_state_item *item = &l->state->items[i];

        if (item->kind == WF_STATE_TENSOR) continue;
        WF_TRY(find_saved_value(l, item, &text));
        WF_NEED(wf_state_value_parse(item, text, true), WEFT_ERR_STATE, "%s: '%s' cannot be set",
                l->path, item->name);
    }
    return WEFT_OK;
}

static void free_loading(struct loading *l)
{
    for (int64_t i = 0; i < l->n_found; i++) wf_local_runs_free(&l->found[i].saved);
    for (int i = 0; i < l->n_files; i++) wf_safetensors_close(&l->files[i]);
    wf_name_index_free(&l->tensors);
    wf_name_index_free(&l->values);
    wf_free(l->found);
    wf_free(l->sources);
    wf_free(l->last);
    wf_free(l->files);
    wf_manifest_free(&l->manifest);
}

weft_status weft_checkpoint_load(const char *path, weft_state *state)
{
    struct loading l = {.path = path, .state = state};
    weft_status status;

    WF_TRY(wf_checkpoint_check_path(path));
    status = wf_agree_status(read_and_check_checkpoint(&l));
    if (status == WEFT_OK) status = wf_agree_status(copy_all_items(&l));
    free_loading(&l);
    return status;
}
