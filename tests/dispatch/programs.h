/* programs.h: functions that a program registers, shared by the tests of registered ops. */
#pragma once

#include "support/worlds.h"

/** Elements of a part, and the one with this row-major index. */
int64_t door_numel(const weft_op_shard *p);
float *door_at(const weft_op_shard *p, int64_t index);

/** One output like the first input; inputs of other shapes are refused. */
weft_op_shape_function door_like_first;
/** The sum of all inputs, times the first number where there is one. */
weft_op_kernel_function door_sum_inputs;
/** Rules: replicated only; any dim, the same for all operands. */
weft_rule_function door_nothing_more, door_every_dim;

/** The sum as an op. */
weft_op_spec door_sum_spec(const char *name, weft_rule_function *rule);

/** Call an op; its first output, NULL when the call fails. */
weft_tensor *door_run(int op, int n, const weft_argument *arguments);
