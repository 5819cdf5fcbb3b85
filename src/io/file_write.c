/* file_write.c: the header of a file to be, and the system calls that make it last. */
#include "io/file_write.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/grow.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "io/element.h"
#include "io/weights.h"

void wf_out_add(struct wf_out *out, const struct wf_out_entry *entry)
{
    out->entries = wf_grown(out->entries, out->n_entries, sizeof *out->entries);
    out->entries[out->n_entries++] = *entry;
}

void wf_out_note(struct wf_out *out, const char *key, const char *value)
{
    out->notes = wf_grown(out->notes, out->n_notes, sizeof *out->notes);
    out->notes[out->n_notes++] = (struct wf_out_note){key, value};
}

void wf_out_free(struct wf_out *out)
{
    wf_free(out->entries);
    wf_free(out->notes);
    wf_free(out->header);
    *out = (struct wf_out){0};
}

/* ---- the header ---- */

static int by_alignment(const void *a, const void *b)
{
    const struct wf_out_entry *x = a, *y = b;
    int left = wf_element_type(x->type)->alignment, right = wf_element_type(y->type)->alignment;

    return left != right ? right - left : strcmp(x->name, y->name);
}

static void place(struct wf_out *out)
{
    int64_t at = 0;

    if (out->n_entries)
        qsort(out->entries, (size_t)out->n_entries, sizeof *out->entries, by_alignment);
    for (int64_t i = 0; i < out->n_entries; i++) {
        struct wf_out_entry *entry = &out->entries[i];

        entry->begin = at;
        entry->bytes = wf_element_type(entry->type)->bits / 8;
        for (int d = 0; d < entry->ndim; d++) entry->bytes *= entry->shape[d];
        at += entry->bytes;
    }
    out->data_bytes = (size_t)at;
}

static void write_entry(struct wf_json *json, const struct wf_out_entry *entry)
{
    wf_json_open(json, entry->name, '{');
    wf_json_text(json, "dtype", wf_element_type(entry->type)->name);
    wf_json_open(json, "shape", '[');
    for (int d = 0; d < entry->ndim; d++) wf_json_int(json, NULL, entry->shape[d]);
    wf_json_close(json, ']');
    wf_json_open(json, "data_offsets", '[');
    wf_json_int(json, NULL, entry->begin);
    wf_json_int(json, NULL, entry->begin + entry->bytes);
    wf_json_close(json, ']');
    wf_json_close(json, '}');
}

static void write_json(FILE *file, const struct wf_out *out)
{
    struct wf_json json = {.out = file};

    wf_json_open(&json, NULL, '{');
    if (out->n_notes) {
        wf_json_open(&json, "__metadata__", '{');
        for (int64_t i = 0; i < out->n_notes; i++)
            wf_json_text(&json, out->notes[i].key, out->notes[i].value);
        wf_json_close(&json, '}');
    }
    for (int64_t i = 0; i < out->n_entries; i++) write_entry(&json, &out->entries[i]);
    wf_json_close(&json, '}');
}

void wf_out_plan(struct wf_out *out)
{
    char *text = NULL;
    size_t length = 0;
    uint64_t padded;
    FILE *file = open_memstream(&text, &length);

    if (!file) WF_DIE("no memory for a file's header");
    place(out);
    write_json(file, out);
    fclose(file);
    padded = (length + 7) / 8 * 8;
    out->header_bytes = 8 + (size_t)padded;
    out->header = wf_malloc(out->header_bytes);
    for (int i = 0; i < 8; i++) out->header[i] = (char)(padded >> 8 * i & 0xFF);
    memset(out->header + 8, ' ', (size_t)padded);
    memcpy(out->header + 8, text, length);
    wf_free(text);
}

/* ---- files ---- */

char *wf_file_part(const char *path, uint64_t number)
{
    char name[40];

    snprintf(name, sizeof name, ".weft-%016" PRIx64 ".part", number);
    return wf_path_beside(path, name);
}

static bool is_part(const char *name)
{
    static const char digits[] = "0123456789abcdef";

    return strncmp(name, ".weft-", 6) == 0 && strspn(name + 6, digits) == 16 &&
           strcmp(name + 22, ".part") == 0;
}

enum { PART_SECONDS = 3600 }; /* more than any save takes from one write to the next */

void wf_file_clean_parts(const char *written)
{
    struct stat now, st;
    struct dirent *entry;
    DIR *folder;
    char *here;

    if (lstat(written, &now) != 0) return;
    here = wf_path_beside(written, ".");
    folder = opendir(here);
    for (; folder && (entry = readdir(folder));) {
        char *path;

        if (!is_part(entry->d_name)) continue;
        path = wf_path_beside(written, entry->d_name);
        if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
            now.st_mtime - st.st_mtime > PART_SECONDS)
            unlink(path);
        wf_free(path);
    }
    if (folder) closedir(folder);
    wf_free(here);
}

weft_status wf_file_create(int *fd, const char *path, size_t bytes)
{
    int error;

    *fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    WF_NEED(*fd >= 0, WEFT_ERR_IO, "%s: cannot create: %s", path, strerror(errno));
    error = bytes ? posix_fallocate(*fd, 0, (off_t)bytes) : 0;
    if (error == EOPNOTSUPP || error == EINVAL)
        error = ftruncate(*fd, (off_t)bytes) == 0 ? 0 : errno;
    if (!error) return WEFT_OK;
    close(*fd);
    *fd = -1;
    unlink(path);
    return WF_FAIL(WEFT_ERR_IO, "%s: no room for %zu bytes: %s", path, bytes, strerror(error));
}

weft_status wf_file_open(int *fd, const char *path)
{
    *fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    WF_NEED(*fd >= 0, WEFT_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    return WEFT_OK;
}

weft_status wf_file_put(int fd, const char *path, const void *bytes, size_t count, size_t offset)
{
    const char *from = bytes;

    while (count > 0) {
        ssize_t n = pwrite(fd, from, count, (off_t)offset);

        if (n < 0 && errno == EINTR) continue;
        WF_NEED(n > 0, WEFT_ERR_IO, "%s: cannot write %zu bytes at %zu: %s", path, count, offset,
                n < 0 ? strerror(errno) : "nothing is written");
        from += n;
        count -= (size_t)n;
        offset += (size_t)n;
    }
    return WEFT_OK;
}

weft_status wf_file_finish(int fd, const char *path)
{
    bool synced = fsync(fd) == 0;
    int error = errno;

    if (close(fd) != 0 && synced) {
        synced = false;
        error = errno;
    }
    WF_NEED(synced, WEFT_ERR_IO, "%s: not on disk: %s", path, strerror(error));
    return WEFT_OK;
}

weft_status wf_file_need_replaceable(const char *to)
{
    struct stat st;

    WF_NEED(lstat(to, &st) != 0 || S_ISREG(st.st_mode) || S_ISLNK(st.st_mode), WEFT_ERR_IO,
            "%s: something is there that is no file", to);
    return WEFT_OK;
}

/* Bring the list of names of a file's folder to the disk. */
static void sync_folder_of(const char *path)
{
    char *folder = wf_path_beside(path, ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || fsync(fd) != 0)
        WF_LOG(WF_LOG_WARN, "io", "%s: its folder may not be on disk: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    wf_free(folder);
}

weft_status wf_file_rename(const char *from, const char *to)
{
    WF_TRY(wf_file_need_replaceable(to));
    WF_NEED(rename(from, to) == 0, WEFT_ERR_IO, "%s: cannot rename to %s: %s", from, to,
            strerror(errno));
    sync_folder_of(to);
    return WEFT_OK;
}

weft_status wf_file_remove(const char *path)
{
    if (unlink(path) == 0)
        sync_folder_of(path);
    else
        WF_NEED(errno == ENOENT, WEFT_ERR_IO, "%s: cannot remove: %s", path, strerror(errno));
    return WEFT_OK;
}

weft_status wf_file_fill(const char *path, const void *bytes, size_t count)
{
    weft_status status, finished;
    int fd;

    WF_TRY(wf_file_create(&fd, path, count));
    status = wf_file_put(fd, path, bytes, count, 0);
    finished = wf_file_finish(fd, path);
    return status == WEFT_OK ? finished : status;
}

weft_status wf_file_write(const char *path, const void *bytes, size_t count)
{
    char *part = wf_file_part(path, wf_sys_random());
    weft_status status = wf_file_fill(part, bytes, count);

    if (status == WEFT_OK) status = wf_file_rename(part, path);
    if (status != WEFT_OK) unlink(part);
    wf_free(part);
    return status;
}
