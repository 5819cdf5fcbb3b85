/* manifest.c: checkpoint.json, written and read. Names given to it are wf_malloc'ed and become its
 * own. */
#include "io/checkpoint/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text/json_writer.h"
#include "io/element_type.h"
#include "io/file_map.h"
#include "io/file_write.h"
#include "io/json/json_reader.h"

static const char file_name[] = "checkpoint.json", format[] = "weft checkpoint";
enum { VERSION = 1, SEAL_BYTES = 27 }; /* of "\"hash\":\"0123456789abcdef\"}\n" */

/* ---- the lists ---- */

void wf_manifest_add_file(struct wf_manifest *m, char *name, int64_t bytes, uint64_t hash)
{
    m->files = wf_array_grow(m->files, m->n_files, sizeof *m->files);
    m->files[m->n_files++] = (struct wf_manifest_file){name, bytes, hash};
}

void wf_manifest_add_tensor(struct wf_manifest *m, char *name, int type, const int64_t *shape,
                            int ndim)
{
    struct wf_manifest_tensor *t;

    m->tensors = wf_array_grow(m->tensors, m->n_tensors, sizeof *m->tensors);
    t = &m->tensors[m->n_tensors++];
    *t = (struct wf_manifest_tensor){.name = name, .type = type, .ndim = ndim};
    for (int d = 0; d < ndim; d++) t->shape[d] = shape[d];
}

void wf_manifest_add_value(struct wf_manifest *m, char *name, char *text)
{
    m->values = wf_array_grow(m->values, m->n_values, sizeof *m->values);
    m->values[m->n_values++] = (struct wf_manifest_value){name, text};
}

void wf_manifest_free(struct wf_manifest *m)
{
    for (int64_t i = 0; i < m->n_files; i++) wf_free(m->files[i].name);
    for (int64_t i = 0; i < m->n_tensors; i++) wf_free(m->tensors[i].name);
    for (int64_t i = 0; i < m->n_values; i++) {
        wf_free(m->values[i].name);
        wf_free(m->values[i].text);
    }
    wf_free(m->files);
    wf_free(m->tensors);
    wf_free(m->values);
    *m = (struct wf_manifest){0};
}

/* ---- writing ---- */

static void write_manifest_lists(struct wf_json_writer *json, const struct wf_manifest *m)
{
    char hash[24];

    wf_json_begin_container(json, "files", '[');
    for (int64_t i = 0; i < m->n_files; i++) {
        wf_json_begin_container(json, NULL, '{');
        wf_json_write_string(json, "name", m->files[i].name);
        wf_json_write_int(json, "bytes", m->files[i].bytes);
        snprintf(hash, sizeof hash, "%016" PRIx64, m->files[i].hash);
        wf_json_write_string(json, "hash", hash);
        wf_json_end_container(json, '}');
    }
    wf_json_end_container(json, ']');
    wf_json_begin_container(json, "tensors", '[');
    for (int64_t i = 0; i < m->n_tensors; i++) {
        wf_json_begin_container(json, NULL, '{');
        wf_json_write_string(json, "name", m->tensors[i].name);
        wf_json_write_string(json, "dtype", wf_element_type_info(m->tensors[i].type)->name);
        wf_json_begin_container(json, "shape", '[');
        for (int d = 0; d < m->tensors[i].ndim; d++)
            wf_json_write_int(json, NULL, m->tensors[i].shape[d]);
        wf_json_end_container(json, ']');
        wf_json_end_container(json, '}');
    }
    wf_json_end_container(json, ']');
    wf_json_begin_container(json, "values", '{');
    for (int64_t i = 0; i < m->n_values; i++)
        wf_json_write_string(json, m->values[i].name, m->values[i].text);
    wf_json_end_container(json, '}');
}

/* All but the seal, ending with a comma; wf_free it. */
static char *make_manifest_text(const struct wf_manifest *m, size_t *bytes)
{
    char *text = NULL;
    FILE *file = open_memstream(&text, bytes);
    struct wf_json_writer json = {.out = file};

    if (!file) WF_DIE("no memory for a checkpoint's list");
    wf_json_begin_container(&json, NULL, '{');
    wf_json_write_string(&json, "format", format);
    wf_json_write_int(&json, "version", VERSION);
    wf_json_write_int(&json, "generation", m->generation);
    write_manifest_lists(&json, m);
    fputc(',', file);
    fclose(file);
    return text;
}

weft_status wf_manifest_write(const struct wf_manifest *m, const char *folder)
{
    char *path = wf_format("%s/%s", folder, file_name), *sealed;
    size_t bytes;
    char *text = make_manifest_text(m, &bytes);
    weft_status status;

    sealed = wf_format("%s\"hash\":\"%016" PRIx64 "\"}\n", text, wf_hash_bytes(text, bytes));
    status = wf_file_write_atomically(path, sealed, bytes + SEAL_BYTES);
    wf_free(sealed);
    wf_free(text);
    wf_free(path);
    return status;
}

/* ---- reading ---- */

struct reading {
    struct wf_manifest *m;
    int64_t version;
    bool ours;
};

/* One element of a list; which of its keys were there. */
struct fields {
    char *name, *text;
    int64_t bytes;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
};

static bool read_shape_size(struct wf_json_reader *r, int64_t index, void *payload)
{
    struct fields *f = payload;

    if (index >= WEFT_MAX_DIMS) return wf_json_reader_fail(r, "more than %d dims", WEFT_MAX_DIMS);
    f->ndim = (int)index + 1;
    if (!wf_json_read_integer(r, &f->shape[index])) return false;
    return f->shape[index] >= 0 || wf_json_reader_fail(r, "a negative size");
}

static bool read_list_entry_field(struct wf_json_reader *r, const char *key, void *payload)
{
    struct fields *f = payload;

    if (strcmp(key, "name") == 0) return (f->name = wf_json_read_string(r)) != NULL;
    if (strcmp(key, "hash") == 0 || strcmp(key, "dtype") == 0)
        return !f->text && (f->text = wf_json_read_string(r)) != NULL;
    if (strcmp(key, "bytes") == 0) return wf_json_read_integer(r, &f->bytes);
    if (strcmp(key, "shape") == 0) return wf_json_read_array(r, read_shape_size, f);
    return wf_json_skip_value(r);
}

static bool read_list_entry(struct wf_json_reader *r, struct fields *f)
{
    bool ok = wf_json_read_object(r, read_list_entry_field, f) &&
              ((f->name && f->text) || wf_json_reader_fail(r, "a name or a word is missing"));

    if (ok) return true;
    wf_free(f->name);
    wf_free(f->text);
    return wf_json_reader_fail(r, "no such list");
}

static bool read_file_entry(struct wf_json_reader *r, int64_t index, void *payload)
{
    struct fields f = {0};

    (void)index;
    if (!read_list_entry(r, &f)) return false;
    wf_manifest_add_file(payload, f.name, f.bytes, strtoull(f.text, NULL, 16));
    wf_free(f.text);
    return !strchr(f.name, '/') || wf_json_reader_fail(r, "'%.80s' is no name of a file", f.name);
}

static bool read_tensor_entry(struct wf_json_reader *r, int64_t index, void *payload)
{
    struct fields f = {0};
    int type;

    (void)index;
    if (!read_list_entry(r, &f)) return false;
    type = wf_element_type_by_name(f.text);
    wf_manifest_add_tensor(payload, f.name, type, f.shape, f.ndim);
    wf_free(f.text);
    return type >= 0 || wf_json_reader_fail(r, "an unknown dtype");
}

static bool read_value_entry(struct wf_json_reader *r, const char *key, void *payload)
{
    char *text = wf_json_read_string(r);

    if (text) wf_manifest_add_value(payload, wf_strdup(key), text);
    return text != NULL;
}

static bool read_manifest_member(struct wf_json_reader *r, const char *key, void *payload)
{
    struct reading *reading = payload;
    struct wf_manifest *m = reading->m;
    char *text;

    if (strcmp(key, "generation") == 0) return wf_json_read_integer(r, &m->generation);
    if (strcmp(key, "version") == 0) return wf_json_read_integer(r, &reading->version);
    if (strcmp(key, "files") == 0) return wf_json_read_array(r, read_file_entry, m);
    if (strcmp(key, "tensors") == 0) return wf_json_read_array(r, read_tensor_entry, m);
    if (strcmp(key, "values") == 0) return wf_json_read_object(r, read_value_entry, m);
    if (strcmp(key, "format") != 0) return wf_json_skip_value(r);
    text = wf_json_read_string(r);
    reading->ours = text && strcmp(text, format) == 0;
    wf_free(text);
    return text != NULL;
}

static bool is_checksum_right(const struct wf_file_map *map)
{
    char seal[SEAL_BYTES + 1];
    size_t bytes = map->size - SEAL_BYTES;

    if (map->size < SEAL_BYTES) return false;
    snprintf(seal, sizeof seal, "\"hash\":\"%016" PRIx64 "\"}\n", wf_hash_bytes(map->bytes, bytes));
    return memcmp((const char *)map->bytes + bytes, seal, SEAL_BYTES) == 0;
}

static weft_status parse_manifest(struct wf_manifest *m, const struct wf_file_map *map,
                                  const char *path)
{
    struct reading reading = {.m = m};
    struct wf_json_reader r;

    WF_NEED(is_checksum_right(map), WEFT_ERR_IO, "%s: damaged: its checksum is another", path);
    wf_json_reader_init(&r, map->bytes, map->size);
    if (wf_json_read_object(&r, read_manifest_member, &reading)) wf_json_reader_expect_end(&r);
    WF_NEED(!r.failed, WEFT_ERR_IO, "%s: %s", path, r.problem);
    WF_NEED(reading.ours && reading.version == VERSION, WEFT_ERR_IO,
            "%s: no checkpoint of version %d", path, VERSION);
    return WEFT_OK;
}

weft_status wf_manifest_read(struct wf_manifest *m, const char *folder)
{
    char *path = wf_format("%s/%s", folder, file_name);
    struct wf_file_map map = {0};
    weft_status status = wf_file_map(&map, path);

    *m = (struct wf_manifest){0};
    if (status == WEFT_OK) status = parse_manifest(m, &map, path);
    if (status != WEFT_OK) wf_manifest_free(m);
    wf_file_unmap(&map);
    wf_free(path);
    return status;
}
