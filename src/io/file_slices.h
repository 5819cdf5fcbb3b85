/*
 * file_slices.h: which elements of a rank's shard a file (or a region of one) has, and copying
 * them.
 *
 * Along each dim both sides have runs of the global dim's elements; what they both have is a
 * wf_overlap. The product of the dims' overlaps is copied, in file order, so that a mapped file is
 * read from front to back and nowhere else.
 */
#pragma once

#include <stdbool.h>

#include <weft/tensor.h>

#include "base/elements/tensor_desc.h"
#include "placement/shard_overlap.h"

/** A box (or product of runs) of a tensor as a file has it. Strides are in elements. */
struct wf_file_slice {
    const void *data;
    int type; /* wf_element_type_info */
    int64_t n_runs[WEFT_MAX_DIMS];
    const struct wf_index_range *runs[WEFT_MAX_DIMS]; /* which elements of each dim */
    int64_t stride[WEFT_MAX_DIMS];
};

/** This rank's runs of each dim of a tensor. gives: freed by wf_local_runs_free */
struct wf_local_runs {
    int64_t n_runs[WEFT_MAX_DIMS];
    struct wf_index_range *runs[WEFT_MAX_DIMS];
};
void wf_local_runs_of_tensor(struct wf_local_runs *local, const weft_tensor *t);
void wf_local_runs_free(struct wf_local_runs *local);

/** Write the elements that this rank holds and the piece has into the tensor. gives: false when an
 *  integer does not fit the tensor's dtype */
bool wf_file_slice_read(weft_tensor *t, const struct wf_local_runs *local,
                        const struct wf_file_slice *piece);

/** Where the elements of a tensor belong in a file, and a function that is given them run by run.
 */
typedef weft_status wf_file_slice_sink(int64_t offset, const void *bytes, size_t count,
                                       void *payload);

/** The elements of `piece` (data unused) that this rank holds, in the file's order; offsets in
 * bytes from the piece's first element. */
weft_status wf_file_slice_write(const weft_tensor *t, const struct wf_local_runs *local,
                                const struct wf_file_slice *piece, wf_file_slice_sink *sink,
                                void *payload);
