/*
 * manifest.h: checkpoint.json, the list of what is in a checkpoint's files. It is written last and
 * renamed into its place: while it is not there, neither is the checkpoint. It ends with a checksum
 * of itself, and has those of the files' headers, which have those of the data.
 */
#pragma once

#include <stdint.h>

#include <weft/tensor.h>

struct wf_manifest {
    int64_t generation; /* counts the saves to this folder; part of file names */
    struct wf_manifest_file {
        char *name;
        int64_t bytes;
        uint64_t hash; /* of the header */
    } * files;
    int64_t n_files;
    struct wf_manifest_tensor {
        char *name;
        int type, ndim;
        int64_t shape[WEFT_MAX_DIMS];
    } * tensors; /* as they were listed */
    int64_t n_tensors;
    struct wf_manifest_value {
        char *name, *text;
    } * values;
    int64_t n_values;
};

/** The manifest in a folder. fails: WEFT_ERR_NOT_FOUND without one, WEFT_ERR_IO; on this rank */
weft_status wf_manifest_read(struct wf_manifest *m, const char *folder);

/** Put it in the folder, atomically. fails: WEFT_ERR_IO; on this rank */
weft_status wf_manifest_write(const struct wf_manifest *m, const char *folder);

void wf_manifest_free(struct wf_manifest *m);

void wf_manifest_add_file(struct wf_manifest *m, char *name, int64_t bytes, uint64_t hash);
void wf_manifest_add_tensor(struct wf_manifest *m, char *name, int type, const int64_t *shape,
                            int ndim);
void wf_manifest_add_value(struct wf_manifest *m, char *name, char *text);
