/*
 * checkpoint_save.c: each rank writes a file of its shards, then rank 0 the manifest.
 *
 * Files carry the number of the save in their names, so that those of the checkpoint before stay
 * whole until checkpoint.json is renamed over; then they are removed (checkpoint_folder.c).
 */
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/sys.h"
#include "comm/comm.h"
#include "io/agree_on_status.h"
#include "io/checkpoint/checkpoint.h"
#include "io/checkpoint/manifest.h"
#include "io/checkpoint/shard_text.h"
#include "io/checkpoint/state.h"
#include "io/element_type.h"
#include "io/file_map.h"
#include "io/file_write.h"
#include "io/shard_owners.h"
#include "io/slice_writer.h"
#include "io/weights/weights.h"
#include "tensor/tensor.h"

weft_status wf_checkpoint_check_path(const char *path)
{
    const char *scheme = path ? strstr(path, "://") : NULL;

    WF_NEED(path && path[0], WEFT_ERR_ARG, "checkpoint: no path");
    WF_NEED(!scheme, WEFT_ERR_ARG,
            "checkpoint: Cannot detect a storage for '%s': a path of this file system is needed",
            path);
    return WEFT_OK;
}

static weft_status check_state_tensors(const weft_state *state)
{
    WF_NEED_GIVEN(state, "checkpoint: the list is NULL");
    for (int64_t i = 0; i < state->count; i++)
        if (state->items[i].kind == WF_STATE_TENSOR)
            WF_TRY(
                wf_check_has_elements("checkpoint", state->items[i].name, state->items[i].tensor));
    return WEFT_OK;
}

static uint64_t hash_state_description(const weft_state *state)
{
    uint64_t hash = (uint64_t)state->count;
    char text[512];

    for (int64_t i = 0; i < state->count; i++) {
        const struct wf_state_item *item = &state->items[i];

        hash = wf_hash_mix(hash, wf_hash_bytes(item->name, strlen(item->name)));
        hash = wf_hash_mix(hash, (uint64_t)item->kind);
        if (item->kind != WF_STATE_TENSOR) continue;
        weft_tensor_format(item->tensor, text, sizeof text);
        hash = wf_hash_mix(hash, wf_hash_bytes(text, strlen(text)));
    }
    return hash;
}

/* ---- a rank's file ---- */

/* What this rank writes: entry i is of item entries[i].index, whose runs are local[index]. */
struct own_file {
    struct wf_safetensors_out out;
    struct wf_local_runs *local; /* per item */
    char **notes;                /* per entry, in the order of the file's */
    char *path, *temporary;      /* the file, and its name until it is complete */
    bool written;
};

static void choose_own_entries(struct own_file *own_file, const weft_state *state,
                               struct wf_owners *owners)
{
    own_file->local = wf_calloc((size_t)state->count + 1, sizeof *own_file->local);
    for (int64_t i = 0; i < state->count; i++) {
        const struct wf_state_item *item = &state->items[i];
        struct wf_safetensors_out_entry entry = {.name = item->name, .index = (int)i};
        bool mine;

        if (item->kind != WF_STATE_TENSOR) continue;
        mine = wf_owners_assign_tensor(owners, item->tensor);
        if (!mine || weft_local_numel(item->tensor) == 0) continue;
        wf_local_runs_of_tensor(&own_file->local[i], item->tensor);
        entry.type = wf_element_type_of_dtype(weft_tensor_dtype(item->tensor));
        entry.ndim = weft_ndim(item->tensor);
        for (int d = 0; d < entry.ndim; d++) entry.shape[d] = weft_local_size(item->tensor, d);
        wf_safetensors_out_add_entry(&own_file->out, &entry);
    }
}

/* The header with the checksums of `data` (NULL: none yet, 0). */
static void make_file_header(struct own_file *own_file, const char *data)
{
    struct wf_safetensors_out *out = &own_file->out;

    if (!own_file->notes) wf_safetensors_out_make_header(out); /* orders the entries */
    if (!own_file->notes)
        own_file->notes = wf_calloc((size_t)out->n_entries + 1, sizeof *own_file->notes);
    out->n_notes = 0;
    for (int64_t i = 0; i < out->n_entries; i++) {
        const struct wf_safetensors_out_entry *entry = &out->entries[i];
        uint64_t hash = data ? wf_hash_bytes(data + entry->begin, (size_t)entry->bytes) : 0;

        wf_free(own_file->notes[i]);
        own_file->notes[i] = wf_file_slice_text(&own_file->local[entry->index], entry->ndim, hash);
        wf_safetensors_out_metadata(out, entry->name, own_file->notes[i]);
    }
    wf_free(out->header);
    wf_safetensors_out_make_header(out);
}

static void free_own_file(struct own_file *own_file, const weft_state *state)
{
    for (int64_t i = 0; own_file->notes && i < own_file->out.n_entries; i++)
        wf_free(own_file->notes[i]);
    for (int64_t i = 0; own_file->local && i < state->count; i++)
        wf_local_runs_free(&own_file->local[i]);
    wf_free(own_file->notes);
    wf_free(own_file->local);
    wf_free(own_file->path);
    wf_free(own_file->temporary);
    wf_safetensors_out_free(&own_file->out);
}

static weft_status write_file_data(const struct own_file *own_file, const weft_state *state, int fd)
{
    struct wf_slice_writer w;
    weft_status status = WEFT_OK;

    wf_slice_writer_open(&w, fd, own_file->temporary);
    for (int64_t i = 0; i < own_file->out.n_entries && status == WEFT_OK; i++) {
        const struct wf_safetensors_out_entry *entry = &own_file->out.entries[i];
        const struct wf_local_runs *local = &own_file->local[entry->index];
        struct wf_file_slice piece;

        wf_file_slice_of_runs(&piece, local, entry->type, entry->shape, entry->ndim);
        status = wf_slice_writer_write(&w, own_file->out.header_bytes + (size_t)entry->begin,
                                       state->items[entry->index].tensor, local, &piece);
    }
    wf_slice_writer_close(&w);
    return status;
}

/* Checksums are those of what stands in the file. */
static weft_status write_file_header(struct own_file *own_file, int fd)
{
    struct wf_file_map map;

    WF_TRY(wf_file_map(&map, own_file->temporary));
    make_file_header(own_file, (const char *)map.bytes + own_file->out.header_bytes);
    wf_file_unmap(&map);
    return wf_file_write_at(fd, own_file->temporary, own_file->out.header,
                            own_file->out.header_bytes, 0);
}

/* Complete under a name that nobody can know, then under its own. */
static weft_status write_own_file(struct own_file *own_file, const weft_state *state)
{
    weft_status status, finished;
    int fd;

    if (own_file->out.n_entries == 0) return WEFT_OK;
    make_file_header(own_file, NULL);
    WF_TRY(wf_file_create(&fd, own_file->temporary,
                          own_file->out.header_bytes + own_file->out.data_bytes));
    status = write_file_data(own_file, state, fd);
    if (status == WEFT_OK) status = write_file_header(own_file, fd);
    finished = wf_file_sync_and_close(fd, own_file->temporary);
    if (status == WEFT_OK) status = finished;
    if (status == WEFT_OK) status = wf_file_rename(own_file->temporary, own_file->path);
    if (status != WEFT_OK) unlink(own_file->temporary);
    own_file->written = status == WEFT_OK;
    return status;
}

static weft_status choose_and_write_own_file(struct own_file *own_file, const weft_state *state)
{
    struct wf_owners owners;

    wf_owners_init(&owners, weft_world_size(), weft_world_rank());
    choose_own_entries(own_file, state, &owners);
    wf_owners_free(&owners);
    return write_own_file(own_file, state);
}

/* ---- the list of files ---- */

struct written {
    int64_t bytes; /* 0: no file */
    uint64_t hash;
};

static weft_status write_manifest_and_clean(const char *path, const weft_state *state,
                                            int64_t generation, const struct written *files)
{
    struct wf_manifest m = {.generation = generation};
    weft_status status;

    for (int r = 0; r < weft_world_size(); r++)
        if (files[r].bytes)
            wf_manifest_add_file(&m, wf_checkpoint_file_name(generation, r), files[r].bytes,
                                 files[r].hash);
    for (int64_t i = 0; i < state->count; i++) {
        const struct wf_state_item *item = &state->items[i];

        if (item->kind == WF_STATE_TENSOR)
            wf_manifest_add_tensor(&m, wf_strdup(item->name),
                                   wf_element_type_of_dtype(weft_tensor_dtype(item->tensor)),
                                   item->tensor->layout->desc.global, weft_ndim(item->tensor));
        else
            wf_manifest_add_value(&m, wf_strdup(item->name), wf_state_value_text(item));
    }
    status = wf_manifest_write(&m, path);
    if (status == WEFT_OK) wf_checkpoint_remove_old_files(path, generation);
    wf_manifest_free(&m);
    return status;
}

static weft_status save_checkpoint(const char *path, const weft_state *state, int64_t generation)
{
    struct own_file own_file = {0};
    struct written mine = {0}, *files;
    char *name = wf_checkpoint_file_name(generation, weft_world_rank());
    weft_status status;

    own_file.path = wf_format("%s/%s", path, name);
    own_file.temporary = wf_file_temporary_name(own_file.path, wf_system_random());
    wf_free(name);
    status = wf_agree_status(choose_and_write_own_file(&own_file, state));
    if (own_file.out.n_entries) {
        mine.bytes = (int64_t)(own_file.out.header_bytes + own_file.out.data_bytes);
        mine.hash = wf_hash_bytes(own_file.out.header, own_file.out.header_bytes);
    }
    if (status == WEFT_OK) {
        files = wf_calloc((size_t)weft_world_size(), sizeof *files);
        wf_comm_allgather_bytes(wf_comm_world(), &mine, files, sizeof mine);
        status = weft_world_rank() == 0 ? write_manifest_and_clean(path, state, generation, files)
                                        : WEFT_OK;
        status = wf_agree_status(status);
        wf_free(files);
    }
    if (status != WEFT_OK && own_file.written) unlink(own_file.path);
    free_own_file(&own_file, state);
    return status;
}

weft_status weft_checkpoint_save(const char *path, const weft_state *state)
{
    uint64_t generation = 0;
    weft_status status;

    WF_TRY(wf_checkpoint_check_path(path));
    WF_TRY(wf_agree_status(check_state_tensors(state)));
    WF_TRY(wf_agree_same_number("checkpoint: the list of things", hash_state_description(state)));
    status = weft_world_rank() == 0 ? wf_checkpoint_prepare_folder(path, &generation) : WEFT_OK;
    WF_TRY(wf_agree_status(status));
    return save_checkpoint(path, state, (int64_t)wf_agree_rank0_number(generation));
}
