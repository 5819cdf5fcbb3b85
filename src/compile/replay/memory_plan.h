/*
 * memory_plan.h: one place in memory for all storages that only live within a run, at offsets such
 * that two which are needed at the same time do not overlap.
 */
#pragma once

#include "compile/list/op_list.h"

struct wf_memory_plan;

/** gives: wf_memory_plan_free; NULL (with an error) without memory */
struct wf_memory_plan *wf_memory_plan_new(const struct wf_op_list *list);
/** The same without the memory itself: for its bytes, offsets and lifetimes. */
struct wf_memory_plan *wf_memory_plan_without_memory(const struct wf_op_list *list);
void wf_memory_plan_free(struct wf_memory_plan *plan);
/** Of a made storage that is not kept; NULL where no node uses it. */
char *wf_memory_plan_address(const struct wf_memory_plan *plan, int storage);
/** Where it lies in its area. */
int64_t wf_memory_plan_offset(const struct wf_memory_plan *plan, int storage);
int64_t wf_memory_plan_bytes(const struct wf_memory_plan *plan);
/** First and last node that uses the storage; -1: none does. */
void wf_memory_plan_lifetime(const struct wf_memory_plan *plan, int storage, int *first, int *last);
