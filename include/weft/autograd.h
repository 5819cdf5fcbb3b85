/* autograd.h: gradients by a tape of the same ops (docs/concepts/autograd.md). */
#pragma once

#include <weft/tensor.h>

/** Mark a leaf as wanting a gradient, or not.
 *  ranks: any; local
 *  gives: t
 *  fails: WEFT_ERR_DTYPE for integers, WEFT_ERR_STATE for the result of an op */
WEFT_API weft_tensor *weft_set_requires_grad(weft_tensor *t, bool wanted);

/** True when gradients flow to or through the tensor. ranks: any; local */
WEFT_API bool weft_requires_grad(const weft_tensor *t);

/**
 * The accumulated gradient of a leaf, in the leaf's own layout (PyTorch's t.grad, which sends
 * nothing).
 *
 * ranks: every rank of the leaf's mesh: it communicates when a partial sum has to be reduced, at
 *        most once per step, and for replicas (weft_data_parallel) reduces the gradients of all.
 *        After weft_reduce_gradients, clipping or a step nothing is sent
 * gives: borrowed from the leaf; NULL when there is none
 */
WEFT_API weft_tensor *weft_grad(weft_tensor *leaf);

/** Whether the accumulated gradient is a partial sum yet, which weft_grad would reduce: to see it
 *  without communication. False where there is none.
 *  ranks: any; local */
WEFT_API bool weft_grad_is_partial(const weft_tensor *leaf);

/**
 * Reduce every gradient among `leaves` that is still a partial sum, in flat buckets: one all-reduce
 * per mesh axis and dtype for all of them together.
 *
 * ranks: collective over the leaves' meshes; the same leaves in the same order on every rank
 * gives: gradients that weft_grad returns without communication
 */
WEFT_API weft_status weft_reduce_gradients(weft_tensor *const *leaves, int n);

/** Drop a leaf's gradient. ranks: any; local */
WEFT_API void weft_zero_grad(weft_tensor *leaf);

/**
 * Gradients of a one-element tensor with respect to every leaf it was computed from.
 *
 * Adds to each leaf's gradient and frees the tape, unless weft_backward_retain is used.
 * ranks: every rank that computed `loss`
 * fails: WEFT_ERR_SHAPE unless loss has one element; WEFT_ERR_STATE when nothing requires a
 *        gradient, the tape was freed by an earlier backward, or a tensor that it saved was
 *        modified in place since (PyTorch: "modified by an inplace operation"); saved in a
 *        weft_local_map, that ends the job
 */
WEFT_API weft_status weft_backward(weft_tensor *loss);
WEFT_API weft_status weft_backward_retain(weft_tensor *loss);

/**
 * Backward from any tensor with a given gradient of the same global shape.
 *
 * For a distributed tensor the gradient is distributed too, or one number; a plain one of several
 * elements only where weft_implicit_replication_open allows it.
 * ranks: as weft_backward
 * fails: as weft_backward; WEFT_ERR_SHAPE for another shape, WEFT_ERR_LAYOUT for a plain gradient
 */
WEFT_API weft_status weft_backward_from(weft_tensor *t, weft_tensor *gradient);

/** Stop / resume recording on this thread; regions nest.
 *  ranks: any; local
 *  fails: close: WEFT_ERR_STATE when none is open, which changes nothing */
WEFT_API void weft_no_grad_open(void);
WEFT_API weft_status weft_no_grad_close(void);

/** Computes one tensor from `n` inputs with ops; called again in backward. */
typedef weft_tensor *weft_recomputable(weft_tensor *const *in, int n, void *payload);

/**
 * run(in, n, payload), of which the tape keeps the inputs only: what lies between is computed again
 * when backward comes to it (activation checkpointing). Leaves that `run` uses beside its inputs,
 * such as parameters, get their gradients as usual; other tensors that were computed from leaves
 * must be inputs. An input that the result does not depend on gets zeros. Every generator of the
 * thread gives it the same random numbers again, and goes on afterwards where it was (PyTorch's
 * preserve_rng_state, Megatron's checkpoint). Pieces nest.
 *
 * ranks: as `run`; the second time, every rank that runs backward
 * gives: a tensor owned by the open scope. `release(payload)` (NULL: nothing) is called when no
 *        further run can come
 * fails: WEFT_ERR_ARG for more than 8 inputs or a missing one; what `run` fails with. Backward:
 *        WEFT_ERR_STATE when a tensor that `run` read, with a gradient or without, was written in
 *        place since; not for what `run` writes itself, such as statistics
 */
WEFT_API weft_tensor *weft_recomputed(weft_recomputable *run, weft_tensor *const *in, int n,
                                      void *payload, void (*release)(void *payload));

/**
 * Open a scope in which what backward will need is kept as shards where it is replicated (Megatron:
 * distribute saved activations; PyTorch: input_reshard).
 *
 * A floating-point tensor that is replicated along an axis of `mesh` costs each rank of it a shard:
 * every operation recorded in the scope keeps 1/ranks of its elements, and its backward gathers
 * them again, one all-gather each. Of weft_recomputed it is the inputs that are kept, so there it
 * is one per input of the whole piece. Parameters stay whole, and so does what has fewer elements
 * than the axis has ranks. Of several axes it is the innermost. A plain tensor of which nothing is
 * known is taken to be the same on every rank of the mesh.
 *
 * ranks: local, but all ranks of the mesh alike; backward is then collective over the mesh
 * gives: a scope: weft_scope_close or weft_scope_return ends it, and so does closing any scope
 *        around it. The mesh must live as long as the scope
 */
WEFT_API weft_scope *weft_saved_shards_open(weft_mesh *mesh);

/**
 * The same plain tensor without what is known of it.
 *
 * A plain tensor that came out of a mesh (weft_to_local, and all that is computed from it) has a
 * type per mesh axis: replicated, varying, a shard or a term, and what its gradient is. Calls
 * in which types do not go together are refused (docs/concepts/autograd.md). A program that knows
 * better, because it communicates by itself, says so with this.
 *
 * ranks: any; local
 * gives: a tensor owned by the open scope, shares storage with t; t itself when nothing is known of
 *        it
 * grad:  as it is
 */
WEFT_API weft_tensor *weft_drop_grad_types(weft_tensor *t);
