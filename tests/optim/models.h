/*
 * models.h: what optimizers are tried on: a small model (linear, relu, linear, summed up), and a
 * bag of parameters whose gradients are known.
 */
#pragma once

#include "support/worlds.h"

struct wt_mlp {
    int64_t sizes[4]; /* rows of the input; its width, the hidden and the output width */
    weft_dtype dtype;
    bool varied_input;      /* else it is all ones */
    const char *placements; /* of every parameter, on the whole mesh; NULL: plain, one device */
    weft_mesh *mesh;
    weft_module *module; /* net1, relu, net2 */
    weft_tensor *input;  /* plain */
};

/** Make module and input, which the case owns. Parameters are sharded with the input along dim 0 of
 * the first axis. */
void wt_mlp_open(struct wt_mlp *mlp, weft_mesh *mesh);

/** Gradients of the sum of the output, added to those that are there. */
weft_status wt_mlp_backward(struct wt_mlp *mlp);

/** All parameters as one plain f64 vector, the last one first. */
weft_tensor *wt_mlp_weights(struct wt_mlp *mlp);

/* ---- parameters with gradients of one's own ---- */

enum { WT_BAG = 8 };

struct wt_bag {
    weft_module *module;
    int n;
    struct wt_bag_item {
        const char *name;
        weft_tensor *factor;
    } items[WT_BAG];
};

/** Without parameters. The case owns it and what is added. */
void wt_bag_open(struct wt_bag *bag);

/**
 * Add a parameter, spread over `mesh` by `placements` (NULL: plain). Its gradient is `factor`,
 * spread likewise by `factor_placements` (NULL: as the parameter), summed over leading dims that
 * the parameter lacks: sharded there it is a partial sum.
 */
void wt_bag_add(struct wt_bag *bag, const char *name, weft_tensor *parameter, weft_tensor *factor,
                weft_mesh *mesh, const char *placements, const char *factor_placements);

/** Add the gradients of all of them to those that are there. */
weft_status wt_bag_backward(struct wt_bag *bag);
/** So many times backward and a step. */
void wt_bag_steps(struct wt_bag *bag, weft_optim *optim, int n);
/** Parameter i in the order in which they were added. */
weft_tensor *wt_bag_parameter(const struct wt_bag *bag, int i);

/** A plain tensor of `dims` sizes, by the tests' formula. */
weft_tensor *wt_numbers(weft_dtype dtype, int which, int ndim, const int64_t *shape);

/* ---- optimizers ---- */

struct wt_maker {
    const char *name;
    weft_optim *(*make)(weft_module *m);
};

/** WT_MAKER(sgd, .lr = 0.1): `sgd` makes an SGD with these settings, which the case owns. */
#define WT_MAKER(name, ...)                                                                        \
    static weft_optim *make_##name(weft_module *m)                                                 \
    {                                                                                              \
        return wt_own(weft_##name(m, (weft_##name##_config){__VA_ARGS__}));                        \
    }                                                                                              \
    static const struct wt_maker name = {#name, make_##name};
