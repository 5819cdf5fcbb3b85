/* safetensors.c: from the bytes of a file to a checked list of entries. */
#include "io/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/text/utf8.h"
#include "io/element_type.h"
#include "io/json/json_reader.h"

static const char notes_key[] = "__metadata__";

bool wf_is_valid_tensor_name(const char *name)
{
    size_t bytes = strlen(name);

    return bytes > 0 && strcmp(name, notes_key) != 0 && wf_utf8_valid_prefix(name, bytes) == bytes;
}

/* ---- one tensor: {"dtype": .., "shape": [..], "data_offsets": [begin, end]} ---- */

struct fields {
    struct wf_safetensors_entry *entry;
    bool dtype, shape, offsets;
    int64_t offset[2];
};

static bool read_dtype_name(struct wf_json_reader *r, struct wf_safetensors_entry *entry)
{
    char *text = wf_json_read_string(r);

    if (!text) return false;
    entry->type = wf_element_type_by_name(text);
    if (entry->type < 0) wf_json_reader_fail(r, "unknown dtype \"%.40s\"", text);
    wf_free(text);
    return entry->type >= 0;
}

static bool read_shape_size(struct wf_json_reader *r, int64_t index, void *payload)
{
    struct wf_safetensors_entry *entry = payload;
    int64_t size;

    if (!wf_json_read_integer(r, &size)) return false;
    if (size < 0) return wf_json_reader_fail(r, "size %lld in the shape", (long long)size);
    entry->shape = wf_array_grow(entry->shape, index, sizeof *entry->shape);
    entry->shape[index] = size;
    entry->ndim = (int)(index + 1);
    return true;
}

static bool read_data_offset(struct wf_json_reader *r, int64_t index, void *payload)
{
    struct fields *fields = payload;
    int64_t offset;

    if (index == 2) return wf_json_reader_fail(r, "more than two data_offsets");
    if (!wf_json_read_integer(r, &offset)) return false;
    if (offset < 0) return wf_json_reader_fail(r, "data offset %lld", (long long)offset);
    fields->offset[index] = offset;
    fields->offsets = index == 1;
    return true;
}

static bool read_tensor_field(struct wf_json_reader *r, const char *key, void *payload)
{
    struct fields *fields = payload;

    if (strcmp(key, "dtype") == 0) return fields->dtype = read_dtype_name(r, fields->entry);
    if (strcmp(key, "shape") == 0)
        return fields->shape = wf_json_read_array(r, read_shape_size, fields->entry);
    if (strcmp(key, "data_offsets") == 0) {
        if (!wf_json_read_array(r, read_data_offset, fields)) return false;
        return fields->offsets || wf_json_reader_fail(r, "fewer than two data_offsets");
    }
    return wf_json_skip_value(r);
}

/* Bytes that shape and dtype take; false, with the reason, when there is no such number. */
static bool count_data_bytes(struct wf_json_reader *r, struct wf_safetensors_entry *entry,
                             uint64_t *bytes)
{
    uint64_t numel = 1, bits;
    bool empty = false;

    for (int d = 0; d < entry->ndim; d++) empty |= entry->shape[d] == 0;
    for (int d = 0; d < entry->ndim && !empty; d++) {
        if (numel > INT64_MAX / 64 / (uint64_t)entry->shape[d])
            return wf_json_reader_fail(r, "the shape has more elements than can be counted");
        numel *= (uint64_t)entry->shape[d];
    }
    if (empty) numel = 0;
    bits = numel * (uint64_t)wf_element_type_info(entry->type)->bits;
    if (bits % 8 != 0)
        return wf_json_reader_fail(r, "%llu bits are no whole number of bytes",
                                   (unsigned long long)bits);
    entry->numel = (int64_t)numel;
    *bytes = bits / 8;
    return true;
}

static bool read_tensor_entry(struct wf_json_reader *r, struct wf_safetensors_entry *entry)
{
    struct fields fields = {.entry = entry};
    uint64_t bytes = 0;

    if (!wf_json_read_object(r, read_tensor_field, &fields)) return false;
    if (!fields.dtype || !fields.shape || !fields.offsets)
        return wf_json_reader_fail(r, "no %s",
                                   !fields.dtype   ? "dtype"
                                   : !fields.shape ? "shape"
                                                   : "data_offsets");
    if (fields.offset[1] < fields.offset[0])
        return wf_json_reader_fail(r, "data ends at %lld, before it begins at %lld",
                                   (long long)fields.offset[1], (long long)fields.offset[0]);
    if (!count_data_bytes(r, entry, &bytes)) return false;
    entry->begin = (uint64_t)fields.offset[0];
    entry->end = (uint64_t)fields.offset[1];
    if (entry->end - entry->begin != bytes)
        return wf_json_reader_fail(r, "dtype and shape take %llu bytes, data_offsets %llu",
                                   (unsigned long long)bytes,
                                   (unsigned long long)(entry->end - entry->begin));
    return true;
}

/* ---- the header ---- */

struct header {
    struct wf_safetensors *file;
    const char *name; /* for messages */
    bool notes;
};

/* A copy among the file's texts. A header may be all names: a block for each would take many times
 * as much as the header. */
static const char *copy_to_file_texts(struct wf_safetensors *file, const char *text)
{
    char *copy = file->texts_end;
    size_t bytes = strlen(text) + 1;

    memcpy(copy, text, bytes);
    file->texts_end += bytes;
    return copy;
}

static bool read_metadata_pair(struct wf_json_reader *r, const char *key, void *payload)
{
    struct wf_safetensors *file = payload;
    struct wf_safetensors_pair note = {.key = copy_to_file_texts(file, key)};
    char *end;

    note.value = file->texts_end;
    end = wf_json_read_string_into(r, file->texts_end);
    if (!end) return false;
    file->texts_end = end;
    file->notes = wf_array_grow(file->notes, file->n_notes, sizeof *file->notes);
    file->notes[file->n_notes++] = note;
    return true;
}

static bool read_header_member(struct wf_json_reader *r, const char *key, void *payload)
{
    struct header *header = payload;
    struct wf_safetensors *file = header->file;
    struct wf_safetensors_entry *entry;

    header->name = copy_to_file_texts(file, key);
    if (strcmp(key, notes_key) == 0) {
        if (header->notes) return wf_json_reader_fail(r, "key \"%s\" stands twice", key);
        header->notes = true;
        return wf_json_read_large_object(r, read_metadata_pair, file);
    }
    file->entries = wf_array_grow(file->entries, file->n_entries, sizeof *entry);
    entry = &file->entries[file->n_entries++];
    *entry = (struct wf_safetensors_entry){.name = header->name};
    return read_tensor_entry(r, entry);
}

static weft_status read_json_header(struct wf_safetensors *file, const char *text, size_t bytes)
{
    struct header header = {.file = file};
    struct wf_json_reader r;
    weft_status status = WEFT_OK;

    file->texts = file->texts_end = wf_malloc(bytes + 1); /* the bytes that are used take memory */
    wf_json_reader_init(&r, text, bytes);
    if (!r.failed && (bytes == 0 || text[0] != '{'))
        wf_json_reader_fail(&r, "the header does not begin with '{'");
    if (!r.failed && wf_json_read_large_object(&r, read_header_member, &header)) {
        header.name = NULL;
        wf_json_reader_expect_end(&r);
    }
    if (r.failed)
        status =
            WF_FAIL(WEFT_ERR_IO, "%s: %s%s%sheader, %s", file->path, header.name ? "tensor '" : "",
                    header.name ? header.name : "", header.name ? "': " : "", r.problem);
    return status;
}

/* ---- the data ---- */

static int compare_by_data_offset(const void *a, const void *b)
{
    const struct wf_safetensors_entry *x = a, *y = b;

    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* The entries lie one behind another and fill the data. */
static weft_status check_data_ranges(struct wf_safetensors *file, uint64_t room)
{
    uint64_t at = 0;

    for (int64_t i = 0; i < file->n_entries; i++) {
        const struct wf_safetensors_entry *entry = &file->entries[i];

        WF_NEED(entry->begin >= at, WEFT_ERR_IO,
                "%s: tensor '%s': its data begin at %llu, inside those of '%s', which end at %llu",
                file->path, entry->name, (unsigned long long)entry->begin,
                file->entries[i - 1].name, (unsigned long long)at);
        WF_NEED(entry->begin == at, WEFT_ERR_IO,
                "%s: tensor '%s': its data begin at %llu and leave a hole after %llu", file->path,
                entry->name, (unsigned long long)entry->begin, (unsigned long long)at);
        WF_NEED(entry->end <= room, WEFT_ERR_IO,
                "%s: tensor '%s': its data end at %llu, and the file has %llu bytes of data "
                "(cut short?)",
                file->path, entry->name, (unsigned long long)entry->end, (unsigned long long)room);
        at = entry->end;
    }
    WF_NEED(at == room, WEFT_ERR_IO, "%s: %llu bytes follow the last tensor", file->path,
            (unsigned long long)(room - at));
    return WEFT_OK;
}

static int compare_by_key(const void *a, const void *b)
{
    const struct wf_safetensors_pair *x = a, *y = b;

    return strcmp(x->key, y->key);
}

static weft_status index_and_check_names(struct wf_safetensors *file)
{
    const char *twice = NULL;

    if (file->n_entries)
        qsort(file->entries, (size_t)file->n_entries, sizeof *file->entries,
              compare_by_data_offset);
    for (int64_t i = 0; i < file->n_entries; i++)
        wf_name_index_add(&file->entry_names, file->entries[i].name, i);
    wf_name_index_sort(&file->entry_names);
    if (file->n_notes)
        qsort(file->notes, (size_t)file->n_notes, sizeof *file->notes, compare_by_key);
    for (int64_t i = 1; i < file->entry_names.count; i++)
        if (strcmp(file->entry_names.items[i - 1].name, file->entry_names.items[i].name) == 0)
            twice = file->entry_names.items[i].name;
    for (int64_t i = 1; i < file->n_notes; i++)
        if (compare_by_key(&file->notes[i - 1], &file->notes[i]) == 0) twice = file->notes[i].key;
    WF_NEED(!twice, WEFT_ERR_IO, "%s: header, key \"%s\" stands twice", file->path, twice);
    return WEFT_OK;
}

static uint64_t load_u64_little_endian(const unsigned char *bytes)
{
    uint64_t value = 0;

    for (int i = 7; i >= 0; i--) value = value << 8 | bytes[i];
    return value;
}

static weft_status parse_safetensors(struct wf_safetensors *file, const unsigned char *bytes,
                                     size_t size)
{
    uint64_t length;

    WF_NEED(size >= 8, WEFT_ERR_IO,
            "%s: %zu bytes; a safetensors file begins with 8 bytes of length", file->path, size);
    length = load_u64_little_endian(bytes);
    WF_NEED(length <= WF_SAFETENSORS_HEADER, WEFT_ERR_IO,
            "%s: a header of %llu bytes; at most %d are possible (no safetensors file?)",
            file->path, (unsigned long long)length, WF_SAFETENSORS_HEADER);
    WF_NEED(length <= size - 8, WEFT_ERR_IO, "%s: a header of %llu bytes in a file of %zu",
            file->path, (unsigned long long)length, size);
    file->data = bytes + 8 + length;
    WF_TRY(read_json_header(file, (const char *)bytes + 8, (size_t)length));
    WF_TRY(index_and_check_names(file));
    return check_data_ranges(file, size - 8 - length);
}

weft_status wf_safetensors_parse(struct wf_safetensors *file, const char *path, const void *bytes,
                                 size_t size)
{
    weft_status status;

    *file = (struct wf_safetensors){.path = wf_strdup(path)};
    status = parse_safetensors(file, bytes, size);
    if (status != WEFT_OK) wf_safetensors_close(file);
    return status;
}

weft_status wf_safetensors_open(struct wf_safetensors *file, const char *path)
{
    struct wf_file_map map;
    weft_status status;

    *file = (struct wf_safetensors){0};
    WF_TRY(wf_file_map(&map, path));
    status = wf_safetensors_parse(file, path, map.bytes, map.size);
    if (status == WEFT_OK)
        file->map = map;
    else
        wf_file_unmap(&map);
    return status;
}

void wf_safetensors_close(struct wf_safetensors *file)
{
    for (int64_t i = 0; i < file->n_entries; i++) wf_free(file->entries[i].shape);
    wf_name_index_free(&file->entry_names);
    wf_free(file->texts);
    wf_free(file->entries);
    wf_free(file->notes);
    wf_free(file->path);
    wf_file_unmap(&file->map);
    *file = (struct wf_safetensors){0};
}

const struct wf_safetensors_entry *wf_safetensors_find_tensor(const struct wf_safetensors *file,
                                                              const char *name)
{
    int64_t at = wf_name_index_find(&file->entry_names, name);

    return at >= 0 ? &file->entries[at] : NULL;
}

const char *wf_safetensors_metadata(const struct wf_safetensors *file, const char *key)
{
    const struct wf_safetensors_pair wanted = {.key = key}, *found = NULL;

    if (file->n_notes)
        found = bsearch(&wanted, file->notes, (size_t)file->n_notes, sizeof wanted, compare_by_key);
    return found ? found->value : NULL;
}
