/*
 * fused.h: kernels that run one after another on a piece of their operands at a time, so that what
 * one gives the next finds in the cache.
 */
#pragma once

#include "compile/replay/program.h"

struct wf_fused;

void wf_fused_run(const struct wf_op_list *list, const struct wf_list_node *node,
                  const struct wf_program_run *run);
void wf_fused_free(struct wf_fused *fused); /* NULL is allowed */
