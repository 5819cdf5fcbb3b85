/* fill.h: ops without inputs that fill a tensor in place: factories and random numbers. */
#pragma once

#include "ops/table.h"

/** Run `op` into t, whose layout it gets. fails: also for the result of a recorded op. */
weft_status wf_fill_by(enum wf_op op, weft_tensor *t, struct wf_args args);
