/* compiled.h: a compiled function, for the files of this folder. */
#pragma once

#include <weft/compile.h>

#include "compile/record/capture.h"
#include "compile/replay/follow.h"
#include "compile/tools/compile_level.h"
#include "compile/tools/profile.h"

enum { MOST_VARIANTS = 8, MOST_TRIES = 2, MOST_LISTS = 64, RECORD_AFTER_DIFFERENCE = 4 };

/* A list whose first backward has not come by then (its loss was dropped) is recorded anew; twice
 * as many for the next one. */
enum { CALLS_BEFORE_BACKWARD = 16 };

struct weft_compiled {
    struct wf_captured_function function;
    weft_compile_config config;
    char *name, *passes_off;
    struct wf_variant **variants; /* one reference each; the one that fitted last is the first */
    int n_variants;
    struct wf_segmented **segmented; /* without fullgraph: calls in segments, all of them */
    int n_segmented;
    struct wf_segmented **candidates; /* room for those whose guards hold */
    uint64_t *fitting_of_ranks;       /* room for find_variant.c */
    int fitting_room;                 /* ranks */
    int to_record; /* a call went another way: so many more are recorded, or until one is new */
    int failed;    /* captures that gave no list */
    int dropped;   /* lists that were made anew, since their backward did not come */
    int patience;  /* how many calls it has to come in */
    bool warned;
    enum wf_compile_level level;
    weft_compiled_counts counts;
    struct wf_compile_times times;
    struct wf_misses misses;
    char reason[WF_REASON_BYTES]; /* empty: the last call was a replay */
};

/** Regions of this thread in which nothing is compiled. */
extern _Thread_local int wf_compile_disabled_regions;

/* ---- compiled.c ---- */

/** Run the function as it is / where no list fits and none is made, which may be an error. */
weft_status wf_compiled_call_function(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                      weft_tensor **out, int n_out);
weft_status wf_compiled_call_without_list(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                          weft_tensor **out, int n_out);
/** Another list may be made / one was made / the reason goes to the log, once. */
bool wf_compiled_has_room(const weft_compiled *compiled);
void wf_compiled_count_list(weft_compiled *compiled, uint64_t steps);
void wf_compiled_log_reason(weft_compiled *compiled);

weft_status wf_compiled_check_inputs(const weft_compiled *compiled, weft_tensor *const *in,
                                     int n_in, int n_out);
/** A call may make a list / a warm-up may, which a frozen function gets its lists by. */
bool wf_compiled_may_capture(const weft_compiled *compiled);
bool wf_compiled_may_warm_up(const weft_compiled *compiled);
/** Forget the variant at the front. */
void wf_compiled_release_first_variant(weft_compiled *compiled);
/** A call that makes a variant, where that is possible. */
weft_status wf_compiled_capture(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                weft_tensor **out, int n_out);

/** The reason of a call that no list fits: what differs from this one; guards NULL: there is none.
 */
void wf_compiled_explain_miss(weft_compiled *compiled, const struct wf_guards *guards,
                              const struct wf_op_list *list, weft_tensor *const *in, int n_in,
                              int n_out);

/* ---- find_variant.c ---- */

/** The variant that fits on all ranks, at the front of the list; NULL: none, and `reason` says what
 * differs. ranks: all of its mesh, in one order with other calls */
struct wf_variant *wf_compiled_find_variant(weft_compiled *compiled, weft_tensor *const *in,
                                            int n_in, int n_out);

/* ---- call_in_segments.c ---- */

/** A call without fullgraph. */
weft_status wf_compiled_call_in_segments(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                         weft_tensor **out, int n_out);
/** A list in segments fits these inputs / a call that makes one, where `n_candidates` fit already.
 */
bool wf_compiled_has_segments(weft_compiled *compiled, weft_tensor *const *in, int n_in, int n_out);
weft_status wf_compiled_capture_segments(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                         weft_tensor **out, int n_out, int n_candidates);
