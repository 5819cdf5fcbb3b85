/*
 * follow.h: a function that runs, and whose ops are compared with those of an earlier call. As long
 * as they are the same they are put off; where the program needs a value they are run together, as
 * the segment of the list that was made ready for that (docs/decisions/0060).
 */
#pragma once

#include "compile/replay/segmented.h"

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
