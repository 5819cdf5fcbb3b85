/*
 * where.h: which module, op and direction this thread is computing for.
 *
 * Set by nn around a module's forward, by autograd around a node's backward and by dispatch around
 * an op; read by error texts, the ledger and traces.
 */
#pragma once

#include <stdbool.h>

enum wf_phase { WF_FORWARD, WF_BACKWARD, WF_OPTIM };

struct wf_where {
    const char *module; /* its path, which stays readable; NULL at top level */
    const char *op;     /* in progress; NULL between ops */
    enum wf_phase phase;
};

extern _Thread_local struct wf_where wf_here;

/** A copy of a path, for one module. Given back it can still be read until the rank ends. */
const char *wf_path_take(const char *path);
void wf_path_give_back(const char *path);
/** The rank ends. */
void wf_paths_finalize(void);

/** The path of the current module, "" at top level. */
static inline const char *wf_where_module(void) { return wf_here.module ? wf_here.module : ""; }
