/*
 * data_parallel.h: replicas of a module along mesh axes, each fed with its own shard of the batch
 * (docs/howto/train-on-two-axes.md).
 *
 *     weft_parallelize_module_strict(model, weft_mesh_sub(mesh, "tp"), plan);
 *     weft_data_parallel(model, weft_mesh_sub(mesh, "dp"), (weft_data_parallel_config){0});
 *     ... an optimizer; then per step, on this replica's tokens:
 *     loss = weft_gpt_loss(model, tokens, targets);
 *     weft_data_parallel_backward(model, loss, number_of_targets);
 *     weft_clip_grad_norm(model, 1, &norm);
 *     weft_step(optim);
 *
 * Replicas may be along several axes: cut along some of them only (`shard_axes`: hybrid sharding),
 * and with experts spread over others (`expert_axes`).
 *
 * Parameters become tensors over both axes, "R" along the first (or sharded there), so clipping,
 * optimizers, checkpoints and weights files see them whole. In a call of a module they are passed
 * to it as they were before: the model, its styles and its inputs know nothing of the replicas.
 *
 * Gradients become final all together, and weft_grad of one is collective over the replicas until
 * they are. One that no replica has stays missing; one that some have is zeros on the others. A
 * backward between that and the step (or weft_zero_grad) is refused. The messages of a step: an
 * all-reduce per bucket, and one of 16 bytes and 16 per parameter. Along several axes they go over
 * all of them at once.
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

/**
 * What makes buffers equal, once per step: when its gradients become final, and in
 * weft_data_parallel_share_buffers. At the start `weft_replicas_start` does. One message of 8 bytes
 * per element (16 for i64).
 */
typedef enum weft_replicas_buffers {
    WEFT_BUFFERS_COPIED,   /* the first replica's are sent to the others, as PyTorch's DDP does
                              (broadcast_buffers), there before the next forward */
    WEFT_BUFFERS_AVERAGED, /* the mean over the replicas, in f64; integers and bools are copied */
    WEFT_BUFFERS_OWN       /* nothing is sent: each replica keeps its own where they write different
                              ones (broadcast_buffers=False); files get one replica's */
} weft_replicas_buffers;

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
    /** Parameters, gradients and optimizer states are cut over the replicas too, along the first
     * dim that has an index for each of them, else the first (where a dim is cut in segments,
     * another one): gathered for a call of their module and kept until its backward, gradients
     * reduced and cut again in every backward. PyTorch: fully_shard */
    bool shard;
    weft_replicas_start start;
    /**
     * Axes of the mesh, "fsdp" or "pods,fsdp", or a name that weft_mesh_flatten gave to some of
     * them: parameters are cut over these, as `shard` does over all, and whole along the others,
     * where what backward has reduced and cut waits for its bucket. NULL: `shard` says. PyTorch:
     * fully_shard over a mesh of two dims (HYBRID_SHARD); Megatron: several distributed-optimizer
     * instances
     */
    const char *shard_axes;
    /**
     * Axes of the mesh, named likewise, over which parameters may have been spread before: experts,
     * for which tokens are exchanged along "ep", while to all other parameters its ranks are
     * replicas. Such a parameter's gradient is reduced along the other axes only, and divided by
     * the tokens of all. NULL: none. Megatron: expert-model-parallel groups and
     * expert-data-parallel groups
     */
    const char *expert_axes;
    weft_replicas_buffers buffers;
} weft_data_parallel_config;

/**
 * Make the module one of the replicas along `mesh`: as many as it has ranks, along one axis or
 * several.
 *
 * After parallel styles, weft_module_cast and weft_module_materialize; before optimizers and the
 * first backward. Every parameter of the tree is replaced: a plain one by one over `mesh` (and the
 * axes of the others, which are taken to hold it alike), one over "tp" by one over "dp,tp", an
 * expert's over "ep" by one over the same axes as all. A parameter that several modules have stays
 * one; frozen ones stay frozen. Buffers are replaced alike, and never cut; calls write into them as
 * before. What calls write into has to be a buffer: nothing brings frozen parameters together
 * again.
 *
 * ranks: every rank of the mesh that `mesh` was cut from; collective over it unless start is
 *        TRUSTED
 * gives: nothing; the module keeps the mesh. Released between a backward and its step, it waits for
 *        buckets that the other replicas are still adding up
 * fails: WEFT_ERR_ARG without module or mesh, for one that was not cut from the mesh of the
 *        parameters' styles, for a parameter that is over one of its axes and not in `expert_axes`,
 *        for a strided parameter, for a config outside of what is said there, and for replicas that
 *        differ; WEFT_ERR_NOT_FOUND for an axis that the mesh does not have; WEFT_ERR_STATE when it
 *        was done before, only some parameters have elements, or a module outside of the tree
 *        shares one. The tree is then as before, but for copied values
 */
WEFT_API weft_status weft_data_parallel(weft_module *module, weft_mesh *mesh,
                                        weft_data_parallel_config config);

/**
 * weft_backward for a loss that is the mean over `tokens` of this replica's tokens (those that the
 * loss counts), so that the gradients of a step are those of the mean over all tokens of all
 * replicas and backwards, however many each had. `loss` has one element.
 *
 * The counts are added up when the gradients are reduced, as integers, and divide the sum of all.
 * A replica without tokens gives 0; it may leave the call out where nothing is sharded, no axis is
 * in `expert_axes` and `backwards` is 0.
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
 * ranks: any; local
 * fails: WEFT_ERR_STATE for a module that is no replica
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

/**
 * Make the buffers of all replicas alike now: after calls without a step, such as those that only
 * gather statistics, or before a save in the middle of one. With WEFT_BUFFERS_OWN nothing happens.
 *
 * ranks: collective over the replicas
 * fails: WEFT_ERR_STATE for a module that is no replica
 */
WEFT_API weft_status weft_data_parallel_share_buffers(weft_module *module);
