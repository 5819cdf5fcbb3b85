/* weights_shards.c: writes tensors to several files and their index, in Hugging Face's layout. The
 * folder has the old weights until the new ones are complete, and never some of both: while files
 * are renamed, opening the folder finds no weights. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/text/json_writer.h"
#include "io/agree_on_status.h"
#include "io/file_write.h"
#include "io/weights/weights.h"
#include "io/weights/weights_write.h"
#include "tensor/tensor.h"

static const char single_name[] = "model.safetensors";
static const char index_name[] = "model.safetensors.index.json";

struct shard {
    char *name, *temporary; /* `temporary`: the path until all shards are complete */
    int64_t count;          /* of its jobs, which follow those of the shard before */
};

struct saving {
    const char *folder;
    const int64_t *stored_at;         /* per job, as are the next two */
    int *shard_of;                    /* which shard it is in */
    const struct wf_weight_job *jobs; /* as they are listed */
    int64_t count;
    struct shard *shards;
    int n_shards;
};

static int64_t count_job_bytes(const struct wf_weight_job *job)
{
    int64_t bytes = (int64_t)weft_dtype_size(weft_tensor_dtype(job->tensor));

    for (int d = 0; d < job->ndim; d++) bytes *= job->shape[d];
    return bytes;
}

/* The shard of each job, in order: the next one begins where a shard would have more than `most`
 * bytes. A tensor that stands there twice is where it stands first. gives: how many shards */
static int assign_jobs_to_shards(const struct saving *s, int64_t most)
{
    int64_t filled = 0;
    int last = 0;

    for (int64_t i = 0; i < s->count; i++) {
        int64_t first = s->stored_at[i], bytes = count_job_bytes(&s->jobs[i]);

        s->shard_of[i] = last;
        if (first < i) {
            s->shard_of[i] = s->shard_of[first];
            continue;
        }
        if (filled && filled + bytes > most) {
            filled = 0;
            s->shard_of[i] = ++last;
        }
        filled += bytes;
    }
    return last + 1;
}

static char *make_shard_file_name(int shard, int shards)
{
    return shards == 1 ? wf_strdup(single_name)
                       : wf_format("model-%05d-of-%05d.safetensors", shard + 1, shards);
}

static char *path_in_folder(const char *folder, const char *name)
{
    return wf_format("%s/%s", folder, name);
}

/* ranks: all of the world, for names that all know */
static void make_shard_names(struct saving *s)
{
    uint64_t number = wf_agree_rank0_number(weft_world_rank() == 0 ? wf_system_random() : 0);

    s->shards = wf_calloc((size_t)s->n_shards, sizeof *s->shards);
    for (int i = 0; i < s->n_shards; i++) {
        char *name = make_shard_file_name(i, s->n_shards), *path = path_in_folder(s->folder, name);

        s->shards[i] = (struct shard){
            .name = name, .temporary = wf_file_temporary_name(path, number + (unsigned)i)};
        wf_free(path);
    }
    for (int64_t i = 0; i < s->count; i++) s->shards[s->shard_of[i]].count++;
}

/* ---- data ---- */

static weft_status write_shard_files(const struct saving *s)
{
    struct wf_weight_job *jobs = wf_calloc((size_t)s->count + 1, sizeof *jobs), *its = jobs;
    int64_t *next = wf_calloc((size_t)s->n_shards + 1, sizeof *next);
    weft_status status = WEFT_OK;

    /* the jobs of one shard behind another */
    for (int i = 0; i < s->n_shards; i++) next[i + 1] = next[i] + s->shards[i].count;
    for (int64_t i = 0; i < s->count; i++) jobs[next[s->shard_of[i]]++] = s->jobs[i];
    wf_free(next);
    for (int i = 0; i < s->n_shards && status == WEFT_OK; i++) {
        status = wf_weight_jobs_write(s->shards[i].temporary, its, s->shards[i].count);
        its += s->shards[i].count;
    }
    wf_free(jobs);
    return status;
}

/* {"metadata": {"total_size": ..}, "weight_map": {tensor: file}}, of stored tensors. */
static char *make_index_text(const struct saving *s, size_t *bytes)
{
    char *text = NULL;
    FILE *file = open_memstream(&text, bytes);
    struct wf_json_writer json = {.out = file};
    int64_t total = 0;

    if (!file) WF_DIE("no memory for an index of weights");
    for (int64_t i = 0; i < s->count; i++)
        if (s->stored_at[i] == i) total += count_job_bytes(&s->jobs[i]);
    wf_json_begin_container(&json, NULL, '{');
    wf_json_begin_container(&json, "metadata", '{');
    wf_json_write_int(&json, "total_size", total);
    wf_json_end_container(&json, '}');
    wf_json_begin_container(&json, "weight_map", '{');
    for (int64_t i = 0; i < s->count; i++)
        if (s->stored_at[i] == i)
            wf_json_write_string(&json, s->jobs[i].name, s->shards[s->shard_of[i]].name);
    wf_json_end_container(&json, '}');
    wf_json_end_container(&json, '}');
    fclose(file);
    return text;
}

/* ---- names, which rank 0 gives ---- */

static weft_status check_replaceable(const struct saving *s, const char *name)
{
    char *path = path_in_folder(s->folder, name);
    weft_status status = wf_file_check_replaceable(path);

    wf_free(path);
    return status;
}

/* Checked before the first file is written. */
static weft_status check_names_replaceable(const struct saving *s)
{
    WF_TRY(check_replaceable(s, single_name));
    WF_TRY(check_replaceable(s, index_name));
    for (int i = 0; i < s->n_shards; i++) WF_TRY(check_replaceable(s, s->shards[i].name));
    return WEFT_OK;
}

static weft_status remove_file_in_folder(const struct saving *s, const char *name)
{
    char *path = path_in_folder(s->folder, name);
    weft_status status = wf_file_remove(path);

    wf_free(path);
    return status;
}

static weft_status rename_shards(const struct saving *s)
{
    weft_status status = WEFT_OK;

    for (int i = 0; i < s->n_shards && status == WEFT_OK; i++) {
        char *path = path_in_folder(s->folder, s->shards[i].name);

        status = wf_file_rename(s->shards[i].temporary, path);
        wf_free(path);
    }
    return status;
}

/* A reader follows the index where there is one, so the index is renamed into place last, and the
 * old index is removed before the old shards. */
static weft_status replace_by_shard_files(const struct saving *s, const char *temporary,
                                          const char *index)
{
    size_t bytes;
    char *text = make_index_text(s, &bytes);
    weft_status status = wf_file_create_with_bytes(temporary, text, bytes);

    wf_free(text);
    WF_TRY(status);
    WF_TRY(remove_file_in_folder(s, single_name));
    WF_TRY(remove_file_in_folder(s, index_name));
    WF_TRY(rename_shards(s));
    return wf_file_rename(temporary, index);
}

static weft_status replace_by_single_file(const struct saving *s)
{
    WF_TRY(rename_shards(s));
    return remove_file_in_folder(s, index_name);
}

/* How many shards a name says there are, 0 for another name. */
static int shard_count_of_file_name(const char *name)
{
    int shard, shards;
    char *again;
    bool same;

    if (sscanf(name, "model-%d-of-%d.safetensors", &shard, &shards) != 2 || shards < 2) return 0;
    again = make_shard_file_name(shard - 1, shards);
    same = strcmp(name, again) == 0;
    wf_free(again);
    return same ? shards : 0;
}

/* No index refers to the old shards any more. What cannot be removed does no harm. */
static void remove_old_shard_files(const struct saving *s)
{
    DIR *folder = opendir(s->folder);
    struct dirent *entry;
    char *written;

    for (; folder && (entry = readdir(folder));) {
        int shards = shard_count_of_file_name(entry->d_name);
        struct stat st;
        char *path;

        if (!shards || shards == s->n_shards) continue;
        path = path_in_folder(s->folder, entry->d_name);
        if (lstat(path, &st) == 0 && st.st_uid == geteuid() && !S_ISDIR(st.st_mode)) unlink(path);
        wf_free(path);
    }
    if (folder) closedir(folder);
    written = path_in_folder(s->folder, s->shards[0].name);
    wf_file_clean_temporaries(written);
    wf_free(written);
}

static weft_status replace_weight_files(const struct saving *s)
{
    char *index = path_in_folder(s->folder, index_name),
         *temporary = wf_file_temporary_name(index, wf_system_random());
    weft_status status = check_names_replaceable(s);

    if (status == WEFT_OK)
        status = s->n_shards > 1 ? replace_by_shard_files(s, temporary, index)
                                 : replace_by_single_file(s);
    if (status == WEFT_OK)
        remove_old_shard_files(s);
    else
        unlink(temporary);
    wf_free(temporary);
    wf_free(index);
    return status;
}

weft_status wf_weights_write_shards(const char *folder, const struct wf_weight_job *jobs,
                                    int64_t count, int64_t most)
{
    struct saving s = {.folder = folder, .jobs = jobs, .count = count};
    bool first = weft_world_rank() == 0;
    int64_t *stored_at;
    weft_status status;

    WF_TRY(wf_weight_jobs_check(jobs, count));
    s.stored_at = stored_at = wf_weight_jobs_stored_at(jobs, count);
    s.shard_of = wf_calloc((size_t)count + 1, sizeof *s.shard_of);
    s.n_shards = assign_jobs_to_shards(&s, most);
    make_shard_names(&s);
    status = write_shard_files(&s);
    if (status == WEFT_OK) status = wf_agree_status(first ? replace_weight_files(&s) : WEFT_OK);
    for (int i = 0; i < s.n_shards; i++) {
        if (status != WEFT_OK && first) unlink(s.shards[i].temporary);
        wf_free(s.shards[i].temporary);
        wf_free(s.shards[i].name);
    }
    wf_free(s.shards);
    wf_free(s.shard_of);
    wf_free(stored_at);
    return status;
}
