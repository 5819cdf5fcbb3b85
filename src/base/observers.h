/*
 * observers.h: callbacks for events of ops, collectives and modules (ledger, traces, the tape).
 *
 * Dispatch, wf_comm_start, module calls and downloads from a device are the only callers of
 * wf_notify_observers. Without an observer, the normal case, it costs one load and a branch.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/call_context.h"

enum wf_event_kind {
    WF_EVENT_OP = 1,   /* an op has run, redistribution of its inputs included */
    WF_EVENT_COLL = 2, /* a collective is complete, or was simulated for tensors without elements */
    WF_EVENT_ENTER = 4,   /* a module's call begins */
    WF_EVENT_LEAVE = 8,   /* and ends, also when it failed */
    WF_EVENT_INPUTS = 16, /* an op is about to read its inputs */
    WF_EVENT_SYNCHRONIZATION =
        32 /* the host has waited for elements of a device; name: who reads them */
};

struct weft_tensor;

/* An event is sent when something ends, so events of what ran inside an op precede the op's. */
struct wf_event {
    enum wf_event_kind kind;
    const char *name;    /* op, collective, or the module's type */
    const void *subject; /* an op's struct wf_op_plan, the module; NULL for a collective */
    const struct weft_tensor *result; /* of an op; NULL: it failed */
    struct weft_tensor *const
        *inputs; /* that an op is about to read, n_inputs of them; some NULL */
    int n_inputs;
    const char *axis; /* mesh axis of a collective, "" outside a mesh */
    size_t bytes;     /* payload of a collective on this rank (comm/comm.h defines it per kind) */
    size_t sent;      /* what this rank sends of it, at least (comm/comm.h) */
    int ranks;        /* ranks that take part */
    bool coalesced;   /* several tensors in one collective */
    double began;     /* wf_monotonic_seconds */
    double seconds;   /* time spent in it, 0 when not timed */
    struct wf_call_context where;
};

typedef void wf_observer(const struct wf_event *event, void *payload);

/** Start listening on this thread to the kinds in `mask`; at most 9 at a time, one of them the
 * tape. gives: a handle */
int wf_observer_add(unsigned mask, wf_observer *observer, void *payload);
void wf_observer_remove(int handle);

/** The union of all masks of this thread. */
extern _Thread_local unsigned wf_observed_events;

void wf_notify_observers(const struct wf_event *event);
