/*
 * scaled.h: a GPT that grows with its ranks: its step measured, forecast, and in part computed.
 *
 * Four times the ranks have twice the width and heads, twice the ranks twice the layers, so that a
 * rank's share of the parameters, and of the products with them, stays the same.
 */
#pragma once

#include "support/decoder.h"

enum { SCALED_ROUNDS = 3, SCALED_RANKS = 4 };

/** The model that `ranks`, a power of two, work on together. */
struct bench_decoder scaled_model(int ranks);

/** Multiplications of the rank that has most to do, over those of one rank with its model. */
double scaled_work(const struct bench_decoder *m, int ranks);

/**
 * Steps of ranks that share one model, or that each have one of their own (`apart`): what a rank
 * computes while the others compute too and nobody sends anything. Seconds per round: a step, the
 * median of some; of each rank, on its CPU and in collectives.
 */
struct scaled_run {
    const char *name;
    int ranks;
    bool apart;
    struct bench_decoder model;
    double step[SCALED_ROUNDS];
    double cpu[SCALED_ROUNDS][SCALED_RANKS], in_comm[SCALED_ROUNDS][SCALED_RANKS];
    double latency[SCALED_ROUNDS], bandwidth[SCALED_ROUNDS]; /* us, MB/s */
    int64_t bytes; /* of a step's collectives, on one rank */
    int round;     /* that is measured next */
};

/** One round, on as many threads. */
void scaled_measure(struct scaled_run *run);

struct scaled_link {
    double latency_us, megabytes_per_s;
};

/** A step on a mesh that is not there; replicas along dp have a batch each. */
struct scaled_forecast {
    struct bench_decoder model;
    int dp, tp;
    struct scaled_link along_dp, along_tp;
    weft_forecast result;
    double bytes, bytes_by_hand; /* of a step's collectives, on one rank */
};

void scaled_predict(struct scaled_forecast *f);

/** Elements of an MLP's weights that one rank of so many gets through in a second of its CPU,
 * without gradients: its products, computed here. */
double scaled_rate(int ranks);
