/*
 * data_parallel.h: what the files of this folder share: the state of a module that is a replica.
 *
 * NOTE [replicas] A parameter is kept as a leaf over one mesh for all: the replicas' axes first,
 * then those of styles. A call of its module is view the same bytes in the layout from before
 * (parameter_view.c). The way back labels the gradient as pending along the replicas' axes, and the
 * rest follows from layouts: where the leaf is replicated it waits, however many backwards add to
 * it, for the buckets (gradient_buckets.c, bucket_assignment.c); where it is sharded it comes by a
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
struct wf_replica_tensor {
    struct wf_grad_state grad_state; /* its leaf points here */
    bool buffer;
    weft_tensor *leaf;       /* one reference */
    struct wf_layout *view;  /* what a call of its module sees */
    weft_tensor *before;     /* a gradient of an earlier step that is still to be used, or NULL */
    struct wf_layout *given; /* of the last gradient that came back, */
    struct wf_layout *term;  /* and as a term of the leaf's */
    struct wf_layout *whole; /* over the leaf's mesh, replicated along `replicas` */
    unsigned replicas;       /* bits of the axes of which its gradient is a sum */
    bool wanted;             /* it wanted a gradient when the buckets were made */
    int bucket;              /* its number; -1: none */
    bool complete;           /* its gradient is complete, and may go with the bucket */
    bool taken;              /* the bucket has it */
};

/* Gradients that travel together, one after another in one block. */
struct wf_gradient_bucket {
    unsigned axes; /* along which they are summed up: bits of the leaves' mesh */
    int *members;  /* numbers of them */
    int count;
    size_t bytes;
    int missing;            /* members that have not arrived */
    struct wf_block *block; /* from the start on until the gradients are views of it */
    struct wf_coll coll;
};

struct wf_replicas {
    struct wf_grad_hook grad_hook;
    int refs;
    weft_mesh *mesh; /* of the leaves: the replicas' axes first */
    unsigned axes;   /* bits of those axes, */
    unsigned cut;    /* of those along which leaves are cut, */
    unsigned spread; /* and of those over which parameters may have been before */
    int count;       /* of the replicas */
    weft_data_parallel_config config;
    struct wf_replica_tensor *members;
    int n_members;
    weft_tensor **leaves; /* of the members */
    double *numbers;      /* room for what replicas tell each other */
    bool meta;            /* parameters without elements */
    struct wf_gradient_bucket *buckets;
    int n_buckets, n_started;
    int backwards;                /* since the last reduction */
    double tokens, loss;          /* this replica's, since the last reduction: sums */
    double all_tokens, mean_loss; /* of all, at the last reduction */
};

/** One user less; the last one frees it. payload: struct wf_replicas. */
void wf_replicas_release(void *payload);

/** "buffer" or "parameter", for messages. */
const char *wf_replica_tensor_kind(bool buffer);

/** What the module's calls are view; wf_parameter_views's function. payload: struct wf_replicas. */
weft_tensor *wf_replica_parameter_view(const weft_module *m, int index, void *payload);

size_t wf_replica_tensor_bytes(const struct wf_replica_tensor *member);

/* ---- joined_placements.c ---- */

/** The axis of `both` that axis number `axis` of the layout's mesh is, and all of them as bits. */
int wf_layout_axis_in_mesh(const weft_mesh *both, const struct wf_layout *layout, int axis);
unsigned wf_layout_axes_in_mesh(const weft_mesh *both, const struct wf_layout *layout);

/** `from` over a mesh that has more axes, R along those. fails: WEFT_ERR_LAYOUT for strided shards
 *  along axes that have changed places. */
weft_status wf_placements_in_joined_mesh(weft_placement *to, const weft_mesh *both,
                                         const struct wf_layout *from);

/** Cut along `axes` too, after all others had their turn, so that gathering along them gives
 * `whole` again; as they were where no dim can be cut. */
void wf_placements_add_shard_axes(weft_placement *to, const struct wf_layout *whole, unsigned axes);

/* ---- joined_mesh.c ---- */

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
weft_mesh *wf_mesh_list_concatenate(const struct wf_mesh_list *list);
void wf_mesh_list_free(struct wf_mesh_list *list);

/** Axes of the mesh by name, as bits; none for NULL. */
weft_status wf_mesh_axes_by_name(unsigned *axes, weft_mesh *mesh, const char *names);
/** How many ranks are on a line along these axes, and this rank's number there. */
int wf_mesh_axes_size(const weft_mesh *mesh, unsigned axes);
int wf_mesh_axes_rank(const weft_mesh *mesh, unsigned axes);

/* ---- bucket_assignment.c ---- */

/** Sort the members that want gradients into buckets; again where others want some than before. */
void wf_buckets_build(struct wf_replicas *r);
void wf_buckets_rebuild_if_changed(struct wf_replicas *r);
void wf_buckets_free(struct wf_replicas *r);

/** The last backward of a step begins, in which buckets may be sent. */
void wf_buckets_begin_backward(struct wf_replicas *r);
/** It ends: what has not been sent is. So messages of the program that come next come next on every
 *  replica, whatever its backward was like. */
void wf_buckets_start_remaining(struct wf_replicas *r);
weft_status wf_replicas_grad_complete(struct wf_grad_hook *hook, struct wf_grad_state *state);

/* ---- gradient_buckets.c ---- */

/** Take the members' gradients and begin to add up. */
void wf_bucket_start_all_reduce(struct wf_replicas *r, struct wf_gradient_bucket *bucket);
/** Let buckets that have left arrive, and drop them: nobody wants them any more. */
void wf_buckets_wait_and_drop(struct wf_replicas *r);

weft_status wf_replicas_reduce_grads(struct wf_grad_hook *hook);
weft_status wf_replicas_grad_before_add(struct wf_grad_hook *hook, struct wf_grad_state *state);
void wf_replicas_grad_dropped(struct wf_grad_hook *hook, struct wf_grad_state *state);

/** How many numbers replicas tell each other in a step. */
size_t wf_replica_stats_count(const struct wf_replicas *r);

/** Sum `count` numbers over the replicas along these axes, in place. */
void wf_replicas_sum_values(const struct wf_replicas *r, unsigned axes, double *numbers, int count);

/* ---- buffer_sync.c ---- */

/** Make the buffers of all replicas alike, as the config says; nothing is sent without buffers. */
void wf_replicas_sync_buffers(const struct wf_replicas *r);

/* ---- initial_weights_sync.c ---- */

enum { WF_DIFFERS_ELSEWHERE = INT32_MAX }; /* in a tensor of another list */

/** See to it that the replicas of `count` tensors begin alike, each along its own `axes`; gives the
 *  number of the first that does not, the same on every rank with this list of tensors, or -1. All
 *  ranks of the mesh's root take part: a stage of a pipeline has another list, or an empty one. */
int wf_replicas_compare_or_copy(const struct wf_replicas *r, weft_tensor *const *tensors,
                                const unsigned *axes, int count, uint32_t list);
