/* step_graph.h: what the files of this folder share: a step graph, and what each does for the
 * other. */
#pragma once

#include <weft/extend/step_graph.h>

struct wf_graph;      /* device/capture.h */
struct wf_step_draws; /* ops/fills/captured_draws.h */

enum { REASON_BYTES = 320, MOST_INPUTS = 8, TENSOR_BYTES = 128 };

struct weft_step_graph {
    weft_mesh *mesh; /* one reference */
    weft_step_function *function;
    void *payload;
    struct wf_graph *graph;       /* NULL: not captured */
    struct wf_step_draws *draws;  /* the graph's */
    weft_tensor *in[MOST_INPUTS]; /* the captured step's own */
    int n_in;
    weft_tensor *captured; /* the captured step's result, one reference */
    weft_tensor *result;   /* the last run's, one reference */
    bool ran, never;       /* an ordinary run has been; it will never be a graph */
    int64_t launches;
    char reason[REASON_BYTES]; /* empty: the last run was a launch */
    char told[REASON_BYTES];   /* the reason that the log had last */
};

/* ---- step_graph.c ---- */

/** Call the function, and keep its result. */
weft_tensor *wf_step_graph_call(weft_step_graph *graph, weft_tensor *const *in, int n);
/** An ordinary run; graph->reason says why. */
weft_tensor *wf_step_graph_run_ordinary(weft_step_graph *graph, weft_tensor *const *in, int n);
/** The reason, once, until there is another. */
void wf_step_graph_log_reason(weft_step_graph *graph);
void wf_step_graph_set_reason(weft_step_graph *graph, const char *why);

/* ---- captured_run.c ---- */

/** The run that captures; where it cannot, an ordinary one. */
weft_tensor *wf_step_graph_capture(weft_step_graph *graph, weft_tensor *const *in, int n);
/** A run that launches; where it cannot, an ordinary one. The inputs are as the graph has them. */
weft_tensor *wf_step_graph_launch(weft_step_graph *graph, weft_tensor *const *in, int n);
void wf_step_graph_drop(weft_step_graph *graph);
