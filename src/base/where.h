/*
 * where.h: which module and which direction this thread is computing for.
 *
 * Set by nn around a module's forward and by autograd around a node's backward; read by error
 * texts, the ledger and traces. A module path is borrowed and lives as long as its module.
 */
#pragma once

#include <stdbool.h>

enum wf_phase { WF_FORWARD, WF_BACKWARD, WF_OPTIM };

struct wf_where {
    const char *module; /* NULL at top level */
    enum wf_phase phase;
};

extern _Thread_local struct wf_where wf_here;

/** The path of the current module, "" at top level. */
static inline const char *wf_where_module(void) { return wf_here.module ? wf_here.module : ""; }
