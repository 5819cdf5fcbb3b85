/*
 * parallel.h: spread a module over a mesh (docs/concepts/styles.md). NULL for a mesh is the
 * innermost default one (weft_mesh_push).
 *
 * A style says how a layer's parameters are split and which layouts its inputs and output have;
 * the rows are in src/parallel_styles/styles.def. The words follow PyTorch's tensor.parallel.
 */
#pragma once

#include <weft/dtensor.h>
#include <weft/module.h>

/* ---- the general form ---- */

/** Distribute m's own parameters as wanted with weft_module_set_parameter. Called for every module
 * of the tree. */
typedef weft_status weft_partition_function(weft_module *m, weft_mesh *mesh, void *payload);

/** Prepare the inputs of a call (may replace them) / its output. */
typedef weft_status weft_input_function(weft_module *m, weft_tensor **inputs, int n,
                                        weft_mesh *mesh, void *payload);
typedef weft_tensor *weft_output_function(weft_module *m, weft_tensor *output, weft_mesh *mesh,
                                          void *payload);

/**
 * Turn every parameter of a tree into a distributed tensor.
 *
 * `partition` runs on every module of the tree, parents first; parameters that it leaves plain
 * become replicated. `input` and `output` are installed as hooks of `module` itself. Any of the
 * three may be NULL. `payload` must live as long as the module.
 * ranks: every rank of the mesh alike; each keeps its part of its own copy, nothing is sent
 * fails: WEFT_ERR_STATE when it was already called on this module, WEFT_ERR_ARG without module or
 *        mesh, and what `partition` fails with; the tree is then as before
 */
WEFT_API weft_status weft_distribute_module(weft_module *module, weft_mesh *mesh,
                                            weft_partition_function *partition,
                                            weft_input_function *input,
                                            weft_output_function *output, void *payload);

/* ---- styles ---- */

/**
 * What may differ from a style's own row. Layouts are text for one mesh axis: "R", "S(0)", "P".
 */
typedef struct weft_style_options {
    /** What a plain first input is a part of; a distributed one is taken with its own layout.
     *  NULL: what the style wants. Plain further inputs are replicated. A plain input that is
     *  sharded along a dim that the layer does not know must be sharded evenly. */
    const char *input_layouts;
    /** What the output is redistributed to. NULL: R for row-wise and loss, sharded for column-wise
     */
    const char *output_layouts;
    /** true: hand on the distributed output (PyTorch's use_local_output=False). false: this rank's
     *  part as a plain tensor */
    bool keep_distributed;
} weft_style_options;

typedef enum weft_style_kind {
    WEFT_STYLE_COLWISE,
    WEFT_STYLE_ROWWISE,
    WEFT_STYLE_LOSS,
    WEFT_STYLES
} weft_style_kind;

/** A row of the table with its options; a small value. */
typedef struct weft_style {
    weft_style_kind kind;
    weft_style_options options;
} weft_style;

/**
 * Split a linear layer's output dim or an embedding's width.
 *
 * Wants a replicated input and gives an output sharded along the split dim, without communication;
 * a linear layer's backward sums the input's gradient: one all-reduce. ranks: any; local
 */
static inline weft_style weft_colwise_parallel_with(weft_style_options options)
{
    weft_style style = {WEFT_STYLE_COLWISE, {0, 0, 0}};
    style.options = options;
    return style;
}

static inline weft_style weft_colwise_parallel(void)
{
    weft_style_options options = {0, 0, 0};
    return weft_colwise_parallel_with(options);
}

/**
 * Split a linear layer's input dim or an embedding's rows.
 *
 * The product is a pending sum: one all-reduce forward (a reduce-scatter when output_layouts is
 * sharded), nothing backward. The bias is replicated and counted once. ranks: any; local
 */
static inline weft_style weft_rowwise_parallel_with(weft_style_options options)
{
    weft_style style = {WEFT_STYLE_ROWWISE, {0, 0, 0}};
    style.options = options;
    return style;
}

static inline weft_style weft_rowwise_parallel(void)
{
    weft_style_options options = {0, 0, 0};
    return weft_rowwise_parallel_with(options);
}

/**
 * Compute cross-entropy on logits that stay sharded over the classes: two small all-reduces
 * forward, none backward. Its logits come from a column-wise layer. ranks: any; local
 */
static inline weft_style weft_loss_parallel_with(weft_style_options options)
{
    weft_style style = {WEFT_STYLE_LOSS, {0, 0, 0}};
    style.options = options;
    return style;
}

static inline weft_style weft_loss_parallel(void)
{
    weft_style_options options = {0, 0, 0};
    return weft_loss_parallel_with(options);
}

/* ---- plans ---- */

/**
 * One line of a plan. The pattern is a path below the module; between dots, `*`, `?` and `[..]`
 * match as in a shell and never cross a dot: "blocks.*.mlp.up". "" is the module itself.
 */
typedef struct weft_plan {
    const char *pattern; /* NULL ends the plan */
    weft_style style;
} weft_plan;

/**
 * Apply a plan, in its order, to the modules that its patterns match. Other modules keep their
 * plain parameters. Everything is checked first: on failure nothing has changed. A tensor that
 * several modules have as a parameter stays one tensor.
 *
 * ranks: every rank of the mesh alike; nothing is sent
 * fails: WEFT_ERR_NOT_FOUND for a pattern that matches no module; WEFT_ERR_STATE for a module that
 *        is matched twice or was distributed before; WEFT_ERR_ARG for a mesh with more than one
 *        axis (take weft_mesh_sub), a layout that cannot be read, or a style that does not support
 *        the module's type; WEFT_ERR_LAYOUT when a shared tensor would be spread in two ways
 */
WEFT_API weft_status weft_parallelize_module(weft_module *module, weft_mesh *mesh,
                                             const weft_plan *plan);

/** What a plan means: a line per matched module with its style and layouts.
 *  ranks: any; local. fails: as weft_parallelize_module for patterns, layouts and types */
WEFT_API weft_status weft_plan_print(weft_module *module, const weft_plan *plan, FILE *out);
