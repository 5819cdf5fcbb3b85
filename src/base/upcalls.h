/*
 * upcalls.h: every function that a layer calls at link time although a layer that it may not use
 * defines it, with the reason. Types of the layers above are only named here. ARCHITECTURE.md lists
 * the same functions (tools/check_source compares), and the test `layers` finds every other one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/error.h>
#include <weft/export.h>
#include <weft/types.h>

struct weft_placement;
struct wf_block;
struct wf_infer;
struct wf_kernel_call;
struct wf_layout;
struct wf_op_args;
struct wf_op_plan;
struct wf_tape_node;

/* ---- mesh calls weft.c: the first mesh starts the library if the program has not ---- */

WEFT_API weft_status weft_init(int *argc, char ***argv);

/* ---- tensor calls redistribute: elements of a handle may still be in flight ---- */

/** Wait until the tensor's elements are there. */
void wf_tensor_wait(const weft_tensor *t);
/** Wait for collectives that still read the block, which has readers: before a write in place. */
void wf_block_wait_readers(const struct wf_block *block);

/* ---- tensor calls autograd: a handle owns one reference to its tape node ---- */

/** Drop the node of a handle that is released. */
void wf_tape_node_release(struct wf_tape_node *node);

/* ---- nn calls tensor, of which it may see the public headers only ---- */

/** How many parameters of modules the tensor is, to count up and down. Stored beside the handle,
 * which has no room for it. */
int32_t *wf_tensor_parameter_count(weft_tensor *t);

/* ---- nn calls dtensor: modules bring tensors that they make to the device of those they are given
 * ---- */

/** Public function (tensor.h): a copy on another device, an op like any other. */
WEFT_API weft_tensor *weft_to_device(weft_tensor *t, weft_device device);

/* ---- autograd calls dtensor: the tape knows no mesh ---- */

/**
 * This rank's shard of a tensor that all ranks along an axis of the mesh hold, as a plain tensor of
 * the open scope, and `*whole` for putting it together again (borrowed from a tensor of the open
 * scope); NULL when it is none of those.
 */
weft_tensor *wf_saved_tensor_to_shard(weft_tensor *t, weft_mesh *mesh, struct wf_layout **whole);
/** The whole tensor again, in the open scope. */
weft_tensor *wf_saved_tensor_from_shards(weft_tensor *shard, weft_mesh *mesh,
                                         struct wf_layout *whole);

/**
 * A piece that is recomputed in a local function (dtensor/local_map/local_region.h): its result, to
 * which every walk from the function's results comes, or `out` itself where that is not needed.
 */
weft_tensor *wf_local_region_add_recomputed(weft_tensor *out);
/** The piece's second run, in which exchanges come back on all ranks as they would have without
 * it. `run` is a weft_recomputable. */
weft_tensor *wf_local_region_recompute(weft_tensor *(*run)(weft_tensor *const *in, int n,
                                                           void *payload),
                                       weft_tensor *const *in, int n, void *payload);

/* ---- ops calls dtensor: gradients and compositions are written with ops, and every op is
 * dispatched ---- */

/**
 * Run an op (`op`: enum wf_op of ops/dispatch_op.h): find or make its plan, redistribute inputs
 * that need it, run the kernel, record.
 *
 * `in` may hold NULL for optional inputs; NULL for a required one gives NULL. `args` may be NULL.
 * `more` receives outputs 1.. (owned by the open scope), or is NULL.
 */
weft_tensor *wf_dispatch_op(unsigned op, weft_tensor *const *in, int n,
                            const struct wf_op_args *args, weft_tensor **more);
/** A program has registered a rule of its own for the op: then a composition must not take its
 * place. */
bool wf_op_has_user_rule(unsigned op);
/** A redistribution that the op `who` does of itself, refused where the guard says so. */
weft_tensor *wf_redistribute_implicitly(const char *who, weft_tensor *t,
                                        const struct weft_placement *placements);

/* Public functions (dtensor.h). Cross-entropy, top k and multinomial work on the local shards and
 * combine their results. */
WEFT_API weft_tensor *weft_from_local(weft_tensor *local, weft_mesh *mesh,
                                      const struct weft_placement *placements,
                                      const int64_t *shape);
WEFT_API weft_tensor *weft_to_local(weft_tensor *t, const struct weft_placement *grad_placements);
WEFT_API weft_tensor *weft_redistribute(weft_tensor *t, const struct weft_placement *placements);

/* Columns of the op table (ops.def) for conversions, which decide their own layouts and gradients,
 * and for ops that the program has registered. */
weft_status wf_plan_from_local(struct wf_op_plan *plan, const struct wf_infer *call);
weft_status wf_plan_to_local(struct wf_op_plan *plan, const struct wf_infer *call);
weft_status wf_plan_redistribute(struct wf_op_plan *plan, const struct wf_infer *call);
weft_status wf_plan_to_mesh(struct wf_op_plan *plan, const struct wf_infer *call);
weft_status wf_plan_to_device(struct wf_op_plan *plan, const struct wf_infer *call);
weft_status wf_plan_untyped(struct wf_op_plan *plan, const struct wf_infer *call);
weft_status wf_plan_custom(struct wf_op_plan *plan, const struct wf_infer *call);
weft_status wf_shape_custom(struct wf_infer *call);
weft_status wf_to_mesh_kernel(struct wf_kernel_call *k);
weft_status wf_to_device_kernel(struct wf_kernel_call *k);
weft_status wf_prepare_custom_kernel(struct wf_kernel_call *k);
void wf_vjp_from_local(const struct wf_tape_node *node, weft_tensor *grad, weft_tensor **in_grads);
void wf_vjp_to_local(const struct wf_tape_node *node, weft_tensor *grad, weft_tensor **in_grads);
void wf_vjp_redistribute(const struct wf_tape_node *node, weft_tensor *grad,
                         weft_tensor **in_grads);
void wf_vjp_to_mesh(const struct wf_tape_node *node, weft_tensor *grad, weft_tensor **in_grads);
void wf_vjp_to_device(const struct wf_tape_node *node, weft_tensor *grad, weft_tensor **in_grads);
void wf_vjp_custom(const struct wf_tape_node *node, weft_tensor *grad, weft_tensor **in_grads);
