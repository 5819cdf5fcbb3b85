/*
 * call_context.h: which module, op and direction this thread is computing for.
 *
 * Set by nn around a module's forward, by autograd around a node's backward and by dispatch around
 * an op; read by error texts, the ledger and traces.
 */
#pragma once

#include <stdbool.h>

enum wf_phase { WF_FORWARD, WF_BACKWARD, WF_OPTIM };

struct wf_call_context {
    const char *module; /* its path, which stays readable; NULL at top level */
    const char *op;     /* in progress; NULL between ops */
    enum wf_phase phase;
};

extern _Thread_local struct wf_call_context wf_current_context;

/** A copy of a path, for one module. After its release it can still be read until the rank ends. */
const char *wf_module_path_acquire(const char *path);
void wf_module_path_release(const char *path);
/** The rank ends. */
void wf_module_paths_finalize(void);

/** The path of the current module, "" at top level. */
static inline const char *wf_current_module_path(void)
{
    return wf_current_context.module ? wf_current_context.module : "";
}
