/*
 * segment.h: a call of a compiled function as one node of the tape.
 *
 * The call that captures runs the function on a tape of its own, whose leaves are the inputs and
 * the parameters. When backward reaches the node for the first time, the walk over that tape is
 * recorded as the backward list; later calls replay it.
 */
#pragma once

#include "compile/replay/variant.h"

/** Results of a replay that require gradients get the segment's node. `run` is the forward's; what
 * backward reads is retained. */
weft_status wf_segment_record(struct wf_variant *variant, const struct wf_program_run *run,
                              weft_tensor *const *in, weft_tensor **out);

/** The same for the call that captured: its results are replaced. Takes over `captured`. */
void wf_segment_record_captured(struct wf_variant *variant, struct wf_captured_forward *captured,
                                weft_tensor *const *in, weft_tensor **out);

/** Instances that no call uses. */
void wf_instance_free(struct wf_instance *instance);
