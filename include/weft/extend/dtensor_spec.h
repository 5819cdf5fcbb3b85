/*
 * dtensor_spec.h: a distributed tensor taken apart into its local tensor and the rest, and put
 * together again, outside the tape (PyTorch: DTensorSpec, __tensor_flatten__).
 */
#pragma once

#include <weft/dtensor.h>
#include <weft/extend/layout.h>

/** What a distributed tensor is beside its local elements; a value. The mesh in it is borrowed. */
typedef struct weft_dtensor_spec {
    weft_layout layout;
    weft_dtype dtype;
    weft_device device;
    bool requires_grad;
} weft_dtensor_spec;

/**
 * The local tensor of a distributed one, and all the rest in `rest`: outside the tape, nothing is
 * copied. weft_dtensor_wrap makes it one again.
 *
 * ranks: any; local
 * gives: a plain tensor owned by the open scope; shares storage with t
 * fails: WEFT_ERR_ARG for a plain tensor
 */
WEFT_API weft_tensor *weft_dtensor_unwrap(weft_tensor *t, weft_dtensor_spec *rest);

/**
 * A distributed leaf straight from a local tensor and the layout it is a shard of: outside the
 * tape, nothing is copied or sent. Gradients stay with the leaf; weft_from_local passes them on to
 * `local`, and a warning says so where `local` wants them and the leaf does not.
 *
 * ranks: any; local; all ranks of the mesh alike
 * gives: a tensor owned by the open scope; shares storage with `local`
 * fails: WEFT_ERR_ARG when `local` is distributed; WEFT_ERR_DTYPE for another dtype. A size that is
 *        not that of this rank's shard ends the job, since other ranks' may fit; in a world of one
 *        rank it is WEFT_ERR_SHAPE
 */
WEFT_API weft_tensor *weft_dtensor_wrap(weft_tensor *local, const weft_dtensor_spec *rest);

/** Same layout, dtype and device; both need a handle. Equal ones have equal hashes, which are the
 *  same on all ranks that know the strides: one with a row or none has row-major ones for others.
 *  ranks: any; local */
WEFT_API bool weft_dtensor_spec_equal(const weft_dtensor_spec *a, const weft_dtensor_spec *b);
WEFT_API uint64_t weft_dtensor_spec_hash(const weft_dtensor_spec *flat);

/* ---- as bytes ---- */

/**
 * This rank's shard and its layout, as bytes for weft_shard_from_bytes.
 *
 * For a program that ends and goes on with the same number of ranks; the machine's byte order.
 * Plain tensors too. Strides are not kept: elements are written row-major.
 * ranks: any; local
 * gives: how many bytes it takes; they are written when `room` is enough
 * fails: -1, with WEFT_ERR_ARG for a mesh without ranks or no tensor
 */
WEFT_API int64_t weft_shard_to_bytes(weft_tensor *t, void *bytes, int64_t room);

/**
 * The tensor that weft_shard_to_bytes wrote on this rank, over the same ranks.
 *
 * ranks: all of the mesh, each with its own bytes
 * gives: a leaf owned by the open scope, that wants a gradient as the saved one did
 * fails: each rank has bytes of its own, so what is wrong with them ends the job; in a world of one
 *        rank it is WEFT_ERR_IO for bytes that are cut off, are no tensor, or are another rank's
 *        part, and as weft_mesh_from_ranks where the world has no such ranks
 */
WEFT_API weft_tensor *weft_shard_from_bytes(const void *bytes, int64_t size);
