/*
 * checkpoint_folder.c: the names in a checkpoint's folder, and which of the files there are ours.
 *
 * A file is removed, or written over, only when this user has it and a save has written it:
 * complete ones are known by the notes in their headers, others by a name that means nothing else
 * (wf_file_clean_temporaries).
 * Other files in the folder stay.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "io/checkpoint/checkpoint.h"
#include "io/checkpoint/manifest.h"
#include "io/checkpoint/shard_text.h"
#include "io/file_write.h"
#include "io/safetensors.h"

char *wf_checkpoint_file_name(int64_t generation, int rank)
{
    return wf_format("g%06lld-r%05d.safetensors", (long long)generation, rank);
}

/* The save that a name says, -1 for another name. */
static int64_t generation_of_file_name(const char *name)
{
    long long generation;
    char *again;
    bool same;
    int rank;

    if (sscanf(name, "g%lld-r%d.safetensors", &generation, &rank) != 2) return -1;
    again = wf_checkpoint_file_name(generation, rank);
    same = strcmp(name, again) == 0;
    wf_free(again);
    return same ? generation : -1;
}

/* Every tensor has the note that says which elements it has. What is no such file is no failure of
 * the program's; one that it has stays. */
static bool has_slice_notes(const char *path)
{
    bool failed = weft_error_status() != WEFT_OK;
    struct wf_safetensors file;
    bool all;

    if (wf_safetensors_open(&file, path) != WEFT_OK) {
        if (!failed) weft_error_clear();
        return false;
    }
    all = file.n_entries > 0;
    for (int64_t i = 0; i < file.n_entries && all; i++) {
        const char *note = wf_safetensors_metadata(&file, file.entries[i].name);

        all = note && wf_file_slice_is_note(note);
    }
    wf_safetensors_close(&file);
    return all;
}

static bool is_own_checkpoint_file(const char *path)
{
    struct stat st;

    if (lstat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) return false;
    return has_slice_notes(path);
}

static weft_status make_checkpoint_folder(const char *path)
{
    struct stat st;

    WF_NEED(mkdir(path, 0777) == 0 || errno == EEXIST, WEFT_ERR_IO,
            "%s: cannot make the folder: %s", path, strerror(errno));
    WF_NEED(stat(path, &st) == 0 && S_ISDIR(st.st_mode), WEFT_ERR_IO, "%s: not a folder", path);
    WF_NEED(st.st_uid == geteuid(), WEFT_ERR_IO,
            "%s: the folder belongs to user %lld, who could change what is saved there", path,
            (long long)st.st_uid);
    return WEFT_OK;
}

/* Fails when a name that this save will use belongs to a file that no save has written. */
static weft_status check_file_names_unused(const char *path, int64_t generation)
{
    weft_status status = WEFT_OK;

    for (int rank = 0; rank < weft_world_size() && status == WEFT_OK; rank++) {
        char *name = wf_checkpoint_file_name(generation, rank);
        char *whole = wf_format("%s/%s", path, name);
        struct stat st;

        if (lstat(whole, &st) == 0 && !is_own_checkpoint_file(whole))
            status =
                WF_FAIL(WEFT_ERR_IO, "%s: is there, and no save of ours has written it", whole);
        wf_free(whole);
        wf_free(name);
    }
    return status;
}

weft_status wf_checkpoint_prepare_folder(const char *path, uint64_t *generation)
{
    struct wf_manifest old;
    char *list;
    bool there;

    WF_TRY(make_checkpoint_folder(path));
    list = wf_format("%s/checkpoint.json", path);
    there = access(list, F_OK) == 0;
    wf_free(list);
    *generation = 1;
    if (there) {
        WF_TRY(wf_manifest_read(&old, path));
        *generation = (uint64_t)old.generation + 1;
        wf_manifest_free(&old);
    }
    return check_file_names_unused(path, (int64_t)*generation);
}

void wf_checkpoint_remove_old_files(const char *path, int64_t generation)
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    char *list;

    for (; folder && (entry = readdir(folder));) {
        int64_t of = generation_of_file_name(entry->d_name);
        char *name;

        if (of < 0 || of == generation) continue;
        name = wf_format("%s/%s", path, entry->d_name);
        if (is_own_checkpoint_file(name)) unlink(name);
        wf_free(name);
    }
    if (folder) closedir(folder);
    list = wf_format("%s/checkpoint.json", path);
    wf_file_clean_temporaries(list);
    wf_free(list);
}
