/*
 * tape.h: nodes that say how a result's gradient becomes its inputs' gradients.
 *
 * The tape knows no op, not even add: a node holds a function pointer, and what it needs of the
 * layers above (adding two gradients, bringing one to a leaf's layout) is handed to it.
 */
#pragma once

#include <weft/autograd.h>

#include "tensor/tensor.h"

/* further outputs: of an op that gives several, those behind the first */
enum { WF_NODE_INPUTS = 8, WF_NODE_SAVED = 12, WF_NODE_FURTHER_OUTPUTS = 2 };

struct wf_tape_node;
struct wf_saved_shards;

/**
 * Compute gradients of a node's inputs from `grad`, the gradient of its output.
 *
 * Sets in_grads[i] for every input with wf_tape_node_needs_grad(node, i); results belong to the
 * open scope, which the caller closes. A slot left NULL with an error recorded ends the backward.
 * `grad` is NULL for a node that was reached by order alone (wf_tape_node_add_order_edge), or by
 * another output alone (wf_tape_record_further_output).
 */
typedef void wf_vjp(const struct wf_tape_node *node, weft_tensor *grad, weft_tensor **in_grads);

struct wf_tape_node {
    wf_vjp *vjp;
    const char *name;
    const char *module; /* where the forward ran */
    void *context;      /* an op's plan */
    void (*release_context)(void *context);
    struct wf_tape_node *producers[WF_NODE_INPUTS]; /* of the inputs: a node, */
    weft_tensor *leaves[WF_NODE_INPUTS];  /* or a leaf that wants a gradient, or neither */
    weft_tensor *saved[WF_NODE_SAVED];    /* one reference each; the vjp defines the slots */
    uint32_t versions[WF_NODE_SAVED];     /* of their blocks when they were saved */
    uint32_t saved_slots;                 /* bits of those in use */
    uint64_t writes;                      /* on this thread when it was recorded */
    struct wf_saved_shards *saved_shards; /* which of them are shards; NULL: none */
    double s[4];                          /* the call's scalars */
    int64_t v[4];
    weft_tensor *grad; /* the sum of the output's gradient during backward */
    weft_tensor *further_grads[WF_NODE_FURTHER_OUTPUTS]; /* those of further outputs; or NULL */
    uint64_t number; /* of recording, on this thread: backward runs the later node first */
    int32_t refs, n_in;
    uint8_t order_only; /* bits of inputs that only order the walk: no gradient goes to them */
    int32_t deps;       /* consumers still to come during backward */
    uint32_t mark;      /* the backward that visited it last */
    bool used;          /* its saved tensors are gone */
    bool local;         /* recorded in a local function */
    struct wf_tape_node *next_free;
};

/** Open weft_no_grad regions; 0: recording is on. */
extern _Thread_local int wf_no_grad_depth;
static inline bool wf_grad_is_enabled(void) { return wf_no_grad_depth == 0; }

/** Local functions that run, one within another: what is recorded or read there other ranks may not
 * have recorded or read. */
extern _Thread_local int wf_local_functions;

/**
 * A node with edges to the inputs that require gradients; what backward needs is added by
 * wf_tape_node_save. The node belongs to `out`, which now requires a gradient.
 */
struct wf_tape_node *wf_tape_record(weft_tensor *out, wf_vjp *vjp, const char *name,
                                    weft_tensor *const *in, int n_in);

/** Nodes recorded on this thread so far: the number of the latest one. */
uint64_t wf_tape_recorded_count(void);

/**
 * Make every backward that visits `node` also visit `earlier`, later. Where both communicate, ranks
 * on which different results depend on them still run the same collectives. The vjp of `earlier`
 * must accept a NULL gradient, and `node` must have a free input.
 */
void wf_tape_node_add_order_edge(struct wf_tape_node *node, struct wf_tape_node *earlier);

/**
 * Output `which` (0: the one behind the first) of the node that made `first` is `out`. gives: a
 * handle to it that has a gradient too, whose sum is in further_grads when the vjp of that node
 * runs; `out` itself where `first` was not recorded.
 */
weft_tensor *wf_tape_record_further_output(weft_tensor *first, int which, weft_tensor *out);

/** Save a tensor for backward in a slot; NULL is allowed. */
static inline void wf_tape_node_save(struct wf_tape_node *node, int slot, weft_tensor *t)
{
    node->saved[slot] = weft_retain(t);
    node->versions[slot] = t ? t->block->version : 0;
    node->saved_slots |= 1u << slot;
}

/** Refuses a node of which a saved tensor was written in place since; the same on every rank. Of a
 * node from a local function it ends the job. */
weft_status wf_tape_node_fail_modified(const struct wf_tape_node *node, const weft_tensor *t);
static inline weft_status wf_tape_node_check_versions(const struct wf_tape_node *node)
{
    if (node->writes == wf_inplace_write_count) return WEFT_OK; /* nothing was written at all */
    for (uint32_t left = node->saved_slots; left; left &= left - 1) {
        int slot = __builtin_ctz(left);
        const weft_tensor *t = node->saved[slot];

        if (t && t->block->version != node->versions[slot])
            return wf_tape_node_fail_modified(node, t);
    }
    return WEFT_OK;
}

/** Replace the saved tensors by shards, if the open scope says so; called when all are saved. */
void wf_tape_node_shard_saved(struct wf_tape_node *node);

/** Run the vjp of a node with saved shards on gathered tensors; collective over their mesh. */
void wf_tape_node_run_gathered(struct wf_tape_node *node, weft_tensor **in_grads);
void wf_saved_shards_free(struct wf_saved_shards *shards);

static inline bool wf_tape_node_needs_grad(const struct wf_tape_node *node, int i)
{
    return node->producers[i] || node->leaves[i];
}

struct wf_grad_state;

/**
 * Callbacks on the gradients of many leaves. Data parallelism reduces them in buckets along some
 * mesh axes, along which they stay partial until then. An optimizer that updates in backward
 * consumes each as soon as it is complete.
 */
struct wf_grad_hook {
    bool reduced;           /* all gradients are final, and none was dropped since */
    bool wants_complete;    /* `complete` is called */
    bool writes_leaf;       /* `complete` may change the leaf; else it takes the gradient alone */
    bool check_before_walk; /* `before_add` changes nothing and is also called before a backward
                               begins */
    /** Make all gradients of its leaves final. Nothing is sent when `reduced`. */
    weft_status (*reduce)(struct wf_grad_hook *hook);
    /** A backward has added the last term of a leaf's gradient and no longer uses the leaf. */
    weft_status (*complete)(struct wf_grad_hook *hook, struct wf_grad_state *state);
    /** Something is about to be added to a gradient. */
    weft_status (*before_add)(struct wf_grad_hook *hook, struct wf_grad_state *state);
    /** A gradient is about to be dropped. */
    void (*before_drop)(struct wf_grad_hook *hook, struct wf_grad_state *state);
};

/** The hook's state of one leaf, which points to it. */
struct wf_grad_state {
    struct wf_grad_hook *hook;
    unsigned axes;         /* bits of the mesh axes along which the hook reduces the gradient */
    int awaited;           /* terms to come in the backwards that have begun */
    int outstanding_calls; /* recomputed functions (recompute.c) and calls of compiled ones that use
                              the leaf and whose backward is still to come */
    bool reduced;          /* the gradient is final */
};

/** Who is told of the leaf's gradient; NULL: nobody. */
static inline struct wf_grad_hook *wf_leaf_grad_hook(const weft_tensor *leaf)
{
    return leaf->grad_state ? leaf->grad_state->hook : NULL;
}

/** Whether a backward may add to the leaf, asked before anything has changed; of hooks with
 * check_before_walk. fails: as their `before_add` */
weft_status wf_leaf_check_before_walk(const weft_tensor *leaf);

/** The backward that this thread is in keeps its tape. */
extern _Thread_local bool wf_backward_is_retained;

/** Call `complete` if nothing more is to come to the leaf. */
weft_status wf_leaf_notify_if_complete(weft_tensor *leaf);

/** A tensor from outside that a recomputed function used in its first run, unrecorded. Holds a
 * reference. */
struct wf_recompute_use {
    weft_tensor *leaf;
    uint32_t version; /* of its block at that time */
    bool awaited;     /* its gradient hook counts the piece */
    bool local;       /* it was first read in a local function */
};

struct wf_recompute_uses {
    struct wf_recompute_use *items;
    int count;
    const struct wf_block **made; /* during the first run: what it made itself, and its inputs */
    int n_made;
};

/** Of the recomputed function that is in its first run; NULL: none. */
extern _Thread_local struct wf_recompute_uses *wf_recompute_uses;
void wf_recompute_uses_add(weft_tensor *const *in, int n);
void wf_recompute_uses_add_made(const weft_tensor *t);

/** For unrecorded uses of tensors by other functions than ops. */
static inline void wf_note_unrecorded_use(weft_tensor *const *in, int n)
{
    if (wf_recompute_uses) wf_recompute_uses_add(in, n);
}

/** Functions other than ops ask before they record a node of their own: the tape is on, and one of
 * the inputs requires a gradient. Where the tape is off the use of the inputs is noted instead. */
static inline bool wf_should_record(weft_tensor *const *in, int n)
{
    bool wanted = false;

    if (!wf_grad_is_enabled()) {
        wf_note_unrecorded_use(in, n);
        return false;
    }
    for (int i = 0; i < n; i++) wanted |= in[i]->requires_grad;
    return wanted;
}

/** For a new tensor that no op made: it is not from outside the function that is running. */
static inline void wf_note_made_tensor(const weft_tensor *t)
{
    if (wf_recompute_uses) wf_recompute_uses_add_made(t);
}

/** Functions of higher layers that the tape calls; set once per process. */
struct wf_autograd_upcalls {
    weft_tensor *(*add)(weft_tensor *a, weft_tensor *b);
    weft_tensor *(*full_like)(const weft_tensor *like, double value); /* a gradient that is known */
    /* a gradient that the program gives, over the mesh of `of` */
    weft_tensor *(*to_mesh_of)(weft_tensor *grad, const weft_tensor *of);
    weft_tensor *(*to_leaf_placements)(
        weft_tensor *grad,
        const weft_tensor *leaf); /* to the leaf's layout, partial sums may stay */
    weft_tensor *(*reduce)(weft_tensor *grad, const weft_tensor *leaf); /* partial sums too */
    weft_tensor *(*copy)(weft_tensor *grad);
    bool (*add_into)(weft_tensor *a, weft_tensor *b); /* a += b where layouts agree */
};
void wf_autograd_set_upcalls(const struct wf_autograd_upcalls *upcalls);

/** Add to a leaf's gradient (backward.c's last step, and for optimizers' tests). */
weft_status wf_leaf_accumulate_grad(weft_tensor *leaf, weft_tensor *grad);

/** The same for a term that a backward has counted: the leaf's gradient hook hears of it. */
weft_status wf_leaf_deliver_grad(weft_tensor *leaf, weft_tensor *grad);

/** Whether its vjp runs a function again (recompute.c). */
bool wf_tape_node_runs_again(const struct wf_tape_node *node);

/** For a vjp that has several terms of the gradient of input i: add one that is not the last, which
 * it gives as others do. So the terms of an input are added in the order in which they come. */
weft_status wf_tape_node_add_term(struct wf_tape_node *node, int i, weft_tensor *grad);

/** Call `visit` with each leaf that a backward from t would reach, once for each use of it; with
 * NULL for a function that backward runs again (weft_recomputed): it may reach any leaf. */
typedef void wf_leaf_visitor(const weft_tensor *leaf, void *payload);
void wf_tape_visit_leaves(const weft_tensor *t, wf_leaf_visitor *visit, void *payload);

/** The gradient of what a result does not depend on; of the open scope. */
weft_tensor *wf_zero_gradient_like(const weft_tensor *of);

/** Make a leaf's gradient row-major bytes that nothing else holds. */
weft_status wf_leaf_unshare_grad(weft_tensor *leaf);

/** Release the tensors that a node saved. */
void wf_tape_node_release_saved(struct wf_tape_node *node);

/** Free this thread's node lists. */
void wf_autograd_finalize(void);
void wf_backward_finalize(void); /* its part in backward.c */
