/*
 * losses.h: losses of predictions.
 *
 * What weft/ops.h says of every op holds here.
 * ranks: every rank of the inputs' mesh, unless said otherwise
 */
#pragma once

#include <weft/tensor.h>

/** How the losses of tokens become one. */
typedef enum weft_loss_reduction {
    WEFT_LOSS_MEAN, /* their sum over the sum of their targets' weights; NaN when all are ignored */
    WEFT_LOSS_SUM,
    WEFT_LOSS_NONE,      /* a loss per token */
    WEFT_LOSS_BATCH_MEAN /* their sum over the size of dim 0; not of losses of classes */
} weft_loss_reduction;

/** An ignore_index of 0, since 0 in a structure stands for -100. */
#define WEFT_IGNORE_ZERO INT64_MIN

/** Options of weft_cross_entropy_with. */
typedef struct weft_cross_entropy_options {
    int64_t ignore_index; /* a target without loss, gradient and part in the mean; 0: -100 */
    weft_tensor *weight;  /* [V], of every class; NULL: all 1. It has no gradient */
    double smoothing;     /* eps: the target is 1 - eps of itself and eps / V of every class */
    double z_loss;        /* zeta: adds zeta (log sum exp z)^2 to a token's loss */
    weft_loss_reduction reduction;
    int class_dim; /* of the logits; 0: the last, -1 too (PyTorch: 1 when there are two or more) */
} weft_cross_entropy_options;

/**
 * -sum_j w_j q_j log softmax(z)_j + zeta (log sum exp z)^2 per token, reduced as said.
 *
 * The loss is f32 (f64 for f64 logits), and so is all that is computed. Logits sharded over the
 * classes stay where they are: forward one all-reduce of 4 bytes per token and one of 8, backward
 * nothing; weights, smoothing and z-loss cost nothing more. Where tokens are sharded too, a sum is
 * a partial sum along those axes, and a mean (over the tokens of all ranks) sends 12 bytes.
 *
 * shape: logits [*,V] (or with V at class_dim), target [*] of i32 or i64 -> [], or [*]. A target of
 *        floating-point numbers is a distribution over the classes for each token, [*,V] as the
 *        logits: nothing is ignored, a mean is over all tokens, and the gradient goes to it too
 *        (12 bytes per token in the second all-reduce when it is sharded over the classes)
 * fails: WEFT_ERR_SHAPE; WEFT_ERR_ARG for options out of range and for a target that is neither a
 *        class nor ignored. A rank that alone knows of such a target (a sum or no reduction, with
 *        tokens sharded) ends the job
 * grad:  to the logits, in their layout; 0 for tokens that are ignored, even where the mean is NaN
 */
WEFT_API weft_tensor *weft_cross_entropy_with(weft_tensor *logits, weft_tensor *target,
                                              weft_cross_entropy_options options);

/** The mean, with nothing but an ignore_index (0 is 0 here). */
WEFT_API weft_tensor *weft_cross_entropy(weft_tensor *logits, weft_tensor *target,
                                         int64_t ignore_index);

/**
 * Open a scope in which a cross-entropy must be computed in parallel (PyTorch's loss_parallel()).
 *
 * Logits sharded over their classes are never gathered, inside or outside. Inside, a cross-entropy
 * with logits that are sharded otherwise, partial or whole is refused, because it would cost
 * unintended communication, and so is a target that is neither replicated nor sharded as the logits
 * are; a plain target or plain class weights are taken for replicated ones, a target as long as no
 * other dim of the logits is sharded. So it is for weft_nll_loss of log-probabilities whose classes
 * are sharded; of others it does as outside. Backward may run inside or outside.
 *
 * ranks: any; local, but all ranks alike
 * gives: a scope: weft_scope_close or weft_scope_return ends it, and so does closing any scope
 *        around it, so that leaving early because of an error ends the block too
 */
WEFT_API weft_scope *weft_loss_parallel_open(void);

/**
 * -log_p of each token's target, times the weight of its class, reduced as weft_cross_entropy_with
 * does, whose options these are (without smoothing and z_loss). log_p is what weft_log_softmax
 * gives.
 *
 * Log-probabilities that are sharded over the classes stay where they are: a mean or a sum is a
 * partial result, and two numbers at most are added up. The loss has their dtype.
 * shape: log_p [*,V] (or with V at class_dim), target [*] of i32 or i64 -> [], or [*]
 * fails: WEFT_ERR_SHAPE, WEFT_ERR_ARG; a target that is neither a class nor ignored ends the job
 * grad:  to log_p, in its layout
 */
WEFT_API weft_tensor *weft_nll_loss(weft_tensor *log_p, weft_tensor *target,
                                    weft_cross_entropy_options options);

/** mean((a - b)^2) */
WEFT_API weft_tensor *weft_mse(weft_tensor *a, weft_tensor *b);

/** Options of losses of elements. */
typedef struct weft_loss_options {
    weft_loss_reduction reduction; /* a mean is over all elements, of all ranks */
    double beta;             /* of smooth_l1_loss and huber_loss: where the line begins; 0: 1 */
    weft_tensor *weight;     /* of each element, of binary cross-entropies; repeats. NULL: 1 */
    weft_tensor *pos_weight; /* of targets that are 1, of logits alone; repeats. NULL: 1 */
    bool log_target;         /* of kl_div: q is given as its logarithm */
} weft_loss_options;

/**
 * Losses of elements, torch's of these names, reduced. Both inputs are floats of one dtype, and
 * broadcast unless said otherwise; of 16-bit floats all is computed in f32 and rounded once.
 *
 * grad: to both, and to weights
 */
WEFT_API weft_tensor *weft_mse_with(weft_tensor *a, weft_tensor *b, weft_loss_options options);
/** |a - b| */
WEFT_API weft_tensor *weft_l1_loss(weft_tensor *a, weft_tensor *b, weft_loss_options options);
/** With d = a - b: d^2 / 2 beta where |d| < beta, else |d| - beta / 2; huber_loss is beta times
 * that (torch calls it delta). */
WEFT_API weft_tensor *weft_smooth_l1_loss(weft_tensor *a, weft_tensor *b,
                                          weft_loss_options options);
WEFT_API weft_tensor *weft_huber_loss(weft_tensor *a, weft_tensor *b, weft_loss_options options);
/** -(t log p + (1 - t) log(1 - p)), logarithms no less than -100. Target and p have one shape. */
WEFT_API weft_tensor *weft_binary_cross_entropy(weft_tensor *p, weft_tensor *target,
                                                weft_loss_options options);
/** The same of p = sigmoid(z), exact for all z. Target and z have one shape. */
WEFT_API weft_tensor *weft_binary_cross_entropy_with_logits(weft_tensor *z, weft_tensor *target,
                                                            weft_loss_options options);
/** q (log q - log_p) */
WEFT_API weft_tensor *weft_kl_div(weft_tensor *log_p, weft_tensor *q, weft_loss_options options);

/** x over its p-norm (p > 0, INFINITY too) along a dim, which is no less than eps (torch: 1e-12).
 */
WEFT_API weft_tensor *weft_normalize(weft_tensor *x, double p, int dim, double eps);
/** a b / (|a| |b|) along a dim, which disappears; lengths are no less than eps (torch: 1e-8). a and
 * b broadcast, but in that dim. */
WEFT_API weft_tensor *weft_cosine_similarity(weft_tensor *a, weft_tensor *b, int dim, double eps);
