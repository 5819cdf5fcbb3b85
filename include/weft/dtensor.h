/*
 * dtensor.h: between plain and distributed tensors, and from one layout to another.
 *
 * Gradient layouts follow PyTorch DTensor as of 2026 (docs/concepts/autograd.md): a backward never
 * turns a replicated gradient into a pending sum.
 */
#pragma once

#include <weft/tensor.h>

/**
 * Spread a tensor that every rank holds in full over a mesh.
 *
 * Each rank keeps its part of its own copy, so equal copies need no communication; with
 * `source` >= 0 the copy of that rank of each axis is broadcast first. A leaf stays a leaf.
 * ranks: collective over `mesh` when source >= 0, else local
 * gives: a new tensor owned by the open scope; never shares storage with t
 * fails: WEFT_ERR_ARG when t is distributed or not a leaf, WEFT_ERR_LAYOUT for a dim that t lacks
 *        or a pending sum
 */
WEFT_API weft_tensor *weft_distribute_tensor(weft_tensor *t, weft_mesh *mesh,
                                             const weft_placement *placements, int source);

/**
 * Call a rank's plain tensor its part of a distributed one. No data moves.
 *
 * `shape` is the global shape; NULL multiplies each sharded dim by the axis, which is right for
 * even shards only.
 * ranks: local; every rank of the mesh does it alike
 * gives: a tensor owned by the open scope; shares storage with `local`
 * fails: WEFT_ERR_SHAPE when the local shape is not this rank's chunk of the global one
 * grad:  brought to `placements` (a pending sum comes as replicated), then unwrapped
 */
WEFT_API weft_tensor *weft_from_local(weft_tensor *local, weft_mesh *mesh,
                                      const weft_placement *placements, const int64_t *shape);

/**
 * This rank's part as a plain tensor. No data moves.
 *
 * ranks: any; local
 * gives: a tensor owned by the open scope; shares storage with t; t itself when it is plain
 * grad:  taken to have `grad_placements`; NULL: the placements of t, with replicated for a pending
 * sum
 */
WEFT_API weft_tensor *weft_to_local(weft_tensor *t, const weft_placement *grad_placements);

/** All of the tensor on every rank, plain: redistribute to replicated, then to_local. ranks:
 * collective over its mesh. grad: as those */
WEFT_API weft_tensor *weft_full_tensor(weft_tensor *t);

/**
 * Change how a tensor is spread over its mesh without changing its value.
 *
 * ranks: collective over the mesh axes whose placement changes; `placements` equal on every rank
 * gives: a tensor owned by the open scope; t itself when nothing changes
 * fails: WEFT_ERR_LAYOUT for a dim that t lacks, WEFT_ERR_ARG for a plain tensor
 * grad:  redistributes back; where t is a pending sum its gradient comes replicated
 */
WEFT_API weft_tensor *weft_redistribute(weft_tensor *t, const weft_placement *placements);
