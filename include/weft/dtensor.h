/*
 * dtensor.h: between plain and distributed tensors, and from one layout to another.
 *
 * Where a function takes a mesh, NULL is the innermost default mesh (weft_default_mesh_open); where
 * it takes placements, one per mesh axis, NULL is replicated on every axis. Ranks outside a mesh
 * may call all of this: they take no part in communication and get tensors without elements (a
 * plain number, which has one, is 0 there).
 *
 * Gradient layouts follow PyTorch DTensor as of 2026 (docs/concepts/autograd.md): a backward never
 * turns a replicated gradient into a partial sum.
 */
#pragma once

#include <weft/tensor.h>

/**
 * Placements as text, for whatever takes a list of them:
 *
 *     weft_redistribute(t, weft_placements(mesh, "S(0),R"))
 *
 * ranks: any; local
 * gives: a list that lives until the library ends on this thread; there is one for each text and
 *        number of axes
 * fails: as weft_placements_on, and not with NULL: what is given the list is refused then
 */
WEFT_API const weft_placement *weft_placements(const weft_mesh *mesh, const char *text);

/**
 * Placements as text, counted: "S(0),R" for a mesh of two axes, into `out` (WEFT_MAX_AXES of them).
 *
 * ranks: any; local
 * fails: WEFT_ERR_ARG for another number of placements than the mesh has axes, and for text that
 *        cannot be read
 */
WEFT_API weft_status weft_placements_on(weft_placement *out, const weft_mesh *mesh,
                                        const char *text);

/**
 * Spread a tensor that every rank has over a mesh.
 *
 * source -1: each rank keeps its shard of its own copy, nothing is sent; right when copies are
 * equal. source >= 0: the elements are those of the rank at that place of every axis (PyTorch's
 * src_data_rank, 0 there): a scatter per axis that shards, a broadcast per other axis, axes of one
 * rank apart; the other ranks' copies give dtype and shape only. Along an axis that is to be a
 * partial result the first rank gets the value and the others what changes nothing, so integers
 * stay exact. A leaf stays a leaf and wants a gradient as `t` does; a meta tensor stays one.
 * ranks: collective over `mesh` when source >= 0, else local
 * gives: a new tensor owned by the open scope; never shares storage with t, which is not written
 *        to. A tensor that is spread so already is returned itself
 * fails: WEFT_ERR_ARG when t is the result of an op, is distributed in another way, or an axis has
 *        no rank `source`; WEFT_ERR_LAYOUT for placements that do not fit; WEFT_ERR_COMM for
 *        elements from a source on a mesh without ranks
 */
WEFT_API weft_tensor *weft_distribute_tensor(weft_tensor *t, weft_mesh *mesh,
                                             const weft_placement *placements, int source);

/**
 * A distributed tensor whose shard on each rank is its plain tensor. No data moves.
 *
 * `shape` is the global shape; NULL multiplies each sharded dim by the axis, which is right for
 * even shards only. Each rank checks the size of its own shard; weft_from_local_with can compare
 * ranks.
 * ranks: local; every rank of the mesh does it alike
 * gives: a tensor owned by the open scope; shares storage with `local`
 * fails: WEFT_ERR_ARG when `local` is distributed. Another size than this rank should have, in a
 *        dim that is sharded or not, ends the job, since other ranks' may fit; in a world of one
 *        rank it is WEFT_ERR_SHAPE
 * grad:  brought to `placements` (a partial sum comes as replicated), then unwrapped
 */
WEFT_API weft_tensor *weft_from_local(weft_tensor *local, weft_mesh *mesh,
                                      const weft_placement *placements, const int64_t *shape);

/** Options of weft_from_local; all zero: the defaults. */
typedef struct weft_from_local_options {
    /** Length of the list of placements, to be checked against the mesh; 0: not checked. */
    int n_placements;
    /** Shape and stride of the whole, both or neither. The stride is checked: no gaps, and dims in
     *  the order in which they lie in the local tensor. */
    const int64_t *shape, *stride;
    /** How the gradient reaches the local tensor, instead of as `placements`: partial along an axis
     *  where it is replicated otherwise saves the all-reduce, and leaves a term on each rank. */
    const weft_placement *grad_placements;
    /** Compare over the mesh: dtype, global shape, whether a gradient is wanted, that every shard
     * has the size it should have, the order of dims in memory, and a hash of what should be
     * replicas. Nothing is repaired. */
    bool run_check;
} weft_from_local_options;

/**
 * weft_from_local with options.
 *
 * ranks: with run_check collective over the mesh; else local
 * fails: as weft_from_local; WEFT_ERR_ARG for shape without stride or stride without shape, for a
 *        wrong number of placements, and for replicas that differ; what run_check finds is the same
 *        error on every rank of the mesh
 */
WEFT_API weft_tensor *weft_from_local_with(weft_tensor *local, weft_mesh *mesh,
                                           const weft_placement *placements,
                                           weft_from_local_options options);

/**
 * This rank's shard as a plain tensor. No data moves.
 *
 * ranks: any; local
 * gives: a tensor owned by the open scope; shares storage with t; t itself when it is plain
 * grad:  taken to have `grad_placements`; NULL: the placements of t, with replicated for a partial
 *        sum. A replicated tensor that each rank goes on to use differently has a partial gradient,
 *        and only the caller knows: say so here
 */
WEFT_API weft_tensor *weft_to_local(weft_tensor *t, const weft_placement *grad_placements);

/** All of the tensor on every rank, plain: redistribute to replicated, then to_local.
 *  ranks: collective over its mesh
 *  grad:  taken to be replicated, or to have `grad_placements` */
WEFT_API weft_tensor *weft_full_tensor(weft_tensor *t);
WEFT_API weft_tensor *weft_full_tensor_with(weft_tensor *t, const weft_placement *grad_placements);

/* ---- made like others ---- */

/**
 * An undefined tensor of t's dtype, device and mesh, of any shape; placed as t where the shape is
 * t's, replicated where it is another, where t is partial, or where a stride is given and t's
 * shards are uneven. `stride` walks the whole without gaps, dims in any order; NULL: row-major.
 *
 * ranks: local; all ranks of the mesh alike
 * gives: a leaf owned by the open scope
 * fails: WEFT_ERR_SHAPE for a shape that cannot be, WEFT_ERR_ARG for a stride with gaps
 */
WEFT_API weft_tensor *weft_new_empty(const weft_tensor *t, const int64_t *shape,
                                     const int64_t *stride, int ndim);

/**
 * t seen with another shape and stride (of the whole tensor, in elements).
 *
 * Its own give t itself, its own in another order of dims give weft_permute. Anything else would
 * show elements of other ranks, and is refused.
 *
 * ranks: any; local. Collective over the mesh where shards are uneven, or were wrapped by
 *        weft_from_local: a rank with little cannot tell the order of its dims, so the first does
 * fails: WEFT_ERR_ARG for any other shape, stride or offset
 * grad:  as permute
 */
WEFT_API weft_tensor *weft_as_strided(weft_tensor *t, const int64_t *shape, const int64_t *stride,
                                      int ndim, int64_t offset);

/* ---- from one layout to another ---- */

/**
 * Change how a tensor is spread over its mesh without changing its value.
 *
 * ranks: collective over the mesh axes whose placement changes; `placements` equal on every rank
 * gives: a tensor owned by the open scope; t itself when nothing changes
 * fails: WEFT_ERR_LAYOUT for a dim that t lacks and for what would become a partial result (only
 *        a shard may become a sum), WEFT_ERR_ARG for a plain tensor
 * grad:  redistributed back; where t is a partial sum its gradient comes replicated
 */
WEFT_API weft_tensor *weft_redistribute(weft_tensor *t, const weft_placement *placements);

typedef struct weft_redistribute_options {
    unsigned forward;  /* WEFT_AS(dtype): cast before it moves; the result has it. 0: as it is */
    unsigned backward; /* WEFT_AS(dtype): gradients move in it. 0: in the dtype of t */
    bool async;        /* come back while the last collective is still under way */
} weft_redistribute_options;

/** A dtype as an option: 0 stands for none. */
#define WEFT_AS(dtype) ((unsigned)(dtype) + 1)

/**
 * Redistribute with a cast before it, another dtype for gradients, or without waiting. Partial
 * results are cast from float to float term by term, and reduced in the new dtype; others are
 * reduced first.
 *
 * A tensor that is under way may be viewed, sliced and passed on; whatever reads its elements first
 * waits for it. t must not be written to until then.
 *
 * ranks, fails: as weft_redistribute
 * gives: a tensor owned by the open scope
 * grad:  cast to the backward dtype, redistributed, cast to the dtype of t
 */
WEFT_API weft_tensor *weft_redistribute_with(weft_tensor *t, const weft_placement *placements,
                                             const weft_redistribute_options *options);

/** True while elements may be under way / wait for them; gives t. ranks: any; local */
WEFT_API bool weft_is_in_flight(const weft_tensor *t);
WEFT_API weft_tensor *weft_wait(weft_tensor *t);

/**
 * The same tensor on another mesh, of which ranks, order and number may differ; the two may
 * overlap. A partial result is carried out on the old mesh; after that one exchange brings every
 * element to the ranks that need and lack it, from one of those that have it.
 *
 * ranks: collective over the ranks of both meshes; others may call it and take no part
 * gives: a tensor owned by the open scope; it shares storage with t, on all ranks, when each rank
 *        of `mesh` had exactly the shard that it gets
 * fails: WEFT_ERR_LAYOUT for placements that do not fit or are partial, WEFT_ERR_ARG for a plain
 *        tensor
 * grad:  brought back to the old mesh and placements; replicated where t is a partial sum
 */
WEFT_API weft_tensor *weft_redistribute_to_mesh(weft_tensor *t, weft_mesh *mesh,
                                                const weft_placement *placements);
