/*
 * program.h: a list made ready to run: where each storage lies, and the calls in order. A run
 * allocates nothing but what outlives it.
 */
#pragma once

#include <weft/extend/compile_backend.h>

#include "compile/list/op_list.h"

struct wf_program;
struct wf_memory_plan;

/** Where the storages of a run lie: one address for each storage of the list. */
struct wf_program_run {
    char **base;
    struct wf_block **kept; /* by storage: of those that outlive the run; one reference each */
    /* Called at nodes that deliver result `result`; NULL: the caller takes it after the run. It may
     * release what is kept of it, and dispatch ops. */
    void (*deliver)(int result, void *payload);
    void *payload;
};

/** Lay out a list of the lower level, which the program refers to from then on; it stays the
 * caller's. gives: wf_program_free; NULL without memory */
struct wf_program *wf_program_new(const struct wf_op_list *list);
void wf_program_free(struct wf_program *program); /* NULL is allowed */

/** Addresses for one run. Those of external and made storages are filled in, blocks of kept ones
 * made; the caller sets those of inputs, gradients and of the forward list, and `deliver`. gives:
 * an error status without memory */
weft_status wf_program_begin_run(const struct wf_program *program, struct wf_program_run *run);
void wf_program_run_all(const struct wf_program *program, const struct wf_program_run *run);
/** Blocks that nobody took are released. */
void wf_program_end_run(const struct wf_program *program, struct wf_program_run *run);

/** Where it is on a GPU: launch it as one graph of the device, from its third run on
 * (list_graph.h). Before the first run. / How often that was done. */
void wf_program_launch_as_graph(struct wf_program *program);
int64_t wf_program_launch_count(const struct wf_program *program);

/** For list_graph.c. Call i, from 0 on / give it, after what the host counts beside it was counted
 * / all calls, one after another. */
const struct wf_list_node *wf_program_node(const struct wf_program *program, int i);
void wf_program_give_call(const struct wf_program *program, int i,
                          const struct wf_program_run *run);
void wf_program_run_calls(const struct wf_program *program, const struct wf_program_run *run);

/** Bytes of the one place where everything lies that does not outlive a run. */
int64_t wf_program_memory(const struct wf_program *program);
int wf_program_call_count(const struct wf_program *program);
/** Where its storages lie. */
const struct wf_memory_plan *wf_program_memory_plan(const struct wf_program *program);

/** Let a backend say how the program runs, from the next run on. fails: as the backend */
weft_status wf_program_hand_to_backend(struct wf_program *program, weft_compile_backend *backend);
