/*
 * op_list.h: what a function does below dispatch, as a list: kernels, moves between layouts,
 * collectives, updates; and the storages that they read and write.
 *
 * A list has two levels. As it is recorded a move is one node; lower.c puts copies and the start
 * and the wait of each collective in its place. Passes change a list of either level; program.c
 * makes of it what is run. Order counts: nodes run from first to last, unless a pass has proved
 * that others of them may come first.
 */
#pragma once

#include "base/elements/strided_copy.h"
#include "device/capture.h"
#include "kernels/optimizer_kernels.h"
#include "ops/op_plan.h"
#include "random/step_draws.h"
#include "redistribute/program.h"

enum wf_storage_kind {
    WF_STORAGE_INPUT,    /* of the function's tensor `index` */
    WF_STORAGE_EXTERNAL, /* was there before and stays: a parameter, a buffer */
    WF_STORAGE_GRADIENT, /* of the gradient that leaf `index` has when the list begins */
    WF_STORAGE_FORWARD,  /* of a backward list: storage `index` of the forward list */
    WF_STORAGE_MADE      /* by the list */
};

/** Bytes that nodes read and write. Addresses in it are relative to its base, which each run sets.
 */
struct wf_storage {
    uint8_t kind;
    uint8_t category;   /* enum wf_category */
    uint8_t device;     /* weft_device */
    bool kept;          /* made, and outlives the run: an output, a gradient, saved for backward */
    bool written;       /* by some node */
    bool kept_by_calls; /* of a backward list, WF_STORAGE_FORWARD: it is read, so calls keep it */
    bool from_host;     /* made, but filled by other code than ops before a node reads it */
    bool keeps_address; /* external, here or in the list that this one belongs to */
    bool step_passes;   /* an input: parameters are updated before nodes after them read it
                           (passes/updates.c) */
    int index;
    int same_as; /* kept: its block is that of storage same_as - 1; 0: it has its own */
    int64_t bytes;
    struct wf_block *block; /* external: one reference */
    char *base;             /* when it was recorded */
};

/** A tensor of the list: where its first element lies, and how the others do. */
struct wf_operand {
    int storage; /* -1: there is none */
    int64_t offset;
    struct wf_layout *layout; /* one reference; NULL for bytes without a layout */
};

enum wf_list_node_kind {
    WF_LIST_KERNEL,  /* plan->kernel, from `in` to `out` */
    WF_LIST_VIEW,    /* out[0] is another view of in[0]: nothing runs */
    WF_LIST_MOVE,    /* in[0] to out[0] by the redistribution plan `move` */
    WF_LIST_FUSED,   /* kernels of other nodes, piece by piece */
    WF_LIST_UPDATE,  /* an optimizer changes parameters */
    WF_LIST_DELIVER, /* in[0] is result `result`, the gradient of a leaf whose hook waits for it */
    /* of the lower level */
    WF_LIST_COPY,
    WF_LIST_FILL,
    WF_LIST_START, /* of a collective, from in[0] to out[0] */
    WF_LIST_WAIT,  /* for the collective that node number `started` has begun */
    WF_LIST_DIVIDE,
    WF_LIST_POWER,
    WF_LIST_NODE_KINDS
};

/** A collective that a pass has made, of a part of what a move carries. */
struct wf_list_piece {
    struct wf_redist_action action;
    int peer;    /* of a broadcast */
    bool rooted; /* a reduce-scatter to one rank */
    int refs;
};

struct wf_list_node {
    uint8_t kind;
    uint8_t n_in, n_out;
    bool in_place;   /* out[0] was there before */
    bool draws;      /* scalars v[0], v[1] are those of `draw` in each run, */
    bool of_forward; /* which is one of the forward list's */
    bool dead;       /* a pass has removed it: swept with wf_op_list_sweep */
    uint8_t phase;   /* enum wf_phase, when it was recorded */
    const char *name, *module;
    struct wf_operand in[WF_MAX_IN], out[WF_MAX_OUT];
    struct wf_op_plan *plan;               /* one reference; NULL where no op stands behind it */
    const struct wf_redist_plan *move;     /* the plan's */
    const struct wf_redist_action *action; /* of the move, or of `piece`: of the lower level */
    struct wf_list_piece *piece;           /* one reference; NULL: none */
    int started;                           /* WF_LIST_WAIT */
    int result;                            /* WF_LIST_DELIVER */
    struct wf_scalars scalars;
    struct wf_step_draw draw;
    struct wf_strided_copy *copies; /* owned where there is no action */
    int n_copies;
    unsigned char element[8]; /* WF_LIST_FILL, without an action */
    size_t element_bytes, count;
    /* WF_LIST_UPDATE */
    struct wf_changing_call call;
    struct wf_optimizer_item *items; /* the call's own; addresses are set in each run */
    int n_items;
    int item; /* it updates this one alone, which items[0] is; -1: all of the call's */
    struct wf_operand *arrays; /* of each item w, g: 2 n_items of them */
    /* WF_LIST_FUSED: made by passes/fuse.c, which `in` and `out` only show some operands of */
    struct wf_fused *fused;
};

/** The items of a step whose parameters are updated one by one (passes/updates.c). */
struct wf_split_step {
    const struct wf_optimizer_item *items; /* the call's own */
    int n_items;
};

/** A tensor that comes out of the list. */
struct wf_list_result {
    struct wf_operand at; /* storage -1: NULL */
    weft_tensor *outside; /* it is this tensor itself; one reference. NULL: it is not */
    int same_as_input;    /* it is this input itself; -1: it is not */
    int same_as_result;   /* it is this earlier result itself; -1: it is not */
    bool requires_grad;
    bool wrapped; /* its block has the mark WF_BLOCK_WRAPPED */
};

/** What the list makes of a leaf's gradient; at.storage -1: none is left. */
struct wf_list_gradient {
    weft_tensor *leaf; /* one reference */
    struct wf_operand at;
    /* before the list's first change of it: */
    bool had;                 /* the leaf had a gradient, */
    bool was_shared;          /* which something else held too, */
    bool was_reduced;         /* which was final already (wf_grad_state), */
    struct wf_layout *before; /* of this layout; one reference */
    int storage;      /* WF_STORAGE_GRADIENT (in segments any), which gradients of other leaves may
                         share; -1: none, */
    int64_t distance; /* so many bytes behind that of the leaf which is its index */
    struct wf_grad_hook *hook;
    bool reduced, all_reduced; /* as the leaf's state and the hook say when the list has run */
    weft_tensor *made;         /* in a run, until the leaf has it */
};

struct wf_op_list {
    struct wf_list_node *nodes;
    int n_nodes;
    struct wf_storage *storages;
    int n_storages;
    struct wf_list_result *results;
    int n_results;
    struct wf_list_gradient *gradients;
    int n_gradients;
    struct wf_step_draws *draws;         /* the list's own, */
    bool draws_borrowed;                 /* or another's */
    struct wf_step_draws *forward_draws; /* of a backward list: the forward list's */
    bool lowered;
    struct wf_split_step *split_steps; /* of optimizers, which have a node per item */
    int n_split_steps;
    bool keeps_collectives; /* passes leave each where it is: what a rank knows of the list (what is
                               still held) other ranks may not */
};

struct wf_op_list *wf_op_list_new(void);
void wf_op_list_free(struct wf_op_list *list); /* NULL is allowed */

/** The nodes and storages, for printing: without calls and draws. */
struct wf_op_list *wf_op_list_copy(const struct wf_op_list *list);

/** Nodes `first` to `end` - 1 alone, ready to run. Storages keep their numbers; those that `given`
 * names have their address given in each run, as inputs have. Draws are those of `list`. */
struct wf_op_list *wf_op_list_cut(const struct wf_op_list *list, int first, int end,
                                  const bool *given);

/** Add a storage / a node. gives: its number / the node, until the next is added */
int wf_op_list_add_storage(struct wf_op_list *list, struct wf_storage storage);
struct wf_list_node *wf_op_list_add_node(struct wf_op_list *list, enum wf_list_node_kind kind);

/** Add the same call as that of a node without draws. gives: the node, whose operands name the
 * storages of `from` */
struct wf_list_node *wf_op_list_repeat_node(struct wf_op_list *list,
                                            const struct wf_list_node *from);

/** The operand, with its own reference to the layout. */
struct wf_operand wf_operand_retain(struct wf_operand operand);
static inline bool wf_operands_begin_together(const struct wf_operand *a,
                                              const struct wf_operand *b)
{
    return a->storage == b->storage && a->offset == b->offset;
}
static inline struct wf_operand wf_no_operand(void) { return (struct wf_operand){.storage = -1}; }

/** Free what a node holds and put another in its place, which takes over what `by` holds. */
void wf_op_list_replace_node(struct wf_op_list *list, int node, const struct wf_list_node *by);

/** Free what dead nodes hold and close the gaps. WAITs follow their STARTs to the new numbers. */
void wf_op_list_sweep(struct wf_op_list *list);

/** The same call on the same storages, but for the numbers of draws. */
bool wf_list_nodes_equal(const struct wf_list_node *a, const struct wf_list_node *b);

/** The first n nodes of two lists are equal. */
bool wf_op_lists_equal_to(const struct wf_op_list *a, const struct wf_op_list *b, int n);

/** Which ops come after one another and what each reads, whatever the sizes: equal for lists that
 * differ in shapes alone. */
uint64_t wf_op_list_steps(const struct wf_op_list *list);

/** Ranks take part together: a move with a collective, its start or wait, a move between meshes. */
bool wf_list_node_communicates(const struct wf_list_node *node);

/** The collectives of a list of the lower level, in order: equal where ranks do the same ones. */
uint64_t wf_op_list_collectives(const struct wf_op_list *list);

/** A result, or the gradient of a leaf, lies in the storage. */
bool wf_op_list_gives(const struct wf_op_list *list, int storage);

/** What it does is not all in its storages (an update, a gradient for a hook, a registered op): no
 * pass moves it, or moves what communicates or writes past it but where the pass says why. */
bool wf_list_node_is_fixed(const struct wf_list_node *node);

/** The step of an optimizer's item changes bytes of the block: a parameter, a state. */
bool wf_optimizer_item_changes(const struct wf_optimizer_item *item, const struct wf_block *block);

/** A node writes to bytes that are there after the run, or does what no storage shows. */
bool wf_list_node_has_effect(const struct wf_op_list *list, const struct wf_list_node *node);

/** Call `visit` with each storage that the node reads (write false) or writes (true); a storage in
 * both roles comes twice. */
typedef void wf_storage_visitor(int storage, bool write, void *payload);
void wf_list_node_visit_storages(const struct wf_op_list *list, const struct wf_list_node *node,
                                 wf_storage_visitor *visit, void *payload);

/** Bytes of the operand's box from its first element on: how far a kernel reaches. */
int64_t wf_operand_bytes(const struct wf_operand *operand);
