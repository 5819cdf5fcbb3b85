/*
 * file_write.h: safetensors files as they are written: a list of entries, the header that it makes,
 * and bytes put in their places under a temporary name until the file is complete.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/error.h>
#include <weft/tensor.h>

struct wf_safetensors_out_entry {
    const char *name; /* borrowed */
    int type;         /* wf_element_type_info */
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
    int64_t begin,
        bytes; /* of its data, from data's first; filled in by wf_safetensors_out_make_header */
    int index; /* the writer's own */
};

struct wf_safetensors_out_metadata {
    const char *key, *value; /* borrowed */
};

struct wf_safetensors_out {
    struct wf_safetensors_out_entry *entries;
    int64_t n_entries;
    struct wf_safetensors_out_metadata *notes;
    int64_t n_notes;
    char *header; /* the length and the JSON, padded to 8 bytes */
    size_t header_bytes, data_bytes;
};

void wf_safetensors_out_add_entry(struct wf_safetensors_out *out,
                                  const struct wf_safetensors_out_entry *entry);
void wf_safetensors_out_metadata(struct wf_safetensors_out *out, const char *key,
                                 const char *value);

/** Order the entries (largest alignment first, then by name), place them, write the header. */
void wf_safetensors_out_make_header(struct wf_safetensors_out *out);
void wf_safetensors_out_free(struct wf_safetensors_out *out);

/* ---- files. All of these fail with WEFT_ERR_IO naming the path; on this rank alone ---- */

/** A name beside `path` for a file that is not complete: nobody can guess it without the
 * number (wf_system_random). wf_malloc'ed */
char *wf_file_temporary_name(const char *path, uint64_t number);
/** Remove what interrupted writes left beside `written`, which has just been written: files with
 * such a name that this user has and nobody has written to for an hour before. By the times of the
 * file system, which are of one clock. What cannot be removed does no harm. */
void wf_file_clean_temporaries(const char *written);

/** Make a file of this size, which must not be there / open it to write. Neither follows a link. */
weft_status wf_file_create(int *fd, const char *path, size_t bytes);
weft_status wf_file_open_to_write(int *fd, const char *path);
weft_status wf_file_write_at(int fd, const char *path, const void *bytes, size_t count,
                             size_t offset);
/** To the disk, and close; closes in any case. */
weft_status wf_file_sync_and_close(int fd, const char *path);
/** Rename over `to`, where there is nothing or a file (a link is replaced, not followed), and bring
 * the folder's new list of names to the disk as far as it lets that be done. */
weft_status wf_file_rename(const char *from, const char *to);
/** Fails where wf_file_rename over `to` would, for what is there. */
weft_status wf_file_check_replaceable(const char *to);
/** Remove a file, or a link, if there is one. */
weft_status wf_file_remove(const char *path);

/** A whole file of these bytes, to the disk: one that must not be there / one by that name, which
 * keeps what it had until then. */
weft_status wf_file_create_with_bytes(const char *path, const void *bytes, size_t count);
weft_status wf_file_write_atomically(const char *path, const void *bytes, size_t count);
