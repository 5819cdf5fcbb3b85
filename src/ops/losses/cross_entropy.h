/* cross_entropy.h: what the two files of cross-entropy share. */
#pragma once

#include <weft/ops.h>

/** Fails: what cross-entropy needs, and the two tensors that are not so. */
weft_status wf_cross_entropy_shape_error(const char *needs, const weft_tensor *z,
                                         const weft_tensor *other);

/** The logits with their classes, which are `class_dim` (0: the last), last. */
weft_tensor *wf_permute_classes_last(weft_tensor *z, int class_dim);

/** Inside a loss_parallel block: fails unless z has its classes, which are last, sharded, and a
 * rank has of target and weight (or NULL) what its shard of z needs; of plain ones it makes
 * replicas. */
weft_status wf_prepare_loss_parallel_operands(const char *who, const weft_tensor *z,
                                              weft_tensor **target, weft_tensor **weight);

/** Cross-entropy with probabilities [*,V] as targets; classes last in both. grad: to both */
weft_tensor *wf_soft_cross_entropy(weft_tensor *z, weft_tensor *probabilities, weft_tensor *weight,
                                   const weft_cross_entropy_options *o);
