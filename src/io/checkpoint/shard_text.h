/* shard_text.h: which elements of a tensor an entry of a checkpoint has, and its checksum, as text:
 * "0+4,8+4;0+16|0123456789abcdef", runs of each dim as first+count. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "io/file_slices.h"

/** wf_malloc'ed; its length does not depend on `hash`. */
char *wf_file_slice_text(const struct wf_local_runs *local, int ndim, uint64_t hash);

/**
 * Read it back, checked: runs grow, lie within `global` and make up `shape`.
 * gives: freed by wf_local_runs_free, also after false
 */
bool wf_file_slice_parse(struct wf_local_runs *local, uint64_t *hash, const char *text,
                         const int64_t *shape, const int64_t *global, int ndim);

/** True for a text that ends as such a note does, whatever the tensor is. */
bool wf_file_slice_is_note(const char *text);
