/*
 * compile.h: functions that run once and are replayed from then on: what they do below dispatch is
 * kept as a list, the list is improved, and a call runs the list (docs/concepts/compile.md).
 * PyTorch: torch.compile.
 *
 * Stability: weft_compile, weft_compiled_call and weft_compiled_release stay as they are; fields
 * may be added to the config and the counts.
 */
#pragma once

#include <stdio.h>

#include <weft/module.h>
#include <weft/tensor.h>

typedef struct weft_compiled weft_compiled;

/**
 * What is compiled: a forward, or a whole step with backward and the step of an optimizer. It
 * writes n_out results to `out`, tensors of the open scope.
 *
 * The list has what tensors go through, not what the C code does beside: numbers that it passes to
 * ops are those of the first call, except the learning rate of an optimizer, its step count and
 * random numbers. A number that changes belongs in a tensor of one element.
 *
 * gives: an error's status ends the call
 */
typedef weft_status weft_compiled_function(weft_tensor *const *in, int n_in, weft_tensor **out,
                                           int n_out, void *state);

/** What decides how a function is compiled; all zero is the usual. */
typedef struct weft_compile_config {
    const char *name; /* for messages and dumps; NULL: "function" */
    /** What cannot be in a list is an error that names it, instead of a call of the function. */
    bool fullgraph;
    int most_variants; /* lists for different inputs; 0: 8. Beyond them calls run the function */
    bool frozen;       /* a call that no list fits runs the function, and makes none; */
    bool frozen_error; /* or fails */
    /** Names of passes that are left out, "fuse,cse"; "+pipeline" runs one that is off by itself,
     *  "+pipeline!" even where the model of cost says that it does not pay. NULL: none. */
    const char *passes_off;
} weft_compile_config;

/**
 * A compiled function; nothing runs yet. `state` is passed on to it.
 *
 * ranks: every rank that calls it, alike; local. gives: weft_compiled_release
 */
WEFT_API weft_compiled *weft_compile(weft_compiled_function *function, void *state,
                                     weft_compile_config config);

/**
 * Call it: replay the list that fits the inputs, or run the function and make one.
 *
 * A list fits when inputs have the layouts, dtypes and placements, the aliases among each other and
 * the gradient flags of its first call, and the modes of the thread are the same (no-grad, guard,
 * loss parallel, implicit replication). Results require gradients as those of the function do;
 * backward through them is replayed too. Gradients of leaves that the function sets, and tensors
 * that it writes in place, change as by the function itself, with the same bits.
 *
 * ranks: as the function. A function that fails on one rank while its list is made fails on all
 *        that share the meshes of its inputs.
 * gives: n_out results in `out`, of the open scope; NULL where the function gave NULL
 * fails: as the function; WEFT_ERR_STATE with fullgraph where it cannot be one list, and with
 *        frozen_error where no list fits
 */
WEFT_API weft_status weft_compiled_call(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                        weft_tensor **out, int n_out);

/** NULL is allowed. Before the release of an optimizer that it steps, and of its mesh.
 *  ranks: any; local */
WEFT_API void weft_compiled_release(weft_compiled *compiled);

/** What has happened so far. */
typedef struct weft_compiled_counts {
    int64_t calls, replays; /* calls, and those that ran a list */
    int64_t captures;       /* lists made */
    int64_t immediate;      /* calls that ran the function without making a list */
    int64_t backward_replays;
    int64_t nodes;  /* of the list that ran last, */
    int64_t memory; /* and the bytes that it needs beside what outlives it */
} weft_compiled_counts;

/** ranks: any; local */
WEFT_API weft_compiled_counts weft_compiled_get_counts(const weft_compiled *compiled);

/** Why the last call did not replay a list; NULL: it did. Lasts until the next call. ranks: any;
 *  local */
WEFT_API const char *weft_compiled_reason(const weft_compiled *compiled);

/** The lists made so far, as text: what tensors go through (`lowered` false), or every copy and the
 *  start and wait of each collective. ranks: any; local */
WEFT_API void weft_compiled_print(const weft_compiled *compiled, bool lowered, FILE *out);

/** What follows is in no list: where a compiled function wants its C code to run. Outside of one
 *  nothing. ranks: any; local */
WEFT_API void weft_graph_break(const char *reason);
