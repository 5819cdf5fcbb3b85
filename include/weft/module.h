/*
 * module.h: a tree of named modules with parameters, a forward and hooks
 * (docs/concepts/modules.md).
 *
 * A module is written for one device and knows nothing of ranks. A parallel style changes how it
 * is spread: it swaps parameters for distributed ones and puts hooks on its inputs and output
 * (weft/parallel.h). Paths name modules of a tree with dots, "blocks.0.mlp.up"; the root is "".
 */
#pragma once

#include <stdio.h>

#include <weft/tensor.h>

typedef struct weft_module weft_module;

/** Most inputs that a module's forward can take, and most outputs that it can give. */
#define WEFT_MODULE_INPUTS 8
#define WEFT_MODULE_OUTPUTS 8

/** What all modules of one type share. Lives as long as the program. */
typedef struct weft_module_class {
    const char *type; /* for messages: "linear" */
    /** The result, made from `n` inputs that are not NULL; NULL with an error recorded. Not in a
     *  class with forward_n. */
    weft_tensor *(*forward)(weft_module *m, weft_tensor *const *inputs, int n);
    void (*free)(void *payload); /* NULL: nothing to free */
    int inputs;                  /* how many forward takes at least; 0 means one */
    int optional;                /* how many more it may take */
    /** Instead of forward, where a call gives several results (PyTorch: a tuple): sets every one of
     *  the `n_outputs`, which come as NULL. */
    weft_status (*forward_n)(weft_module *m, weft_tensor *const *inputs, int n,
                             weft_tensor **outputs, int n_outputs);
    int outputs; /* how many forward_n gives, always: 1 to WEFT_MODULE_OUTPUTS. 0 with forward */
} weft_module_class;

/* ---- making modules ---- */

/**
 * A module without parameters and children.
 *
 * ranks: any; local
 * gives: a module owned by the caller (weft_module_release), which owns `payload` from now on
 * fails: WEFT_ERR_ARG without type, with neither or both of forward and forward_n, with more than
 *        WEFT_MODULE_INPUTS inputs, or with another number of outputs than a class may have
 */
WEFT_API weft_module *weft_module_new(const weft_module_class *kind, void *payload);

/** What was given to weft_module_new; needs a handle. ranks: any; local. gives: borrowed */
WEFT_API void *weft_module_payload(const weft_module *m);

/**
 * Put `child` under `parent`. The parent owns it afterwards; on failure it is released, unless it
 * is part of a tree.
 *
 * ranks: any; local
 * fails: WEFT_ERR_ARG for an empty name, one with a dot, one in use, or a child that has a parent
 *        or is the parent's own root; with either pointer NULL the failure that made it NULL
 */
WEFT_API weft_status weft_module_add_child(weft_module *parent, const char *name,
                                           weft_module *child);

/**
 * Put `child` in the place of the module at a path below m, in a ready model too: it gets that
 * one's name and place, and is called instead of it (PyTorch: set_submodule). Before
 * weft_data_parallel; a plan may come before or after, and is given the new paths after.
 *
 * A module of one's own that keeps pointers to its children looks them up by name in its forward.
 * On failure `child` is released, unless it is part of a tree.
 * ranks: any; local
 * gives: the module that was there, a root now and owned by the caller, who releases it or puts it
 *        under another, such as `child`; NULL on failure
 * fails: WEFT_ERR_NOT_FOUND for the path; WEFT_ERR_ARG for "", and for a child that has a parent or
 *        is m's own root; WEFT_ERR_STATE for a part of a replica
 */
WEFT_API weft_module *weft_module_replace_child(weft_module *m, const char *path,
                                                weft_module *child);

/**
 * Give the module a parameter: a leaf, which wants a gradient from now on when its dtype can carry
 * one, whatever it wanted before (weft_set_requires_grad freezes it afterwards).
 *
 * The module keeps one reference.
 *
 * ranks: any; local
 * fails: WEFT_ERR_ARG for an empty name, one with a dot or one in use; WEFT_ERR_STATE for the
 *        result of an op; with either pointer NULL the failure that made it NULL
 */
WEFT_API weft_status weft_module_add_parameter(weft_module *m, const char *name,
                                               weft_tensor *parameter);

/**
 * Replace a parameter of the module itself. The new tensor wants a gradient where it did before:
 * unlike in weft_module_add_parameter nothing is switched on, and nothing is taken from the old
 * one.
 *
 * The module keeps a reference to the new tensor and drops its own to the old one.
 *
 * ranks: any; local
 * fails: WEFT_ERR_NOT_FOUND for an unknown name; WEFT_ERR_ARG for NULL; WEFT_ERR_STATE in a call of
 *        a replica (weft_data_parallel)
 */
WEFT_API weft_status weft_module_set_parameter(weft_module *m, const char *name,
                                               weft_tensor *parameter);

/** What is particular about a buffer; all zero is the usual. */
typedef struct weft_buffer_options {
    bool unsaved; /* left out of checkpoints and of files of weights (PyTorch: persistent=False) */
} weft_buffer_options;

/**
 * Give the module a tensor that is part of what it is but is not trained: running statistics, a
 * counter, a table (PyTorch: register_buffer). Forward may write into it (weft_copy_).
 *
 * Buffers go where parameters go (weft_module_cast, materialize, plans, checkpoints, replicas), and
 * not into optimizers, norms and counts of parameters. Plans and weft_distribute_module replicate
 * those that a partition leaves plain. How replicas keep them alike: weft_replicas_buffers.
 * The module keeps one reference.
 *
 * ranks: any; local
 * fails: as weft_module_add_parameter, with whose names it shares; WEFT_ERR_STATE for a tensor that
 *        wants a gradient
 */
WEFT_API weft_status weft_module_add_buffer(weft_module *m, const char *name, weft_tensor *buffer,
                                            weft_buffer_options options);

/** Replace a buffer of the module itself.
 *  ranks: any; local
 *  fails: as weft_module_set_parameter; WEFT_ERR_STATE for a tensor that wants a gradient */
WEFT_API weft_status weft_module_set_buffer(weft_module *m, const char *name, weft_tensor *buffer);

/**
 * Give parameters and buffers of the tree that are on the meta device elements on another one; each
 * rank makes room for its shard only. Parameters that a layer made get the first values that they
 * would have had with elements from the start, whatever was drawn since; those of one's own and
 * buffers are undefined. Placements stay, partial ones too.
 *
 * So a model is made without elements, spread over a mesh, and only then takes memory, with the
 * bits of the same model made in one piece. A parameter that modules elsewhere in the whole tree
 * share stays one: they get the new one too.
 *
 * ranks: local; every rank of the parameters' meshes alike
 * fails: WEFT_ERR_ARG for no device or WEFT_META; WEFT_ERR_MEMORY; WEFT_ERR_STATE for a parameter
 *        that a module of another tree shares. The tree is then as before
 */
WEFT_API weft_status weft_module_materialize(weft_module *m, weft_device device);

/**
 * Replace every parameter and buffer of the tree that has elements on another device by a copy
 * there, placed alike, that wants a gradient as the old one did and has none yet; shared ones as
 * weft_module_materialize does (PyTorch: Module.to). Make optimizers afterwards.
 * weft_parallelize_module and weft_data_parallel do it for their mesh's device.
 *
 * ranks: local; every rank of the parameters' meshes alike
 * fails: WEFT_ERR_ARG for no device or WEFT_META; WEFT_ERR_NOT_FOUND where this rank has no such
 *        device; else as weft_module_materialize. The tree is then as before
 */
WEFT_API weft_status weft_module_to_device(weft_module *m, weft_device device);

/**
 * Replace every floating-point parameter and buffer of the tree by one of another dtype, placed
 * alike, that wants a gradient as the old one did and has none yet; shared ones as
 * weft_module_materialize does. Make optimizers afterwards.
 *
 * ranks: local; every rank of the parameters' meshes alike
 * fails: WEFT_ERR_DTYPE for a dtype that is none of floats; WEFT_ERR_STATE as
 *        weft_module_materialize. The tree is then as before
 */
WEFT_API weft_status weft_module_cast(weft_module *m, weft_dtype dtype);

/** Free a module that has no parent, with its children; NULL is allowed. Backward of its calls may
 *  come later, but where it computes again (weft_recompute).
 *  ranks: any; local */
WEFT_API void weft_module_release(weft_module *m);

/* ---- the tree ---- */

/** Type, name in the parent and path from the root ("" for a root). All three need a handle.
 *  ranks: any; local
 *  gives: borrowed */
WEFT_API const char *weft_module_type(const weft_module *m);
WEFT_API const char *weft_module_name(const weft_module *m);
WEFT_API const char *weft_module_path(const weft_module *m);

/** Children in the order they were added; both need a handle.
 *  ranks: any; local
 *  gives: borrowed; NULL for a wrong index */
WEFT_API int weft_module_child_count(const weft_module *m);
WEFT_API weft_module *weft_module_child_at(const weft_module *m, int index);

/** The part of the tree at a path below m; "" is m.
 *  ranks: any; local
 *  gives: borrowed
 *  fails: WEFT_ERR_NOT_FOUND naming the first name that is not there */
WEFT_API weft_module *weft_module_child(weft_module *m, const char *path);

/** The parameter at a path below m, "blocks.0.mlp.up.weight".
 *  ranks: any; local
 *  gives: borrowed
 *  fails: WEFT_ERR_NOT_FOUND as weft_module_child */
WEFT_API weft_tensor *weft_module_parameter(weft_module *m, const char *path);

/** The buffer at a path below m. ranks, gives, fails: as weft_module_parameter */
WEFT_API weft_tensor *weft_module_buffer(weft_module *m, const char *path);

/** A parameter or a buffer, where a walk meets it. Borrowed, for as long as the visitor runs. */
typedef struct weft_module_tensor {
    const char *path; /* below the module where the walk began: "blocks.0.mlp.up.weight" */
    weft_module *module;
    const char *name; /* in that module */
    weft_tensor *tensor;
    bool buffer;  /* it is one; false: a parameter */
    bool unsaved; /* as in weft_buffer_options */
} weft_module_tensor;

/** A status that is not WEFT_OK ends the walk. */
typedef weft_status weft_tensor_visitor(const weft_module_tensor *it, void *payload);

/**
 * Visit every parameter and buffer of the tree once, with its path: of each module the parameters,
 * then the buffers, then its children's (PyTorch: named_parameters, named_buffers). A tensor that
 * several modules share is visited at its first place only.
 *
 * ranks: any; local
 * gives: the status that ended the walk
 */
WEFT_API weft_status weft_module_each_tensor(weft_module *m, weft_tensor_visitor *visit,
                                             void *payload);

/** Called with the module that has the parameter and its name there; a status that is not WEFT_OK
 * ends the walk. */
typedef weft_status weft_parameter_visitor(weft_module *m, const char *name, weft_tensor *parameter,
                                           void *payload);

/**
 * Visit every parameter of the tree once: a module's own, then its children's, each in the order
 * they were added. A tensor that several modules share is visited at its first place only.
 *
 * ranks: any; local
 * gives: the status that ended the walk
 */
WEFT_API weft_status weft_module_each_parameter(weft_module *m, weft_parameter_visitor *visit,
                                                void *payload);

/** How many tensors that visits, and their elements together (global shapes). ranks: any; local */
WEFT_API int weft_module_parameter_count(weft_module *m);
WEFT_API int64_t weft_module_numel(weft_module *m);

/** The tree as a table: of every module, parameter and buffer its path, its type or shape and
 *  layout, and how many elements it has, how many of them are trained and how many are on this
 *  rank. What is shared is counted once.
 *  ranks: any; local */
WEFT_API void weft_module_print(weft_module *m, FILE *out);

/* ---- running ---- */

/**
 * Run input hooks, forward and output hooks.
 *
 * Temporaries of the call are gone when it returns; the tape keeps what backward needs. Errors,
 * the ledger and traces name the module's path.
 * ranks: as the module's operations and hooks
 * gives: a tensor owned by the open scope; NULL when m or an input is NULL
 * fails: WEFT_ERR_ARG for a number of inputs that the module does not take, and for a module of
 *        several outputs; as forward and hooks
 */
WEFT_API weft_tensor *weft_call(weft_module *m, weft_tensor *x);
WEFT_API weft_tensor *weft_call_n(weft_module *m, weft_tensor *const *inputs, int n);

/**
 * weft_call_n for a module of any number of outputs (PyTorch: y, h = m(x)).
 *
 * ranks: as the module's operations and hooks
 * gives: in outputs[0] to outputs[n_outputs - 1] tensors owned by the open scope; NULL in all of
 *        them on failure. `outputs` may be `inputs`
 * fails: WEFT_ERR_ARG for numbers of inputs or outputs that are not the module's; as forward and
 *        hooks
 */
WEFT_API weft_status weft_call_outputs(weft_module *m, weft_tensor *const *inputs, int n,
                                       weft_tensor **outputs, int n_outputs);

/** Training (the state after construction) or evaluation, for the whole tree: dropout asks.
 *  Asking needs a handle.
 *  ranks: any; local */
WEFT_API void weft_module_train(weft_module *m, bool training);
WEFT_API bool weft_module_training(const weft_module *m);

/* ---- hooks ---- */

/** May replace inputs[i] by tensors of the open scope. */
typedef weft_status weft_input_hook(weft_module *m, weft_tensor **inputs, int n, void *payload);

/** The output to go on with; NULL with an error recorded. */
typedef weft_tensor *weft_output_hook(weft_module *m, weft_tensor *output, void *payload);

/** May replace outputs[i] by tensors of the open scope; all `n` of a call. */
typedef weft_status weft_outputs_hook(weft_module *m, weft_tensor **outputs, int n, void *payload);

/**
 * Run `hook` before / after forward in every call; hooks run in the order they were added. The last
 * is for any module, weft_module_on_output for those with one output.
 *
 * ranks: any; local
 * gives: nothing; the module calls `release(payload)` (NULL: nothing to do) when it is freed
 * fails: WEFT_ERR_ARG without module or hook, and for a hook of one output on a module of several;
 *        the payload is released then too
 */
WEFT_API weft_status weft_module_on_input(weft_module *m, weft_input_hook *hook, void *payload,
                                          void (*release)(void *payload));
WEFT_API weft_status weft_module_on_output(weft_module *m, weft_output_hook *hook, void *payload,
                                           void (*release)(void *payload));
WEFT_API weft_status weft_module_on_outputs(weft_module *m, weft_outputs_hook *hook, void *payload,
                                            void (*release)(void *payload));
