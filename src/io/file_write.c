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

#include "base/array_grow.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/text/json_writer.h"
#include "io/element_type.h"
#include "io/weights/weights.h"

void wf_safetensors_out_add_entry(struct wf_safetensors_out *out,
                                  const struct wf_safetensors_out_entry *entry)
{
    out->entries = wf_array_grow(out->entries, out->n_entries, sizeof *out->entries);
    out->entries[out->n_entries++] = *entry;
}

void wf_safetensors_out_metadata(struct wf_safetensors_out *out, const char *key, const char *value)
{
    out->notes = wf_array_grow(out->notes, out->n_notes, sizeof *out->notes);
    out->notes[out->n_notes++] = (struct wf_safetensors_out_metadata){key, value};
}

void wf_safetensors_out_free(struct wf_safetensors_out *out)
{
    wf_free(out->entries);
    wf_free(out->notes);
    wf_free(out->header);
    *out = (struct wf_safetensors_out){0};
}

/* ---- the header ---- */

static int compare_by_alignment(const void *a, const void *b)
{
    const struct wf_safetensors_out_entry *x = a, *y = b;
    int left = wf_element_type_info(x->type)->alignment,
        right = wf_element_type_info(y->type)->alignment;

    return left != right ? right - left : strcmp(x->name, y->name);
}

static void assign_data_offsets(struct wf_safetensors_out *out)
{
    int64_t at = 0;

    if (out->n_entries)
        qsort(out->entries, (size_t)out->n_entries, sizeof *out->entries, compare_by_alignment);
    for (int64_t i = 0; i < out->n_entries; i++) {
        struct wf_safetensors_out_entry *entry = &out->entries[i];

        entry->begin = at;
        entry->bytes = wf_element_type_info(entry->type)->bits / 8;
        for (int d = 0; d < entry->ndim; d++) entry->bytes *= entry->shape[d];
        at += entry->bytes;
    }
    out->data_bytes = (size_t)at;
}

static void write_entry_json(struct wf_json_writer *json,
                             const struct wf_safetensors_out_entry *entry)
{
    wf_json_begin_container(json, entry->name, '{');
    wf_json_write_string(json, "dtype", wf_element_type_info(entry->type)->name);
    wf_json_begin_container(json, "shape", '[');
    for (int d = 0; d < entry->ndim; d++) wf_json_write_int(json, NULL, entry->shape[d]);
    wf_json_end_container(json, ']');
    wf_json_begin_container(json, "data_offsets", '[');
    wf_json_write_int(json, NULL, entry->begin);
    wf_json_write_int(json, NULL, entry->begin + entry->bytes);
    wf_json_end_container(json, ']');
    wf_json_end_container(json, '}');
}

static void write_header_json(FILE *file, const struct wf_safetensors_out *out)
{
    struct wf_json_writer json = {.out = file};

    wf_json_begin_container(&json, NULL, '{');
    if (out->n_notes) {
        wf_json_begin_container(&json, "__metadata__", '{');
        for (int64_t i = 0; i < out->n_notes; i++)
            wf_json_write_string(&json, out->notes[i].key, out->notes[i].value);
        wf_json_end_container(&json, '}');
    }
    for (int64_t i = 0; i < out->n_entries; i++) write_entry_json(&json, &out->entries[i]);
    wf_json_end_container(&json, '}');
}

void wf_safetensors_out_make_header(struct wf_safetensors_out *out)
{
    char *text = NULL;
    size_t length = 0;
    uint64_t padded;
    FILE *file = open_memstream(&text, &length);

    if (!file) WF_DIE("no memory for a file's header");
    assign_data_offsets(out);
    write_header_json(file, out);
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

char *wf_file_temporary_name(const char *path, uint64_t number)
{
    char name[40];

    snprintf(name, sizeof name, ".weft-%016" PRIx64 ".part", number);
    return wf_path_in_same_folder(path, name);
}

static bool is_temporary_name(const char *name)
{
    static const char digits[] = "0123456789abcdef";

    return strncmp(name, ".weft-", 6) == 0 && strspn(name + 6, digits) == 16 &&
           strcmp(name + 22, ".part") == 0;
}

enum { PART_SECONDS = 3600 }; /* more than any save takes from one write to the next */

void wf_file_clean_temporaries(const char *written)
{
    struct stat now, st;
    struct dirent *entry;
    DIR *folder;
    char *here;

    if (lstat(written, &now) != 0) return;
    here = wf_path_in_same_folder(written, ".");
    folder = opendir(here);
    for (; folder && (entry = readdir(folder));) {
        char *path;

        if (!is_temporary_name(entry->d_name)) continue;
        path = wf_path_in_same_folder(written, entry->d_name);
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

weft_status wf_file_open_to_write(int *fd, const char *path)
{
    *fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    WF_NEED(*fd >= 0, WEFT_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    return WEFT_OK;
}

weft_status wf_file_write_at(int fd, const char *path, const void *bytes, size_t count,
                             size_t offset)
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

weft_status wf_file_sync_and_close(int fd, const char *path)
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

weft_status wf_file_check_replaceable(const char *to)
{
    struct stat st;

    WF_NEED(lstat(to, &st) != 0 || S_ISREG(st.st_mode) || S_ISLNK(st.st_mode), WEFT_ERR_IO,
            "%s: something is there that is no file", to);
    return WEFT_OK;
}

/* Bring the list of names of a file's folder to the disk. */
static void fsync_folder_of(const char *path)
{
    char *folder = wf_path_in_same_folder(path, ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || fsync(fd) != 0)
        WF_LOG(WF_LOG_WARN, "io", "%s: its folder may not be on disk: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    wf_free(folder);
}

weft_status wf_file_rename(const char *from, const char *to)
{
    WF_TRY(wf_file_check_replaceable(to));
    WF_NEED(rename(from, to) == 0, WEFT_ERR_IO, "%s: cannot rename to %s: %s", from, to,
            strerror(errno));
    fsync_folder_of(to);
    return WEFT_OK;
}

weft_status wf_file_remove(const char *path)
{
    if (unlink(path) == 0)
        fsync_folder_of(path);
    else
        WF_NEED(errno == ENOENT, WEFT_ERR_IO, "%s: cannot remove: %s", path, strerror(errno));
    return WEFT_OK;
}

weft_status wf_file_create_with_bytes(const char *path, const void *bytes, size_t count)
{
    weft_status status, finished;
    int fd;

    WF_TRY(wf_file_create(&fd, path, count));
    status = wf_file_write_at(fd, path, bytes, count, 0);
    finished = wf_file_sync_and_close(fd, path);
    return status == WEFT_OK ? finished : status;
}

weft_status wf_file_write_atomically(const char *path, const void *bytes, size_t count)
{
    char *temporary = wf_file_temporary_name(path, wf_system_random());
    weft_status status = wf_file_create_with_bytes(temporary, bytes, count);

    if (status == WEFT_OK) status = wf_file_rename(temporary, path);
    if (status != WEFT_OK) unlink(temporary);
    wf_free(temporary);
    return status;
}
