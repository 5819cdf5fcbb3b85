/*
 * follow.h: a function that runs, and whose ops are compared with those of an earlier call. As long
 * as they are the same they are put off; where the program needs a value they are run together, as
 * the segment of the list that was made ready for that (design D19).
 */
#pragma once

#include "compile/record/capture.h"
#include "compile/replay/program.h"

/** What lies between two places where the program needs values. */
struct wf_list_segment {
    int first, end;           /* nodes of the list */
    bool *given;              /* storages that are there after it, or were before */
    struct wf_op_list *list;  /* its nodes, improved */
    struct wf_op_list *moves; /* as they were before lowering, for printing */
    struct wf_program *program;
};

/** A call in segments, as it was recorded. */
struct wf_segmented {
    struct wf_guards *guards;
    struct wf_op_list *list;
    struct wf_list_break *breaks;
    int n_breaks; /* with those of no reason */
    struct wf_list_segment *segments;
    int n_segments;
    uint64_t steps; /* wf_op_list_steps of the list */
};

/** Takes over the recorder's list and breaks, and the guards. fails: without memory */
struct wf_segmented *wf_segmented_new(struct wf_list_recorder *r, struct wf_guards *guards,
                                      const struct wf_captured_function *f);
void wf_segmented_free(struct wf_segmented *s); /* NULL is allowed */

/** How a call went. */
struct wf_follow_result {
    int segments, plain;   /* run as segments; node by node, since the program differed */
    int64_t nodes, memory; /* of the segments' programs: all, and the most */
    int differed_at;       /* the node at which it no longer was the same; -1: it was to the end */
    char reason[WF_REASON_BYTES];
};

typedef weft_status wf_followed_call(void *payload);

/** Run the call, which is like one of `candidates` (whose guards hold) as far as it goes. */
weft_status wf_follow(struct wf_segmented *const *candidates, int n, weft_tensor *const *in,
                      wf_followed_call *call, void *payload, struct wf_follow_result *result);
