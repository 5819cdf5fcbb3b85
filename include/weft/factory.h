/*
 * factory.h: tensors made where they will live: each rank allocates and computes its shard only.
 *
 *     weft_tensor *w = weft_make_normal(
 *         (weft_spec){.ndim = 2, .shape = {1024, 4096}, .mesh = mesh, .placed = "S(0)"}, 0, 0.02,
 *         NULL);
 *
 * Unless said otherwise:
 * On the mesh's device, without a mesh on the default one (weft_set_default_device); all are on
 * WEFT_META where that is the default.
 * ranks: local, but every rank of the mesh makes the same call; a rank outside it gets a tensor
 *        without elements
 * gives: a row-major tensor owned by the open scope
 * fails: WEFT_ERR_SHAPE, WEFT_ERR_DTYPE, WEFT_ERR_LAYOUT for placements that do not fit the shape
 *        or are partial sums
 */
#pragma once

#include <weft/random.h>

/** What to make. What is not named is 0: f32, no dims, plain, replicated on every axis, no
 * gradient. */
typedef struct weft_spec {
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS]; /* global */
    weft_mesh *mesh;              /* NULL: a plain tensor */
    weft_placement placements[WEFT_MAX_AXES];
    bool requires_grad;
    const char *placed; /* the placements as text, "S(0),R", instead; NULL: as above */
    weft_device device; /* another device than that; WEFT_CPU asks for none */
} weft_spec;

/** The spec of a tensor; what is partial in t is replicated in it, and it wants no gradient; its
 *  device is t's. Needs a handle.
 *  ranks: any; local */
WEFT_API weft_spec weft_spec_of(const weft_tensor *t);

/* ---- constants ---- */

/** Elements undefined / 0 / 1 / `value`. */
WEFT_API weft_tensor *weft_make_empty(weft_spec spec);
WEFT_API weft_tensor *weft_make_zeros(weft_spec spec);
WEFT_API weft_tensor *weft_make_ones(weft_spec spec);
WEFT_API weft_tensor *weft_make_full(weft_spec spec, double value);

/** Element i of a tensor [n] is start + i step.
 *  fails: also WEFT_ERR_ARG when an integer dtype is given fractions */
WEFT_API weft_tensor *weft_make_arange(weft_spec spec, double start, double step);
/** n numbers from `first` to `last`, both included. Floats. */
WEFT_API weft_tensor *weft_make_linspace(weft_spec spec, double first, double last);

/** [*, n, m]: 1 where j = i + diagonal / j <= i + diagonal / j >= i + diagonal, else 0. */
WEFT_API weft_tensor *weft_make_eye(weft_spec spec, int64_t diagonal);
WEFT_API weft_tensor *weft_make_tril(weft_spec spec, int64_t diagonal);
WEFT_API weft_tensor *weft_make_triu(weft_spec spec, int64_t diagonal);

/* ---- random numbers: what the functions of random.h with the same names fill in ---- */

/** rand is uniform in [0, 1), randn normal with mean 0 and standard deviation 1. */
WEFT_API weft_tensor *weft_make_rand(weft_spec spec, weft_generator *g);
WEFT_API weft_tensor *weft_make_randn(weft_spec spec, weft_generator *g);
WEFT_API weft_tensor *weft_make_uniform(weft_spec spec, double low, double high, weft_generator *g);
WEFT_API weft_tensor *weft_make_normal(weft_spec spec, double mean, double std, weft_generator *g);
WEFT_API weft_tensor *weft_make_trunc_normal(weft_spec spec, double mean, double std, double low,
                                             double high, weft_generator *g);
WEFT_API weft_tensor *weft_make_bernoulli(weft_spec spec, double p, weft_generator *g);
WEFT_API weft_tensor *weft_make_randint(weft_spec spec, int64_t low, int64_t high,
                                        weft_generator *g);
/** fails: also WEFT_ERR_SHAPE unless the spec has one dim */
WEFT_API weft_tensor *weft_make_randperm(weft_spec spec, weft_generator *g);

/* ---- like another tensor: its shape, dtype, device, mesh and placements, but replicated where it
 * is partial; NULL gives NULL. weft_empty_like is in tensor.h ---- */

WEFT_API weft_tensor *weft_zeros_like(const weft_tensor *t);
WEFT_API weft_tensor *weft_ones_like(const weft_tensor *t);
WEFT_API weft_tensor *weft_full_like(const weft_tensor *t, double value);
/** Another shape, but t's dtype, device and mesh: placed as t where the shape is its own
 * (replicated where it is partial), else replicated. */
WEFT_API weft_tensor *weft_new_full(const weft_tensor *t, const int64_t *shape, int ndim,
                                    double value);
WEFT_API weft_tensor *weft_rand_like(const weft_tensor *t, weft_generator *g);
WEFT_API weft_tensor *weft_randn_like(const weft_tensor *t, weft_generator *g);
WEFT_API weft_tensor *weft_randint_like(const weft_tensor *t, int64_t low, int64_t high,
                                        weft_generator *g);
