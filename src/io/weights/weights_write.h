/* weights_write.h: writes tensors with another shape or order than they have in memory. */
#pragma once

#include <stdbool.h>

#include <weft/weights.h>

struct wf_weight_job {
    const char *name;
    weft_tensor *tensor;
    int ndim;                     /* of the file's tensor, */
    int64_t shape[WEFT_MAX_DIMS]; /* with as many elements */
    int join;
    int64_t first, rows; /* only these of the tensor's dim `join`; rows 0: all */
    bool strided;        /* elements lie in the file by `stride`, one per dim of `tensor` */
    int64_t stride[WEFT_MAX_DIMS];
};

/** weft_weights_write of such jobs. ranks, fails: as that */
weft_status wf_weights_write(const char *path, const struct wf_weight_job *jobs, int64_t count);

/** Its steps but the last one: names, tensors, and that all ranks have the same list; then the
 * file, complete under the name `temporary` (wf_file_temporary_name), which all ranks know. When it
 * fails it is not there. ranks, fails: as weft_weights_write */
weft_status wf_weight_jobs_check(const struct wf_weight_job *jobs, int64_t count);
weft_status wf_weight_jobs_write(const char *temporary, const struct wf_weight_job *jobs,
                                 int64_t count);

/** For each job the first one with the same tensor: it is stored there. wf_malloc'ed */
int64_t *wf_weight_jobs_stored_at(const struct wf_weight_job *jobs, int64_t count);

/** weft_weights_save_shards of such jobs. ranks, fails: as that */
weft_status wf_weights_write_shards(const char *folder, const struct wf_weight_job *jobs,
                                    int64_t count, int64_t most);
