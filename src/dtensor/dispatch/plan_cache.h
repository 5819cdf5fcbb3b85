/*
 * plan_cache.h: making plans, and the cache that keeps them.
 *
 * One cache per thread: sets of eight, the least recently used of a set makes room, so its size is
 * bounded whatever lengths a program runs through.
 */
#pragma once

#include "ops/op_plan.h"

/** A cached plan for this call, or a new one (`args` is not NULL here); NULL with an error when the
 * call is refused. */
struct wf_op_plan *wf_op_plan_lookup(enum wf_op op, weft_tensor *const *in, int n,
                                     const struct wf_op_args *args);

/** The call has the plan's key: its op, layouts and attributes. */
bool wf_op_plan_is_of_call(const struct wf_op_plan *plan, enum wf_op op, weft_tensor *const *in,
                           int n, const struct wf_op_args *args);

/** Tell observers that a call with this plan began then, and has ended now with this result. */
void wf_op_plan_observe(const struct wf_op_plan *plan, double began, const weft_tensor *result);

void wf_op_plan_free(struct wf_op_plan *plan);
static inline void wf_op_plan_release(struct wf_op_plan *plan)
{
    if (--plan->refs == 0) wf_op_plan_free(plan);
}
/** For nodes, which hold their plan as a void pointer. */
void wf_op_plan_release_context(void *plan);

/** Drop the cached plans of an op, of one registered op with `id` >= 0. Plans in use live on. */
void wf_plan_cache_evict_op(enum wf_op op, int64_t id);
/** Drop all of them: something changed that plans follow from, on all ranks alike. */
void wf_plan_cache_evict_all(void);

/** Fill in everything that follows from plan's key (plan_make.c). */
weft_status wf_op_plan_build(struct wf_op_plan *plan);

/** As much of it as follows from shapes and a rule. `call` has its inputs. */
weft_status wf_op_plan_by_rule(struct wf_op_plan *plan, struct wf_infer *call);

/** Let input i be redistributed to these placements before the op runs: for ops that are asked to.
 */
weft_status wf_op_plan_move_input(struct wf_op_plan *plan, int i, const weft_placement *to);

/** How a plan of this op is carried out whose outputs are on this device. */
uint8_t wf_op_plan_way_on_device(weft_device device, const struct wf_op_row *row);

/** The plan's output j, on the plan's device; retained by the plan. */
void wf_op_plan_set_output(struct wf_op_plan *plan, int j, struct wf_layout *layout);

/** "matmul(f32[8,4] [S(0)]->[R], f32[4,4] [S(1)]) -> f32[8,4] [S(1)] on (tp:2)"; inputs that are
 * moved first show both. Returns the length as snprintf does. */
int wf_op_plan_print(const struct wf_op_plan *plan, char *text, size_t bytes);

struct wf_plan_cache_stats {
    int64_t hits, misses, evictions, entries;
};
struct wf_plan_cache_stats wf_plan_cache_stats(void);

/** Drop this thread's cache. */
void wf_plan_cache_finalize(void);
