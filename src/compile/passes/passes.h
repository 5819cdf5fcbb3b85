/*
 * passes.h: what improves a list. Each pass is a file of its own in passes/, has a row in
 * passes.def, and keeps results bit-equal unless its row says otherwise.
 */
#pragma once

#include "compile/list/op_list.h"

/** A change of a list of the level that its row names. gives: how many nodes it changed */
typedef int wf_pass(struct wf_op_list *list);

#define WF_PASS(name, level, what) wf_pass wf_pass_##name;
#include "compile/passes/passes.def"
#undef WF_PASS

/** Run the passes for this list's level, in the order of the table; `off`: names that are left out,
 * separated by commas, or NULL; "+name" runs one that is off by itself, "+name!" even where it does
 * not pay. After each the list is checked (wf_op_list_check). */
void wf_passes_run(struct wf_op_list *list, const char *off);

/** For the pass that runs: whether it was asked for with "!". */
extern _Thread_local bool wf_passes_forced;

/** Bytes of what a backward list reads of its forward and no caller holds. */
struct wf_saved_bytes {
    int64_t bytes, without; /* and without the passes of pairs */
    int again;              /* nodes of the forward list that backward runs again */
};

/** Run the passes of pairs, before wf_passes_run. The forward list's results are marked as kept;
 * the caller marks afterwards what the changed backward list reads. */
struct wf_saved_bytes wf_passes_run_on_pair(const struct wf_op_list *forward,
                                            struct wf_op_list *backward, const char *off);
/** The pass itself. */
struct wf_saved_bytes wf_min_cut(const struct wf_op_list *forward, struct wf_op_list *backward,
                                 bool on);

/** The name of a row of the table; NULL: there are no more. */
const char *wf_pass_name(int i);

/** NULL; or what is wrong with the list, as text that lasts until the next call. */
const char *wf_op_list_check(const struct wf_op_list *list);
