/*
 * data_parallel.h: what the files of this folder share: the state of a module that is a replica.
 *
 * NOTE [replicas] A parameter is kept as a leaf over the replicas' axis (axis 0 of its mesh) and
 * those that it had before. A call of its module is lent the same bytes in the layout from before
 * (lend.c). The way back labels the gradient as pending along axis 0, and the rest follows from
 * layouts: replicated leaves let it wait there, however many backwards add to it, for the buckets
 * (gradient_buckets.c, bucket_list.c); leaves sharded along axis 0 take it by a reduce-scatter.
 */
#pragma once

#include <weft/data_parallel.h>

#include "autograd/tape.h"
#include "comm/comm.h"
#include "nn/module.h"

struct wf_replicas;

/* A parameter. */
struct wf_member {
    struct wf_kept kept;     /* its leaf points here */
    weft_tensor *leaf;       /* one reference */
    struct wf_layout *lent;  /* what a call of its module sees */
    weft_tensor *before;     /* a gradient of an earlier step that is still to be used, or NULL */
    struct wf_layout *given; /* of the last gradient that came back, */
    struct wf_layout *term;  /* and as a term of the leaf's */
    struct wf_layout *whole; /* over the leaf's mesh, replicated along axis 0 */
    bool wanted;             /* it wanted a gradient when the buckets were made */
    int bucket;              /* its number; -1: none */
    bool arrived;            /* its gradient is complete, and may go with the bucket */
    bool taken;              /* the bucket has it */
};

/* Gradients that travel together, one after another in one block. */
struct wf_bucket {
    int *members; /* numbers of them */
    int count;
    size_t bytes;
    int missing;            /* members that have not arrived */
    struct wf_block *block; /* from the start on until the gradients are views of it */
    struct wf_coll coll;
};

struct wf_replicas {
    struct wf_keeper keeper;
    int refs;
    weft_mesh *mesh; /* one axis */
    weft_data_parallel_config config;
    struct wf_member *members;
    int n_members;
    weft_tensor **leaves; /* of the members */
    double *numbers;      /* room for what replicas tell each other */
    bool meta;            /* parameters without elements */
    struct wf_bucket *buckets;
    int n_buckets, n_started;
    int backwards;                /* since the last reduction */
    double tokens, loss;          /* this replica's, since the last reduction: sums */
    double all_tokens, mean_loss; /* of all, at the last reduction */
};

/** One user less; the last one frees it. payload: struct wf_replicas. */
void wf_replicas_release(void *payload);

/** What the module's calls are lent; wf_lending's function. payload: struct wf_replicas. */
weft_tensor *wf_replica_lend(weft_tensor *parameter, void *payload);

size_t wf_member_bytes(const struct wf_member *member);

/* ---- bucket_list.c ---- */

/** Sort the members that want gradients into buckets; again where others want some than before. */
void wf_buckets_make(struct wf_replicas *r);
void wf_buckets_refresh(struct wf_replicas *r);
void wf_buckets_free(struct wf_replicas *r);

/** The last backward of a step begins, in which buckets may be sent. */
void wf_buckets_listen(struct wf_replicas *r);
/** It ends: what has not been sent is. So messages of the program that come next come next on every
 *  replica, whatever its backward was like. */
void wf_buckets_send(struct wf_replicas *r);
weft_status wf_replicas_arrived(struct wf_keeper *keeper, struct wf_kept *kept);

/* ---- gradient_buckets.c ---- */

/** Take the members' gradients and begin to add up. */
void wf_bucket_start(struct wf_replicas *r, struct wf_bucket *bucket);
/** Let buckets that have left arrive, and drop them: nobody wants them any more. */
void wf_buckets_give_up(struct wf_replicas *r);

weft_status wf_replicas_reduce(struct wf_keeper *keeper);
weft_status wf_replicas_growing(struct wf_keeper *keeper, struct wf_kept *kept);
void wf_replicas_dropped(struct wf_keeper *keeper, struct wf_kept *kept);

/** How many numbers replicas tell each other in a step. */
size_t wf_news_count(const struct wf_replicas *r);

/** Sum `count` numbers over the replicas, in place. */
void wf_replicas_sum(const struct wf_replicas *r, double *numbers, int count);

/* ---- same_start.c ---- */

/** See to it that the replicas of `count` tensors over `both` begin alike; gives the number of the
 *  first that does not, the same on every rank of `both`, or -1. */
int wf_replicas_start(const struct wf_replicas *r, weft_mesh *both, weft_tensor *const *tensors,
                      int count);
