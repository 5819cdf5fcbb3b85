/* programs.h: functions that a program registers, shared by the tests of registered ops. */
#pragma once

#include "support/worlds.h"

/** Elements of a shard, and the one with this row-major index. */
int64_t shard_numel(const weft_op_shard *p);
float *shard_element(const weft_op_shard *p, int64_t index);

/** One output like the first input; inputs of other shapes are refused. */
weft_op_shape_function shape_like_first;
/** The sum of all inputs, times the first number where there is one. */
weft_op_kernel_function kernel_sum;
/** Rules: replicated only; any dim, the same for all operands. */
weft_rule_function rule_replicated_only, rule_any_dim;

/** The sum as an op. */
weft_op_spec sum_op_spec(const char *name, weft_rule_function *rule);

/** Call an op; its first output, NULL when the call fails. */
weft_tensor *call_op(int op, int n, const weft_argument *arguments);
