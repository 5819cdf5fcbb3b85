/* model.h: a language model of Mamba layers, written for one device, and a plan that spreads it. */
#pragma once

#include "mamba/mixer.h"

struct mamba {
    int64_t vocab;
    int layers;
    struct mixer mixer;
};

/**
 * (tokens [B,T] [, targets [B,T]]) -> logits [B,T,vocab], or the mean loss.
 *
 * Children wte, blocks.0 ... (norm, mixer: x + mixer(norm(x))), norm_f, head (no bias), loss. RMS
 * norms.
 */
weft_module *mamba_new(struct mamba mamba);

/**
 * Channels inside the mixers over the ranks, and the vocabulary. In a mixer two sums are sent
 * forward, of what dt, B and C are made of and of its output; the convolution and the scan send
 * nothing. The stream between mixers is whole on every rank; logits stay spread by words.
 */
extern const weft_plan mamba_plan[];
