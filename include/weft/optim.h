/*
 * optim.h: optimizers, gradient clipping and learning-rate schedules.
 *
 * An optimizer updates each rank's part of every parameter in place; its state is sharded as the
 * parameters are. Updating needs no communication beyond gradients that are still pending sums.
 */
#pragma once

#include <weft/module.h>

typedef struct weft_optim weft_optim;

/** v = momentum v + (g + weight_decay w); w -= lr v, or lr (g + momentum v) with nesterov. */
typedef struct weft_sgd_config {
    double lr;
    double momentum, weight_decay;
    bool nesterov; /* needs momentum */
} weft_sgd_config;

/**
 * Stochastic gradient descent over all parameters of a module that want a gradient.
 *
 * Make it after the module was distributed and before the first backward.
 * ranks: every rank alike; local
 * gives: an optimizer owned by the caller (weft_optim_release); the module must outlive it
 * fails: WEFT_ERR_ARG for a negative setting or a module without parameters, WEFT_ERR_DTYPE for
 *        parameters that are neither f32 nor f64
 */
WEFT_API weft_optim *weft_sgd(weft_module *module, weft_sgd_config config);

/** Zero means PyTorch's default: beta1 0.9, beta2 0.999, eps 1e-8; weight_decay 0 means none. */
typedef struct weft_adamw_config {
    double lr;
    double beta1, beta2, eps, weight_decay;
} weft_adamw_config;

/** AdamW (Loshchilov and Hutter 2019): bias-corrected moments, weight decay apart from the
 * gradient. ranks, gives, fails: as weft_sgd */
WEFT_API weft_optim *weft_adamw(weft_module *module, weft_adamw_config config);

/** Free an optimizer and its state; NULL is allowed. ranks: any; local */
WEFT_API void weft_optim_release(weft_optim *optim);

/**
 * Update every parameter that has a gradient, then drop the gradients: there is no zero_grad to
 * forget. Gradients accumulate over as many backwards as come before one step.
 *
 * ranks: collective over the meshes of gradients that are pending sums, else local
 * fails: WEFT_ERR_STATE when a parameter was replaced after the optimizer was made
 */
WEFT_API weft_status weft_step(weft_optim *optim);

/** Drop the gradients without an update. ranks: any; local */
WEFT_API void weft_optim_zero_grad(weft_optim *optim);

/** Learning rate from the next step on; the one in force; steps taken. ranks: any; all alike */
WEFT_API void weft_optim_set_lr(weft_optim *optim, double lr);
WEFT_API double weft_optim_lr(const weft_optim *optim);
WEFT_API int64_t weft_optim_steps(const weft_optim *optim);

/* ---- what an optimizer remembers: for checkpoints (weft/checkpoint.h) ---- */

/** How many tensors of state a parameter has, and what each is called ("exp_avg"; NULL: there is
 * none of that number). ranks: any; local */
WEFT_API int weft_optim_states(const weft_optim *optim);
WEFT_API const char *weft_optim_state_name(const weft_optim *optim, int state);

/**
 * A parameter's state as a tensor, spread as the parameter is; writing to it changes the optimizer.
 *
 * ranks: any; local
 * gives: a tensor owned by the open scope that shares the optimizer's storage
 * fails: WEFT_ERR_NOT_FOUND for a tensor that is none of its parameters, WEFT_ERR_ARG for a state
 *        that there is not, WEFT_ERR_STATE for a parameter that wanted no gradient
 */
WEFT_API weft_tensor *weft_optim_state(weft_optim *optim, const weft_tensor *parameter, int state);

/** Updates that a parameter had (bias correction counts them); set them, and the steps taken.
 * ranks: any; all alike. fails: WEFT_ERR_NOT_FOUND as above, WEFT_ERR_ARG for a negative number */
WEFT_API int64_t weft_optim_updates(const weft_optim *optim, const weft_tensor *parameter);
WEFT_API weft_status weft_optim_set_updates(weft_optim *optim, const weft_tensor *parameter,
                                            int64_t updates);
WEFT_API weft_status weft_optim_set_steps(weft_optim *optim, int64_t steps);

/**
 * Scale all gradients of a module so that their global 2-norm is at most `max_norm`.
 *
 * Every element of every parameter counts once, however it is spread. `norm` (may be NULL) gets
 * the norm before scaling, the same on every rank; max_norm 0 only measures.
 * ranks: collective over the mesh axes that shard a parameter; one all-reduce of 8 bytes per axis
 * fails: WEFT_ERR_ARG for a negative max_norm
 */
WEFT_API weft_status weft_clip_grad_norm(weft_module *module, double max_norm, double *norm);

/* ---- schedules ---- */

typedef enum weft_schedule_kind {
    WEFT_SCHEDULE_CONSTANT,
    WEFT_SCHEDULE_LINEAR,
    WEFT_SCHEDULE_COSINE
} weft_schedule_kind;

/**
 * Learning rate by step: rises linearly to `lr` over `warmup` steps, then stays, or falls to
 * `min_lr` at step `total` along a line or half a cosine, and stays there.
 */
typedef struct weft_schedule {
    weft_schedule_kind kind;
    double lr, min_lr;
    int64_t warmup, total;
} weft_schedule;

/** The rate for a step counted from 0; the first warm-up step has lr / warmup. ranks: any; local */
WEFT_API double weft_schedule_lr(const weft_schedule *schedule, int64_t step);
