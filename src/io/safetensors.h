/*
 * safetensors.h: the header of a safetensors file, checked to the last byte (format: 8 bytes of
 * length, JSON, data). What the elements mean is element_type.h's, which of them are read
 * file_slices.h's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/error.h>

#include "io/file_map.h"
#include "io/name_index.h"

enum { WF_SAFETENSORS_HEADER = 100000000 }; /* longest header, as everybody's reader has it */

struct wf_safetensors_entry {
    const char *name;
    int type; /* wf_element_type_info */
    int ndim;
    int64_t *shape;
    int64_t numel;
    uint64_t begin, end; /* of its data, bytes from data's first */
};

struct wf_safetensors_pair {
    const char *key, *value;
};

struct wf_safetensors {
    char *path;
    struct wf_file_map map;
    const unsigned char *data;
    struct wf_safetensors_entry *entries; /* by begin, then name */
    int64_t n_entries;
    struct wf_safetensors_pair *notes; /* __metadata__, by key */
    int64_t n_notes;
    struct wf_name_index entry_names;
    char *texts, *texts_end; /* all names, keys and values: no more than the header has */
};

/**
 * Map and check a file. Every breach of the format has a sentence of its own, that names the file
 * and the tensor.
 *
 * gives: closed by wf_safetensors_close. fails: WEFT_ERR_NOT_FOUND, WEFT_ERR_IO; on this rank alone
 */
weft_status wf_safetensors_open(struct wf_safetensors *file, const char *path);

/** The same for bytes in memory, which stay the caller's; `path` is for messages. */
weft_status wf_safetensors_parse(struct wf_safetensors *file, const char *path, const void *bytes,
                                 size_t size);

void wf_safetensors_close(struct wf_safetensors *file);

/** True for what a file can call a tensor: neither empty nor reserved, and UTF-8, so that it can be
 * read again. */
bool wf_is_valid_tensor_name(const char *name);

/** NULL when there is none. */
const struct wf_safetensors_entry *wf_safetensors_find_tensor(const struct wf_safetensors *file,
                                                              const char *name);
const char *wf_safetensors_metadata(const struct wf_safetensors *file, const char *key);
