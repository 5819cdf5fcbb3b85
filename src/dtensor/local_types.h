/*
 * local_types.h: what can be told of a plain tensor's elements across the ranks of a mesh axis,
 * from the operations that made it (typed local_map).
 */
#pragma once

#include "tensor/tensor.h"

enum wf_across { WF_UNKNOWN, WF_SAME, WF_VARYING, WF_PENDING };

/** "unknown", "replicated", "varying", "pending". */
const char *wf_across_name(enum wf_across across);
enum wf_across wf_across_of(weft_placement p);

/** A function's input, and how it is on each axis of the mesh. */
struct wf_typed {
    weft_tensor *tensor; /* a handle that nothing else has */
    bool stand_in;       /* made a leaf to be followed only: nobody wants its gradient */
    enum wf_across across[WEFT_MAX_AXES];
};

/** A handle to the same elements that the tape can follow; on integers it is the tensor itself. */
weft_tensor *wf_types_follow(weft_tensor *t);

/**
 * How each result is on each axis, from the tape between it and the inputs, recorded since.
 *
 * Only what is certain: a constant or an operation without gradient makes what follows unknown,
 * unless it varies anyway. Afterwards stand-ins are no longer on the tape, and results[j] that
 * nobody wants a gradient of (none at all without `gradients`) are replaced by handles without one.
 */
void wf_types_infer(const weft_mesh *mesh, const struct wf_typed *inputs, int n_in, bool gradients,
                    weft_tensor **results, int n_out, enum wf_across (*across)[WEFT_MAX_AXES]);
