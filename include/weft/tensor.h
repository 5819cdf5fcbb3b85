/*
 * tensor.h: the one tensor handle, and scopes that own temporaries (docs/concepts/ownership.md).
 *
 * A tensor is plain, or distributed when it has a mesh and one placement per mesh axis; shapes are
 * global either way. Whatever a function makes belongs to the innermost open scope.
 */
#pragma once

#include <weft/dtype.h>
#include <weft/error.h>
#include <weft/mesh.h>
#include <weft/placement.h>
#include <weft/types.h>

typedef struct weft_scope weft_scope;

/* ---- scopes ---- */

/** Open a scope: tensors made from now on belong to it.
 *  ranks: any; local
 *  gives: close it with weft_scope_close */
WEFT_API weft_scope *weft_scope_open(void);

/** Drop everything the scope owns; scopes opened inside it are closed too.
 *  ranks: any; local
 *  fails: WEFT_ERR_STATE, and nothing is closed, when the scope is closed or another thread's */
WEFT_API weft_status weft_scope_close(weft_scope *scope);

/** Close the scope but hand `t` to the scope around it.
 *  ranks: any; local
 *  gives: t (NULL for NULL) */
WEFT_API weft_tensor *weft_scope_return(weft_scope *scope, weft_tensor *t);

/** The same for several; NULL among them is allowed.
 *  ranks: any; local
 *  fails: as weft_scope_close, and closes nothing either for a tensor that was released
 *         (WEFT_ERR_STATE) and for no list of `n` tensors (WEFT_ERR_ARG) */
WEFT_API weft_status weft_scope_return_n(weft_scope *scope, weft_tensor **tensors, int n);

/** Keep a tensor beyond its scope / drop what retain kept; NULL is allowed. ranks: any; local */
WEFT_API weft_tensor *weft_retain(weft_tensor *t);
WEFT_API void weft_release(weft_tensor *t);

/* ---- making plain tensors ---- */

/**
 * A plain tensor with undefined elements.
 *
 * ranks: any; local
 * gives: a tensor owned by the open scope
 * fails: WEFT_ERR_SHAPE for a negative size or more than WEFT_MAX_DIMS dims
 */
WEFT_API weft_tensor *weft_empty(weft_dtype dtype, const int64_t *shape, int ndim);

/** A plain tensor whose elements all are `value`. ranks: any; local. fails: as weft_empty */
WEFT_API weft_tensor *weft_full(weft_dtype dtype, const int64_t *shape, int ndim, double value);

/** A plain tensor with a copy of `data` (row-major, of `dtype`).
 *  ranks: any; local
 *  fails: as weft_empty */
WEFT_API weft_tensor *weft_from_data(weft_dtype dtype, const int64_t *shape, int ndim,
                                     const void *data);

/* ---- devices ---- */

/**
 * Where this thread makes new tensors that are not made from others: WEFT_CPU unless set, or, where
 * it never was, WEFT_CUDA from the first mesh on it on.
 *
 * On WEFT_META a tensor has shape, dtype and placements but no elements: a model of any size is
 * made, spread over a mesh and even run in no time, and every op and gradient gives such tensors
 * again. Nothing is sent, but ledgers book what would be. Random ops number their draws as usual.
 *
 * ranks: any; local
 * gives: the device before, to be set again
 * fails: WEFT_ERR_ARG for no device, WEFT_ERR_NOT_FOUND where this rank has no such device (which
 *        ends a job of several)
 */
WEFT_API weft_device weft_set_default_device(weft_device device);

/** Where a tensor's elements are. ranks: any; local */
WEFT_API weft_device weft_tensor_device(const weft_tensor *t);

/**
 * An undefined tensor of the same dtype, shape and placements (replicated for partial ones) on a
 * device: how a meta tensor gets its elements after it was spread (PyTorch: empty_like, to_empty).
 * Each rank makes room for its shard only.
 *
 * ranks: any; local
 * gives: a row-major leaf owned by the open scope, that wants no gradient
 * fails: WEFT_ERR_ARG for no device
 */
WEFT_API weft_tensor *weft_empty_like(const weft_tensor *t, weft_device device);
/** The same, but partial where t is: room for this rank's terms.
 *  ranks: any; local
 *  gives, fails: as weft_empty_like */
WEFT_API weft_tensor *weft_empty_like_partial(const weft_tensor *t, weft_device device);

/**
 * A row-major copy of the tensor on another device (PyTorch: Tensor.to).
 *
 * ranks: any; local
 * gives: t itself when it is there; to WEFT_META its shape without elements, outside the tape
 * fails: WEFT_ERR_STATE from WEFT_META, where there is nothing to copy; WEFT_ERR_ARG for no device;
 *        WEFT_ERR_NOT_FOUND as weft_set_default_device
 * grad: goes back to the device that t is on
 */
WEFT_API weft_tensor *weft_to_device(weft_tensor *t, weft_device device);

/* ---- what a tensor is: functions that give a number, a dtype, a mesh or a placement need a handle
 * ---- */

/** Number of dims; size of one dim of the global shape (negative counts from the end); element
 *  count.
 *  ranks: any; local */
WEFT_API int weft_ndim(const weft_tensor *t);
WEFT_API int64_t weft_size(const weft_tensor *t, int dim);
WEFT_API int64_t weft_numel(const weft_tensor *t);
WEFT_API weft_dtype weft_tensor_dtype(const weft_tensor *t);

/** The mesh of a distributed tensor, NULL for a plain one; placement on one axis.
 *  ranks: any; local
 *  gives: borrowed */
WEFT_API weft_mesh *weft_tensor_mesh(const weft_tensor *t);
WEFT_API weft_placement weft_tensor_placement(const weft_tensor *t, int axis);

/** This rank's shard: size and global offset of a dim, element stride, and first element (NULL on
 *  the meta device; on a GPU an address of its memory).
 *  ranks: any; local */
WEFT_API int64_t weft_local_size(const weft_tensor *t, int dim);
WEFT_API int64_t weft_local_offset(const weft_tensor *t, int dim);
WEFT_API int64_t weft_local_stride(const weft_tensor *t, int dim);
WEFT_API int64_t weft_local_numel(const weft_tensor *t);
/** Elements between the start of the storage and this rank's first one (PyTorch: storage_offset of
 *  the local tensor); 0 on the meta device. The strides of the whole tensor: weft_layout_of.
 *  ranks: any; local */
WEFT_API int64_t weft_local_storage_offset(const weft_tensor *t);
/** This rank's elements lie row-major without gaps. ranks: any; local */
WEFT_API bool weft_is_contiguous(const weft_tensor *t);
WEFT_API void *weft_data(weft_tensor *t);

/**
 * How often the storage was written in place: it grows with every write by a function of the
 * library, through any of its views. Backward refuses what it saved at another version (PyTorch:
 * Tensor._version).
 *
 * ranks: any; local
 */
WEFT_API int64_t weft_tensor_version(const weft_tensor *t);

/**
 * Say that a program writes to the elements through weft_data, which the library does not see
 * (PyTorch: torch.autograd.graph.increment_version). NULL is allowed. In a compiled function call
 * weft_data right before the write: it waits for ops that were put off and read the elements.
 * ranks: local, but every rank of the tensor's mesh alike, also one that holds no element
 */
WEFT_API void weft_increment_version(weft_tensor *t);

/** The element of a one-element plain or replicated tensor; NaN (and an error) otherwise.
 * ranks: any; local */
WEFT_API double weft_item(const weft_tensor *t);

/** Copy this rank's elements out, row-major, as f64.
 *  ranks: any; local
 *  fails: WEFT_ERR_ARG when room is too small; of a distributed tensor, whose shards differ in
 *         size, that ends the job, but in a world of one rank */
WEFT_API weft_status weft_read_f64(const weft_tensor *t, double *out, int64_t room);

/** "f32[8,16] [S(0),R] on (dp:2, tp:4)" into `text`; returns the length as snprintf does.
 * ranks: any; local */
WEFT_API int weft_tensor_format(const weft_tensor *t, char *text, size_t bytes);

/** The description and this rank's elements, at most eight per dim. ranks: any; local */
WEFT_API void weft_tensor_print(const weft_tensor *t, FILE *out);
