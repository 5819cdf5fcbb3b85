/*
 * data_parallel.h: what the files of this folder share: the state of a module that is a replica.
 *
 * NOTE [replicas] A parameter becomes a leaf over one joined mesh: the replicas' axes first, then
 * those of styles. During a call of its module a view of the same bytes with the layout from before
 * stands in its place (parameter_view.c). The view's vjp gives the gradient as partial along the
 * replicas' axes, and the rest follows from layouts: where the leaf is replicated the gradient
 * stays partial, however many backwards add to it, until its bucket is reduced (gradient_buckets.c,
 * bucket_assignment.c); where the leaf is sharded the gradient is reduce-scattered.
 *
 * NOTE [experts] A parameter that was sharded over one of the replicas' axes before has no replicas
 * along that axis: its gradient is complete there, as the module's own exchanges have brought the
 * gradients of the other ranks' tokens. It is divided as all others are.
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
    weft_tensor *before;     /* a gradient of an earlier step that was not used yet, or NULL */
    struct wf_layout *given; /* of the last gradient that the view's vjp got, */
    struct wf_layout *term;  /* and of the same as a term of the leaf's gradient */
    struct wf_layout *whole; /* the leaf's, replicated along `replicas` */
    unsigned replicas;       /* bits of the axes of which its gradient is a sum */
    bool wanted;             /* it wanted a gradient when the buckets were made */
    int bucket;              /* its number; -1: none */
    bool complete;           /* its gradient is complete, and may go with the bucket */
    bool taken;              /* the bucket has it */
};

/* Gradients that are reduced together, packed in one block. */
struct wf_gradient_bucket {
    unsigned axes; /* along which they are summed up: bits of the leaves' mesh */
    int *members;  /* numbers of them */
    int count;
    size_t bytes;
    int missing;            /* members whose gradient is not complete yet */
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
    double *numbers;      /* buffer for the replica statistics */
    weft_device device;   /* of the parameters */
    bool meta;            /* WEFT_META: they have no elements */
    struct wf_gradient_bucket *buckets;
    int n_buckets, n_started;
    int backwards;                /* since the last reduction */
    double tokens, loss;          /* this replica's, since the last reduction: sums */
    double all_tokens, mean_loss; /* of all, at the last reduction */
};

/** Drop a reference; the last one frees. payload: struct wf_replicas. */
void wf_replicas_release(void *payload);

/** "buffer" or "parameter", for messages. */
const char *wf_replica_tensor_kind(bool buffer);

/** The parameter view for a call of the module; wf_hook.view_parameter. payload: struct
 *  wf_replicas. */
weft_tensor *wf_replica_parameter_view(const weft_module *m, int index, void *payload);

size_t wf_replica_tensor_bytes(const struct wf_replica_tensor *member);

/* ---- joined_placements.c ---- */

/** The axis of `both` that is axis `axis` of the layout's mesh; all of the layout's axes, as bits.
 */
int wf_layout_axis_in_mesh(const weft_mesh *both, const struct wf_layout *layout, int axis);
unsigned wf_layout_axes_in_mesh(const weft_mesh *both, const struct wf_layout *layout);

/** The placements of `from` over a mesh with more axes, R along those. fails: WEFT_ERR_LAYOUT for
 *  strided shards along axes that are in another order there. */
weft_status wf_placements_in_joined_mesh(weft_placement *to, const weft_mesh *both,
                                         const struct wf_layout *from);

/** Shard along `axes` too, after all other axes, so that gathering along them gives `whole` again;
 * unchanged where no dim can be sharded. */
void wf_placements_add_shard_axes(weft_placement *to, const struct wf_layout *whole, unsigned axes);

/* ---- joined_mesh.c ---- */

/** Meshes to join, in the order in which they were found: the replicas', then axes of others. */
struct wf_mesh_list {
    weft_mesh *items[WEFT_MAX_AXES + 1];
    int count;
};

/** Append the axes of `mesh` that the list lacks; an axis of the replicas' mesh is allowed only if
 * it is in `r->spread`. `what` names the tensor of that mesh in messages. */
weft_status wf_mesh_list_add(struct wf_mesh_list *list, const struct wf_replicas *r,
                             weft_mesh *mesh, const char *what);
/** The mesh of all axes, owned by the caller. */
weft_mesh *wf_mesh_list_concatenate(const struct wf_mesh_list *list);
void wf_mesh_list_free(struct wf_mesh_list *list);

/** Axes of the mesh by name, as bits; none for NULL. */
weft_status wf_mesh_axes_by_name(unsigned *axes, weft_mesh *mesh, const char *names);
/** The number of ranks along these axes, and this rank's number among them. */
int wf_mesh_axes_size(const weft_mesh *mesh, unsigned axes);
int wf_mesh_axes_rank(const weft_mesh *mesh, unsigned axes);

/* ---- bucket_assignment.c ---- */

/** Assign the members that want gradients to buckets, anew when other members want one than before.
 */
void wf_buckets_build(struct wf_replicas *r);
void wf_buckets_rebuild_if_changed(struct wf_replicas *r);
void wf_buckets_free(struct wf_replicas *r);

/** The last backward of a step begins, in which buckets may start. */
void wf_buckets_begin_backward(struct wf_replicas *r);
/** It ends: the remaining buckets start. So their collectives come before the program's next ones
 * on every replica, whatever its backward computed. */
void wf_buckets_start_remaining(struct wf_replicas *r);
weft_status wf_replicas_grad_complete(struct wf_grad_hook *hook, struct wf_grad_state *state);

/* ---- gradient_buckets.c ---- */

/** Copy the members' gradients into the bucket and start its all-reduce. */
void wf_bucket_start_all_reduce(struct wf_replicas *r, struct wf_gradient_bucket *bucket);
/** Wait for the buckets in flight and drop their results, which are no longer wanted. */
void wf_buckets_wait_and_drop(struct wf_replicas *r);

weft_status wf_replicas_reduce_grads(struct wf_grad_hook *hook);
weft_status wf_replicas_grad_before_add(struct wf_grad_hook *hook, struct wf_grad_state *state);
void wf_replicas_grad_dropped(struct wf_grad_hook *hook, struct wf_grad_state *state);

/** The number of values in the replica statistics of a step. */
size_t wf_replica_stats_count(const struct wf_replicas *r);

/** Sum `count` numbers over the replicas along these axes, in place. */
void wf_replicas_sum_values(const struct wf_replicas *r, unsigned axes, double *numbers, int count);

/* ---- buffer_sync.c ---- */

/** Make the buffers of all replicas equal, as the config says; nothing is sent without buffers. */
void wf_replicas_sync_buffers(const struct wf_replicas *r);

/* ---- initial_weights_sync.c ---- */

enum { WF_DIFFERS_ELSEWHERE = INT32_MAX }; /* the difference is in a tensor of another list */

/** Compare or copy the first values of `count` tensors over their replicas, each along its own
 * `axes`; gives the index of the first that differs, the same on every rank with this list of
 * tensors, or -1. Collective over the mesh's root: a stage of a pipeline has another list, or an
 * empty one. */
int wf_replicas_compare_or_copy(const struct wf_replicas *r, weft_tensor *const *tensors,
                                const unsigned *axes, int count, uint32_t list);
