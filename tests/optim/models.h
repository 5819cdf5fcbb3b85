/* models.h: the small model that optimizers are tried on: linear, relu, linear, summed up. */
#pragma once

#include "ranks/worlds.h"

struct wt_mlp {
    int64_t sizes[4]; /* rows of the input; its width, the hidden and the output width */
    weft_dtype dtype;
    bool varied_input;      /* else it is all ones */
    const char *placements; /* of every parameter, on the whole mesh; NULL: plain, one device */
    weft_mesh *mesh;
    weft_module *module; /* net1, relu, net2 */
    weft_tensor *input;  /* one reference; plain */
};

/** Make module and input. Parameters are sharded with the input along dim 0 of the first axis. */
void wt_mlp_open(struct wt_mlp *mlp, weft_mesh *mesh);
void wt_mlp_close(struct wt_mlp *mlp);

/** Gradients of the sum of the output, added to those that are there. */
weft_status wt_mlp_backward(struct wt_mlp *mlp);

/** All parameters as one plain f64 vector, the last one first. */
weft_tensor *wt_mlp_weights(struct wt_mlp *mlp);
