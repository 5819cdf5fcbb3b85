/*
 * test_bpe.c: examples/generate's tokenizer against Hugging Face's, for both forms of its files
 * (tests/golden/make_bpe.py), and files that it cannot use.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "generate/bpe.h"
#include "support/mpi_check.h"
#include "support/scratch.h"

enum { LINE = 2048 };

static const char *const files[] = {"tokenizer.json", "vocab.json", "merges.txt"};

static char *contents(const char *name)
{
    static char text[1 << 16];
    char path[512];
    FILE *file;
    size_t n;

    snprintf(path, sizeof path, "%s/tests/golden/bpe/%s", WT_SOURCE_DIR, name);
    file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s", path);
    n = fread(text, 1, sizeof text - 1, file);
    text[n] = 0;
    fclose(file);
    return text;
}

/* A folder with some of the files. */
static const char *folder_with(int first, int last)
{
    const char *folder = wt_scratch("bpe");

    wt_remove(folder);
    mkdir(folder, 0777);
    for (int i = first; i <= last; i++) {
        char path[512];

        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        wt_write_text(path, contents(files[i]));
    }
    return folder;
}

static void text_of(const char **hex, char *text)
{
    unsigned byte;

    while (sscanf(*hex, "%2x", &byte) == 1 && **hex != ' ') {
        *text++ = (char)byte;
        *hex += 2;
    }
    *text = 0;
}

static void check_line(const struct bpe *bpe, const char *line)
{
    char text[LINE], back[LINE] = "";
    int64_t n, i = 0;
    int32_t *ids;
    const char *bytes;
    size_t count;
    FILE *out = fmemopen(back, sizeof back, "w");

    text_of(&line, text);
    n = bpe_encode(bpe, text, &ids);
    for (char *end; *line && *line != '\n'; line = end, i++) {
        long want = strtol(line, &end, 10);

        ck_assert_msg(i < n && ids[i] == want, "'%s': token %d is %d, not %ld", text, (int)i,
                      i < n ? ids[i] : -1, want);
        count = bpe_bytes(bpe, ids[i], &bytes);
        fwrite(bytes, 1, count, out);
    }
    ck_assert_int_eq(i, n);
    fclose(out);
    ck_assert_str_eq(back, text);
    free(ids);
}

static void check_texts(int first, int last)
{
    char problem[256] = "";
    struct bpe *bpe = bpe_read(folder_with(first, last), problem, sizeof problem);
    int lines = 0;

    ck_assert_msg(bpe != NULL, "%s", problem);
    for (char *line = strtok(contents("texts.txt"), "\n"); line; line = strtok(NULL, "\n"), lines++)
        check_line(bpe, line);
    ck_assert_int_gt(lines, 10);
    bpe_free(bpe);
}

WT_UNIT(bpe__reads_tokenizer_json) { check_texts(0, 0); }

WT_UNIT(bpe__reads_vocab_and_merges) { check_texts(1, 2); }

WT_UNIT(bpe__needs_no_files)
{
    char problem[256] = "";

    ck_assert_ptr_null(bpe_read(folder_with(0, -1), problem, sizeof problem));
    ck_assert_str_eq(problem, "");
}

static void refused(const char *name, const char *text)
{
    const char *folder = folder_with(1, 2);
    char path[512], problem[256] = "";

    snprintf(path, sizeof path, "%s/%s", folder, name);
    wt_write_text(path, text);
    ck_assert_ptr_null(bpe_read(folder, problem, sizeof problem));
    ck_assert_msg(strstr(problem, "no byte-level tokenizer") != NULL, "%s: '%s'", text, problem);
}

WT_UNIT(bpe__refuses_other_kinds_and_broken_files)
{
    static const char *const broken[] = {
        "",        "{",          "[]", "{\"a\"",
        "{\"a\":", "{\"a\": 0}", "\"", "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}}"};

    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        refused("vocab.json", broken[i]);
        refused("tokenizer.json", broken[i]);
    }
    refused("merges.txt", "ab\n");
    refused("merges.txt", "a zzzz\n");
}

/* Every beginning of a file is a broken one: none is read beyond its end. */
WT_UNIT(bpe__survives_cut_files)
{
    char *whole = strdup(contents("tokenizer.json"));
    size_t length = strlen(whole);

    for (size_t cut = 1; cut < length - 8; cut += 211) {
        char *part = strdup(whole);

        part[cut] = 0;
        refused("tokenizer.json", part);
        free(part);
    }
    free(whole);
}

int main(void) { return wt_scratch_end(wt_unit_main("bpe")); }
