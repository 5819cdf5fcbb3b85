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
 * The list has what tensors go through, not what the C code does beside. With fullgraph numbers
 * that it passes to ops are those of the first call, except the learning rate of an optimizer, its
 * step count and random numbers: a number that changes belongs in a tensor of one element. Without
 * it a number that changes is noticed, and costs the improvements of what it stands in.
 *
 * gives: an error's status ends the call
 */
typedef weft_status weft_compiled_function(weft_tensor *const *in, int n_in, weft_tensor **out,
                                           int n_out, void *state);

/** What decides how a function is compiled; all zero is the usual. */
typedef struct weft_compile_config {
    const char *name; /* for messages and dumps; NULL: "function" */
    /**
     * The function's C code runs once: from then on a call runs the list alone. What cannot be in a
     * list is an error that names it; later calls then run the function as it is. Without it the C
     * code runs in every call; its ops are compared with the list and put off, and run together,
     * improved, where the program needs a value or does what no list has: a graph break. A program
     * that goes another way than the list is noticed, computes what it would without, and is
     * recorded once more.
     */
    bool fullgraph;
    /**
     * Sizes of inputs are expected to change: for each new size the function runs once more to plan
     * it. That is no capture, and not limited by most_variants, as long as the ops are the same and
     * differ in sizes alone. Without it so from the third size on. PyTorch: mark_dynamic
     */
    bool dynamic;
    int most_variants; /* lists for different inputs; 0: 8. Beyond them calls run the function */
    bool frozen;       /* calls make no list: where none of a warm-up fits, the function runs */
    bool frozen_error; /* the same, but there the call fails */
    /** Names of passes that are left out, "fuse,cse"; "+pipeline" runs one that is off by itself,
     *  "+pipeline!" even where the model of cost says that it does not pay. NULL: none. */
    const char *passes_off;
    /** Lists on a GPU are launched as one CUDA graph each, from their third run on. Inputs and
     *  results are copied, since a graph has its own. What cannot be captured (an op that runs on
     *  the CPU, collectives through host memory) is run call by call, with one warning. Lists of
     *  CPU tensors run as always, and so do those that a backend of the program's runs, segments
     *  with collectives, and calls in which an input shares memory with a parameter or buffer and
     *  one of them is written. An input whose address is aligned otherwise than when it was
     *  captured may be rounded otherwise. PyTorch: mode="reduce-overhead" */
    bool graph;
    const char *backend; /* what runs lists (weft/extend/compile_backend.h); NULL: the library */
} weft_compile_config;

/**
 * A compiled function; nothing runs yet. `state` is passed on to it.
 *
 * WEFT_COMPILE in the environment says how far: "eager": calls run the function; "capture": each
 * call records it, and no list is used; "aot": lists of forward and backward are replayed as they
 * were recorded; "full", the usual: after all passes; "graph": all are as with config.graph.
 * Results are the same bits in each.
 *
 * ranks: every rank that calls it, alike; local
 * gives: weft_compiled_release
 * fails: WEFT_ERR_ARG without a function, for a backend that there is not, and for another word in
 *        WEFT_COMPILE
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
 * ranks: as the function. With fullgraph one that fails on a rank while its list is made fails on
 *        all of the mesh of its first input that has one.
 * gives: n_out results in `out`, another list than `in`, of the open scope; NULL where the function
 *        gave NULL
 * fails: as the function; WEFT_ERR_STATE with fullgraph where it cannot be one list, and with
 *        frozen_error where no list fits
 */
WEFT_API weft_status weft_compiled_call(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                        weft_tensor **out, int n_out);

/**
 * Make the list for these inputs now, as the first call would, and leave no other trace: the
 * function runs once, and backward of its results where they require gradients; then what they
 * changed is put back: elements written in place, gradients of leaves, states and counts of
 * optimizers, generators. No gradient hook hears of it. What C code keeps of its own, and what it
 * writes through an address (weft_data), stays as the function left it. Nothing where a list fits
 * already that has its backward, or WEFT_COMPILE says that none is used. `results`: how many calls
 * will ask for.
 *
 * Copies of all that is written are held meanwhile.
 *
 * ranks: as the function
 * fails: as the function; WEFT_ERR_STATE where no list can be made (the limit, what breaks a whole
 *        list), and within a compiled function
 */
WEFT_API weft_status weft_compiled_warm_up(weft_compiled *compiled, weft_tensor *const *in,
                                           int n_in, int results);

/**
 * Compile the calls of a module: input and output hooks, parameters' views and forward. `paths`: of
 * the modules of its tree whose paths match, with * for any characters ("blocks.*"); NULL: of m
 * itself. The module owns what is made. A change of training mode, of hooks or of a parameter's
 * tensor makes another list.
 *
 * ranks: any; local, all alike
 * fails: WEFT_ERR_NOT_FOUND where no path matches, WEFT_ERR_STATE for a module that is compiled
 */
WEFT_API weft_status weft_compile_module(weft_module *m, const char *paths,
                                         weft_compile_config config);
/** What runs its calls, to be asked or warmed up; NULL: it is not compiled.
 *  ranks: any; local
 *  gives: borrowed, the module's */
WEFT_API weft_compiled *weft_module_compiled(const weft_module *m);

/** NULL is allowed. Before the release of an optimizer that it steps, and of its mesh.
 *  ranks: any; local */
WEFT_API void weft_compiled_release(weft_compiled *compiled);

/** What has happened so far. */
typedef struct weft_compiled_counts {
    int64_t calls, replays; /* calls, and those that ran a list */
    int64_t plans;          /* lists made like an earlier one, for other sizes */
    int64_t captures;       /* lists made */
    int64_t immediate;      /* calls that ran the function without making a list */
    int64_t backward_replays;
    int64_t segments, plain; /* without fullgraph: segments that were run as lists; and node by
                                node, since the program went another way */
    int64_t launches;        /* of lists as CUDA graphs, forward and backward */
    int64_t nodes;           /* of the list that ran last, */
    int64_t memory;          /* and the bytes that it needs beside what outlives it; */
    int64_t saved;           /* with a backward list: bytes that a call saves for it, */
    int64_t saved_without;   /* and that it would save if backward computed nothing again */
} weft_compiled_counts;

/** ranks: any; local */
WEFT_API weft_compiled_counts weft_compiled_get_counts(const weft_compiled *compiled);

/** Why the last call did not replay a list; NULL: it did. Lasts until the next call.
 *  ranks: any; local */
WEFT_API const char *weft_compiled_reason(const weft_compiled *compiled);

/** The lists made so far, as text: what tensors go through (`lowered` false), or every copy and the
 *  start and wait of each collective.
 *  ranks: any; local */
WEFT_API void weft_compiled_print(const weft_compiled *compiled, bool lowered, FILE *out);

/**
 * Between the two, what a compiled function does is run as it is, in every call, and a compiled
 * function that is called there too: a graph break before and after. Regions may be nested.
 * PyTorch: torch.compiler.disable.
 *
 * ranks: any; local, all alike
 * fails: close: WEFT_ERR_STATE when none is open
 */
WEFT_API void weft_compile_disable_open(void);
WEFT_API weft_status weft_compile_disable_close(void);

/** What follows is in no list: where a compiled function wants its C code to run. Outside of one
 *  nothing.
 *  ranks: any; local */
WEFT_API void weft_graph_break(const char *reason);

/**
 * Counts so far, what differed in calls that no list fitted and how often, and the time of each
 * phase. It counts all calls since weft_compile, however many. PyTorch: CompileProfiler,
 * compile_times.
 *
 * ranks: any; local
 */
WEFT_API void weft_compiled_profile_print(const weft_compiled *compiled, FILE *out);

/**
 * Run the function once and print what breaks it into several lists: "3 graphs with 2 graph breaks
 * and 6 ops", then the ops of each graph, and the reason of each break with the op and the module
 * that it follows. Where ops on both sides of a break would run as one fused chain without it, a
 * line says how many. Kernels, redistributions and updates of an optimizer are ops; views, fills
 * and copies are not. What the function changes stays changed. `results`: how many it gives.
 * PyTorch: torch._dynamo.explain.
 *
 * ranks: as the function; what is printed is this rank's
 * fails: as the function; WEFT_ERR_STATE within a compiled function
 */
WEFT_API weft_status weft_compile_explain_print(weft_compiled_function *function, void *state,
                                                weft_tensor *const *in, int n_in, int results,
                                                FILE *out);

/** What a function would take on this rank, as one list. */
typedef struct weft_compile_forecast {
    int64_t planned; /* bytes of the one place for what lives only within a run; */
    int64_t kept;    /* of what outlives it: results, gradients, what backward will read; */
    int64_t outside; /* and of what it reads or writes and was there: inputs, parameters */
    int64_t nodes, collectives; /* of the list as it would run */
    int breaks;                 /* where it would fall into several, as explain counts them */
} weft_compile_forecast;

/**
 * Plan the function's list for tensors without elements: nothing is computed, sent or allocated.
 * Inputs and what else it reads are made on WEFT_META (weft_set_default_device), if need be on a
 * mesh of weft_mesh_new_fake. PyTorch: torch.compile under FakeTensorMode.
 *
 * `passes_off` as in weft_compile_config. Chains are not fused, so a list that is needs less, by
 * what only their steps read. The step of an optimizer is planned as on the CPU, parameter by
 * parameter: on a GPU gradients wait for it (passes_off "updates"). Of a forward whose results
 * require gradients it is the forward. What the function changes stays changed. `results`: how many
 * it gives.
 *
 * ranks: any; local
 * fails: as the function; WEFT_ERR_STATE for an input with elements and within a compiled function
 */
WEFT_API weft_status weft_compile_forecast_list(weft_compile_forecast *forecast,
                                                weft_compiled_function *function, void *state,
                                                weft_tensor *const *in, int n_in, int results,
                                                const char *passes_off);

/* ---- what to do when results differ (docs/howto/when-compiled-results-differ.md) ----
 *
 * Stability: experimental: fields may be added, and the form of files may change.
 */

/** How a compiled list is compared with immediate execution; all zero: bit by bit, as usual. */
typedef struct weft_compile_check {
    const char *passes_off, *backend; /* as in weft_compile_config */
    double relative, absolute; /* what elements may differ by: absolute + relative |immediate| */
    bool f64;                  /* also compare each node with its op in f64, where it has one, */
    double f64_relative;       /* up to this part of its largest element; 0: 1e-4 for f32, 0.03 */
} weft_compile_check;

/**
 * Run the function once, then what it did immediately and compiled, and compare. The first node
 * whose elements differ is named in `out`, with its module and an element.
 *
 * `first` gets its number, -1 where all are alike. What backward does is compared where the
 * function calls weft_backward. PyTorch: the accuracy minifier, TORCHDYNAMO_REPRO_LEVEL=4.
 *
 * ranks: as the function; all agree on `first`
 * fails: as the function; WEFT_ERR_STATE for what cannot be one list or be run again, naming it
 */
WEFT_API weft_status weft_compile_compare_print(weft_compiled_function *function, void *state,
                                                weft_tensor *const *in, int n_in, int results,
                                                weft_compile_check check, FILE *out, int *first);

/**
 * Run the function once and write what it did, with the elements that go in, to the file PATH.R of
 * each rank R, for weft_compile_replay_print, the program weft-replay, or
 * weft_compile_minify_print. Elements are those after the run. PyTorch: replay_record_enabled.
 *
 * ranks: as the function
 * fails: as weft_compile_compare_print; WEFT_ERR_IO where a file cannot be written
 */
WEFT_API weft_status weft_compile_record(weft_compiled_function *function, void *state,
                                         weft_tensor *const *in, int n_in, int results,
                                         const char *path);

/**
 * Read such files and compare as weft_compile_compare_print does. On another number of ranks meshes
 * of one axis have all of them, tensors are spread anew, and what follows from a rank's own shape
 * may be refused.
 *
 * ranks: all
 * fails: WEFT_ERR_IO for files that are not there or not of this form; as ops
 */
WEFT_API weft_status weft_compile_replay_print(const char *path, weft_compile_check check,
                                               FILE *out, int *first);

/**
 * The smallest list that still differs or fails in the same way: nodes are left out as long as that
 * stays, and what they gave goes in as elements. It is written to files for
 * weft_compile_replay_print; `out` says what is left, and which pass it goes away without. A
 * foreign backend is given by its name in `check`. PyTorch: the minifier, TORCHDYNAMO_REPRO_AFTER.
 *
 * `left` gets the number of nodes that are left, 0 where nothing differs.
 *
 * ranks: all
 * fails: as weft_compile_replay_print and weft_compile_record
 */
WEFT_API weft_status weft_compile_minify_print(const char *path, const char *smaller,
                                               weft_compile_check check, FILE *out, int *left);
