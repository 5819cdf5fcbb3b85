/*
 * head_rows.h: attention that was saved packed and is loaded by heads, or the reverse.
 *
 * Attention has queries, keys and values in one parameter (packed) or, with `by_heads`, in two. A
 * table says which rows of a group of heads each of them has; what one of them saved is read row by
 * row into the other, and so are an optimizer's states, which have a parameter's shape.
 */
#pragma once

#include <stdbool.h>

#include "io/file_slices.h"

/** The rows of each group that a tensor has: its queries, its key and value, or both. Groups and
 * rows are a dim each, or one dim. */
struct wf_head_rows {
    const char *name; /* the last names of a parameter's path */
    int n_dims;
    bool queries, shared;
};

/** The names of what a tensor or value can be made from. Begin with {0}. */
struct wf_head_sources {
    const struct wf_heads_entry *entry; /* of the table */
    const struct wf_head_rows *wanted, *saved[2];
    char *names[2];
    int n, next;
};

/** The next sources of what has this name; false: there are no more, and nothing is to be freed. */
bool wf_head_sources_next(struct wf_head_sources *sources, const char *name);
void wf_head_sources_free(struct wf_head_sources *sources);

/** From which rows of a saved tensor to which of the wanted one. */
struct wf_head_row_map {
    const struct wf_head_rows *to, *from; /* NULL: the tensor as it is */
    int at;                               /* the first of the dims that have groups and rows */
    int64_t sharers;                      /* queries of a group */
};

/** gives: false when a tensor of the one shape has no rows for one of the other */
bool wf_head_row_map_init(struct wf_head_row_map *map, const struct wf_head_sources *sources,
                          int source, const int64_t *shape, int ndim, const int64_t *saved_shape,
                          int saved_ndim);

/** wf_file_slice_read of a shard of the saved tensor: `piece` with the runs and strides of its
 * dims, `ndim` of them. */
bool wf_head_row_map_read(const struct wf_head_row_map *map, weft_tensor *t,
                          const struct wf_local_runs *local, const struct wf_file_slice *piece,
                          int ndim);
