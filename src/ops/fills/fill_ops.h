/* fill_ops.h: ops without inputs that fill a tensor in place: factories and random numbers. */
#pragma once

#include "ops/op_table.h"

/** Run `op` into t, whose layout it gets. fails: also for the result of a recorded op. */
weft_status wf_fill_with_op(enum wf_op op, weft_tensor *t, struct wf_op_args args);
