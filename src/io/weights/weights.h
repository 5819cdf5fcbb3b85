/* weights.h: several files as one set of named tensors. */
#pragma once

#include <weft/weights.h>

#include "io/file_slices.h"
#include "io/safetensors.h"

/* A name, and where its tensor is. */
struct wf_weight {
    weft_weight info;
    const struct wf_safetensors *file;
    const struct wf_safetensors_entry *entry;
};

struct weft_weights {
    struct wf_safetensors *files;
    int n_files;
    struct wf_weight *items; /* by name */
    int64_t n_items;
};

/** The item under a name or, by a note, under the name that it is stored under; NULL: none. */
const struct wf_weight *wf_weights_find(const weft_weights *weights, const char *name);

/** Fails unless a rank can read elements into `t`, or write those that it has. `who` and `name` are
 * for messages. */
weft_status wf_check_has_elements(const char *who, const char *name, const weft_tensor *t);

/** A tensor's own row-major strides and whole dims, as a piece without data. `whole` gets the run
 * of each dim, and must live as long. */
void wf_file_slice_of_whole(struct wf_file_slice *piece, struct wf_index_range *whole, int type,
                            const int64_t *shape, int ndim);

/** The same of the elements of each dim that `local` has, which make up `shape`. */
void wf_file_slice_of_runs(struct wf_file_slice *piece, const struct wf_local_runs *local, int type,
                           const int64_t *shape, int ndim);

/** "[2,3]" into `text`; gives it. */
enum { WF_SHAPE_TEXT = 24 * WEFT_MAX_DIMS };
const char *wf_shape_text(char *text, const int64_t *shape, int ndim);

/** "DIR/name" for a path in a folder, wf_malloc'ed; a path of its own when it has no folder. */
char *wf_path_in_same_folder(const char *path, const char *name);
