/*
 * decoder.h: training steps of a decoder (GPT-2, Llama) as a program, and what one rank's step must
 * send and keep, counted by hand.
 *
 *     mpiexec -n 2 NAME LAYERS WIDTH HEADS CONTEXT BATCH VOCAB STEPS [WORD...]
 *
 * Words: sequence (parallel), recompute=mlp, recompute=block, bf16 (weights and activations, with
 * f32 copies for the optimizer), kv=HEADS, hidden=WIDTH.
 */
#pragma once

#include "support/bench.h"

struct bench_decoder {
    int layers;
    int64_t width, heads, context, batch, vocab;
    int64_t kv_heads, hidden;
    weft_recompute recompute;
    bool sequence, bf16;
    int steps;
    bool gated, no_bias; /* its MLP; no biases, no table of positions */
};

/** Makes the model, on one rank and plain. */
typedef weft_module *bench_make_decoder(const struct bench_decoder *size);

/**
 * The program: five losses, bytes of a step and of its peak beside those counted by hand, and the
 * time of `steps` steps. Tokens as in hand/gpt.c.
 */
int bench_train_decoder(int argc, char **argv, struct bench_decoder size, bench_make_decoder *make);

/** Bytes that one rank keeps and bytes that its collectives carry in a step. */
double bench_kept_bytes(const struct bench_decoder *size, int ranks);
double bench_sent_bytes(const struct bench_decoder *size, int ranks);
