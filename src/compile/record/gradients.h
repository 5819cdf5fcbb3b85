/*
 * gradients.h: what a list takes from the gradients that leaves have when it begins, and what it
 * leaves them with.
 */
#pragma once

#include "compile/record/recorder.h"

/** The leaf's gradient is about to change: the list notes what it was, once. Not in a backward
 * list, whose gradients are results. */
void wf_recording_record_gradient(struct wf_list_recorder *r, weft_tensor *leaf);

/** The function has returned: what is left of the gradients. Those of leaves that are gone do not
 * count. */
void wf_recording_finish_gradients(struct wf_list_recorder *r);

/** NULL, or what differs from when the list was recorded. */
const char *wf_recorded_gradients_mismatch(const struct wf_op_list *list);
