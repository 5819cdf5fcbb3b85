/*
 * module.h: struct weft_module; for nn, and for styles that distribute modules.
 *
 * A layer keeps its parameters at fixed indices and reads them there in every forward, so that
 * swapping a tensor is all it takes to distribute it.
 */
#pragma once

#include <weft/nn.h>
#include <weft/random.h>

#include "base/upcalls.h"

enum wf_init_kind { WF_INIT_UNKNOWN, WF_INIT_NORMAL, WF_INIT_UNIFORM, WF_INIT_CONSTANT };

/* How a parameter got its first values, for when it gets its elements later. */
struct wf_initial_values {
    enum wf_init_kind filling;
    double value;                              /* standard deviation, bound, or the value */
    unsigned char state[WEFT_GENERATOR_BYTES]; /* of the generator, before */
    int64_t empty_row; /* 1 + the row that is zero all the same; 0: there is none */
};

struct wf_parameter {
    char *name;
    weft_tensor *tensor; /* one reference */
    weft_tensor *own;    /* during a call with views: the parameter; `tensor` is its view */
    struct wf_initial_values first;
    bool unsaved;      /* a buffer that files leave out */
    weft_tensor *rows; /* forward takes these indices of dim 0, in this order; NULL: all of it */
};

/**
 * All that others add to the calls of a module: functions that run around forward, in the order of
 * a call. NULL: this hook leaves that as it is. `features` and `distributed_callbacks` of a module
 * are no hooks: the first describes the layer to styles, the second what a forward itself may ask
 * for; a call runs neither.
 */
struct wf_hook {
    /** The scope in which calls run, instead of a plain one. One hook of a module has it; a later
     *  one takes its place. */
    weft_scope *(*open_scope)(void *payload);
    /** What stands in the place of the module's own parameter or buffer of this index during a
     *  call: a tensor of the open scope; NULL with an error recorded. One hook of a module has it.
     */
    weft_tensor *(*view_parameter)(const weft_module *m, int index, void *payload);
    /** Runs instead of the call: the other hooks, parameters' views and forward, which
     *  wf_module_run_call runs. One hook of a module has it. */
    weft_status (*instead)(weft_module *m, weft_tensor *const *in, int n, weft_tensor **outputs,
                           void *payload);
    weft_input_hook *input;
    weft_output_hook *output;   /* for modules of one output, instead of */
    weft_outputs_hook *outputs; /* this one */
    void *payload;
    void (*release)(void *payload); /* NULL: nothing to do */
};

/**
 * How the dims of a layer's weight, input and output correspond: all that a column-wise or row-wise
 * style has to know. Dims of input and output count from the end, but for a loss whose class dim
 * the user counts from the front.
 */
struct wf_features {
    int weight_out, weight_in;       /* dims of the weight that the styles split */
    int bias_out;                    /* the dim of the bias that goes with weight_out */
    int output_dim, input_dim;       /* the dims that go with weight_out, weight_in */
    int n_in;                        /* trailing (negative: leading) dims of the input whose sizes
                                        the layer knows, */
    int64_t in_sizes[WEFT_MAX_DIMS]; /* in order; 0: not known after all */
    int shared_from;                 /* parameters from this one on are shared by what is split: */
    int64_t sharers; /* so many of weight_out share an index of their dim 0. 0: there are none */
};

/** What a distributed module can ask of the style that distributed it
 * (parallel_styles/distributed_callbacks.c). */
struct wf_distributed_callbacks {
    /** t, which every rank has, replicated over the mesh of `like`; t itself when `like` is plain.
     */
    weft_tensor *(*to_mesh_of)(weft_tensor *t, const weft_tensor *like);
    /** Dropout of x, which may be a plain local shard: its dim `dim`, of global size `size`, is
     * sharded as m's first parameter is. */
    weft_tensor *(*drop)(const weft_module *m, weft_tensor *x, int dim, int64_t size, double p);
};

struct weft_module {
    const weft_module_class *kind;
    void *payload;
    char *name;
    const char *path; /* of wf_module_path_acquire */
    weft_module *parent;
    weft_module **parent_slot; /* where the parent's payload keeps it, or NULL */
    weft_module **children;
    int n_children;
    struct wf_parameter *parameters; /* and buffers after them: */
    int n_parameters, n_tensors;     /* how many of the first, and of both */
    struct wf_hook *hooks;           /* in the order they were added, in which a call runs them */
    int n_hooks;
    const struct wf_distributed_callbacks *distributed_callbacks; /* NULL: it is not spread */
    const struct wf_features *features; /* NULL: no style can split it; part of the payload */
    bool training;
    bool wide, wide_gradient;      /* its products, as weft_linear_options: styles ask for it */
    bool distributed;              /* a partition has run on it and what is below */
    struct wf_module_watch *watch; /* NULL: nobody watches it */
};

/** Outlives the module: so a list of a compiled function that was made of the module notices that
 * it is gone, or that its tree is another one. */
struct wf_module_watch {
    int refs;         /* the module's, and those of who watches */
    uint64_t changes; /* it was freed, was taken out of its tree, or the tree below it changed */
};

/** gives: the module's watch, one reference */
struct wf_module_watch *wf_module_watch(weft_module *m);
void wf_module_watch_release(struct wf_module_watch *watch); /* NULL is allowed */

/** How many outputs a call gives. */
static inline int wf_module_output_count(const weft_module *m)
{
    return m->kind->forward_n ? m->kind->outputs : 1;
}

/** Replace a parameter's tensor, which is released; NULL: release only. */
void wf_parameter_replace_tensor(struct wf_parameter *p, weft_tensor *t);

/** The module at the top of m's tree. */
weft_module *wf_module_root(weft_module *m);

/**
 * Check that no tensor of m's tree is also a parameter of a module outside of it: a change to the
 * tree would not reach that module.
 *
 * fails: WEFT_ERR_STATE naming both
 */
weft_status wf_check_no_outside_ties(weft_module *m, const char *who);

/**
 * Add a hook to m, which releases its payload when it is freed.
 *
 * fails: WEFT_ERR_ARG without module or function, and for `output` on a module of several; the
 *        payload is released then too
 */
weft_status wf_module_add_hook(weft_module *m, struct wf_hook hook);

/** What a call runs in its scope, but for a hook `instead`; `outputs` has room for the module's. */
weft_status wf_module_run_call(weft_module *m, weft_tensor *const *inputs, int n,
                               weft_tensor **outputs);

/** The hook of m that views its parameters, or NULL; valid until a hook is added. */
const struct wf_hook *wf_module_view_hook(const weft_module *m);

/** Remove the hooks / the module's own parameters and buffers after the first so many. */
void wf_hooks_truncate(weft_module *m, int count);
void wf_parameters_truncate(weft_module *m, int n_parameters, int n_buffers);

/** Put every parameter of the tree on the meta device, to apply a plan without memory; a snapshot
 * of the whole tree undoes it. */
weft_status wf_module_to_meta(weft_module *m);

/** The number of parameters and buffers of a tree's modules; a shared one is counted in each
 * module. */
int wf_module_count_tensors(const weft_module *m);

/** The modules of a tree, parents first; wf_malloc'ed, `count` of them. */
weft_module **wf_module_list_tree(weft_module *root, int *count);

/* The classes that styles have rows for. */
extern const weft_module_class wf_class_linear, wf_class_embedding, wf_class_position,
    wf_class_layer_norm, wf_class_rms_norm, wf_class_dropout, wf_class_cross_entropy,
    wf_class_grouped, wf_class_conv1d, wf_class_conv2d;
