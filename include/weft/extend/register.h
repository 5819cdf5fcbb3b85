/*
 * register.h: ops of the program's own, and sharding rules of its own for any op
 * (docs/concepts/dispatch.md).
 *
 * A registered op goes through the same dispatch as the library's: its plan is cached, its operands
 * are redistributed as the cheapest of its rule's strategies wants, its kernel gets this rank's
 * shards. Registration is per rank: every rank registers the same, after weft_init (in weft_run: in
 * `body`).
 */
#pragma once

#include <weft/autograd.h>
#include <weft/placement.h>
#include <weft/tensor.h>

/** Most tensors, outputs, integers and texts together, and numbers of one call. */
enum { WEFT_OP_INPUTS = 8, WEFT_OP_OUTPUTS = 4, WEFT_OP_INTEGERS = 16, WEFT_OP_NUMBERS = 4 };

/* ---- what functions of an op get to see ---- */

/** An operand as the program sees it: its global shape. */
typedef struct weft_operand {
    bool present; /* false: an input left out, an output not made */
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
} weft_operand;

/** One kind of call. Tensors are numbered through; argument `a` is tensors first[a] up to
 *  first[a] + count[a], more than one for a list. */
typedef struct weft_op_info {
    const char *op;
    int n_in, n_out, n_arguments, n_integers, n_texts;
    weft_operand in[WEFT_OP_INPUTS], out[WEFT_OP_OUTPUTS];
    int first[WEFT_OP_INPUTS], count[WEFT_OP_INPUTS];
    int64_t integers[WEFT_OP_INTEGERS];
    const char *texts[WEFT_OP_INTEGERS];
} weft_op_info;

/** This rank's shard of an operand: a box of the global shape, strides in elements. Outputs are
 *  row-major. `data` is NULL for an operand that is left out. */
typedef struct weft_op_shard {
    void *data;
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS], stride[WEFT_MAX_DIMS], offset[WEFT_MAX_DIMS];
} weft_op_shard;

/* ---- the functions ---- */

/** Fill in info->out: dtype and global shape of what is made. A failure should say why with
 *  weft_op_refuse. */
typedef weft_status weft_op_shape_function(weft_op_info *info, void *payload);

/** Name strategies with weft_rule_accept, from global metadata alone: all ranks must name the same
 *  ones in the same order. `info` has its outputs. */
typedef struct weft_rule weft_rule;
typedef weft_status weft_rule_function(const weft_op_info *info, weft_rule *rule, void *payload);

/** Write every element of every output. Runs on each rank, also where shards are empty. */
typedef void weft_op_kernel_function(const weft_op_info *info, const weft_op_shard *in,
                                     weft_op_shard *out, const double *numbers, void *payload);

/** A call whose gradient is wanted. Everything is borrowed. */
typedef struct weft_op_backward {
    const weft_op_info *info;
    weft_tensor *const *in;  /* as the kernel got them: redistributed */
    weft_tensor *const *out; /* NULL where not made */
    weft_tensor *gradient;   /* of output 0; other outputs carry none */
    const bool *wanted;      /* per input */
    const double *numbers;
} weft_op_backward;

/** Set in_gradients[i] for every wanted input, written with ordinary ops. */
typedef weft_status weft_op_gradient_function(const weft_op_backward *call,
                                              weft_tensor **in_gradients, void *payload);

/** Record why a call is refused; what a shape or rule function returns.
 *  ranks: as its caller
 *  gives: WEFT_ERR_SHAPE */
WEFT_API weft_status weft_op_refuse(const char *format, ...) WEFT_PRINTF(1, 2);

/**
 * A strategy for ONE mesh axis: how the inputs must lie and how the outputs then do.
 *
 * `in` has a placement per input (also for those left out), `out` one per output; dims may be
 * negative. Everything replicated is always a strategy. Of several with the same cost the first
 * wins.
 *
 * ranks: inside a rule function
 * fails: WEFT_ERR_LAYOUT for a dim that an operand lacks, WEFT_ERR_ARG for more than 256 strategies
 */
WEFT_API weft_status weft_rule_accept(weft_rule *rule, const weft_placement *in,
                                      const weft_placement *out);

/* ---- registering ---- */

/** `shape` and `kernel` are needed; without `rule` the op runs on plain tensors only, without
 *  `gradient` its result requires none. */
typedef struct weft_op_spec {
    const char *name; /* copied */
    int n_out;        /* 1 to WEFT_OP_OUTPUTS; the shape function may leave out all but the first */
    weft_op_shape_function *shape;
    weft_rule_function *rule;
    weft_op_kernel_function *kernel;
    weft_op_gradient_function *gradient;
    void *payload; /* borrowed until the library ends */
} weft_op_spec;

/**
 * Add an op.
 *
 * ranks: every rank alike; local
 * gives: its number for weft_op_run, the same on all ranks that registered the same ops
 * fails: -1, with WEFT_ERR_ARG for a missing function, a count out of range or a name in use
 */
WEFT_API int weft_register_op(const weft_op_spec *spec);

/** Take an op back. Its cached plans go; later calls fail.
 *  ranks: as weft_register_op
 *  fails: WEFT_ERR_NOT_FOUND */
WEFT_API weft_status weft_unregister_op(const char *name);

/**
 * Replace the rule of an op, a built-in one ("exp", "softmax") or a registered one, also for calls
 * whose plan is cached. A kernel of the library's must be able to work on the shards that the
 * rule's strategies give it.
 *
 * ranks: every rank alike; local
 * fails: WEFT_ERR_NOT_FOUND for an unknown op, WEFT_ERR_ARG for one that only converts layouts
 */
WEFT_API weft_status weft_register_rule(const char *op, weft_rule_function *rule, void *payload);

/** A built-in op gets its own rule back, a registered one has none any more.
 *  ranks, fails: as weft_register_rule */
WEFT_API weft_status weft_unregister_rule(const char *op);

/* ---- calling ---- */

typedef enum weft_argument_kind {
    WEFT_ARGUMENT_TENSORS,
    WEFT_ARGUMENT_INTEGER,
    WEFT_ARGUMENT_NUMBER,
    WEFT_ARGUMENT_TEXT
} weft_argument_kind;

/** One argument; made with the functions below. */
typedef struct weft_argument {
    weft_argument_kind kind;
    int count; /* of tensors; -1: one that is not a list */
    weft_tensor *tensor;
    weft_tensor *const *tensors;
    int64_t integer;
    double number;
    const char *text;
} weft_argument;

/** A tensor, or NULL for an optional one that is left out. */
static inline weft_argument weft_tensor_argument(weft_tensor *tensor)
{
    weft_argument a = {WEFT_ARGUMENT_TENSORS, -1, 0, 0, 0, 0, 0};
    a.tensor = tensor;
    return a;
}

/** A list of tensors; the array must live until the call returns. */
static inline weft_argument weft_list_argument(weft_tensor *const *tensors, int count)
{
    weft_argument a = {WEFT_ARGUMENT_TENSORS, 0, 0, 0, 0, 0, 0};
    a.count = count;
    a.tensors = tensors;
    return a;
}

/** Part of the plan's key, as is a text. */
static inline weft_argument weft_integer_argument(int64_t integer)
{
    weft_argument a = {WEFT_ARGUMENT_INTEGER, 0, 0, 0, 0, 0, 0};
    a.integer = integer;
    return a;
}

/** Never part of the key: a step size that changes with every call makes no new plans. */
static inline weft_argument weft_number_argument(double number)
{
    weft_argument a = {WEFT_ARGUMENT_NUMBER, 0, 0, 0, 0, 0, 0};
    a.number = number;
    return a;
}

static inline weft_argument weft_text_argument(const char *text)
{
    weft_argument a = {WEFT_ARGUMENT_TEXT, 0, 0, 0, 0, 0, 0};
    a.text = text;
    return a;
}

/**
 * Call a registered op with its arguments in any order that its functions expect.
 *
 * ranks: every rank of the inputs' mesh
 * gives: out[0 .. n_out), owned by the open scope, NULL where not made
 * fails: WEFT_ERR_NOT_FOUND for an op that is not registered (any more); WEFT_ERR_ARG for more
 *        arguments than fit; WEFT_ERR_LAYOUT for distributed inputs without a rule; what the shape
 *        and the rule function say
 * grad:  from output 0 to every input, by the op's gradient function
 */
WEFT_API weft_status weft_op_run(int op, weft_tensor **out, const weft_argument *arguments, int n);
