/* weights_shards.c: tensors into several files and the index of them, as Hugging Face lays them
 * out. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/sys.h"
#include "io/agree.h"
#include "io/file_write.h"
#include "io/weights.h"
#include "io/weights_write.h"
#include "tensor/tensor.h"

static int64_t bytes_of(const struct wf_job *job)
{
    int64_t bytes = (int64_t)weft_dtype_size(weft_tensor_dtype(job->tensor));

    for (int d = 0; d < job->ndim; d++) bytes *= job->shape[d];
    return bytes;
}

/* The shard of each job, in order: the next one begins where a shard would have more than `most`
 * bytes. A tensor that stands there twice is where it stands first. gives: how many shards */
static int place_jobs(int *shard, const struct wf_job *jobs, int64_t count, int64_t most)
{
    int64_t filled = 0;
    int last = 0;

    for (int64_t i = 0; i < count; i++) {
        int64_t first = wf_job_stored_at(jobs, i), bytes = bytes_of(&jobs[i]);

        shard[i] = last;
        if (first < i) {
            shard[i] = shard[first];
            continue;
        }
        if (filled && filled + bytes > most) {
            filled = 0;
            shard[i] = ++last;
        }
        filled += bytes;
    }
    return last + 1;
}

static char *shard_name(int shard, int shards)
{
    return shards == 1 ? wf_strdup("model.safetensors")
                       : wf_format("model-%05d-of-%05d.safetensors", shard + 1, shards);
}

static weft_status write_shard(const char *folder, const struct wf_job *jobs, int64_t count,
                               const int *shard, int number, int shards)
{
    struct wf_job *mine = wf_calloc((size_t)count + 1, sizeof *mine);
    char *name = shard_name(number, shards), *path = wf_format("%s/%s", folder, name);
    weft_status status;
    int64_t n = 0;

    for (int64_t i = 0; i < count; i++)
        if (shard[i] == number) mine[n++] = jobs[i];
    status = wf_weights_write(path, mine, n);
    wf_free(mine);
    wf_free(path);
    wf_free(name);
    return status;
}

/* {"metadata": {"total_size": ..}, "weight_map": {tensor: file}}, of stored tensors. */
static char *index_text(const struct wf_job *jobs, int64_t count, const int *shard, int shards,
                        size_t *bytes)
{
    char *text = NULL, *name;
    FILE *file = open_memstream(&text, bytes);
    struct wf_json json = {.out = file};
    int64_t total = 0;

    if (!file) WF_DIE("no memory for an index of weights");
    for (int64_t i = 0; i < count; i++)
        if (wf_job_stored_at(jobs, i) == i) total += bytes_of(&jobs[i]);
    wf_json_open(&json, NULL, '{');
    wf_json_open(&json, "metadata", '{');
    wf_json_int(&json, "total_size", total);
    wf_json_close(&json, '}');
    wf_json_open(&json, "weight_map", '{');
    for (int64_t i = 0; i < count; i++) {
        if (wf_job_stored_at(jobs, i) != i) continue;
        name = shard_name(shard[i], shards);
        wf_json_text(&json, jobs[i].name, name);
        wf_free(name);
    }
    wf_json_close(&json, '}');
    wf_json_close(&json, '}');
    fclose(file);
    return text;
}

static weft_status write_index(const char *folder, const char *text, size_t bytes)
{
    char *path = wf_format("%s/model.safetensors.index.json", folder);
    char *part = wf_file_part(path, wf_sys_random());
    weft_status status, finished;
    int fd;

    status = wf_file_create(&fd, part, bytes);
    if (status == WEFT_OK) {
        status = wf_file_put(fd, part, text, bytes, 0);
        finished = wf_file_finish(fd, part);
        if (status == WEFT_OK) status = finished;
        if (status == WEFT_OK) status = wf_file_rename(part, path);
        if (status != WEFT_OK) unlink(part);
    }
    wf_free(part);
    wf_free(path);
    return status;
}

weft_status wf_weights_write_shards(const char *folder, const struct wf_job *jobs, int64_t count,
                                    int64_t most)
{
    int *shard = wf_calloc((size_t)count + 1, sizeof *shard);
    int shards = place_jobs(shard, jobs, count, most);
    weft_status status = WEFT_OK;
    size_t bytes;
    char *text;

    for (int number = 0; number < shards && status == WEFT_OK; number++)
        status = write_shard(folder, jobs, count, shard, number, shards);
    if (status == WEFT_OK && shards > 1) {
        text = index_text(jobs, count, shard, shards, &bytes);
        status = wf_agree(weft_world_rank() == 0 ? write_index(folder, text, bytes) : WEFT_OK);
        wf_free(text);
    }
    wf_free(shard);
    return status;
}
