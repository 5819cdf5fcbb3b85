/*
 * step_graph.h: a step of a program whose work on a GPU is captured once, as a graph, and launched
 * again: the host then gives the GPU one thing instead of thousands (docs/howto/run-on-gpus.md).
 * Where that cannot be, the step runs as it is, and a text says why. But with collectives in the
 * step all ranks launch it or none does: a rank that alone lacks memory for it, once they are in
 * the graph, ends the job.
 */
#pragma once

#include <weft/mesh.h>
#include <weft/tensor.h>

typedef struct weft_step_graph weft_step_graph;

/**
 * One step: forward, backward, and the step of an optimizer; or a part of that. Its C code runs in
 * the first two runs of a graph alone. So tensors that it is to use or to change are there before
 * it and stay; what changes from step to step is in the tensors `in`, or belongs to a generator or
 * an optimizer, which go on in each run as if the step were called: random numbers, step counts,
 * and the learning rate, which is set between runs. Inputs are not written to. Where it has
 * collectives, what the host reads from the GPU (weft_item, weft_read_f64) or copies to it is read
 * or copied on all ranks alike.
 *
 * gives: a tensor that the caller of the run wants, owned by a scope; NULL: it failed
 */
typedef weft_tensor *weft_step_function(weft_tensor *const *in, int n, void *payload);

/**
 * A graph of the function. Its first run is an ordinary one, its second captures, later ones
 * launch. Memory that the function takes on the GPU stays the graph's, and what was on the GPU when
 * it was captured stays there, until the graph is released; that comes before the release of the
 * optimizer and the mesh. weft_finalize takes what was captured from the GPU: afterwards the graph
 * is released, and a run fails.
 *
 * ranks: every rank of the mesh; local
 * gives: a graph owned by the caller
 */
WEFT_API weft_step_graph *weft_step_graph_new(weft_mesh *mesh, weft_step_function *function,
                                              void *payload);

/**
 * Take the step with these inputs, at most 8: on the GPU, of the same shapes, dtypes and layouts in
 * each run. Others make it an ordinary one, and so do another default generator and an open ledger
 * or trace, which see no launch; but for a graph with collectives in it, which is launched whatever
 * watches: of that they see nothing but the copies of inputs. With collectives, inputs of other
 * shapes and another generator come on all ranks alike, and so do ledgers and traces in the first
 * two runs.
 *
 * ranks: collective over the mesh where the function is
 * gives: what the function gave, with its elements of this run; borrowed until the next run
 * fails: as the function
 */
WEFT_API weft_tensor *weft_step_graph_run(weft_step_graph *graph, weft_tensor *const *in, int n);

/** Why the last run was no launch; NULL: it was one. The text lasts until the next run.
 *  ranks: any; local */
WEFT_API const char *weft_step_graph_reason(const weft_step_graph *graph);

/** Runs that were launches. ranks: any; local */
WEFT_API int64_t weft_step_graph_launch_count(const weft_step_graph *graph);

/** NULL is allowed. ranks: any; local, all alike */
WEFT_API void weft_step_graph_release(weft_step_graph *graph);
