/*
 * parallel.h: spread a module over a mesh (docs/concepts/styles.md). NULL for a mesh is the
 * innermost default one (weft_default_mesh_open).
 *
 * A style says how a layer's parameters are split and which layouts its inputs and output have;
 * the rows are in src/parallel_styles/styles.def. The words follow PyTorch's tensor.parallel.
 */
#pragma once

#include <string.h>

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
/** All outputs of a call (may replace them), for modules that give several. */
typedef weft_status weft_outputs_function(weft_module *m, weft_tensor **outputs, int n,
                                          weft_mesh *mesh, void *payload);

/**
 * Turn every parameter of a tree into a distributed tensor.
 *
 * `partition` runs on every module of the tree, parents first; parameters that it leaves plain
 * become replicated. `input` and `output` are installed as hooks of `module` itself. Any of the
 * three may be NULL. `payload` must live as long as the module. For a module of several outputs
 * `output` is NULL: a custom style with `partition` does the same and has a function for all.
 *
 * ranks: every rank of the mesh alike; each keeps its shard of its own copy, nothing is sent
 * fails: WEFT_ERR_STATE when it was already called on this module, WEFT_ERR_ARG without module or
 *        mesh and for `output` of several, WEFT_ERR_LAYOUT when a tensor that modules of the whole
 *        tree share would be spread in two ways, WEFT_ERR_STATE when one of another tree shares it,
 *        and what `partition` fails with; the tree is then as before
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
    /** What a plain first input is a shard of; a distributed one is taken with its own layout.
     *  NULL: what the style wants. Plain further inputs are replicated. A plain input that is
     *  sharded along a dim that the layer does not know must be sharded evenly: one that
     *  is known to be an uneven shard is refused. */
    const char *input_layouts;
    /** What the output is redistributed to. NULL: R for row-wise and loss, as the op gives it for
     *  others */
    const char *output_layouts;
    /** true: hand on the distributed output (PyTorch's use_local_output=False). false: this rank's
     *  shard as a plain tensor */
    bool keep_distributed;
    /** Prepare-module and, as the sequence dim "S(1)", sequence parallel. */
    const char *desired_input_layouts;
    /** Prepare-module only. There, output_layouts is what a plain output is a shard of. */
    const char *desired_output_layouts;
    /** Prepare-module only: hand this rank's shard of the inputs to the module as plain tensors. */
    bool local_inputs;
    /** Column-wise and row-wise linear layers: the dim that is split holds several things one
     *  behind another, such as queries, keys and values: each is split for itself, and so is the
     *  output (column-wise) or the input (row-wise). Relative sizes "4,1,1", or how many equal ones
     *  "3"; at most WEFT_MAX_SEGMENTS. The whole weight keeps its order, in checkpoints too. */
    const char *segments;
    /** Column-wise and row-wise: the sums that a bf16 or f16 layer leaves partial, its output
     * (row-wise) or its input's gradient (column-wise), are sums of products in f32 that are
     * rounded once, when they are complete. They move in twice the bytes. Without, each product is
     * rounded, then added in f32 and rounded again. */
    bool f32_sums;
} weft_style_options;

typedef enum weft_style_kind {
    WEFT_STYLE_COLWISE,
    WEFT_STYLE_ROWWISE,
    WEFT_STYLE_LOSS,
    WEFT_STYLE_SEQUENCE,
    WEFT_STYLE_PREPARE,
    WEFT_STYLE_CUSTOM,
    WEFT_STYLES
} weft_style_kind;

/**
 * All that a style is: the three functions of weft_distribute_module. The library's own styles are
 * made of the same table.
 */
typedef struct weft_style_functions {
    const char *name;                   /* for messages */
    weft_partition_function *partition; /* NULL: the parameters stay as they are */
    weft_input_function *input;         /* NULL: inputs go in as they come */
    weft_output_function *output;       /* NULL: the output is handed on as it is */
    weft_outputs_function *outputs;     /* of modules with several; of all where `output` is NULL */
} weft_style_functions;

/** A style with its options; a small value. Fields that its kind does not use are 0. */
typedef struct weft_style {
    weft_style_kind kind;
    weft_style_options options;
    const weft_style_functions *functions; /* WEFT_STYLE_CUSTOM */
    void *payload;                         /* given to them */
    bool optional; /* a pattern without a match is as it should be: no warning, no error */
    int line;      /* of the text that a plan was read from, for messages; 0: none */
} weft_style;

static inline weft_style weft_style_make(weft_style_kind kind, weft_style_options options)
{
    weft_style style;

    memset(&style, 0, sizeof style);
    style.kind = kind;
    style.options = options;
    return style;
}

static inline weft_style_options weft_style_defaults(void)
{
    weft_style_options options;

    memset(&options, 0, sizeof options);
    return options;
}

/**
 * Split a linear layer's output dim or an embedding's width.
 *
 * Wants a replicated input and gives an output sharded along the split dim, without communication;
 * a linear layer's backward sums the input's gradient: one all-reduce.
 *
 * ranks: any; local
 */
static inline weft_style weft_colwise_parallel_with(weft_style_options options)
{
    return weft_style_make(WEFT_STYLE_COLWISE, options);
}

static inline weft_style weft_colwise_parallel(void)
{
    return weft_colwise_parallel_with(weft_style_defaults());
}

/**
 * Split a linear layer's input dim or an embedding's rows.
 *
 * The product is a partial sum: one all-reduce forward (a reduce-scatter when output_layouts is
 * sharded), nothing backward. The bias is replicated and counted once.
 *
 * ranks: any; local
 */
static inline weft_style weft_rowwise_parallel_with(weft_style_options options)
{
    return weft_style_make(WEFT_STYLE_ROWWISE, options);
}

static inline weft_style weft_rowwise_parallel(void)
{
    return weft_rowwise_parallel_with(weft_style_defaults());
}

/**
 * Compute cross-entropy on logits that stay sharded over the classes: two small all-reduces
 * forward, none backward. Its logits come from a column-wise layer.
 *
 * ranks: any; local
 */
static inline weft_style weft_cross_entropy_parallel_with(weft_style_options options)
{
    return weft_style_make(WEFT_STYLE_LOSS, options);
}

static inline weft_style weft_cross_entropy_parallel(void)
{
    return weft_cross_entropy_parallel_with(weft_style_defaults());
}

/**
 * Layer norm, RMS norm, dropout or positions on a shard of the sequence: without communication.
 *
 * The input is sharded along the sequence dim, desired_input_layouts, "S(1)" where that is NULL;
 * so is the output. Parameters are replicated (all ranks must have equal ones); their gradients
 * stay partial sums, for weft_reduce_gradients (or an optimizer's step) to reduce together. Plain
 * inputs must be sharded evenly; distributed ones need not be. Without options the output stays
 * distributed, as PyTorch's; with options keep_distributed says so.
 *
 * ranks: any; local
 */
static inline weft_style weft_sequence_parallel_with(weft_style_options options)
{
    return weft_style_make(WEFT_STYLE_SEQUENCE, options);
}

static inline weft_style weft_sequence_parallel(void)
{
    weft_style_options options = weft_style_defaults();

    options.keep_distributed = true;
    return weft_sequence_parallel_with(options);
}

/**
 * Move the inputs, the outputs, or both, of any module; its parameters stay as they are.
 *
 * input_layouts has an entry per input of the module, in the order of the call, "S(0), none": what
 * a plain tensor is a shard of. desired_input_layouts has as many: what it is redistributed to.
 * output_layouts and desired_output_layouts say the same of the outputs. "none" in the first of a
 * pair: the tensor is handed through untouched; in the second: it becomes distributed and is not
 * moved. A distributed tensor is taken with the layout that it has. A pair that is NULL: that side
 * is left alone.
 *
 * Inputs are handed to the module distributed, outputs as this rank's shard, unless local_inputs
 * and keep_distributed say otherwise (PyTorch's use_local_input, and the opposite of its
 * use_local_output).
 *
 * ranks: any; local
 * fails: when applied: WEFT_ERR_ARG for lists of different length, one of a pair without the other,
 *        layouts that cannot be read, or not one for each output; when called: WEFT_ERR_ARG for
 *        another number of inputs (optional ones may be left out), WEFT_ERR_LAYOUT for a tensor on
 *        another mesh than the style's, as by all styles
 */
static inline weft_style weft_prepare_module_input_output(weft_style_options options)
{
    return weft_style_make(WEFT_STYLE_PREPARE, options);
}

/** The inputs alone: `layouts` and `desired` are its input_layouts and desired_input_layouts.
 *  ranks, fails: as weft_prepare_module_input_output */
static inline weft_style weft_prepare_module_input(const char *layouts, const char *desired)
{
    weft_style_options options = weft_style_defaults();

    options.input_layouts = layouts;
    options.desired_input_layouts = desired;
    return weft_prepare_module_input_output(options);
}

/** The outputs alone: `layouts` and `desired` are its output_layouts and desired_output_layouts.
 *  ranks, fails: as weft_prepare_module_input_output */
static inline weft_style weft_prepare_module_output(const char *layouts, const char *desired)
{
    weft_style_options options = weft_style_defaults();

    options.output_layouts = layouts;
    options.desired_output_layouts = desired;
    return weft_prepare_module_input_output(options);
}

/**
 * A style of one's own. With `partition` the module is distributed as by weft_distribute_module
 * (parameters that it leaves plain become replicated); without, only the hooks are put on it.
 * `functions` is read when the plan is applied, `payload` must live as long as the module.
 *
 * ranks: any; local
 * fails: when applied: WEFT_ERR_ARG without any function, and with `output` but no `outputs` for a
 *        module of several
 */
static inline weft_style weft_custom_style(const weft_style_functions *functions, void *payload)
{
    weft_style style = weft_style_make(WEFT_STYLE_CUSTOM, weft_style_defaults());

    style.functions = functions;
    style.payload = payload;
    return style;
}

/* ---- plans ---- */

/**
 * One line of a plan. The pattern is a path below the module: "blocks.*.mlp.up". Between dots `*`,
 * `?` and `[..]` match as in a shell and never cross a dot; `**` for a name stands for any number
 * of names (docs/concepts/conventions.md). "" is the module itself.
 */
typedef struct weft_plan {
    const char *pattern; /* NULL ends the plan */
    weft_style style;
} weft_plan;

/**
 * Apply a plan, in its order, to the modules that its patterns match. Other modules keep their
 * plain parameters. Everything is checked first: on failure nothing has changed. A tensor that
 * several modules have as a parameter stays one tensor: the plan has to spread it alike in all of
 * them, so it is given to a module that holds them all.
 *
 * The strict form is for programs: a pattern that matches no module, such as a misspelt one, is an
 * error, and so is no plan at all. The other takes both as PyTorch does: a warning (in the log, of
 * rank 0), and the rest is applied.
 * ranks: every rank of the mesh alike; nothing is sent
 * fails: WEFT_ERR_STATE for a module that is matched twice or was distributed before; WEFT_ERR_ARG
 *        for a mesh with more than one axis (take weft_mesh_sub), a layout that cannot be read, or
 *        a style that does not support the module's type; WEFT_ERR_LAYOUT when a shared tensor
 *        would be spread in two ways, also where `module` holds one of its places only;
 *        WEFT_ERR_STATE when a module of another tree shares it; strict: WEFT_ERR_NOT_FOUND for a
 *        pattern without match
 */
WEFT_API weft_status weft_parallelize_module_strict(weft_module *module, weft_mesh *mesh,
                                                    const weft_plan *plan);
WEFT_API weft_status weft_parallelize_module(weft_module *module, weft_mesh *mesh,
                                             const weft_plan *plan);

/** Options of weft_parallelize_module; all zero: the defaults. */
typedef struct weft_parallelize_options {
    bool strict; /* as weft_parallelize_module_strict */
    /** WEFT_SOURCE(place): parameters that the plan spreads get the elements of the rank at that
     *  place of the mesh (PyTorch's src_data_rank, 0 there), by a scatter or a broadcast each.
     *  0: each rank keeps its shard of its own copy. */
    unsigned source;
} weft_parallelize_options;

/** A place on a mesh as an option: 0 stands for none. */
#define WEFT_SOURCE(place) ((unsigned)(place) + 1)

/**
 * weft_parallelize_module with options; with a source, for ranks whose models differ.
 *
 * Parameters of modules without a style stay as they are, and so do those that a custom style's
 * partition spreads by itself. Those on the meta device have no elements to send: equal seeds give
 * them equal ones.
 * ranks: every rank of the mesh alike; collective with a source
 * fails: as weft_parallelize_module; WEFT_ERR_ARG for a source that the mesh does not have;
 *        WEFT_ERR_COMM for elements from a source on a mesh without ranks
 */
WEFT_API weft_status weft_parallelize_module_with(weft_module *module, weft_mesh *mesh,
                                                  const weft_plan *plan,
                                                  weft_parallelize_options options);

/**
 * What a plan means: every module that it matches or that has parameters, each parameter with its
 * layout and its bytes on this rank, and the collectives of a step, forward and backward: those of
 * the styles, for inputs that come as declared and gradients that come as the output was handed on.
 * What prepare-module's gradients take depends on the module, and what a style of one's own sends
 * is its own: both are left out. A dim counted from the end counts as another one than any counted
 * from the front.
 *
 * The plan is applied to parameters without elements and taken back; modules that were distributed
 * before are printed as they are. Partitions of one's own run for that: on meta tensors.
 *
 * ranks: any; local
 * fails: as weft_parallelize_module_strict, but for those modules
 */
WEFT_API weft_status weft_plan_print(weft_module *module, weft_mesh *mesh, const weft_plan *plan,
                                     FILE *out);

/**
 * A plan from text: on each line a pattern, a style and its options, between spaces; "#" begins a
 * comment, "." stands for the module itself.
 *
 *     blocks.*.norm?     sequence
 *     blocks.*.mlp.up    colwise  input=S(1)
 *     blocks.*.mlp.down  rowwise  output=S(1) keep
 *     blocks.*.drop      sequence optional
 *
 * Styles: colwise, rowwise, loss, sequence, prepare. Options: input=, output=, desired_input=,
 * desired_output= (layouts without spaces: "S(0),none"), segments=, f32_sums, keep and local (the
 * output distributed or this rank's shard: sequence keeps it by default), local_inputs, optional.
 * ranks: any; local; every rank needs the same text
 * gives: a plan owned by the caller (weft_plan_release), or NULL; it may be released once applied
 * fails: WEFT_ERR_ARG naming the line; weft_plan_read, from a file, WEFT_ERR_IO for one that is too
 *        long. A file that this rank cannot open or read ends the job, since other ranks may; in a
 *        world of one rank it is WEFT_ERR_IO
 */
WEFT_API weft_plan *weft_plan_parse(const char *text);
WEFT_API weft_plan *weft_plan_read(const char *path);
/**
 * A plan for a module that is a part of another: every pattern below `prefix`, itself a path or a
 * pattern. weft_plan_under(weft_bert_plan(), "bert") is for a model with a BERT under that name;
 * lines of one's own stand in a plan of their own, applied in a further call, or behind these.
 *
 * ranks: any; local
 * gives: a plan owned by the caller (weft_plan_release), which reads the texts of options and the
 *        functions of `plan` where they are; NULL for NULL
 * fails: WEFT_ERR_ARG without a prefix
 */
WEFT_API weft_plan *weft_plan_under(const weft_plan *plan, const char *prefix);
/** NULL is allowed; only for plans of weft_plan_parse, _read and _under. ranks: any; local */
WEFT_API void weft_plan_release(weft_plan *plan);

/* ---- memory ---- */

/**
 * Every call of the module, of its children too, keeps what backward needs as shards: as in a scope
 * of weft_saved_shards_open. For a block with recompute = WEFT_RECOMPUTE_BLOCK that is the block's
 * input (Megatron: distribute saved activations); otherwise what each operation saves (PyTorch:
 * input_reshard). Inputs and results that are shards already, of a sequence or of heads, stay so.
 *
 * ranks: every rank of the mesh alike; local
 * gives: nothing; the module keeps the mesh
 * fails: WEFT_ERR_ARG without module or mesh
 */
WEFT_API weft_status weft_module_use_saved_shards(weft_module *m, weft_mesh *mesh);

/* ---- ready plans ---- */

/**
 * Plans for weft_gpt and weft_llama: attention by heads, MLP by hidden features, embedding, head
 * and loss by vocabulary; tied or not. With sequence parallelism, norms, dropout, positions and the
 * residual stream hold a shard of the tokens each, and all-reduces become an all-gather and a
 * reduce-scatter; the gradients of the norms then wait for one all-reduce per step
 * (weft_reduce_gradients or an optimizer's step).
 *
 * ranks: any; local
 * gives: a plan that lives as long as the program
 */
WEFT_API const weft_plan *weft_gpt_plan(void);
WEFT_API const weft_plan *weft_gpt_plan_sequence(void);

/** The same for weft_bert; the model gives plain hidden states, with sequence parallelism through
 *  one more all-gather.
 *  ranks: any; local
 *  gives: a plan that lives as long as the program */
WEFT_API const weft_plan *weft_bert_plan(void);
WEFT_API const weft_plan *weft_bert_plan_sequence(void);
