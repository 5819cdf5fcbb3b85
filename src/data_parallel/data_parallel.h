/*
 * data_parallel.h: what the files of this folder share: the state of a module that is a replica.
 *
 * NOTE [replicas] A parameter is kept as a leaf over one mesh for all: the replicas' axes first,
 * then those of styles. A call of its module is lent the same bytes in the layout from before
 * (lend.c). The way back labels the gradient as pending along the replicas' axes, and the rest
 * follows from layouts: where the leaf is replicated it waits, however many backwards add to it,
 * for the buckets (gradient_buckets.c, bucket_list.c); where it is sharded it comes by a
 * reduce-scatter.
 *
 * NOTE [experts] A parameter that was spread over one of the replicas' axes before is no replica
 * along it: there its gradient is what its layout says, with what the axis's other ranks had to say
 * on their tokens, which its module's own messages have brought. It is divided as all others are.
 */
#pragma once

#include <weft/data_parallel.h>

#include "autograd/tape.h"
#include "comm/comm.h"
#include "nn/module.h"

struct wf_replicas;

/* A parameter, or a buffer: whole on every replica, and never with a gradient. */
struct wf_member {
    struct wf_kept kept; /* its leaf points here */
    bool buffer;
    weft_tensor *leaf;       /* one reference */
    struct wf_layout *lent;  /* what a call of its module sees */
    weft_tensor *before;     /* a gradient of an earlier step that is still to be used, or NULL */
    struct wf_layout *given; /* of the last gradient that came back, */
    struct wf_layout *term;  /* and as a term of the leaf's */
    struct wf_layout *whole; /* over the leaf's mesh, replicated along `replicas` */
    unsigned replicas;       /* bits of the axes of which its gradient is a sum */
    bool wanted;             /* it wanted a gradient when the buckets were made */
    int bucket;              /* its number; -1: none */
    bool arrived;            /* its gradient is complete, and may go with the bucket */
    bool taken;              /* the bucket has it */
};

/* Gradients that travel together, one after another in one block. */
struct wf_bucket {
    unsigned axes; /* along which they are summed up: bits of the leaves' mesh */
    int *members;  /* numbers of them */
    int count;
    size_t bytes;
    int missing;            /* members that have not arrived */
    struct wf_block *block; /* from the start on until the gradients are views of it */
    struct wf_coll coll;
};

struct wf_replicas {
    struct wf_keeper keeper;
    int refs;
    weft_mesh *mesh; /* of the leaves: the replicas' axes first */
    unsigned axes;   /* bits of those axes, */
    unsigned cut;    /* of those along which leaves are cut, */
    unsigned spread; /* and of those over which parameters may have been before */
    int count;       /* of the replicas */
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

/** "buffer" or "parameter", for messages. */
const char *wf_member_kind(bool buffer);

/** What the module's calls are lent; wf_lending's function. payload: struct wf_replicas. */
weft_tensor *wf_replica_lend(const weft_module *m, int index, void *payload);

size_t wf_member_bytes(const struct wf_member *member);

/* ---- leaf_placements.c ---- */

/** The axis of `both` that axis number `axis` of the layout's mesh is, and all of them as bits. */
int wf_axis_among(const weft_mesh *both, const struct wf_layout *layout, int axis);
unsigned wf_axes_among(const weft_mesh *both, const struct wf_layout *layout);

/** `from` over a mesh that has more axes, R along those. fails: WEFT_ERR_LAYOUT for strided shards
 *  along axes that have changed places. */
weft_status wf_placements_among(weft_placement *to, const weft_mesh *both,
                                const struct wf_layout *from);

/** Cut along `axes` too, after all others had their turn, so that gathering along them gives
 * `whole` again; as they were where no dim can be cut. */
void wf_placements_cut(weft_placement *to, const struct wf_layout *whole, unsigned axes);

/* ---- leaf_mesh.c ---- */

/** Meshes side by side that are found one after another: the replicas', then axes of others. */
struct wf_mesh_list {
    weft_mesh *items[WEFT_MAX_AXES + 1];
    int count;
};

/** The axes of `mesh` that the list lacks; those of the replicas' own it may have if they are in
 *  `r->spread`. `what` is said of whose mesh it is. */
weft_status wf_mesh_list_add(struct wf_mesh_list *list, const struct wf_replicas *r,
                             weft_mesh *mesh, const char *what);
/** All of them, owned by the caller. */
weft_mesh *wf_mesh_list_join(const struct wf_mesh_list *list);
void wf_mesh_list_free(struct wf_mesh_list *list);

/** Axes of the mesh by name, as bits; none for NULL. */
weft_status wf_axes_named(unsigned *axes, weft_mesh *mesh, const char *names);
/** How many ranks are on a line along these axes, and this rank's number there. */
int wf_line_size(const weft_mesh *mesh, unsigned axes);
int wf_line_rank(const weft_mesh *mesh, unsigned axes);

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

/** Sum `count` numbers over the replicas along these axes, in place. */
void wf_replicas_sum(const struct wf_replicas *r, unsigned axes, double *numbers, int count);

/* ---- buffers.c ---- */

/** Make the buffers of all replicas alike, as the config says; nothing is sent without buffers. */
void wf_replicas_share_buffers(const struct wf_replicas *r);

/* ---- same_start.c ---- */

enum { WF_DIFFERS_ELSEWHERE = INT32_MAX }; /* in a tensor of another list */

/** See to it that the replicas of `count` tensors begin alike, each along its own `axes`; gives the
 *  number of the first that does not, the same on every rank with this list of tensors, or -1. All
 *  ranks of the mesh's root take part: a stage of a pipeline has another list, or an empty one. */
int wf_replicas_start(const struct wf_replicas *r, weft_tensor *const *tensors,
                      const unsigned *axes, int count, uint32_t list);
