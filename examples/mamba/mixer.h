/*
 * mixer.h: a selective state-space layer (Mamba, Gu and Dao 2023) as a module of modules.
 *
 * Every channel has a state of `state` numbers, h_t = exp(dt_t A) h_(t-1) + dt_t B_t x_t, and gives
 * y_t = C_t h_t + D x_t, where how far it steps, what it takes in and what it lets out (dt, B, C)
 * depend on the word itself. The sequence is walked by one scan, whatever its length.
 */
#pragma once

#include <weft/weft.h>

struct mixer {
    int64_t width, inner; /* of the words, and channels inside; the paper's inner is 2 width */
    int64_t state;        /* the paper's N */
    int64_t rank;         /* features that dt is made of */
    int64_t taps;         /* of the convolution */
    weft_dtype dtype;
};

/**
 * x [B,T,width] -> [B,T,width]; no word sees a later one.
 *
 * Children in (both halves: what is scanned, and the gate), conv, select (makes dt's features, B
 * and C), step (dt), scan (parameters A_log [inner,state] and D [inner]), out.
 */
weft_module *mixer_new(struct mixer mixer);

/** The style of conv and of scan: the channels of each parameter, its dim 0, over the ranks.
 * Inputs come by channels from what makes them, and the output is handed on so. */
extern const weft_style_functions mixer_by_channels;
