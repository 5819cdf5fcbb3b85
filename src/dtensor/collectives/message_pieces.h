/* message_pieces.h: a tensor cut along one dim in a piece per rank, and the pieces packed
 * contiguously for a collective.
 */
#pragma once

#include "tensor/tensor.h"

/* All dims but `dim` are those of `shape`; `sizes` has the size of `dim` per rank, and is not
 * owned. */
struct wf_message_pieces {
    int ndim, dim;
    int64_t shape[WEFT_MAX_DIMS];
    int64_t *sizes;
};

/** The size of the dim that the pieces make up together. */
int64_t wf_message_pieces_total_size(const struct wf_message_pieces *p, int ways);

/** Elements of each rank's piece; the caller frees them. */
size_t *wf_message_pieces_counts(const struct wf_message_pieces *p, int ways);

/** Copies between the tensor and its packed pieces, each row-major. */
void wf_message_pieces_pack_unpack(const struct wf_message_pieces *p, int ways, weft_tensor *t,
                                   void *packed, bool pack);
