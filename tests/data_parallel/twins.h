/*
 * twins.h: a module whole on every rank, which sees the whole batch, and its twin as replicas: a
 * GPT in f64 over a mesh "dp,tp" (or "dp,fsdp,tp", of which the first two are the replicas') unless
 * a test has modules of its own. Rows of the batch are dealt to the replicas in turn, so that
 * counts differ. The case owns all of them.
 */
#pragma once

#include <weft/weft.h>

#include "support/near_modules.h"
#include "support/worlds.h"

enum { TW_ROWS = 5, TW_CONTEXT = 6, TW_VOCAB = 13, TW_IGNORED = -100 };

struct tw_options {
    int fsdp; /* ranks along a second axis of replicas; 0: there is none */
    weft_data_parallel_config config;
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

/** All meshes "dp,tp" of all ranks, one after another, each a row of the case; false: there are no
 * more. Begin with dp 0. */
bool tw_next_mesh(int *dp, int *tp);
/** The same for meshes "dp,fsdp,tp". Begin with dp and fsdp 0. */
bool tw_next_hybrid(int *dp, int *fsdp, int *tp);

struct twins tw_open(int dp, int tp, struct tw_options options);

/** The mesh, with its parts `axes`, which are the replicas', and "tp"; no modules yet. */
struct twins tw_begin(const char *axes, const char *mesh);
/** Train both by AdamW. */
void tw_optimize(struct twins *t);

/** Which targets of a batch count. */
typedef bool tw_counts(int row, int position);
bool tw_all(int row, int position);
/** The later rows have fewer and fewer that do, the third none: some replicas have no token. */
bool tw_some(int row, int position);

/** The mean loss over rows first, first + step, ... of batch number `batch`. */
weft_tensor *tw_loss(weft_module *model, int batch, int first, int step, tw_counts *counts);

/** Backward by both twins of the mean over `batches` batches, one after another; that mean. */
double tw_backward(struct twins *t, int batch, int batches, tw_counts *counts);
/** After backward by both to this mean: gradients, clipped, their norms, parameters after a step,
 * the mean and how many tokens counted are the same numbers in both. */
void tw_step(struct twins *t, double mean);
/** Two steps of two batches each. */
void tw_train(struct twins *t, tw_counts *counts);

/** All gradients / all parameters are the same numbers in both. */
#define TW_SAME_GRADIENTS(t) WT_NEAR_GRADIENTS((t)->replica, (t)->whole, WT_WITHIN(1e-10))
#define TW_SAME_PARAMETERS(t) WT_NEAR_PARAMETERS((t)->replica, (t)->whole, WT_WITHIN(1e-10))
