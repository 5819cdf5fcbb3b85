#include "fuzz/support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "dtensor/convert/init.h"
#include "kernels/kernels.h"

enum { PATHS = 16, PATH_BYTES = 512 };

static char folder[PATH_BYTES / 2];

void fuzz_begin(void)
{
    static bool begun;

    if (begun) return;
    begun = true;
    wf_kernels_choose_isa();
    wf_dtensor_init();
    wf_log_configure("0");
}

static void remove_folder(void)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;

    for (; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.') unlink(fuzz_path(entry->d_name));
    if (dir) closedir(dir);
    rmdir(folder);
}

void fuzz_broken(const char *truth, const char *file, int line)
{
    fprintf(stderr, "%s:%d: not true: %s; the failure is: %s\n", file, line, truth,
            weft_error_message());
    remove_folder();
    abort();
}

/* In memory where that is possible: thousands of files are written in a second. */
static void make_folder(void)
{
    const char *set = getenv("TMPDIR");

    snprintf(folder, sizeof folder, "%s/fuzz-weft-XXXXXX",
             set && set[0]                   ? set
             : access("/dev/shm", W_OK) == 0 ? "/dev/shm"
                                             : "/tmp");
    if (!mkdtemp(folder)) fuzz_broken("a folder can be made", __FILE__, __LINE__);
    atexit(remove_folder);
}

const char *fuzz_path(const char *name)
{
    static char paths[PATHS][PATH_BYTES];
    static int next;
    char *path = paths[next++ % PATHS];

    if (!folder[0]) make_folder();
    snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    return path;
}

const char *fuzz_file(const char *name, const void *bytes, size_t size)
{
    const char *path = fuzz_path(name);
    FILE *file = fopen(path, "wb");

    if (!file || (size && fwrite(bytes, 1, size, file) != size))
        fuzz_broken("a file can be written", __FILE__, __LINE__);
    fclose(file);
    return path;
}

char *fuzz_text(const uint8_t *bytes, size_t size)
{
    char *text = malloc(size + 1);

    if (!text) abort();
    if (size) memcpy(text, bytes, size);
    text[size] = '\0';
    return text;
}

bool fuzz_status(weft_status status)
{
    const char *message = weft_error_message();

    FUZZ_NEED(status == weft_error_status());
    if (status == WEFT_OK) return true;
    FUZZ_NEED(message[0]);
    for (const char *c = message; *c; c++) FUZZ_NEED((unsigned char)*c >= ' ' && *c != 127);
    weft_error_clear();
    return false;
}

bool fuzz_made(const void *made)
{
    FUZZ_NEED(!made == (weft_error_status() != WEFT_OK));
    return fuzz_status(weft_error_status());
}
