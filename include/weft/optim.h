/*
 * optim.h: optimizers, parameter groups, gradient clipping and learning-rate schedules
 * (docs/concepts/optimizers.md).
 *
 * An optimizer updates each rank's shard of every parameter in place; its state is sharded as the
 * parameters are. Updating needs no communication beyond gradients that are still partial sums;
 * Muon alone, which looks at whole matrices, communicates by itself.
 *
 * Formulas and defaults are those of torch.optim (2.15), of Lion those of its paper. In a config a
 * setting that is left 0 has the default named beside it, or is off; weft_optim_set can say a real
 * 0. bf16 and f16 parameters are updated in f32: the optimizer keeps an f32 copy of each, its
 * master, and writes it back rounded to nearest even.
 */
#pragma once

#include <weft/module.h>

typedef struct weft_optim weft_optim;

/**
 * b = momentum b + (1 - dampening) d, where d is the gradient plus weight_decay w, and b = d the
 * first time; w -= lr b, or lr (d + momentum b) with nesterov.
 */
typedef struct weft_sgd_config {
    double lr;
    double momentum, dampening, weight_decay;
    bool nesterov; /* needs momentum, and no dampening */
    bool maximize; /* here and below: go up the gradient */
} weft_sgd_config;

/**
 * Stochastic gradient descent over all parameters of a module that want a gradient.
 *
 * Make it after the module was distributed and before the first backward. Parameters that are
 * frozen then and want a gradient later join it at the next step.
 * ranks: every rank alike; local
 * gives: an optimizer owned by the caller (weft_optim_release); the module must outlive it
 * fails: WEFT_ERR_ARG for a setting out of its range or a module without parameters. Here and for
 *        all optimizers below
 */
WEFT_API weft_optim *weft_sgd(weft_module *module, weft_sgd_config config);

/** Of Adam and its kin; amsgrad: the largest second moment so far counts. */
typedef struct weft_adam_config {
    double lr;
    double beta1, beta2, eps; /* 0.9, 0.999, 1e-8 */
    double weight_decay;
    bool amsgrad, maximize;
} weft_adam_config;
typedef weft_adam_config weft_adamw_config;

/** Adam (Kingma and Ba 2015): weight decay is part of the gradient. AdamW (Loshchilov and Hutter
 *  2019): it shrinks w by lr weight_decay.
 *  ranks, gives, fails: as weft_sgd */
WEFT_API weft_optim *weft_adam(weft_module *module, weft_adam_config config);
WEFT_API weft_optim *weft_adamw(weft_module *module, weft_adamw_config config);

typedef struct weft_nadam_config {
    double lr;
    double beta1, beta2, eps; /* 0.9, 0.999, 1e-8 */
    double weight_decay;
    double momentum_decay; /* 4e-3 */
    bool decoupled, maximize;
} weft_nadam_config;

/** Adam with Nesterov momentum (Dozat 2016). ranks, gives, fails: as weft_sgd */
WEFT_API weft_optim *weft_nadam(weft_module *module, weft_nadam_config config);

typedef struct weft_radam_config {
    double lr;
    double beta1, beta2, eps; /* 0.9, 0.999, 1e-8 */
    double weight_decay;
    bool decoupled, maximize;
} weft_radam_config;

/** Rectified Adam (Liu and others 2020). ranks, gives, fails: as weft_sgd */
WEFT_API weft_optim *weft_radam(weft_module *module, weft_radam_config config);

typedef struct weft_adamax_config {
    double lr;
    double beta1, beta2, eps; /* 0.9, 0.999, 1e-8 */
    double weight_decay;
    bool maximize;
} weft_adamax_config;

/** Adam with the infinity norm (Kingma and Ba 2015). ranks, gives, fails: as weft_sgd */
WEFT_API weft_optim *weft_adamax(weft_module *module, weft_adamax_config config);

typedef struct weft_adagrad_config {
    double lr;
    double lr_decay, weight_decay;
    double initial_accumulator;
    double eps; /* 1e-10 */
    bool maximize;
} weft_adagrad_config;

/** Adagrad (Duchi and others 2011). ranks, gives, fails: as weft_sgd */
WEFT_API weft_optim *weft_adagrad(weft_module *module, weft_adagrad_config config);

typedef struct weft_rmsprop_config {
    double lr;
    double alpha, eps; /* 0.99, 1e-8 */
    double weight_decay, momentum;
    bool centered, maximize;
} weft_rmsprop_config;

/** RMSprop (Hinton 2012, centered: Graves 2013). ranks, gives, fails: as weft_sgd */
WEFT_API weft_optim *weft_rmsprop(weft_module *module, weft_rmsprop_config config);

typedef struct weft_adadelta_config {
    double lr;       /* 1 in the paper; 0 is 0 here as everywhere */
    double rho, eps; /* 0.9, 1e-6 */
    double weight_decay;
    bool maximize;
} weft_adadelta_config;

/** Adadelta (Zeiler 2012). ranks, gives, fails: as weft_sgd */
WEFT_API weft_optim *weft_adadelta(weft_module *module, weft_adadelta_config config);

typedef struct weft_asgd_config {
    double lr;
    double lambd, alpha, t0; /* 1e-4, 0.75, 1e6 */
    double weight_decay;
    bool maximize;
} weft_asgd_config;

/** Averaged SGD (Polyak and Juditsky 1992); the average is state "ax". The rate decays from the one
 *  in force at each step.
 *  ranks, gives, fails: as weft_sgd */
WEFT_API weft_optim *weft_asgd(weft_module *module, weft_asgd_config config);

typedef struct weft_lion_config {
    double lr;
    double beta1, beta2; /* 0.9, 0.99 */
    double weight_decay; /* shrinks w, as AdamW's */
    bool maximize;
} weft_lion_config;

/** Lion (Chen and others 2023): the sign of a momentum. ranks, gives, fails: as weft_sgd */
WEFT_API weft_optim *weft_lion(weft_module *module, weft_lion_config config);

/** How Muon's rate depends on a matrix of `rows` by `columns`. */
typedef enum weft_muon_rate {
    WEFT_MUON_ORIGINAL,    /* lr sqrt(max(1, rows / columns)) */
    WEFT_MUON_MATCH_ADAMW, /* 0.2 lr sqrt(max(rows, columns)), so that AdamW's lr and decay serve */
    WEFT_MUON_SPECTRAL     /* lr sqrt(rows / columns) */
} weft_muon_rate;

typedef struct weft_muon_config {
    double lr;
    double momentum, weight_decay; /* 0.95; decay shrinks w, as AdamW's */
    double a, b, c;                /* of the polynomial: 3.4445, -4.775, 2.0315 */
    double eps;                    /* 1e-7 */
    int ns_steps;                  /* 5 */
    weft_muon_rate rate;
    bool no_nesterov, maximize;
    double beta1, beta2, adamw_eps; /* of what AdamW updates: 0.9, 0.999, 1e-8 */
    bool adamw;                     /* it updates this parameter, matrix or not: for groups */
    int row_dims; /* a parameter with more than two dims is a matrix: so many of its first are rows.
                     0: AdamW updates it */
} weft_muon_config;

/**
 * Muon (Jordan and others 2024) for parameters of two dims, AdamW for all others.
 *
 * The momentum of a matrix is replaced by a nearly orthogonal one through Newton and Schulz's
 * iteration, over the whole matrix, however it is sharded: see docs/concepts/optimizers.md for what
 * that sends. It runs in f32 (f64 for f64), PyTorch's in bf16. Embedding tables and heads are
 * better off with AdamW: weft_optim_set(muon, "wte.*", "adamw", 1). Heads as dims make no matrix by
 * themselves: weft_optim_set(muon, "**.attn.qkv.weight", "row_dims", 3).
 * ranks: making it as weft_sgd; its weft_step is collective over the meshes of sharded matrices
 * gives, fails: as weft_sgd
 */
WEFT_API weft_optim *weft_muon(weft_module *module, weft_muon_config config);

/** Free an optimizer and its state; NULL is allowed. ranks: any; local */
WEFT_API void weft_optim_release(weft_optim *optim);

/**
 * Update every parameter that has a gradient, then drop the gradients: there is no zero_grad to
 * forget. Gradients accumulate over as many backwards as come before one step, unless
 * backward updates (weft_optim_update_in_backward).
 *
 * A bf16 or f16 parameter that was written to since its last update goes on from what was written.
 * ranks: collective over the meshes of gradients that are partial sums, else local
 * fails: WEFT_ERR_STATE when a parameter was replaced after the optimizer was made; WEFT_ERR_DTYPE
 *        for a gradient that is neither f32 nor of 16 bits (f64 for f64)
 */
WEFT_API weft_status weft_step(weft_optim *optim);

/**
 * Update parameters while backward is under way, or no longer.
 *
 * Each is updated as soon as all of its gradient has come and nothing in this backward uses it any
 * more (other uses of a shared parameter, pieces that are computed again), and the gradient is
 * dropped at once: no more than a few are alive together, and the next is written where the last
 * one is still in cache. weft_step updates what is left (gradients that are partial sums, and those
 * of weft_data_parallel) and counts the step. The numbers are the same, bit for bit.
 *
 * It is one backward then for each step: what a later one would add is refused before it changes
 * anything, with WEFT_ERR_STATE, as clipping is. weft_grad gives NULL for what was updated. The
 * learning rate and other settings have to be there before backward. A backward that fails has
 * updated what came before. Call it between a step and the next forward.
 *
 * PyTorch: Tensor.register_post_accumulate_grad_hook, with an optimizer per parameter.
 * ranks: every rank alike; local. Muon's collectives go out during backward
 * fails: WEFT_ERR_STATE when another optimizer updates one of the parameters in backward, and, to
 *        turn it off, between a backward and its step
 */
WEFT_API weft_status weft_optim_update_in_backward(weft_optim *optim, bool on);

/** Drop the gradients without an update. ranks: any; local */
WEFT_API void weft_optim_zero_grad(weft_optim *optim);

/** Learning rate from the next step on; the one in force; steps taken: both need a handle.
 *  ranks: any; all alike */
WEFT_API void weft_optim_set_lr(weft_optim *optim, double lr);
WEFT_API double weft_optim_lr(const weft_optim *optim);
WEFT_API int64_t weft_optim_step_count(const weft_optim *optim);

/** The learning rate as the one element of a tensor, of any dtype and number of dims, plain or
 *  replicated. It is read once.
 *  ranks: any; all alike
 *  fails: WEFT_ERR_ARG, nothing changed, for another number of elements or one that rank lacks */
WEFT_API weft_status weft_optim_set_lr_tensor(weft_optim *optim, const weft_tensor *lr);

/* ---- parameter groups ---- */

/**
 * Give some parameters a setting of their own, by the name it has in the optimizer's config, or
 * "lr_factor": what the learning rate is multiplied by for them, so that schedules hold for all.
 *
 *     weft_optim_set(adamw, "**.bias", "weight_decay", 0);
 *     weft_optim_set(adamw, "head.*", "lr_factor", 0.1);
 *
 * `pattern` is one of parameter paths below the optimizer's module, as those of plans: *, ?, [..]
 * within a name, ** for any number of names (docs/concepts/conventions.md). Later calls win.
 * Settings that decide what is remembered (momentum, amsgrad, centered, adamw) can be changed
 * before the first update, which forgets state that was written.
 *
 * ranks: any; all alike
 * fails: WEFT_ERR_NOT_FOUND for a pattern without match or a name that the optimizer does not have;
 *        WEFT_ERR_ARG for a value out of range; WEFT_ERR_STATE for what the first update has fixed
 */
WEFT_API weft_status weft_optim_set(weft_optim *optim, const char *pattern, const char *setting,
                                    double value);

/** What a parameter has for a setting, flags as 0 and 1.
 *  ranks: any; local
 *  fails: NaN, with WEFT_ERR_NOT_FOUND for an unknown name or parameter */
WEFT_API double weft_optim_setting(const weft_optim *optim, const weft_tensor *parameter,
                                   const char *setting);

/* ---- what an optimizer remembers: for checkpoints (weft/checkpoint.h) ---- */

/** How many tensors of state a parameter has, and what each is called ("exp_avg"; NULL: there is
 * none of that number). Parameters that have never wanted a gradient have none. Last comes "master"
 * where there is one.
 * ranks: any; local */
WEFT_API int weft_optim_state_count(const weft_optim *optim, const weft_tensor *parameter);
WEFT_API const char *weft_optim_state_name(const weft_optim *optim, const weft_tensor *parameter,
                                           int state);

/**
 * A parameter's state as a tensor, spread as the parameter is; writing to it changes the optimizer.
 * State of bf16 and f16 parameters is f32.
 *
 * ranks: any; local
 * gives: a tensor owned by the open scope that shares the optimizer's storage
 * fails: WEFT_ERR_NOT_FOUND for a tensor that is none of its parameters, WEFT_ERR_ARG for a state
 *        that there is not, WEFT_ERR_STATE for a parameter that wanted no gradient
 */
WEFT_API weft_tensor *weft_optim_state(weft_optim *optim, const weft_tensor *parameter, int state);

/** Updates that a parameter had (bias correction counts them); set them, and the steps taken.
 *  ranks: any; all alike
 *  fails: WEFT_ERR_NOT_FOUND as above, WEFT_ERR_ARG for a negative number */
WEFT_API int64_t weft_optim_update_count(const weft_optim *optim, const weft_tensor *parameter);
WEFT_API weft_status weft_optim_set_update_count(weft_optim *optim, const weft_tensor *parameter,
                                                 int64_t updates);
WEFT_API weft_status weft_optim_set_step_count(weft_optim *optim, int64_t steps);

/* ---- clipping ---- */

/**
 * Scale all gradients of a module so that their global 2-norm is at most `max_norm`.
 *
 * Every element of every parameter counts once, however it is spread. `norm` (may be NULL) gets
 * the norm before scaling, the same on every rank; max_norm 0 only measures. Nothing is scaled by a
 * norm that is no number; where it shall end the run (PyTorch: error_if_nonfinite), look at it.
 * With NULL a GPU keeps the norm to itself: the host does not wait, and the step may be a graph.
 * ranks: collective over the mesh axes that shard a parameter; one all-reduce of 8 bytes per axis,
 *        after partial sums were reduced together
 * fails: WEFT_ERR_ARG for a negative max_norm, WEFT_ERR_STATE when a parameter is updated in
 *        backward; then nothing is scaled, and `norm` not written
 */
WEFT_API weft_status weft_clip_grad_norm(weft_module *module, double max_norm, double *norm);

/** The same with (sum of |g|^p)^(1/p) for any p > 0, INFINITY for the largest.
 *  ranks: as above
 *  fails: as above, and WEFT_ERR_ARG for another p */
WEFT_API weft_status weft_clip_grad_pnorm(weft_module *module, double max_norm, double p,
                                          double *norm);

/**
 * The same with the norm as a tensor that nobody waits for: the form for a compiled step
 * (weft/compile.h), whose list then has the clipping. PyTorch: clip_grad_norm_, which gives a
 * tensor
 *
 * It is measured by ops: a norm for each gradient, in f32 for those of 16 bits, and one of these.
 * So it may differ in the last bits from the other form's, which adds up in f64.
 *
 * gives: the norm before scaling, plain, of no dims, on every rank: f32, or f64 where all gradients
 *        are; 0 without gradients
 * ranks: collective over the mesh axes that shard a parameter: an all-reduce of a number for each
 *        gradient, for each kind of placements that gradients have
 * fails: as above
 */
WEFT_API weft_tensor *weft_clip_grad_norm_tensor(weft_module *module, double max_norm, double p);

/** Bring every element of every gradient into [-limit, limit].
 *  ranks: collective over the meshes of gradients that are partial sums, else local
 *  fails: as above, for a negative limit */
WEFT_API weft_status weft_clip_grad_value(weft_module *module, double limit);

/* ---- schedules ---- */

typedef enum weft_schedule_kind {
    WEFT_SCHEDULE_CONSTANT,
    WEFT_SCHEDULE_LINEAR,
    WEFT_SCHEDULE_COSINE,
    WEFT_SCHEDULE_STEP,         /* times gamma every `period` steps */
    WEFT_SCHEDULE_EXPONENTIAL,  /* times gamma every step */
    WEFT_SCHEDULE_INVERSE_SQRT, /* times sqrt(warmup / step) */
    WEFT_SCHEDULE_RESTARTS,     /* half a cosine over each `period` steps */
    WEFT_SCHEDULE_WSD,          /* stays, then a line over the last `period` steps */
    WEFT_SCHEDULE_POLYNOMIAL,   /* (1 - way)^power, way going from 0 to 1 */
    WEFT_SCHEDULE_MULTISTEP,    /* times gamma at each milestone */
    WEFT_SCHEDULE_ONE_CYCLE     /* half a cosine up, half a cosine down */
} weft_schedule_kind;

/**
 * Learning rate by step: rises in a line from start_lr to `lr` over `warmup` steps, then stays, or
 * falls towards `min_lr`. A line, a cosine and a polynomial are there at step `total`, and stay,
 * and so is WSD (Megatron: warm-up, stable, decay); what other kinds multiply is the distance to
 * min_lr. A cosine is min_lr + (lr - min_lr) (1 + cos(pi (step - warmup) / (total - warmup))) / 2.
 *
 * One cycle (Smith and Topin 2019) has start_lr at step 0, lr at step warmup - 1 and min_lr at step
 * total - 1; momentum goes against it by a schedule of its own and weft_optim_set.
 */
typedef struct weft_schedule {
    weft_schedule_kind kind;
    double lr, min_lr;
    int64_t warmup, total;
    double gamma;
    int64_t period; /* 0 means 1 */
    int64_t growth; /* of restarts: each period is so many times as long as the last; 0 means 1 */
    double start_lr;
    double power;              /* 0 means 1 */
    const int64_t *milestones; /* steps counted from 0, rising */
    int n_milestones;
} weft_schedule;

/** The rate for a step counted from 0; of a warm-up in a line, the first step is 1 / warmup of the
 *  way up. Needs a schedule.
 *  ranks: any; local */
WEFT_API double weft_schedule_lr(const weft_schedule *schedule, int64_t step);
