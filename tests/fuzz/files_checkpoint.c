/*
 * files_checkpoint.c: checkpoints as texts. The list comes first, without the checksum that ends
 * it, then the files p0, p1, ... as "9 {header}", each after a line "====". Checksums are filled
 * in, so that what lies behind them is reached:
 *
 *     @hN@    of the header of file N       @bN@    how many bytes file N has
 *     @zN@    of N bytes of zeros
 *
 * Data are zeros and what is loaded into are ones, which says what a load has written: all or
 * nothing.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "base/hash.h"
#include "fuzz/files.h"
#include "fuzz/support.h"

enum { FILES = 4, ROWS = 4, COLUMNS = 6, ZEROS = 1 << 12 };

struct made {
    size_t bytes;
    uint64_t hash;
} made[FILES];

static void put_mark(FILE *out, char kind, unsigned long number)
{
    static const char zeros[ZEROS];

    if (kind == 'z')
        fprintf(out, "%016" PRIx64, wf_hash_bytes(zeros, number < ZEROS ? number : ZEROS));
    else if (kind == 'h')
        fprintf(out, "%016" PRIx64, made[number % FILES].hash);
    else
        fprintf(out, "%zu", made[number % FILES].bytes);
}

/* The text with its marks filled in; the caller frees. */
static char *filled(const char *text)
{
    char *result = NULL, *end;
    size_t bytes;
    FILE *out = open_memstream(&result, &bytes);

    if (!out) abort();
    for (; *text; text++) {
        if (*text == '@' && text[1] && strchr("hbz", text[1])) {
            unsigned long number = strtoul(text + 2, &end, 10);

            if (end > text + 2 && *end == '@') {
                put_mark(out, text[1], number);
                text = end;
                continue;
            }
        }
        fputc(*text, out);
    }
    fclose(out);
    return result;
}

static void make_file(int number, const char *text)
{
    char *whole = filled(text), name[24];
    uint8_t *file;
    size_t size = fuzz_safetensors(&file, whole), header = 8;

    for (int i = 0; i < 8; i++) header += (size_t)file[i] << 8 * i;
    made[number] = (struct made){size, wf_hash_bytes(file, header)};
    snprintf(name, sizeof name, "p%d", number);
    fuzz_file(name, file, size);
    free(file);
    free(whole);
}

static void make_list(const char *text)
{
    char *list = filled(text), *whole;
    size_t length = strlen(list);

    whole = malloc(length + 40);
    if (!whole) abort();
    length = (size_t)snprintf(whole, length + 40, "%s\"hash\":\"%016" PRIx64 "\"}\n", list,
                              wf_hash_bytes(list, length));
    fuzz_file("checkpoint.json", whole, length);
    free(whole);
    free(list);
}

static void make_files(char *text)
{
    static const char line[] = "\n====\n";
    char *next = strstr(text, line);

    memset(made, 0, sizeof made);
    for (int i = 0; i < FILES && next; i++) {
        char *file = next + strlen(line);

        *next = '\0';
        next = strstr(file, line);
        if (next) *next = '\0';
        make_file(i, file);
    }
    make_list(text);
}

/* How many elements are 0, the rest being 1. */
static int64_t zeros_in(weft_tensor *t)
{
    double values[ROWS * COLUMNS];
    int64_t zeros = 0;

    FUZZ_NEED(weft_read_f64(t, values, weft_numel(t)) == WEFT_OK);
    for (int64_t i = 0; i < weft_numel(t); i++) {
        FUZZ_NEED(values[i] == 0 || values[i] == 1);
        zeros += values[i] == 0;
    }
    return zeros;
}

static weft_state *state_of(weft_tensor **tensors, int64_t *step, double *rate)
{
    weft_state *state = weft_state_new();

    tensors[0] = weft_full(WEFT_F32, (int64_t[]){ROWS, COLUMNS}, 2, 1);
    tensors[1] = weft_full(WEFT_BF16, (int64_t[]){5}, 1, 1);
    tensors[2] = weft_full(WEFT_I64, NULL, 0, 1);
    FUZZ_NEED(weft_state_add_tensor(state, "w", tensors[0]) == WEFT_OK &&
              weft_state_add_tensor(state, "b", tensors[1]) == WEFT_OK &&
              weft_state_add_tensor(state, "s", tensors[2]) == WEFT_OK &&
              weft_state_add_int(state, "step", step) == WEFT_OK &&
              weft_state_add_real(state, "rate", rate) == WEFT_OK);
    return state;
}

void fuzz_checkpoint(char *text)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *tensors[3];
    int64_t step = -5;
    double rate = -5;
    weft_state *state = state_of(tensors, &step, &rate);
    char *folder = strdup(fuzz_path("."));
    bool loaded;

    make_files(text);
    loaded = fuzz_status(weft_checkpoint_load(folder, state));
    for (int i = 0; i < 3; i++)
        FUZZ_NEED(zeros_in(tensors[i]) == (loaded ? weft_numel(tensors[i]) : 0));
    FUZZ_NEED(loaded || (step == -5 && rate == -5));
    free(folder);
    weft_state_release(state);
    weft_scope_close(scope);
}
