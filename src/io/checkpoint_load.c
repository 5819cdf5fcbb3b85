/*
 * checkpoint_load.c: every rank reads the list and the headers of all files, looks for the parts
 * that it needs, and copies what they share with what it holds.
 *
 * Checksums are shared out: each part of what is loaded is read whole by one rank, whoever needs
 * it.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/mem.h"
#include "io/agree.h"
#include "io/checkpoint.h"
#include "io/coverage.h"
#include "io/element.h"
#include "io/manifest.h"
#include "io/name_index.h"
#include "io/part_text.h"
#include "io/safetensors.h"
#include "io/state.h"
#include "io/weights.h"
#include "tensor/tensor.h"

/* A part of an item's tensor in a file. */
struct found {
    const struct wf_safetensors *file;
    const struct wf_entry *entry;
    struct wf_held held;
    uint64_t hash;
    int64_t item;
};

struct loading {
    const char *path;
    weft_state *state;
    struct wf_manifest manifest;
    struct wf_name_index items, tensors, values; /* of the state, and of the manifest's lists */
    struct wf_safetensors *files;
    int n_files;
    struct found *found; /* by item */
    int64_t n_found;
};

/* ---- the list: everything that is asked for is there, in the same shape ---- */

static void index_names(struct loading *l)
{
    for (int64_t i = 0; i < l->state->count; i++)
        wf_name_index_add(&l->items, l->state->items[i].name, i);
    for (int64_t i = 0; i < l->manifest.n_tensors; i++)
        wf_name_index_add(&l->tensors, l->manifest.tensors[i].name, i);
    for (int64_t i = 0; i < l->manifest.n_values; i++)
        wf_name_index_add(&l->values, l->manifest.values[i].name, i);
    wf_name_index_sort(&l->items);
    wf_name_index_sort(&l->tensors);
    wf_name_index_sort(&l->values);
}

static const struct wf_manifest_tensor *listed_tensor(const struct loading *l, const char *name)
{
    int64_t at = wf_name_index_find(&l->tensors, name);

    return at >= 0 ? &l->manifest.tensors[at] : NULL;
}

static const char *listed_value(const struct loading *l, const char *name)
{
    int64_t at = wf_name_index_find(&l->values, name);

    return at >= 0 ? l->manifest.values[at].text : NULL;
}

static weft_status check_missing(const struct loading *l)
{
    char text[400] = "";
    int64_t missing = 0;

    for (int64_t i = 0; i < l->state->count; i++) {
        const struct wf_item *item = &l->state->items[i];
        bool there = item->thing == WF_THING_TENSOR ? listed_tensor(l, item->name) != NULL
                                                    : listed_value(l, item->name) != NULL;
        size_t used = strlen(text);

        if (there) continue;
        if (missing++ < 8)
            snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "", item->name);
    }
    WF_NEED(!missing, WEFT_ERR_NOT_FOUND, "%s: the checkpoint lacks %lld things: %s%s", l->path,
            (long long)missing, text, missing > 8 ? ", ..." : "");
    return WEFT_OK;
}

static weft_status check_tensor(const struct loading *l, const struct wf_item *item)
{
    const struct wf_manifest_tensor *listed = listed_tensor(l, item->name);
    const int64_t *shape = item->tensor->layout->desc.global;
    char has[WF_SHAPE_TEXT], wants[WF_SHAPE_TEXT];
    int ndim = weft_ndim(item->tensor);

    WF_TRY(wf_need_elements("load checkpoint", item->name, item->tensor));
    WF_NEED(!item->tensor->node, WEFT_ERR_STATE, "load checkpoint: '%s' is the result of %s",
            item->name, item->tensor->origin);
    WF_NEED(listed->ndim == ndim && memcmp(listed->shape, shape, (size_t)ndim * sizeof *shape) == 0,
            WEFT_ERR_SHAPE, "%s: '%s' is %s, not %s", l->path, item->name,
            wf_shape_text(has, listed->ndim, listed->shape), wf_shape_text(wants, ndim, shape));
    WF_NEED(wf_element_converts(listed->type, weft_tensor_dtype(item->tensor)), WEFT_ERR_DTYPE,
            "%s: '%s' is %s, which cannot be read as %s", l->path, item->name,
            wf_element_type(listed->type)->name, weft_dtype_name(weft_tensor_dtype(item->tensor)));
    return WEFT_OK;
}

static weft_status check_things(const struct loading *l)
{
    WF_TRY(check_missing(l));
    for (int64_t i = 0; i < l->state->count; i++) {
        const struct wf_item *item = &l->state->items[i];

        if (item->thing == WF_THING_TENSOR)
            WF_TRY(check_tensor(l, item));
        else
            WF_NEED(wf_value_read(item, listed_value(l, item->name), false), WEFT_ERR_DTYPE,
                    "%s: '%s' is another kind of thing there: %.60s", l->path, item->name,
                    listed_value(l, item->name));
    }
    return WEFT_OK;
}

/* ---- the files ---- */

static weft_status open_file(struct loading *l, const struct wf_manifest_file *listed)
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

static weft_status open_files(struct loading *l)
{
    l->files = wf_calloc((size_t)l->manifest.n_files + 1, sizeof *l->files);
    for (int64_t i = 0; i < l->manifest.n_files; i++) WF_TRY(open_file(l, &l->manifest.files[i]));
    return WEFT_OK;
}

/* The part that an entry is, when it is one of something that is asked for. */
static weft_status add_found(struct loading *l, const struct wf_safetensors *file,
                             const struct wf_entry *entry)
{
    const char *note = wf_safetensors_note(file, entry->name);
    struct found found = {.file = file, .entry = entry};
    const struct wf_layout *layout;
    bool ok;

    found.item = wf_name_index_find(&l->items, entry->name);
    if (found.item < 0 || l->state->items[found.item].thing != WF_THING_TENSOR) return WEFT_OK;
    layout = l->state->items[found.item].tensor->layout;
    ok = note && entry->ndim == layout->desc.ndim &&
         wf_part_parse(&found.held, &found.hash, note, entry->ndim, entry->shape,
                       layout->desc.global);
    l->found = wf_grown(l->found, l->n_found, sizeof found);
    l->found[l->n_found++] = found;
    WF_NEED(ok, WEFT_ERR_IO, "%s: tensor '%s': its note does not say which part it is", file->path,
            entry->name);
    return WEFT_OK;
}

static weft_status find_parts(struct loading *l)
{
    for (int f = 0; f < l->n_files; f++)
        for (int64_t i = 0; i < l->files[f].n_entries; i++)
            WF_TRY(add_found(l, &l->files[f], &l->files[f].entries[i]));
    return WEFT_OK;
}

/* Each element is in one part, whoever wrote the files. */
static weft_status check_complete(const struct loading *l)
{
    struct wf_coverage *parts = wf_calloc((size_t)l->state->count + 1, sizeof *parts);
    int64_t lacking = -1;

    for (int64_t i = 0; i < l->n_found; i++)
        wf_coverage_add(&parts[l->found[i].item], &l->found[i].held, l->found[i].entry->ndim);
    for (int64_t i = 0; i < l->state->count; i++) {
        const struct wf_item *item = &l->state->items[i];

        if (item->thing == WF_THING_TENSOR && !wf_coverage_whole(&parts[i], weft_ndim(item->tensor),
                                                                 item->tensor->layout->desc.global))
            lacking = i;
    }
    wf_free(parts);
    WF_NEED(lacking < 0, WEFT_ERR_IO,
            "%s: the parts of '%s' do not make up the whole: an element is missing, or there twice",
            l->path, l->state->items[lacking].name);
    return WEFT_OK;
}

static weft_status check_sums(const struct loading *l)
{
    for (int64_t i = weft_world_rank(); i < l->n_found; i += weft_world_size()) {
        const struct found *found = &l->found[i];
        uint64_t hash = wf_hash_bytes(found->file->data + found->entry->begin,
                                      (size_t)(found->entry->end - found->entry->begin));

        WF_NEED(hash == found->hash, WEFT_ERR_IO,
                "%s: tensor '%s': damaged: its checksum is another", found->file->path,
                found->entry->name);
    }
    return WEFT_OK;
}

static weft_status look(struct loading *l)
{
    WF_NEED_GIVEN(l->state, "checkpoint: the list is NULL");
    WF_TRY(wf_manifest_read(&l->manifest, l->path));
    index_names(l);
    WF_TRY(check_things(l));
    WF_TRY(open_files(l));
    WF_TRY(find_parts(l));
    WF_TRY(check_complete(l));
    return check_sums(l);
}

/* ---- copying ---- */

static weft_status copy_part(const struct loading *l, const struct found *found)
{
    weft_tensor *t = l->state->items[found->item].tensor;
    const struct wf_entry *entry = found->entry;
    struct wf_piece piece;
    struct wf_held held;
    bool fits;

    wf_piece_of_part(&piece, &found->held, entry->type, entry->ndim, entry->shape);
    piece.data = found->file->data + entry->begin;
    wf_held_by(&held, t);
    fits = wf_piece_read(t, &held, &piece);
    wf_held_free(&held);
    WF_NEED(fits, WEFT_ERR_DTYPE, "%s: '%s': a number does not fit %s", l->path, entry->name,
            weft_dtype_name(weft_tensor_dtype(t)));
    return WEFT_OK;
}

static weft_status copy_all(const struct loading *l)
{
    for (int64_t i = 0; i < l->state->count; i++)
        if (l->state->items[i].thing == WF_THING_TENSOR)
            wf_tensor_begin_write(l->state->items[i].tensor, "weft_checkpoint_load");
    for (int64_t i = 0; i < l->n_found; i++) WF_TRY(copy_part(l, &l->found[i]));
    for (int64_t i = 0; i < l->state->count; i++) {
        const struct wf_item *item = &l->state->items[i];

        if (item->thing == WF_THING_TENSOR) continue;
        WF_NEED(wf_value_read(item, listed_value(l, item->name), true), WEFT_ERR_STATE,
                "%s: '%s' cannot be set", l->path, item->name);
    }
    return WEFT_OK;
}

static void loading_free(struct loading *l)
{
    for (int64_t i = 0; i < l->n_found; i++) wf_held_free(&l->found[i].held);
    for (int i = 0; i < l->n_files; i++) wf_safetensors_close(&l->files[i]);
    wf_name_index_free(&l->items);
    wf_name_index_free(&l->tensors);
    wf_name_index_free(&l->values);
    wf_free(l->found);
    wf_free(l->files);
    wf_manifest_free(&l->manifest);
}

weft_status weft_checkpoint_load(const char *path, weft_state *state)
{
    struct loading l = {.path = path, .state = state};
    weft_status status;

    WF_TRY(wf_checkpoint_path(path));
    status = wf_agree(look(&l));
    if (status == WEFT_OK) status = wf_agree(copy_all(&l));
    loading_free(&l);
    return status;
}
