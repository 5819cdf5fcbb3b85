/*
 * observe.h: who wants to hear of ops and collectives.
 *
 * The door, the comm funnel and the allocator are the only callers of wf_observe. Nothing listens
 * in the normal case, and then it costs one load and a branch.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/where.h"

enum wf_event_kind { WF_EVENT_OP = 1, WF_EVENT_COLL = 2 };

struct wf_event {
    enum wf_event_kind kind;
    const char *name; /* op or collective */
    const char *axis; /* mesh axis of a collective, "" outside a mesh */
    size_t bytes;     /* payload of a collective on this rank (comm/comm.h defines it per kind) */
    int ranks;        /* ranks that take part */
    double seconds;   /* time spent in it, 0 when not timed */
    struct wf_where where;
};

typedef void wf_observer(const struct wf_event *event, void *payload);

/** Start listening on this thread to the kinds in `mask`; at most 8 at a time. gives: a handle */
int wf_observe_add(unsigned mask, wf_observer *observer, void *payload);
void wf_observe_remove(int handle);

/** The union of all masks of this thread. */
extern _Thread_local unsigned wf_observed;

void wf_observe(const struct wf_event *event);
