/*
 * undo.h: what a call that is only recorded has changed, put back: elements that it wrote in place,
 * gradients of leaves, states and counts of optimizers, and where generators stood.
 */
#pragma once

#include "tensor/tensor.h"

struct wf_undo {
    struct wf_saved_block *blocks;
    int n_blocks;
    struct wf_saved_gradient *gradients;
    int n_gradients;
    struct wf_saved_generator *generators;
    int n_generators;
};

/** The call begins. */
void wf_undo_begin(struct wf_undo *undo);

/** A block that was there before is about to be written / a leaf's gradient is about to change, by
 * backward or by being given back. Once for each; later ones do nothing. */
void wf_undo_save_block(struct wf_undo *undo, struct wf_block *block);
void wf_undo_save_gradient(struct wf_undo *undo, weft_tensor *leaf);

/** Put everything back, and free it. */
void wf_undo_end(struct wf_undo *undo);
