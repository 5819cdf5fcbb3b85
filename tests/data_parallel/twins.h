/*
 * twins.h: a GPT in f64 over a mesh "dp,tp" (or "dp,fsdp,tp", of which the first two are
 * replicas'), and the same one whole on every rank, which sees the whole batch. Rows of the batch
 * are dealt to the replicas in turn, so that counts differ.
 */
#pragma once

#include <weft/weft.h>

#include "support/worlds.h"

enum { TW_ROWS = 5, TW_CONTEXT = 6, TW_VOCAB = 13, TW_IGNORED = -100 };

struct tw_options {
    weft_data_parallel_config config;
    int fsdp;       /* ranks along a second axis of replicas; 0: there is none */
    bool sequence;  /* the plan with sequence parallelism */
    bool unplanned; /* no styles: every parameter plain before */
    bool tied;
    weft_recompute recompute;
    const char *frozen; /* path of a parameter that wants no gradient */
};

struct twins {
    struct wt_world world;
    weft_mesh *dp, *tp; /* the replicas' axes, and the other */
    int replicas, me;
    weft_module *whole, *replica;
    weft_optim *whole_optim, *replica_optim;
    int64_t tokens; /* of all, in the last tw_backward */
};

/** All meshes "dp,tp" of all ranks, one after another; false: there are no more. Begin with dp 0.
 */
bool tw_next_mesh(int *dp, int *tp);
/** The same for meshes "dp,fsdp,tp". Begin with dp and fsdp 0. */
bool tw_next_hybrid(int *dp, int *fsdp, int *tp);

struct twins tw_open(int dp, int tp, struct tw_options options);
void tw_close(struct twins *t);

/** Which targets of a batch count. */
typedef bool tw_counts(int row, int position);
bool tw_all(int row, int position);

/** The mean loss over rows first, first + step, ... of batch number `batch`. */
weft_tensor *tw_loss(weft_module *model, int batch, int first, int step, tw_counts *counts);

/** Backward by both twins of the mean over `batches` batches, one after another; that mean. */
double tw_backward(struct twins *t, int batch, int batches, tw_counts *counts);
/** All gradients / all parameters are the same numbers in both. */
bool tw_same_gradients(struct twins *t);
bool tw_same_parameters(struct twins *t);
