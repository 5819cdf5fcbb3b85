/*
 * explain.h: pictures of shardings, plans in words, and traces of what a program does
 * (docs/concepts/debugging.md).
 */
#pragma once

#include <stdio.h>

#include <weft/extend/debug.h>
#include <weft/module.h>
#include <weft/optim.h>

/* ---- who holds what ---- */

/**
 * Which ranks hold which elements of a distributed tensor, as a table or an SVG picture.
 *
 * The last two dims are drawn; a tensor with more has a table for each piece of its leading dims.
 * Only the first rank of the mesh writes (on a mesh without ranks: this process), and nothing for a
 * tensor without elements; others may pass NULL for `out`.
 * ranks: any; local; all ranks of the mesh may call it alike
 * fails: WEFT_ERR_ARG for a plain tensor
 */
WEFT_API weft_status weft_sharding_print(const weft_tensor *t, FILE *out);
WEFT_API weft_status weft_sharding_svg_print(const weft_tensor *t, FILE *out);

/* ---- plans in words ---- */

/**
 * How a recorded result came about: the op, its inputs with what was moved and by which collectives
 * with bytes and estimated time, and its outputs; then the ops that made its inputs, `depth` of
 * them deep.
 *
 * ranks: any; local
 * fails: WEFT_ERR_STATE for a tensor that no recorded op made
 */
WEFT_API weft_status weft_explain_print(const weft_tensor *t, int depth, FILE *out);

/* ---- traces: a scope that writes down what this rank does ---- */

typedef struct weft_trace weft_trace;

/**
 * Record modules, ops with their layouts and redistributions, and collectives.
 *
 * With a path, weft_trace_close writes all ranks' records to that file in the format of Chrome's
 * and Perfetto's trace viewers, one row per rank, and with a GPU two for its streams.
 * ranks: collective over the world with a path, else local
 * gives: close it
 */
WEFT_API weft_trace *weft_trace_open(const char *path);

/**
 * The records as indented text: what happened inside a module or an op stands below it. A
 * redistribution is explicit when the program asked for it, else implicit.
 *
 * ranks: any; local
 */
WEFT_API void weft_trace_print(const weft_trace *trace, FILE *out);

/** Stop recording; what was recorded stays. ranks: any; local */
WEFT_API void weft_trace_stop(weft_trace *trace);

/** Record a hash and the norm of this rank's shard of every op's result from now on. Reads all
 *  elements, and waits for those that are under way.
 *  ranks: any; local */
WEFT_API void weft_trace_hash_results(weft_trace *trace);

/**
 * Where two runs part: prints the ops of this rank whose results differ, with the difference of
 * their norms, up to the first call that is another one or that only one run has.
 *
 * ranks: any; local
 * gives: the number of lines printed; 0 when the runs are alike; -1, with WEFT_ERR_ARG, when one is
 *        NULL
 */
WEFT_API int weft_trace_difference_print(const weft_trace *a, const weft_trace *b, FILE *out);

/**
 * Stop recording, write the file if one was named, and forget; NULL is allowed.
 *
 * ranks: as weft_trace_open
 * fails: WEFT_ERR_IO on all ranks when the first cannot write the file; WEFT_ERR_STATE for one that
 *        was closed before or is another thread's
 */
WEFT_API weft_status weft_trace_close(weft_trace *trace);

/* ---- forecasts: a training step without elements ---- */

enum { WEFT_FORECAST_AXES = 12 };

/** Communication along one mesh axis; axes that one collective runs over together count as one. */
typedef struct weft_forecast_axis {
    char name[64];
    int ranks;
    int64_t collectives, bytes, sent; /* of this rank, as a ledger counts them */
    double seconds;                   /* by the model of weft_link_set */
} weft_forecast_axis;

typedef struct weft_forecast {
    int64_t parameters; /* elements of the whole model */
    /** Bytes of this rank after the step, and the most during it; the last for all together. */
    weft_memory memory[WEFT_MEMORY_CATEGORIES + 1];
    int n_axes;
    weft_forecast_axis axes[WEFT_FORECAST_AXES];
    double seconds; /* of all communication, nothing overlapped */
} weft_forecast;

/**
 * What a training step of a model would take on this rank: forward, backward, reduction of
 * gradients, and the optimizer's step unless it is NULL.
 *
 * The model and its inputs are made on WEFT_META (weft_set_default_device), usually on a mesh of
 * weft_mesh_new_fake: layouts, plans, bytes and memory are those of the real program; nothing is
 * computed or sent. A result of several elements is given a gradient in its own layout.
 *
 * ranks: any; local
 * fails: WEFT_ERR_STATE for a model with elements or without parameters; what the step fails with
 */
WEFT_API weft_status weft_forecast_step(weft_forecast *forecast, weft_module *model,
                                        weft_optim *optim, weft_tensor *const *inputs, int n);

/** A table of memory by category and one of communication by axis. ranks: any; local */
WEFT_API void weft_forecast_print(const weft_forecast *forecast, FILE *out);
