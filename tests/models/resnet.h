/* resnet.h: a residual network of basic blocks (He et al. 2015), written with public modules as a
 * user would. */
#pragma once

#include <weft/weft.h>

enum { RESNET_BLOCKS = 2 };

struct resnet {
    int64_t channels, classes; /* of images */
    int64_t stem;              /* channels that the first convolution makes */
    struct {
        int64_t out, stride;
    } blocks[RESNET_BLOCKS];
    weft_dtype dtype;
};

/**
 * (images [B,channels,H,W] [, classes [B]]) -> logits [B,classes], or the mean loss.
 *
 * Children conv, norm, blocks.0 ... (conv1, norm1, conv2, norm2, and short and norm3 where the
 * block changes the shape), head, loss. Norms have buffers running_mean and running_var.
 */
weft_module *resnet_new(struct resnet resnet);

/**
 * Every parameter and buffer over the mesh: replicated along all axes but "tp", and along that the
 * inner channels of each block spread: conv1 and norm1 by the channels that they give, conv2 by
 * those that go in. The convolution of the stem, the shortcuts, the other norms and the head are
 * whole on every rank.
 */
weft_status resnet_spread(weft_module *m, weft_mesh *mesh);
