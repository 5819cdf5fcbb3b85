/*
 * segmented.h: a call as it was recorded, in segments: a list for what lies between two places
 * where the program needs values or does what no list has.
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

/** Where a storage lies in the call that is followed. */
struct wf_binding {
    struct wf_block *block; /* one reference; NULL: not bound, or nobody holds it any more */
    char *base;
    bool marked; /* it has set the block's WF_BLOCK_HELD */
};

/** A call in segments, as it was recorded. */
struct wf_segmented {
    struct wf_guards *guards;
    struct wf_op_list *list;
    struct wf_list_break *breaks;
    int n_breaks; /* with those of no reason */
    struct wf_list_segment *segments;
    int n_segments;
    uint64_t steps;              /* wf_op_list_steps of the list */
    struct wf_binding *bindings; /* room for a call that follows it, empty between calls */
    int room;
};

/** Takes over the recorder's list and breaks, and the guards. fails: without memory */
struct wf_segmented *wf_segmented_new(struct wf_list_recorder *r, struct wf_guards *guards,
                                      const struct wf_captured_function *f);
void wf_segmented_free(struct wf_segmented *s); /* NULL is allowed */

/** Improve the list if asked to, lower it and lay it out. `moves`: NULL, or where the list as it
 * was before lowering goes. gives: NULL without memory */
struct wf_program *wf_segment_program_new(struct wf_op_list *list, bool improve, const char *off,
                                          struct wf_op_list **moves);
