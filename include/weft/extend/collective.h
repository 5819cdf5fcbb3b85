/*
 * collective.h: collectives on plain tensors along one axis of a mesh, for programs that keep their
 * own account of who holds what. Distributed tensors need none of this.
 *
 * All ranks of a line call together; lines work side by side. `mesh` NULL means the innermost
 * default one (weft_default_mesh_open); `root` counts along the axis. Reductions are sum, product,
 * max and min. Results are owned by the open scope. Nothing is recorded for gradients, but where
 * `grad:` says so. Tensors on WEFT_META give results of the right shape, and only the ledger hears
 * of it.
 *
 * Common failures: WEFT_ERR_ARG for a distributed tensor or an axis, root or dim that is not there;
 * WEFT_ERR_COMM on a rank outside the mesh, and for a mesh without ranks behind it.
 */
#pragma once

#include <weft/tensor.h>

/** The root's elements into `t` on every rank; all have its shape, in whatever order in memory.
 *  ranks: collective over lines of `axis`
 *  fails: as above. A `t` that is not row-major, and expanded or on the tape, ends the job */
WEFT_API weft_status weft_mesh_broadcast(weft_tensor *t, weft_mesh *mesh, int axis, int root);

/** A tensor of a batch, by name. */
typedef struct weft_batch_entry {
    const char *key;
    weft_tensor *tensor;
} weft_batch_entry;

/**
 * The root's tensors to every rank: what a data loader made that only one rank of each line runs.
 *
 * All ranks list the same keys in the same order; the others need not know shapes or dtypes, which
 * may differ from key to key, and their tensors are replaced. Two broadcasts, however many tensors.
 * ranks: collective over lines of `axis`
 * gives: in the entries of other ranks than the root new plain tensors, owned by the open scope,
 *        which share one block
 * fails: as above; WEFT_ERR_ARG, on every rank, where the root has no plain tensor with elements
 *        for a key. Other keys than the root's end the job
 */
WEFT_API weft_status weft_mesh_broadcast_batch(weft_batch_entry *batch, int n, weft_mesh *mesh,
                                               int axis, int root);

/**
 * Part i of the root's list into `t` of rank i. All parts have the shape of `t`; they need not be
 * contiguous. `parts` is looked at on the root only.
 *
 * ranks: collective over lines of `axis`
 * fails: as above; a list that does not fit ends the job, for the root alone knows it, and so does
 *        a `t` that is not row-major, and expanded or on the tape
 */
WEFT_API weft_status weft_mesh_scatter(weft_tensor *t, weft_tensor *const *parts, weft_mesh *mesh,
                                       int axis, int root);

/**
 * All ranks' tensors one after another along `dim`, on every rank / on the root.
 *
 * They differ at most in that dim; `sizes` has its size on each rank, NULL when all are equal.
 * ranks: collective over lines of `axis`
 * gives: a new tensor; gather: on other ranks than the root one with size 0 in `dim`
 * fails: as above. `sizes` with another size for this rank ends the job, since other ranks' may
 *        fit; in a world of one rank it is WEFT_ERR_SHAPE
 */
WEFT_API weft_tensor *weft_mesh_all_gather(weft_tensor *t, int dim, const int64_t *sizes,
                                           weft_mesh *mesh, int axis);
WEFT_API weft_tensor *weft_mesh_gather(weft_tensor *t, int dim, const int64_t *sizes,
                                       weft_mesh *mesh, int axis, int root);

/**
 * All ranks' tensors, of one shape, added up (or multiplied, ...) on every rank / on the root.
 *
 * ranks: collective over lines of `axis`
 * gives: a new tensor; reduce: on other ranks than the root one without dims of its own: a shape of
 *        [0]
 * fails: as above; WEFT_ERR_DTYPE for a reduction that the dtype has not
 */
WEFT_API weft_tensor *weft_mesh_all_reduce(weft_tensor *t, weft_reduce reduce, weft_mesh *mesh,
                                           int axis);
WEFT_API weft_tensor *weft_mesh_reduce(weft_tensor *t, weft_reduce reduce, weft_mesh *mesh,
                                       int axis, int root);

/**
 * This rank's chunk along `dim` (the chunk rule) of what all-reduce would give.
 *
 * ranks: collective over lines of `axis`
 * gives: a new tensor
 * fails: as weft_mesh_all_reduce
 */
WEFT_API weft_tensor *weft_mesh_reduce_scatter(weft_tensor *t, int dim, weft_reduce reduce,
                                               weft_mesh *mesh, int axis);

/**
 * Chunk i along `split` goes to rank i, which puts what it gets side by side along `join`.
 *
 * The ranks' tensors differ at most in `join`; `sizes` as for all-gather, of that dim.
 * ranks: collective over lines of `axis`
 * gives: a new tensor
 * fails: as weft_mesh_all_gather
 */
WEFT_API weft_tensor *weft_mesh_all_to_all(weft_tensor *t, int split, int join,
                                           const int64_t *sizes, weft_mesh *mesh, int axis);

/**
 * input_splits[r] rows of `t`, one behind another, go to rank r of the line, which concatenates
 * what it receives from ranks 0, 1, ... The counts are exchanged first, so they may depend on data:
 * tokens to the ranks of their experts.
 *
 * PyTorch's torch.distributed.nn.functional.all_to_all_single with input_split_sizes, and
 * output_split_sizes for the answer.
 *
 * shape: [rows, *] -> [rows that come, *]; rows may be 0. Splits have an entry per rank of the line
 * ranks: collective over lines of `axis`: an all-gather of a few integers, then an all-to-all
 * gives: a new tensor; in output_splits (NULL: not wanted) how many rows came from each rank
 * fails: as above, with WEFT_ERR_ARG on WEFT_META; WEFT_ERR_SHAPE, on all ranks of the line, when
 *        the splits of a rank do not add up to its rows, or rows differ in shape or dtype. Where
 *        the mesh has other lines, which cannot see that, the job ends
 * grad:  to `t`, by an all-to-all the other way. It is recorded on all ranks of the line when one
 *        of them has an input that wants a gradient; backward has to reach it on all of them
 */
WEFT_API weft_tensor *weft_mesh_all_to_all_single(weft_tensor *t, const int64_t *input_splits,
                                                  int64_t *output_splits, weft_mesh *mesh,
                                                  int axis);

/**
 * The same where ranks already know how many rows they receive, as when the rows of an earlier
 * exchange are sent back: its output_splits are the input_splits here, and the other way round. No
 * counts are exchanged.
 *
 * ranks: collective over lines of `axis`: an all-to-all. What wants a gradient on one rank of the
 *        line does so on all; in a local function (weft/extend/local_map.h) it is enough that an
 *        argument of it does
 * gives: a new tensor
 * fails: as above; splits that do not add up to the rows, or differ from the peers', end the job
 * grad:  as weft_mesh_all_to_all_single
 */
WEFT_API weft_tensor *weft_mesh_all_to_all_known(weft_tensor *t, const int64_t *input_splits,
                                                 const int64_t *output_splits, weft_mesh *mesh,
                                                 int axis);
