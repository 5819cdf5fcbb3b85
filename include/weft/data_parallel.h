/*
 * data_parallel.h: replicas of a module along a mesh axis, each fed with its own part of the batch
 * (docs/howto/train-on-two-axes.md).
 *
 *     weft_parallelize_module(model, weft_mesh_sub(mesh, "tp"), plan);
 *     weft_data_parallel(model, weft_mesh_sub(mesh, "dp"), (weft_data_parallel_config){0});
 *     ... an optimizer; then per step, on this replica's tokens:
 *     loss = weft_gpt_loss(model, tokens, targets);
 *     weft_data_parallel_backward(model, loss, number_of_targets);
 *     weft_clip_grad_norm(model, 1, &norm);
 *     weft_step(optim);
 *
 * Parameters become tensors over both axes, "R" along the first (or sharded there), so clipping,
 * optimizers, checkpoints and weights files see them whole. In a call of a module they are lent to
 * it as they were before: the model, its styles and its inputs know nothing of the replicas.
 *
 * Gradients become final all together, and weft_grad of one is collective over the replicas until
 * they are. One that no replica has stays missing; one that some have is zeros on the others. A
 * backward between that and the step (or weft_zero_grad) is refused. The messages of a step: an
 * all-reduce per bucket, and one of 16 bytes and 16 per parameter.
 */
#pragma once

#include <stddef.h>

#include <weft/mesh.h>
#include <weft/module.h>

/** What makes the replicas equal at the start. */
typedef enum weft_replicas_start {
    WEFT_REPLICAS_COMPARED, /* hashes, 16 bytes per parameter; a difference is an error */
    WEFT_REPLICAS_COPIED,   /* the first replica's values are sent to the others */
    WEFT_REPLICAS_TRUSTED   /* nothing: they were made alike */
} weft_replicas_start;

/** All zero is a good start. */
typedef struct weft_data_parallel_config {
    /** Gradients travel in buckets of at most so many bytes, the last parameters first; a larger
     *  parameter alone. 0: 25 MiB */
    size_t bucket_bytes;
    /** Calls of weft_data_parallel_backward per step, on every replica. While the last of them
     *  runs, a bucket is sent as soon as its gradients are complete, and gradients are dropped on
     *  all replicas alike from then on. 0: any number; all buckets are sent when gradients are
     *  asked for */
    int backwards;
    /** Parameters, gradients and optimizer states are cut over the axis too, along dim 0 (where
     *  segments are cut along another one, that one is whole): gathered for a call of their module
     *  and kept until its backward, gradients reduced and cut again in every backward */
    bool shard;
    weft_replicas_start start;
} weft_data_parallel_config;

/**
 * Make the module one of the replicas along `mesh`, which has one axis (or several that
 * weft_mesh_flatten merged).
 *
 * After parallel styles, weft_module_cast and weft_module_materialize; before optimizers and the
 * first backward. Every parameter of the tree is replaced: a plain one by one over `mesh` (and the
 * axes of the others, which are taken to hold it alike), one over "tp" by one over "dp,tp". A
 * parameter that several modules have stays one; frozen ones stay frozen.
 * ranks: every rank of the mesh that `mesh` was cut from; collective over it unless start is
 *        TRUSTED
 * gives: nothing; the module keeps the mesh. Released between a backward and its step, it waits for
 *        buckets that the other replicas are still adding up
 * fails: WEFT_ERR_ARG without module or mesh, for a mesh with several axes, for one that was not
 *        cut from the mesh of the parameters' styles or is part of it, for a strided parameter, for
 *        a config outside of what is said there, and for replicas that differ; WEFT_ERR_STATE when
 *        it was done before, only some parameters have elements, or a module outside of the tree
 *        shares one. The tree is then as before, but
 *        for copied values
 */
WEFT_API weft_status weft_data_parallel(weft_module *module, weft_mesh *mesh,
                                        weft_data_parallel_config config);

/**
 * weft_backward for a loss that is the mean over `tokens` of this replica's tokens (those that the
 * loss counts), so that the gradients of a step are those of the mean over all tokens of all
 * replicas and backwards, however many each had. `loss` has one element.
 *
 * The counts are added up when the gradients are reduced, as integers, and divide the sum of all.
 * A replica without tokens gives 0; with neither `shard` nor `backwards` it may leave the call out.
 * With weft_backward instead, a step has the mean over the replicas of their sums.
 * ranks: as weft_backward
 * fails: WEFT_ERR_STATE for a module that is no replica, and when gradients that were reduced have
 *        not been used or dropped; WEFT_ERR_ARG for a negative count; as weft_backward
 */
WEFT_API weft_status weft_data_parallel_backward(weft_module *module, weft_tensor *loss,
                                                 int64_t tokens);

/**
 * The mean loss over all tokens of the last step, and how many there were: of what was given to
 * weft_data_parallel_backward before the gradients were last reduced (by weft_clip_grad_norm,
 * weft_step or weft_reduce_gradients). Either may be NULL. NAN and 0 without tokens.
 *
 * ranks: any; local. fails: WEFT_ERR_STATE for a module that is no replica
 */
WEFT_API weft_status weft_data_parallel_loss(weft_module *module, double *loss, int64_t *tokens);

/**
 * The mean over all replicas' tokens of something that has `mean` over this one's `tokens`: a
 * validation loss. NAN without any. `of_all` is not NULL.
 *
 * ranks: collective over the replicas, one all-reduce of 16 bytes
 * fails: WEFT_ERR_STATE for a module that is no replica, WEFT_ERR_ARG for a negative count
 */
WEFT_API weft_status weft_data_parallel_mean(weft_module *module, double mean, int64_t tokens,
                                             double *of_all);
