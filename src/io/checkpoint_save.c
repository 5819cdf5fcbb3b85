/*
 * checkpoint_save.c: each rank writes a file of its parts, then rank 0 the list of files.
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
#include "io/agree.h"
#include "io/checkpoint.h"
#include "io/element.h"
#include "io/file_map.h"
#include "io/file_write.h"
#include "io/manifest.h"
#include "io/owners.h"
#include "io/part_text.h"
#include "io/state.h"
#include "io/weights.h"
#include "io/writing.h"
#include "tensor/tensor.h"

weft_status wf_checkpoint_path(const char *path)
{
    const char *scheme = path ? strstr(path, "://") : NULL;

    WF_NEED(path && path[0], WEFT_ERR_ARG, "checkpoint: no path");
    WF_NEED(!scheme, WEFT_ERR_ARG,
            "checkpoint: Cannot detect a storage for '%s': a path of this file system is needed",
            path);
    return WEFT_OK;
}

static weft_status check(const weft_state *state)
{
    WF_NEED_GIVEN(state, "checkpoint: the list is NULL");
    for (int64_t i = 0; i < state->count; i++)
        if (state->items[i].thing == WF_THING_TENSOR)
            WF_TRY(wf_need_elements("checkpoint", state->items[i].name, state->items[i].tensor));
    return WEFT_OK;
}

static uint64_t fingerprint(const weft_state *state)
{
    uint64_t hash = (uint64_t)state->count;
    char text[512];

    for (int64_t i = 0; i < state->count; i++) {
        const struct wf_item *item = &state->items[i];

        hash = wf_mix(hash, wf_hash_bytes(item->name, strlen(item->name)));
        hash = wf_mix(hash, (uint64_t)item->thing);
        if (item->thing != WF_THING_TENSOR) continue;
        weft_tensor_describe(item->tensor, text, sizeof text);
        hash = wf_mix(hash, wf_hash_bytes(text, strlen(text)));
    }
    return hash;
}

/* ---- a rank's file ---- */

/* What this rank writes: entry i is of item entries[i].index, whose runs are held[index]. */
struct share {
    struct wf_out out;
    struct wf_held *held; /* per item */
    char **notes;         /* per entry, in the order of the file's */
    char *path, *part;    /* the file, and its name until it is complete */
    bool written;
};

static void choose(struct share *share, const weft_state *state, struct wf_owners *owners)
{
    share->held = wf_calloc((size_t)state->count + 1, sizeof *share->held);
    for (int64_t i = 0; i < state->count; i++) {
        const struct wf_item *item = &state->items[i];
        struct wf_out_entry entry = {.name = item->name, .index = (int)i};
        bool mine;

        if (item->thing != WF_THING_TENSOR) continue;
        mine = wf_owners_take(owners, item->tensor);
        if (!mine || weft_local_numel(item->tensor) == 0) continue;
        wf_held_by(&share->held[i], item->tensor);
        entry.type = wf_element_type_of(weft_tensor_dtype(item->tensor));
        entry.ndim = weft_ndim(item->tensor);
        for (int d = 0; d < entry.ndim; d++) entry.shape[d] = weft_local_size(item->tensor, d);
        wf_out_add(&share->out, &entry);
    }
}

/* The header with the checksums of `data` (NULL: none yet, 0). */
static void make_header(struct share *share, const char *data)
{
    struct wf_out *out = &share->out;

    if (!share->notes) wf_out_plan(out); /* orders the entries */
    if (!share->notes) share->notes = wf_calloc((size_t)out->n_entries + 1, sizeof *share->notes);
    out->n_notes = 0;
    for (int64_t i = 0; i < out->n_entries; i++) {
        const struct wf_out_entry *entry = &out->entries[i];
        uint64_t hash = data ? wf_hash_bytes(data + entry->begin, (size_t)entry->bytes) : 0;

        wf_free(share->notes[i]);
        share->notes[i] = wf_part_text(&share->held[entry->index], entry->ndim, hash);
        wf_out_note(out, entry->name, share->notes[i]);
    }
    wf_free(out->header);
    wf_out_plan(out);
}

static void share_free(struct share *share, const weft_state *state)
{
    for (int64_t i = 0; share->notes && i < share->out.n_entries; i++) wf_free(share->notes[i]);
    for (int64_t i = 0; share->held && i < state->count; i++) wf_held_free(&share->held[i]);
    wf_free(share->notes);
    wf_free(share->held);
    wf_free(share->path);
    wf_free(share->part);
    wf_out_free(&share->out);
}

static weft_status write_data(const struct share *share, const weft_state *state, int fd)
{
    struct wf_writing w;
    weft_status status = WEFT_OK;

    wf_writing_begin(&w, fd, share->part);
    for (int64_t i = 0; i < share->out.n_entries && status == WEFT_OK; i++) {
        const struct wf_out_entry *entry = &share->out.entries[i];
        const struct wf_held *held = &share->held[entry->index];
        struct wf_piece piece;

        wf_piece_of_part(&piece, held, entry->type, entry->ndim, entry->shape);
        status = wf_writing_piece(&w, share->out.header_bytes + (size_t)entry->begin,
                                  state->items[entry->index].tensor, held, &piece);
    }
    wf_writing_end(&w);
    return status;
}

/* Checksums are those of what stands in the file. */
static weft_status write_header(struct share *share, int fd)
{
    struct wf_file_map map;

    WF_TRY(wf_file_map(&map, share->part));
    make_header(share, (const char *)map.bytes + share->out.header_bytes);
    wf_file_unmap(&map);
    return wf_file_put(fd, share->part, share->out.header, share->out.header_bytes, 0);
}

/* Complete under a name that nobody can know, then under its own. */
static weft_status write_file(struct share *share, const weft_state *state)
{
    weft_status status, finished;
    int fd;

    if (share->out.n_entries == 0) return WEFT_OK;
    make_header(share, NULL);
    WF_TRY(wf_file_create(&fd, share->part, share->out.header_bytes + share->out.data_bytes));
    status = write_data(share, state, fd);
    if (status == WEFT_OK) status = write_header(share, fd);
    finished = wf_file_finish(fd, share->part);
    if (status == WEFT_OK) status = finished;
    if (status == WEFT_OK) status = wf_file_rename(share->part, share->path);
    if (status != WEFT_OK) unlink(share->part);
    share->written = status == WEFT_OK;
    return status;
}

static weft_status write_share(struct share *share, const weft_state *state)
{
    struct wf_owners owners;

    wf_owners_begin(&owners, weft_world_size(), weft_world_rank());
    choose(share, state, &owners);
    wf_owners_end(&owners);
    return write_file(share, state);
}

/* ---- the list of files ---- */

struct written {
    int64_t bytes; /* 0: no file */
    uint64_t hash;
};

static void list_things(struct wf_manifest *m, const weft_state *state)
{
    for (int64_t i = 0; i < state->count; i++) {
        const struct wf_item *item = &state->items[i];

        if (item->thing == WF_THING_TENSOR)
            wf_manifest_add_tensor(m, wf_strdup(item->name),
                                   wf_element_type_of(weft_tensor_dtype(item->tensor)),
                                   weft_ndim(item->tensor), item->tensor->layout->desc.global);
        else
            wf_manifest_add_value(m, wf_strdup(item->name), wf_value_text(item));
    }
}

static weft_status commit(const char *path, const weft_state *state, int64_t generation,
                          const struct written *files)
{
    struct wf_manifest m = {.generation = generation};
    weft_status status;

    for (int r = 0; r < weft_world_size(); r++)
        if (files[r].bytes)
            wf_manifest_add_file(&m, wf_checkpoint_piece(generation, r), files[r].bytes,
                                 files[r].hash);
    list_things(&m, state);
    status = wf_manifest_write(&m, path);
    if (status == WEFT_OK) wf_checkpoint_clean(path, generation);
    wf_manifest_free(&m);
    return status;
}

static weft_status save(const char *path, const weft_state *state, int64_t generation)
{
    struct share share = {0};
    struct written mine = {0}, *files;
    char *name = wf_checkpoint_piece(generation, weft_world_rank());
    weft_status status;

    share.path = wf_format("%s/%s", path, name);
    share.part = wf_file_part(share.path, wf_sys_random());
    wf_free(name);
    status = wf_agree(write_share(&share, state));
    if (share.out.n_entries) {
        mine.bytes = (int64_t)(share.out.header_bytes + share.out.data_bytes);
        mine.hash = wf_hash_bytes(share.out.header, share.out.header_bytes);
    }
    if (status == WEFT_OK) {
        files = wf_calloc((size_t)weft_world_size(), sizeof *files);
        wf_comm_share(wf_comm_world(), &mine, files, sizeof mine);
        status = weft_world_rank() == 0 ? commit(path, state, generation, files) : WEFT_OK;
        status = wf_agree(status);
        wf_free(files);
    }
    if (status != WEFT_OK && share.written) unlink(share.path);
    share_free(&share, state);
    return status;
}

weft_status weft_checkpoint_save(const char *path, const weft_state *state)
{
    uint64_t generation = 0;
    weft_status status;

    WF_TRY(wf_checkpoint_path(path));
    WF_TRY(wf_agree(check(state)));
    WF_TRY(wf_agree_same("checkpoint: the list of things", fingerprint(state)));
    status = weft_world_rank() == 0 ? wf_checkpoint_prepare(path, &generation) : WEFT_OK;
    WF_TRY(wf_agree(status));
    return save(path, state, (int64_t)wf_agree_first(generation));
}
