/*
 * fuzz_files.c: files of weights and checkpoints, read by the public functions. The first character
 * of an input says what it is:
 *
 *     R...            a safetensors file
 *     S9 {...}        the header of one, with 9 bytes of data behind
 *     I{...}          an index beside two files that are well (a and b, with tensors x and y, z)
 *     C...            a checkpoint (files_checkpoint.c)
 */
/* trial 3 */
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "fuzz/files.h"
#include "fuzz/support.h"
#include "io/safetensors.h"

enum { DATA = 1 << 16, BYTES = 1 << 12 };

size_t fuzz_safetensors(uint8_t **file, const char *text)
{
    char *header;
    size_t data = strtoul(text, &header, 10), length, size;

    while (*header == ' ' || *header == '\n') header++;
    length = strlen(header);
    if (data > DATA) data = DATA;
    size = 8 + length + data;
    *file = calloc(1, size);
    if (!*file) abort();
    for (int i = 0; i < 8; i++) (*file)[i] = (uint8_t)(length >> 8 * i);
    memcpy(*file + 8, header, length);
    return size;
}

/* What is told of a tensor is true, and reading it gives what it says or a failure. */
static void read_tensor(weft_weights *weights, const weft_weight *w)
{
    static const unsigned as[] = {0, WEFT_AS(WEFT_F32), WEFT_AS(WEFT_I64), WEFT_AS(WEFT_BOOL)};
    const weft_weight *found = weft_weights_find(weights, w->name);

    FUZZ_NEED(found && strcmp(found->name, w->name) == 0);
    for (int d = 0; d < w->ndim; d++) FUZZ_NEED(w->shape[d] >= 0);
    if (w->bytes > BYTES) return;
    for (size_t i = 0; i < sizeof as / sizeof *as; i++) {
        weft_tensor *t = weft_weights_read(weights, w->name, as[i], NULL, NULL);

        if (!fuzz_made(t)) continue;
        FUZZ_NEED(weft_ndim(t) == w->ndim);
        for (int d = 0; d < w->ndim; d++) FUZZ_NEED(weft_size(t, d) == w->shape[d]);
    }
}

static void read_path(const char *path)
{
    weft_scope *scope = weft_scope_open();
    weft_weights *weights = weft_weights_open(path);
    int64_t count = weft_weights_count(weights);

    if (fuzz_made(weights)) {
        for (int64_t i = 0; i < count && i < 32; i++)
            read_tensor(weights, weft_weights_at(weights, i));
        weft_weights_note(weights, "format");
    }
    weft_weights_close(weights);
    weft_scope_close(scope);
}

/* In memory first, where a sanitizer sees what is read outside of it. */
static void read_file(const uint8_t *bytes, size_t size)
{
    struct wf_safetensors file;

    if (fuzz_status(wf_safetensors_parse(&file, "memory", bytes, size))) {
        for (int64_t i = 0; i < file.n_entries; i++)
            FUZZ_NEED(file.entries[i].end <= size - (size_t)(file.data - bytes));
        wf_safetensors_close(&file);
    }
    read_path(fuzz_file("model.safetensors", bytes, size));
}

static void read_header(const char *text)
{
    uint8_t *file;
    size_t size = fuzz_safetensors(&file, text);

    read_file(file, size);
    free(file);
}

static void read_index(const uint8_t *bytes, size_t size)
{
    static const char *const shards[][2] = {
        {"a", "8 {\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}"},
        {"b", "3 {\"y\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
              "\"z\":{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[2,3]}}"}};
    uint8_t *file;

    for (int i = 0; i < 2; i++) {
        size_t length = fuzz_safetensors(&file, shards[i][1]);

        fuzz_file(shards[i][0], file, length);
        free(file);
    }
    read_path(fuzz_file("index.json", bytes, size));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text;

    fuzz_begin();
    if (size == 0) return 0;
    text = fuzz_text(bytes + 1, size - 1);
    if (bytes[0] == 'R') read_file(bytes + 1, size - 1);
    if (bytes[0] == 'S') read_header(text);
    if (bytes[0] == 'I') read_index(bytes + 1, size - 1);
    if (bytes[0] == 'C') fuzz_checkpoint(text);
    free(text);
    return 0;
}
