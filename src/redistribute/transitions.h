/*
 * transitions.h: transitions.def as functions: which step leads from one placement to another along
 * one mesh axis, and the messages and bytes that a step costs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/placement.h>
#include <weft/types.h>

enum wf_redist_kind {
#define WF_TRANSITION(from, to, kind)
#define WF_REDIST_KIND(kind, name, collective, passes, of, merges) WF_REDIST_##kind,
#include "redistribute/transitions.def"
#undef WF_TRANSITION
#undef WF_REDIST_KIND
    WF_REDIST_KINDS
};

struct wf_redist_kind_row {
    const char *name;     /* "all-gather" */
    weft_coll collective; /* WEFT_COLL_COUNT: none */
    uint8_t passes;       /* 0: nothing is sent */
    bool counts_after;    /* bytes are of the shard after the step, else of the one before it */
    bool merges;
};

extern const struct wf_redist_kind_row wf_redist_kinds[WF_REDIST_KINDS];

/** The step from one placement to another along an axis of several ranks. */
enum wf_redist_kind wf_redist_kind_of(weft_placement from, weft_placement to);

/** Other ranks that each rank waits for in a step over `ranks` of them, one after another; for an
 * all-to-all at most. */
static inline int wf_redist_kind_hops(enum wf_redist_kind kind, int ranks)
{
    return wf_redist_kinds[kind].passes * (ranks - 1);
}

/** Bytes that each rank sends in a step over `ranks` ranks, given the bytes of its shard. */
double wf_redist_kind_bytes(enum wf_redist_kind kind, double ranks, double before, double after);

/** The same in whole bytes, rounded up, for one axis: `whole` bytes are what the axis cuts. */
int64_t wf_redist_axis_change_bytes(weft_placement from, weft_placement to, int ranks,
                                    int64_t whole);

/** Hops of a collective by wf_coll_name's name, also one that no redistribution has. */
int wf_redist_collective_hops(const char *collective, int ranks);
