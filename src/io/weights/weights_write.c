/* weights_write.c: tensors into one file. Rank 0 creates the file with its header, every rank
 * writes its elements, rank 0 renames the file. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/sys.h"
#include "io/agree_on_status.h"
#include "io/element_type.h"
#include "io/file_write.h"
#include "io/name_set.h"
#include "io/shard_owners.h"
#include "io/slice_writer.h"
#include "io/weights/weights.h"
#include "io/weights/weights_write.h"
#include "tensor/tensor.h"

struct tie {
    const weft_tensor *tensor;
    int64_t first, job;
};

static int compare_by_tensor(const void *a, const void *b)
{
    const struct tie *x = a, *y = b;

    if (x->tensor != y->tensor) return (uintptr_t)x->tensor < (uintptr_t)y->tensor ? -1 : 1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->job > y->job) - (x->job < y->job);
}

int64_t *wf_weight_jobs_stored_at(const struct wf_weight_job *jobs, int64_t count)
{
    struct tie *order = wf_calloc((size_t)count + 1, sizeof *order);
    int64_t *stored_at = wf_calloc((size_t)count + 1, sizeof *stored_at);

    for (int64_t i = 0; i < count; i++) order[i] = (struct tie){jobs[i].tensor, jobs[i].first, i};
    if (count) qsort(order, (size_t)count, sizeof *order, compare_by_tensor);
    for (int64_t i = 0; i < count; i++) {
        const struct tie *before = i ? &order[i - 1] : NULL;
        bool same = before && before->tensor == order[i].tensor && before->first == order[i].first;

        stored_at[order[i].job] = same ? stored_at[before->job] : order[i].job;
    }
    wf_free(order);
    return stored_at;
}

static weft_status check_unused_name(struct wf_name_set *names, const char *name)
{
    char *copy = wf_strdup(name);

    if (wf_is_valid_tensor_name(name) && wf_name_set_add(names, copy)) return WEFT_OK;
    wf_free(copy);
    return WF_FAIL(WEFT_ERR_ARG,
                   "write weights: the name '%s' stands twice, is reserved or not UTF-8", name);
}

static weft_status check_jobs(const struct wf_weight_job *jobs, int64_t count)
{
    struct wf_name_set names = {0};
    weft_status status = WEFT_OK;

    for (int64_t i = 0; i < count && status == WEFT_OK; i++) {
        const char *name = jobs[i].name;

        status = !name || !name[0]
                     ? WF_FAIL(WEFT_ERR_ARG, "write weights: tensor %lld has no name", (long long)i)
                     : wf_check_has_elements("write weights", name, jobs[i].tensor);
        if (status == WEFT_OK) status = check_unused_name(&names, name);
    }
    wf_name_set_free(&names);
    return status;
}

/* Hash of what must be equal on all ranks: names and layouts. */
static uint64_t hash_job_descriptions(const struct wf_weight_job *jobs, int64_t count)
{
    uint64_t hash = (uint64_t)count;
    char text[512];

    for (int64_t i = 0; i < count; i++) {
        weft_tensor_format(jobs[i].tensor, text, sizeof text);
        hash = wf_hash_mix(hash, wf_hash_bytes(text, strlen(text)));
        hash = wf_hash_mix(hash, wf_hash_bytes(jobs[i].name, strlen(jobs[i].name)));
    }
    return hash;
}

static void plan_file_entries(struct wf_safetensors_out *out, const struct wf_weight_job *jobs,
                              int64_t count)
{
    int64_t *stored_at = wf_weight_jobs_stored_at(jobs, count);

    wf_safetensors_out_metadata(out, "format", "pt"); /* what readers of PyTorch models look for */
    for (int64_t i = 0; i < count; i++) {
        int64_t first = stored_at[i];
        struct wf_safetensors_out_entry entry = {
            .name = jobs[i].name,
            .type = wf_element_type_of_dtype(weft_tensor_dtype(jobs[i].tensor)),
            .ndim = jobs[i].ndim,
            .index = (int)i};

        memcpy(entry.shape, jobs[i].shape, sizeof entry.shape);
        if (first == i)
            wf_safetensors_out_add_entry(out, &entry);
        else
            wf_safetensors_out_metadata(out, jobs[i].name, jobs[first].name);
    }
    wf_free(stored_at);
    wf_safetensors_out_make_header(out);
}

static weft_status create_file_with_header(const struct wf_safetensors_out *out, const char *path)
{
    weft_status status;
    int fd;

    WF_TRY(wf_file_create(&fd, path, out->header_bytes + out->data_bytes));
    status = wf_file_write_at(fd, path, out->header, out->header_bytes, 0);
    if (status == WEFT_OK) return wf_file_sync_and_close(fd, path);
    close(fd);
    unlink(path);
    return status;
}

static weft_status write_entry_data(struct wf_slice_writer *w, const struct wf_safetensors_out *out,
                                    const struct wf_safetensors_out_entry *entry,
                                    const struct wf_weight_job *job)
{
    size_t base = out->header_bytes + (size_t)entry->begin;
    struct wf_index_range whole[WEFT_MAX_DIMS];
    struct wf_file_slice piece;
    struct wf_local_runs local;
    weft_status status;

    wf_file_slice_of_whole(&piece, whole, entry->type, job->tensor->layout->desc.global,
                           weft_ndim(job->tensor));
    if (job->rows) whole[job->join] = (struct wf_index_range){job->first, job->rows};
    if (job->strided) memcpy(piece.stride, job->stride, sizeof piece.stride);
    wf_local_runs_of_tensor(&local, job->tensor);
    status = wf_slice_writer_write(w, base, job->tensor, &local, &piece);
    wf_local_runs_free(&local);
    return status;
}

/* Every rank decides about every entry, and writes its own. */
static weft_status write_own_entries(const struct wf_safetensors_out *out,
                                     const struct wf_weight_job *jobs, const char *path)
{
    struct wf_owners owners;
    struct wf_slice_writer w;
    weft_status status, finished;
    int fd;

    WF_TRY(wf_file_open_to_write(&fd, path));
    wf_owners_init(&owners, weft_world_size(), weft_world_rank());
    wf_slice_writer_open(&w, fd, path);
    status = WEFT_OK;
    for (int64_t i = 0; i < out->n_entries && status == WEFT_OK; i++) {
        const struct wf_weight_job *job = &jobs[out->entries[i].index];

        if (wf_owners_assign_tensor(&owners, job->tensor))
            status = write_entry_data(&w, out, &out->entries[i], job);
    }
    wf_slice_writer_close(&w);
    wf_owners_free(&owners);
    finished = wf_file_sync_and_close(fd, path);
    return status != WEFT_OK ? status : finished;
}

weft_status wf_weight_jobs_check(const struct wf_weight_job *jobs, int64_t count)
{
    WF_TRY(wf_agree_status(check_jobs(jobs, count)));
    return wf_agree_same_number("write weights: the list of tensors",
                                hash_job_descriptions(jobs, count));
}

weft_status wf_weight_jobs_write(const char *temporary, const struct wf_weight_job *jobs,
                                 int64_t count)
{
    bool first = weft_world_rank() == 0;
    struct wf_safetensors_out out = {0};
    weft_status status;

    plan_file_entries(&out, jobs, count);
    status = wf_agree_status(first ? create_file_with_header(&out, temporary) : WEFT_OK);
    if (status == WEFT_OK) {
        status = wf_agree_status(write_own_entries(&out, jobs, temporary));
        if (status != WEFT_OK && first) unlink(temporary);
    }
    wf_safetensors_out_free(&out);
    return status;
}

weft_status wf_weights_write(const char *path, const struct wf_weight_job *jobs, int64_t count)
{
    bool first = weft_world_rank() == 0;
    weft_status status;
    char *temporary;

    WF_NEED(path && path[0], WEFT_ERR_ARG, "write weights: no path");
    WF_TRY(wf_weight_jobs_check(jobs, count));
    temporary = wf_file_temporary_name(path, wf_agree_rank0_number(first ? wf_system_random() : 0));
    status = wf_weight_jobs_write(temporary, jobs, count);
    if (status == WEFT_OK) {
        status = wf_agree_status(first ? wf_file_rename(temporary, path) : WEFT_OK);
        if (status != WEFT_OK && first) unlink(temporary);
        if (status == WEFT_OK && first) wf_file_clean_temporaries(path);
    }
    wf_free(temporary);
    return status;
}

weft_status weft_weights_write(const char *path, const weft_named_tensor *tensors, int64_t count)
{
    struct wf_weight_job *jobs;
    weft_status status;

    WF_NEED(count >= 0 && (tensors || count == 0), WEFT_ERR_ARG, "write weights: %lld tensors",
            (long long)count);
    jobs = wf_calloc((size_t)count + 1, sizeof *jobs);
    for (int64_t i = 0; i < count; i++) {
        weft_tensor *t = tensors[i].tensor;

        jobs[i] = (struct wf_weight_job){.name = tensors[i].name, .tensor = t};
        if (!t) continue; /* refused below, by its name */
        jobs[i].ndim = weft_ndim(t);
        memcpy(jobs[i].shape, t->layout->desc.global, sizeof jobs[i].shape);
    }
    status = wf_weights_write(path, jobs, count);
    wf_free(jobs);
    return status;
}
