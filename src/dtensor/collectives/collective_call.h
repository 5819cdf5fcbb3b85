/* collective_call.h: one collective on plain tensors along an axis of a mesh, and the tensors it
 * needs. */
#pragma once

#include "comm/comm.h"
#include "tensor/tensor.h"

struct wf_collective_call {
    const char *who;
    weft_mesh *mesh;
    int axis, ways, me;
    bool meta;
    weft_tensor *t;
    struct wf_coll coll;
};

/** Check the arguments, the same way on all ranks. Sets kind, line and dtype of `coll`. */
weft_status wf_collective_call_begin(struct wf_collective_call *d, const char *who, weft_coll kind,
                                     weft_tensor *t, weft_mesh *mesh, int axis);

/** Start the collective; on the meta device it is only announced to observers. */
void wf_collective_call_run(struct wf_collective_call *d);

/** A plain tensor like d->t with another shape; out of memory ends the job, as other ranks may be
 * in the collective already. */
weft_tensor *wf_collective_call_new_tensor(const struct wf_collective_call *d, const int64_t *shape,
                                           int ndim, enum wf_category category);

/** t, or a row-major copy, outside the tape. */
weft_tensor *wf_collective_call_row_major(const struct wf_collective_call *d, weft_tensor *t);
